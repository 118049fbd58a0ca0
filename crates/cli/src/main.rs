//! The `shipway` program. All of it is in the library, where tests reach it.

use shipway_runtime::native;
use std::process::ExitCode;

fn main() -> ExitCode {
    // The helper of a container: started for every task, so nothing may come before it. It is no
    // command for people, and the parser of arguments does not know it.
    if std::env::args_os().nth(1).is_some_and(|arg| arg == native::COMMAND) {
        return native::main();
    }
    shipway_cli::main()
}
