//! `shipway-sim`: the developers' tool. Arguments in, text out; the world is in the library.

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use shipway_sim::totals::Totals;
use shipway_sim::{replay, scenario, seeds};
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

#[derive(Parser)]
#[command(about = "A deterministic world around Shipway's core and pilot")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run many random worlds and check them.
    Seeds {
        #[arg(long, default_value_t = 100)]
        count: u64,
        #[arg(long, default_value_t = 1)]
        first: u64,
    },
    /// Run a scenario file and print what it shows.
    Run { scenario: PathBuf },
    /// Fold a recorded journal (one event per line) and check it after each event.
    Replay {
        events: PathBuf,
        /// Print every event with the state after it.
        #[arg(long)]
        step: bool,
    },
}

fn main() -> Result<ExitCode> {
    let mut out = std::io::stdout().lock();
    match Arguments::parse().command {
        Command::Seeds { count, first } => run_seeds(&mut out, first, count),
        Command::Run { scenario } => {
            let text = std::fs::read_to_string(&scenario)
                .with_context(|| format!("cannot read {}", scenario.display()))?;
            let shown = scenario::run(&text);
            write!(out, "{}", shown.text)?;
            Ok(if shown.failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
        }
        Command::Replay { events, step } => {
            let file = std::fs::File::open(&events)
                .with_context(|| format!("cannot open {}", events.display()))?;
            write!(out, "{}", replay::replay(BufReader::new(file).lines(), step)?)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn run_seeds(out: &mut impl Write, first: u64, count: u64) -> Result<ExitCode> {
    let clock = Instant::now();
    let mut totals = Totals::default();
    let mut failed = 0;
    for seed in first..first + count {
        let report = seeds::run(seed);
        totals += report.totals;
        if let Some(violation) = report.violation {
            failed += 1;
            writeln!(out, "seed {seed}: {violation}")?;
            for line in report.log {
                writeln!(out, "    {line}")?;
            }
            writeln!(out, "  again: shipway-sim seeds --first {seed} --count 1")?;
        }
    }
    let millis = clock.elapsed().as_millis().max(1);
    writeln!(out, "{totals}")?;
    let per_second = u128::from(count) * 10_000 / millis;
    let (whole, tenth) = (per_second / 10, per_second % 10);
    let seconds = millis / 1_000;
    writeln!(out, "{count} seeds, {failed} violations, {seconds} s, {whole}.{tenth} seeds/s")?;
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
