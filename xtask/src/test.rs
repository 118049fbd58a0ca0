//! `cargo xtask test`: everything CI runs, in order, with what each step took.
//!
//! A step that fails does not hide the next one's answer: all are run, except those that need a
//! build that failed. A skip is counted and explained, never silent.

mod classads;
mod demos;
mod deny;
mod engines;
mod packages;
mod schemathesis;
mod table;
mod tools;

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::{children, openapi, repo, tidy};

/// Seeds of simulated worlds: enough to meet each fault in company of each other.
const SIM_SEEDS: u32 = 200;
const SIM_SEEDS_QUICK: u32 = 20;
/// Tests read this to leave out their long rounds.
const QUICK_VARIABLE: &str = "SHIPWAY_TEST_QUICK";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Under five minutes: fewer seeds, short rounds, nothing installed by cargo
    #[arg(long)]
    quick: bool,
    /// One step alone, by its name in the closing table
    #[arg(long, value_name = "STEP", value_parser = STEPS.map(|step| step.name))]
    only: Option<String>,
}

/// How a step ended.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Passed,
    Skipped(String),
    Failed(String),
}

/// What a step may do: pass, or skip itself with a reason.
enum Done {
    Passed,
    Skipped(String),
}

/// A line of the closing table.
#[derive(Debug)]
struct Row {
    name: &'static str,
    outcome: Outcome,
    took: Duration,
}

struct Step {
    name: &'static str,
    needs_build: bool,
    run: fn(&Context) -> Result<Done>,
}

/// What a step needs to know.
struct Context {
    quick: bool,
    ci: bool,
}

const BUILD: &str = "build";

const STEPS: [Step; 15] = [
    Step { name: "packages", needs_build: false, run: packages::install },
    Step { name: "format", needs_build: false, run: |_| cargo(&["fmt", "--all", "--check"]) },
    Step { name: "tidy", needs_build: false, run: |_| tidy::run().map(|()| Done::Passed) },
    Step { name: "clippy", needs_build: false, run: |_| clippy() },
    Step { name: BUILD, needs_build: false, run: |_| cargo(&["build", "--workspace"]) },
    // Before the tests, some of which use the engine that it installs.
    Step { name: "classads", needs_build: true, run: classads::check },
    Step { name: "tests", needs_build: true, run: tests },
    Step { name: "demo", needs_build: true, run: demos::check },
    Step { name: "slurm", needs_build: true, run: engines::slurm },
    Step { name: "htcondor", needs_build: true, run: engines::htcondor },
    Step { name: "openapi", needs_build: true, run: |_| document() },
    Step { name: "schemathesis", needs_build: true, run: schemathesis::check },
    Step { name: "fuzz targets", needs_build: true, run: fuzz_targets },
    Step { name: "simulation", needs_build: true, run: simulation },
    Step { name: "deny", needs_build: false, run: deny::check },
];

pub(crate) fn run(args: &Args) -> Result<()> {
    let ci = std::env::var("CI").is_ok_and(|value| !value.is_empty() && value != "false");
    let context = Context { quick: args.quick, ci };
    let mut rows: Vec<Row> = Vec::new();
    for step in STEPS.iter().filter(|step| args.only.as_deref().is_none_or(|n| n == step.name)) {
        let row = run_step(step, &context, &rows);
        rows.push(row);
        if children::interrupted() {
            break;
        }
    }
    print!("\n{}", table::render(&rows));
    if rows.iter().any(|row| matches!(row.outcome, Outcome::Failed(_))) {
        bail!("the tests did not pass");
    }
    Ok(())
}

fn run_step(step: &Step, context: &Context, before: &[Row]) -> Row {
    let no_build =
        before.iter().any(|row| row.name == BUILD && matches!(row.outcome, Outcome::Failed(_)));
    if step.needs_build && no_build {
        let outcome = Outcome::Skipped("the build failed".to_owned());
        return Row { name: step.name, outcome, took: Duration::ZERO };
    }
    println!("\n== {}", step.name);
    let start = Instant::now();
    let outcome = match (step.run)(context) {
        Ok(Done::Passed) => Outcome::Passed,
        Ok(Done::Skipped(why)) => Outcome::Skipped(why),
        Err(error) => Outcome::Failed(format!("{error:#}")),
    };
    if let Outcome::Failed(why) = &outcome {
        eprintln!("error: {why}");
    }
    Row { name: step.name, outcome, took: start.elapsed() }
}

fn cargo(args: &[&str]) -> Result<Done> {
    run_shown(repo::cargo().args(args))
}

fn run_shown(command: &mut Command) -> Result<Done> {
    println!("$ {}", children::describe(command));
    children::run(command).map(|()| Done::Passed)
}

fn clippy() -> Result<Done> {
    cargo(&["clippy", "--workspace", "--all-targets", "--quiet", "--", "--deny", "warnings"])
}

/// They are no part of the workspace; that they still fit the code is checked here.
fn fuzz_targets(context: &Context) -> Result<Done> {
    if context.quick {
        return Ok(Done::Skipped("built in the full run only".to_owned()));
    }
    let mut check = repo::cargo();
    check.args(["check", "--locked", "--manifest-path", "fuzz/Cargo.toml", "--target-dir"]);
    run_shown(check.arg(repo::target_dir()?))
}

/// Unit, scenario and end-to-end tests, the real binary killed at any moment among them. Those of
/// real batch systems have steps of their own.
fn tests(context: &Context) -> Result<Done> {
    let mut cargo = repo::cargo();
    for variable in engines::VARIABLES {
        cargo.env_remove(variable);
    }
    if context.quick {
        cargo.env(QUICK_VARIABLE, "1");
    }
    run_shown(cargo.args(["test", "--workspace", "--no-fail-fast"]))
}

/// Built with the whole workspace: built alone, its dependencies would be compiled once more with
/// fewer features.
fn built(name: &str) -> Result<PathBuf> {
    Ok(repo::target_dir()?.join("debug").join(name))
}

fn document() -> Result<Done> {
    openapi::check(Some(&built("shipway")?)).map(|()| Done::Passed)
}

fn simulation(context: &Context) -> Result<Done> {
    let seeds = if context.quick { SIM_SEEDS_QUICK } else { SIM_SEEDS };
    let mut sim = Command::new(built("shipway-sim")?);
    run_shown(sim.args(["seeds", "--count", &seeds.to_string()]))
}
