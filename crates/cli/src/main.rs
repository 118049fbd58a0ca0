//! The `shipway` program. All of it is in the library, where tests reach it.

use shipway_pilot::proof::kernel;
use shipway_pilot::stage;
use shipway_runtime::native;
use std::process::ExitCode;

fn main() -> ExitCode {
    end_with_any_panic();
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

/// A pilot, a guard or a helper that has lost one of its threads would be half dead: whoever
/// watches it knows what to do when it ends. The server alone goes on (`panics.rs` there).
fn end_with_any_panic() {
    let tell = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        tell(panic);
        std::process::abort();
    }));
}
