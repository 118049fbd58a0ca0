//! A broken driver, in every way one can break, is a finding and never our own end.
//!
//! The library is an imitation in C: a real one cannot be made to hang or to compute wrongly. It
//! is put on the loader's path of a process that plays the prover, which starts this program again
//! as the process that tries. That a real GPU passes is shown on a machine that has one.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a test harness of its own")]

use shipway_pilot::proof::{KernelFact, kernel};
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;

/// The word that makes this program play the prover.
const PROVER: &str = "prover";
/// For one that hangs on purpose: as short as a slow machine allows.
const SHORT: Duration = Duration::from_secs(2);
const LONG: Duration = Duration::from_mins(2);

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.first().map(String::as_str) {
        Some(kernel::COMMAND) => return kernel::main(),
        Some(PROVER) => {
            let within = if words[1] == "hangs" { SHORT } else { LONG };
            let own = std::env::current_exe().expect("a program");
            println!("{:?}", kernel::prove(&own, "GPU-of-a-test", within));
            return ExitCode::SUCCESS;
        }
        _ => {}
    }
    let dir = tempfile::tempdir().expect("a directory");
    if !build(dir.path()) {
        assert!(std::env::var("CI").is_err(), "this must run in CI: a C compiler is missing");
        eprintln!("skipped: a C compiler is missing");
        return ExitCode::SUCCESS;
    }
    every_fault(dir.path());
    without_a_library();
    println!("test kernel ... ok");
    ExitCode::SUCCESS
}

fn build(dir: &Path) -> bool {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernel/libcuda.c");
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-w", "-o"]).arg(dir.join("libcuda.so.1")).arg(source).arg("-lm");
    cc.status().is_ok_and(|status| status.success())
}

fn proven(dir: Option<&Path>, fault: &str) -> String {
    let mut prover = Command::new(std::env::current_exe().expect("a program"));
    prover.args([PROVER, fault]).env("IMITATE", fault).env_remove("LD_LIBRARY_PATH");
    prover.envs(dir.map(|dir| ("LD_LIBRARY_PATH", dir)));
    let done = prover.output().expect("it runs");
    assert!(done.status.success(), "{fault}: the prover itself ended: {done:?}");
    String::from_utf8(done.stdout).expect("text").trim().to_owned()
}

fn every_fault(dir: &Path) {
    let refused = |call: &str, error: &str| KernelFact::Refused {
        call: call.to_owned(),
        error: error.to_owned(),
    };
    for (fault, expected) in [
        ("right", KernelFact::Right { numbers: 1 << 20, cuda: 12_080 }),
        ("refuses", refused("cuInit", "CUDA_ERROR_UNKNOWN (999)")),
        ("launch", refused("cuLaunchKernel", "CUDA_ERROR_LAUNCH_FAILED (719)")),
        ("ecc", refused("cuCtxSynchronize", "CUDA_ERROR_ECC_UNCORRECTABLE (214)")),
        ("two", refused("cuDeviceGetCount", "2 devices are visible, and it should be the one")),
        ("crashes", KernelFact::Crashed { signal: 6 }),
        ("exits", KernelFact::Silent { code: 7 }),
        ("hangs", KernelFact::Late { within: SHORT }),
    ] {
        assert_eq!(proven(Some(dir), fault), format!("{expected:?}"), "{fault}");
    }
    let wrong = proven(Some(dir), "miscomputes");
    assert!(wrong.starts_with("Wrong { at: 1048575,"), "{wrong}");
}

fn without_a_library() {
    let found = proven(None, "right");
    if found.starts_with("NoLibrary") {
        return;
    }
    // With a real driver and a GPU that does not exist there is none to be seen.
    assert!(found.starts_with("Refused"), "{found}");
}
