//! The `shipway` program. All of it is in the library, where tests reach it.

use shipway_pilot::proof::kernel;
use shipway_pilot::stage;
use shipway_runtime::native;
use std::process::ExitCode;

fn main() -> ExitCode {
    // The helper of a container: started for every task, so nothing may come before it. It is no
    // command for people, and the parser of arguments does not know it. Nor does it know the words
    // for trying a GPU and for copying files.
    match std::env::args_os().nth(1) {
        Some(word) if word == native::COMMAND => native::main(),
        Some(word) if word == kernel::COMMAND => kernel::main(),
        Some(word) if word == stage::COMMAND => stage::main(),
        _ => shipway_cli::main(),
    }
}
