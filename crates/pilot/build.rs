//! Builds the small helper of containers and hands it to the compiler, to be carried inside.
//!
//! Only where programs are built to be used (`--release`): the helper costs a minute, and a program
//! without one is its own helper. Whatever goes wrong here is a warning for the same reason.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Without a dynamic linker to run first, a helper starts in four fifths of the time.
const STATIC: &str = "-Ctarget-feature=+crt-static";

/// Between the words of `CARGO_ENCODED_RUSTFLAGS`.
const SEPARATOR: &str = "\u{1f}";

fn main() {
    println!("cargo:rustc-check-cfg=cfg(carries_helper)");
    for source in ["../runtime/src", "../runtime/Cargo.toml", "../container", "../../Cargo.lock"] {
        println!("cargo:rerun-if-changed={source}");
    }
    if variable("PROFILE") != "release" {
        return;
    }
    let dir = PathBuf::from(variable("OUT_DIR")).join("helper");
    // Not every machine has the C library to link into a program.
    let made = build(&dir.join("static"), &[STATIC]).or_else(|| build(&dir.join("dynamic"), &[]));
    match made {
        Some(program) => {
            println!("cargo:rustc-cfg=carries_helper");
            println!("cargo:rustc-env=SHIPWAY_HELPER={}", program.display());
        }
        None => println!(
            "cargo:warning=the small helper of containers was not built: they start more slowly"
        ),
    }
}

/// Where the program is, when it could be built.
fn build(dir: &Path, flags: &[&str]) -> Option<PathBuf> {
    let target = variable("TARGET").into_string().ok()?;
    let given = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    let given = given.split(SEPARATOR).filter(|flag| !flag.is_empty());
    let flags: Vec<&str> = given.chain(flags.iter().copied()).collect();
    let status = Command::new(variable("CARGO"))
        .args(["build", "--quiet", "--frozen", "--package", "shipway-container"])
        .args(["--profile", "helper", "--target", &target, "--target-dir"])
        .arg(dir)
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join(SEPARATOR))
        // A linter of the outer build has nothing to say about this one.
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .status();
    let program = dir.join(target).join("helper/shipway-container");
    (status.is_ok_and(|status| status.success()) && program.is_file()).then_some(program)
}

fn variable(name: &str) -> OsString {
    env::var_os(name).expect("cargo says it to every build script")
}
