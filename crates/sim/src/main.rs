//! `shipway-sim`: the developers' tool. Arguments in, text out; the world is in the library.

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use shipway_sim::scale::cost::{self, Size};
use shipway_sim::scale::{broker, fairness, timeline};
use shipway_sim::totals::Totals;
use shipway_sim::{crowd, replay, scenario, seeds};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

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
    /// Measure the scheduler with a million jobs on ten thousand nodes (build with --release).
    Scale {
        #[arg(long, default_value_t = 1_000_000)]
        jobs: u32,
        #[arg(long, default_value_t = 1_000)]
        shapes: u32,
        #[arg(long, default_value_t = 10_000)]
        nodes: u32,
        #[arg(long, default_value_t = 100)]
        users: u32,
        /// Days of simulated time for the fairness of two users.
        #[arg(long, default_value_t = 30)]
        days: u64,
        /// Draw what was found into this directory.
        #[arg(long, value_name = "DIR")]
        charts: Option<PathBuf>,
        /// Print the figures as one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Measure the broker at a large grid's figures (build with --release).
    Broker {
        /// A tenth of the tasks.
        #[arg(long)]
        quick: bool,
        /// Print the figures as one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Be many pilots of one server. Their credentials come in, a line each; how many of them are
    /// connected goes out, a line whenever that has changed.
    Pilots {
        /// The server's home, where its address is
        home: PathBuf,
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
        Command::Scale { jobs, shapes, nodes, users, days, charts, json } => {
            let size = Size { jobs, shapes, nodes, users };
            run_scale(&mut out, size, days, charts.as_deref(), json)
        }
        Command::Broker { quick, json } => run_broker(&mut out, quick, json),
        Command::Pilots { home } => run_pilots(&mut out, &home),
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

fn run_scale(
    out: &mut impl Write,
    size: Size,
    days: u64,
    charts: Option<&Path>,
    json: bool,
) -> Result<ExitCode> {
    let cost = cost::measure(size);
    let work = timeline::at_work(size);
    let users = fairness::two_users(days);
    let large = fairness::large_request();
    if json {
        writeln!(out, "{}", figures(&cost, &users, &large))?;
    } else {
        write!(out, "{cost}{work}{users}{large}")?;
    }
    if let Some(dir) = charts {
        let drawn = [
            ("work.svg", work.chart),
            ("two-users.svg", users.chart),
            ("large-request.svg", large.chart),
        ];
        for (name, text) in drawn {
            let path = dir.join(name);
            std::fs::write(&path, text)
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn run_pilots(out: &mut impl Write, home: &Path) -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let _here = runtime.enter();
    let welcome = std::sync::Arc::new(crowd::Welcome::default());
    for (number, line) in (0..).zip(std::io::stdin().lock().lines()) {
        let line = line.context("cannot read the credentials")?;
        let credentials = serde_json::from_str(&line).context("no credentials")?;
        crowd::start(home, number, credentials, &welcome);
    }
    let mut last = None;
    loop {
        let now = welcome.count();
        if last != Some(now) {
            writeln!(out, "{now}")?;
            out.flush()?;
            last = Some(now);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn run_broker(out: &mut impl Write, quick: bool, json: bool) -> Result<ExitCode> {
    let part = if quick { 10 } else { 1 };
    let size = |size: broker::Size| broker::Size { tasks: size.tasks / part, ..size };
    let (grid, large) = (broker::cycle(size(broker::GRID)), broker::cycle(size(broker::LARGE)));
    let matched = broker::matched(size(broker::GRID));
    if json {
        let millis = |times: &[Duration]| cost::part(times, 50).as_secs_f64() * 1_000.0;
        let figures = serde_json::json!({
            "grid_ms": millis(&grid.whole),
            "grid_held_ms": millis(&grid.held),
            "large_ms": millis(&large.whole),
            "large_held_ms": millis(&large.held),
            "matched_per_second": matched.per_second,
        });
        writeln!(out, "{figures}")?;
    } else {
        write!(out, "{grid}{large}{matched}")?;
    }
    Ok(ExitCode::SUCCESS)
}

fn figures(
    cost: &cost::Cost,
    users: &fairness::TwoUsers,
    large: &fairness::LargeRequest,
) -> serde_json::Value {
    let millis = |span: Duration| span.as_secs_f64() * 1_000.0;
    let number = |amount: u64| f64::from(u32::try_from(amount).unwrap_or(u32::MAX));
    let minutes = |span: u64| number(span) / 60_000.0;
    serde_json::json!({
        "bare_ms": millis(cost.bare),
        "pass_ms": millis(cost.pass),
        "freed_p50_us": millis(cost::part(&cost.freed, 50)) * 1_000.0,
        "freed_p99_us": millis(cost::part(&cost.freed, 99)) * 1_000.0,
        "why_p99_ms": millis(cost::part(&cost.why, 99)),
        "few_percent": number(users.few_permille) / 10.0,
        "large_waited_min": minutes(large.waited),
        "large_bound_min": large.bound.map(minutes),
    })
}
