//! The helper of containers as a program of its own, so that starting it costs little.
//!
//! `shipway` carries it inside (see the build script of the CLI) and can be its own helper where it
//! does not: both are the same function. Nobody calls this by hand.

use std::process::ExitCode;

fn main() -> ExitCode {
    shipway_runtime::native::main()
}
