//! `cargo xtask mutants`: whether the tests of the pure crates notice when the code is changed.
//!
//! cargo-mutants changes one thing at a time and runs the package's own tests. One change of ten is
//! tried, evenly chosen; all of them would take a day. Not part of CI.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::cargo_tools::Tool;
use crate::{children, repo};

/// From the first that can choose evenly.
const MUTANTS: Tool = Tool { name: "cargo-mutants", version: ">=26, <28" };

/// What the tests must notice, in percent of the changes that compile.
const GOAL: usize = 90;

/// What cargo-mutants ends with when a change was missed, or when tests took too long with one.
const FOUND: [i32; 2] = [2, 3];

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Of which crates; all of these unless named
    #[arg(value_parser = PACKAGES)]
    packages: Vec<String>,
    /// Try one change of so many
    #[arg(long, default_value_t = 10)]
    one_of: usize,
    /// Which of so many; another number tries other changes
    #[arg(long, default_value_t = 0)]
    part: usize,
}

/// Pure, and with tests of their own.
const PACKAGES: [&str; 4] = ["core", "model", "classad", "dialects"];

pub(crate) fn run(args: &Args) -> Result<()> {
    let program = MUTANTS.find()?.map_or_else(|| MUTANTS.install(), Ok)?;
    let named = args.packages.iter().map(String::as_str);
    let packages: Vec<&str> =
        if args.packages.is_empty() { PACKAGES.to_vec() } else { named.collect() };
    let mut short = Vec::new();
    for package in packages {
        let folder = repo::target_dir()?.join("mutants").join(package);
        std::fs::create_dir_all(&folder).with_context(|| format!("{}", folder.display()))?;
        let mut command = Command::new(&program);
        command.args(["mutants", "--package", &format!("shipway-{package}"), "--no-shuffle"]);
        command.args(["--shard", &format!("{}/{}", args.part, args.one_of)]);
        command.args(["--sharding", "round-robin", "--jobs", "1"]);
        command.arg("--output").arg(&folder).current_dir(repo::root());
        // What others made is built once; what is changed each time is built the fastest way.
        command.env("CARGO_TARGET_DIR", folder.with_file_name("build"));
        for changed in PACKAGES {
            let setting = format!("profile.dev.package.shipway-{changed}.opt-level=0");
            command.args(["--cargo-arg", "--config", "--cargo-arg", &setting]);
        }
        println!("$ {}", children::describe(&command));
        let status = children::Group::spawn(&mut command)?.wait()?;
        if !status.success() && !status.code().is_some_and(|code| FOUND.contains(&code)) {
            bail!("`{}` ended with {status}", children::describe(&command));
        }
        let counts = Counts::read(&folder.join("mutants.out"))?;
        println!("{package}: {counts}");
        if !counts.are_enough() {
            short.push(package);
        }
    }
    if !short.is_empty() {
        bail!("the tests of {} notice less than {GOAL} % of the changes", short.join(", "));
    }
    Ok(())
}

/// What became of the changes.
#[derive(Debug, PartialEq, Eq)]
struct Counts {
    caught: usize,
    missed: usize,
    /// Tests took much longer than without the change: noticed, in a way.
    timeout: usize,
    /// Did not compile.
    unviable: usize,
}

impl Counts {
    fn read(folder: &Path) -> Result<Counts> {
        let count = |name: &str| -> Result<usize> {
            let file = folder.join(name);
            let text = std::fs::read_to_string(&file);
            Ok(text.with_context(|| format!("{}", file.display()))?.lines().count())
        };
        Ok(Counts {
            caught: count("caught.txt")?,
            missed: count("missed.txt")?,
            timeout: count("timeout.txt")?,
            unviable: count("unviable.txt")?,
        })
    }

    fn noticed(&self) -> usize {
        self.caught + self.timeout
    }

    fn are_enough(&self) -> bool {
        self.noticed() * 100 >= (self.noticed() + self.missed) * GOAL
    }
}

impl std::fmt::Display for Counts {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Counts { caught, missed, timeout, unviable } = self;
        write!(out, "{caught} caught, {missed} missed, {timeout} timed out, {unviable} unviable")?;
        match self.noticed() + missed {
            0 => Ok(()),
            viable => write!(out, ": {} % noticed", self.noticed() * 100 / viable),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_compile_does_not_count() {
        let counts = |caught, missed, timeout, unviable| {
            let counts = Counts { caught, missed, timeout, unviable };
            (counts.are_enough(), counts.to_string())
        };
        let (enough, said) = counts(88, 10, 2, 50);
        assert!(enough);
        assert_eq!(said, "88 caught, 10 missed, 2 timed out, 50 unviable: 90 % noticed");
        assert!(!counts(89, 10, 0, 50).0);
        assert!(counts(0, 0, 0, 3).0);
    }

    #[test]
    fn each_kind_has_a_file() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let kinds = [("caught", "a\nb\n"), ("missed", "c\n"), ("timeout", ""), ("unviable", "")];
        for (kind, lines) in kinds {
            assert!(Counts::read(folder.path()).is_err());
            let file = folder.path().join(format!("{kind}.txt"));
            std::fs::write(file, lines).expect("a file");
        }
        let read = Counts::read(folder.path()).expect("all four");
        assert_eq!(read, Counts { caught: 2, missed: 1, timeout: 0, unviable: 0 });
    }
}
