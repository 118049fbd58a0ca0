//! `cargo xtask bench`: Shipway beside this machine's limits, beside HyperQueue and beside its
//! goals.
//!
//! Seconds mean nothing on another machine, so every line is a ratio. What a ratio compares is
//! measured in turn, round after round, in one run: what slows the machine down slows both.

mod crowd;
mod disk;
mod examples;
mod floor;
mod http;
mod hyperqueue;
mod pilots;
mod readers;
mod report;
mod samples;
mod scheduler;
mod shipway;
mod spawn;

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use tempfile::TempDir;

use crate::{children, instance, repo};
use samples::Samples;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Also write every sample to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Small counts: to see that it works, not to compare
    #[arg(long)]
    quick: bool,
    /// Only these lines, e.g. `--only submit,job`
    #[arg(long, value_name = "PART", value_delimiter = ',')]
    only: Vec<Part>,
    /// Measure this `shipway` instead of building one: to compare versions
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
}

/// Lines that are measured together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    Dispatch,
    Job,
    Submit,
    Idle,
    Large,
    Scheduler,
    Containers,
    Images,
    Readers,
    Pilots,
}

impl Args {
    fn wants(&self, part: Part) -> bool {
        self.only.is_empty() || self.only.contains(&part)
    }
}

/// What is measured; `report.rs` knows the units.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Measure {
    /// One durable write, one process and one round trip, after each other.
    Floor,
    FdatasyncTime,
    ApiJob,
    ApiJobP99,
    ReadJob,
    ReadJobP99,
    /// What `shipway run` may take: a job by the API, and some for a process of its own.
    CliAllowed,
    ApiSubmit,
    ApiSubmitMany,
    RowsSubmit,
    ArraySubmit,
    ArrayMemory,
    QueuedMemory,
    QueuedRestart,
    IdleMemory,
    IdleCpu,
    IdleStart,
    BarePass,
    FullPass,
    FreedNode,
    Why,
    OnePilot,
    ManyPilots,
    PilotMemory,
    PilotBeats,
    PilotsBack,
    BrokerGrid,
    BrokerLarge,
    BrokerMatched,
    FewJobsPart,
    LargeWaited,
    LargeBound,
    ContainerStart,
    BwrapStart,
    ImagePull,
    PodmanPull,
    UmociUnpack,
    ImageUnpack,
    UnpackFloor,
    SpawnTrue,
    SpawnStatic,
    Fdatasync,
    HyperQueueTrue,
    HyperQueueStatic,
    ShipwayTrue,
    ShipwayStatic,
    ShipwayLatency,
    ShipwayStart,
    ShipwaySubmit,
    ShipwayStartRate,
    DispatchAlone,
    DispatchBesideControl,
    DispatchBesidePages,
    PagesRead,
}

/// How much of each is done in one round, and how many rounds.
#[derive(Debug, Clone, Copy)]
struct Size {
    rounds: usize,
    spawns: u32,
    appends: u32,
    hyperqueue_tasks: u32,
    shipway_tasks: u32,
    runs: u32,
    submits: u32,
    api_jobs: u32,
    api_submits: u32,
    rows: u32,
    array_tasks: u32,
    queued_jobs: u32,
    /// At once, and the tasks that they get.
    pilots: (u32, u32),
}

/// Rounds enough for a median that one bad round does not move.
const FULL: Size = Size {
    rounds: 5,
    spawns: 3_000,
    appends: 2_000,
    // HyperQueue's client looks once a second; this keeps it busy for several.
    hyperqueue_tasks: 4_000,
    shipway_tasks: 5_000,
    runs: 50,
    submits: 100,
    api_jobs: 200,
    api_submits: 3_000,
    rows: 100_000,
    array_tasks: 1_000_000,
    queued_jobs: 1_000_000,
    pilots: (10_000, 50_000),
};
const QUICK: Size = Size {
    rounds: 3,
    spawns: 400,
    appends: 200,
    hyperqueue_tasks: 1_200,
    shipway_tasks: 1_000,
    runs: 10,
    submits: 20,
    api_jobs: 30,
    api_submits: 640,
    rows: 100_000,
    array_tasks: 1_000_000,
    queued_jobs: 20_000,
    pilots: (500, 5_000),
};
/// What a command may take beyond the same work by the API, in milliseconds.
const CLI_EXTRA: f64 = 6.0;

/// All samples of a run, and why some are missing.
#[derive(Debug, Default)]
struct Results {
    samples: BTreeMap<Measure, Samples>,
    notes: Vec<String>,
}

impl Results {
    fn add(&mut self, measure: Measure, value: f64) {
        self.samples.entry(measure).or_default().push(value);
    }

    /// Takes what could be prepared; otherwise notes why its lines are empty.
    fn or_note<T>(&mut self, what: &str, prepared: Result<T>) -> Option<T> {
        prepared.map_err(|error| self.notes.push(format!("no {what}: {error:#}"))).ok()
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let size = if args.quick { QUICK } else { FULL };
    // On the disk where one builds: a temporary folder in memory has no fdatasync to speak of.
    let place = repo::target_dir()?.join("bench");
    std::fs::create_dir_all(&place).context("could not make a folder for the benchmark")?;
    let scratch = TempDir::new_in(&place).context("could not make a folder for the benchmark")?;

    let mut results = Results::default();
    results.notes.extend(busy(&std::fs::read_to_string("/proc/loadavg").unwrap_or_default()));
    results.notes.push(ran_as(rustix::process::geteuid().is_root()).to_owned());
    let exit0 = results.or_note("static program", spawn::build_static(scratch.path()));
    let hyperqueue = if args.wants(Part::Dispatch) {
        results.or_note("HyperQueue", hyperqueue::HyperQueue::prepare(&place, scratch.path()))
    } else {
        None
    };
    results.notes.extend(hyperqueue.as_ref().map(hyperqueue::HyperQueue::describe));
    let binary = if let Some(binary) = &args.binary {
        binary.clone()
    } else {
        println!("building shipway (release) …");
        instance::build(true)?
    };
    let shipway = results.or_note("Shipway", shipway::Shipway::prepare(&binary, scratch.path()));
    let crowd = crowd::Crowd::new(binary, scratch.path());
    let subjects = Subjects { exit0, hyperqueue, shipway, crowd, scratch };
    for round in 1..=size.rounds {
        println!("round {round} of {}", size.rounds);
        subjects.measure(args, size, &mut results)?;
    }
    if args.wants(Part::Large) {
        println!("a large array, and {} jobs", size.queued_jobs);
        subjects.measure_once(size, &mut results)?;
    }
    if args.wants(Part::Pilots) {
        println!("{} pilots", size.pilots.0);
        let place = subjects.scratch.path();
        let measured = pilots::measure(subjects.crowd.binary(), place, size.pilots, &mut results);
        results.or_note("pilots", measured);
    }
    if args.wants(Part::Scheduler) {
        println!("the scheduler alone");
        scheduler::measure(args.quick, &mut results)?;
    }
    if args.wants(Part::Images) {
        println!("images, beside podman and umoci");
        let measured = examples::images(args.quick, subjects.scratch.path(), &mut results);
        results.or_note("images", measured);
    }
    print!("\n{}", report::table(&results, !args.only.is_empty()));
    if let Some(file) = &args.json {
        std::fs::write(file, report::json(&results, args.quick)?)
            .with_context(|| format!("could not write {}", file.display()))?;
    }
    if subjects.shipway.is_none() {
        bail!("Shipway itself could not be measured");
    }
    Ok(())
}

/// What there is to measure on this machine.
struct Subjects {
    exit0: Option<PathBuf>,
    hyperqueue: Option<hyperqueue::HyperQueue>,
    shipway: Option<shipway::Shipway>,
    crowd: crowd::Crowd,
    scratch: TempDir,
}

impl Subjects {
    /// One round. What is compared stands side by side, to meet the same weather.
    fn measure(&self, args: &Args, size: Size, results: &mut Results) -> Result<()> {
        use Measure as M;
        if args.wants(Part::Dispatch) {
            let measures = [M::SpawnTrue, M::HyperQueueTrue, M::ShipwayTrue];
            self.dispatch(size, "true", measures, results)?;
        }
        if let Some(exit0) = self.exit0.as_ref().filter(|_| args.wants(Part::Dispatch)) {
            let program = exit0.to_string_lossy();
            let measures = [M::SpawnStatic, M::HyperQueueStatic, M::ShipwayStatic];
            self.dispatch(size, &program, measures, results)?;
        }
        if let Some(shipway) = self.shipway.as_ref().filter(|_| args.wants(Part::Job)) {
            results.add(M::ShipwaySubmit, shipway.submit_rate(size.submits)?);
            let start = shipway.start_latency(size.runs)?;
            results.add(M::ShipwayStart, start);
            results.add(M::ShipwayStartRate, 1000.0 / start);
            results.add(M::ShipwayLatency, shipway.run_latency(size.runs)?);
            self.one_job(shipway, size, results)?;
        }
        if args.wants(Part::Submit) {
            results.add(M::Fdatasync, disk::append_rate(self.scratch.path(), size.appends)?);
            results.add(M::ApiSubmit, self.crowd.submit_rate(1, size.api_submits)?);
            results.add(M::ApiSubmitMany, self.crowd.submit_rate(crowd::MANY, size.api_submits)?);
            results.add(M::RowsSubmit, self.crowd.rows(size.rows)?);
        }
        if args.wants(Part::Readers) {
            let (binary, place) = (self.crowd.binary(), self.scratch.path());
            readers::measure(binary, place, size.shipway_tasks, results)?;
        }
        if args.wants(Part::Containers) {
            let measured = examples::containers(results);
            results.or_note("containers", measured);
        }
        if args.wants(Part::Idle) {
            let idle = self.crowd.idle()?;
            results.add(M::IdleMemory, idle.megabytes);
            results.add(M::IdleCpu, idle.cpu_percent);
            results.add(M::IdleStart, idle.start_ms);
        }
        Ok(())
    }

    /// One job at a time by the API, beside what it is made of.
    fn one_job(&self, shipway: &shipway::Shipway, size: Size, results: &mut Results) -> Result<()> {
        use Measure as M;
        let append = floor::append(self.scratch.path(), size.api_jobs)?;
        let process = floor::process("true", size.api_jobs)?;
        let round_trip = floor::round_trip(size.api_jobs)?;
        results.add(M::FdatasyncTime, append);
        results.add(M::Floor, append + process + round_trip);
        let jobs = shipway.api_latency(size.api_jobs)?;
        let (median, p99) = jobs.median().zip(jobs.p99()).context("no job was run")?;
        results.add(M::ApiJob, median);
        results.add(M::ApiJobP99, p99);
        results.add(M::CliAllowed, median + CLI_EXTRA);
        let beside = shipway.latency_beside_reader(size.api_jobs)?;
        let (median, p99) = beside.median().zip(beside.p99()).context("no job was run")?;
        results.add(M::ReadJob, median);
        results.add(M::ReadJobP99, p99);
        Ok(())
    }

    /// What is too large for every round.
    fn measure_once(&self, size: Size, results: &mut Results) -> Result<()> {
        use Measure as M;
        let array = self.crowd.array(size.array_tasks)?;
        results.add(M::ArraySubmit, array.submit_ms);
        results.add(M::ArrayMemory, array.megabytes);
        let queued = self.crowd.queued(size.queued_jobs)?;
        results.add(M::QueuedMemory, queued.bytes_each);
        results.add(M::QueuedRestart, queued.restart_ms);
        Ok(())
    }

    /// The same program by the machine alone, by HyperQueue and by Shipway.
    fn dispatch(
        &self,
        size: Size,
        program: &str,
        [machine, peer, ours]: [Measure; 3],
        results: &mut Results,
    ) -> Result<()> {
        if children::interrupted() {
            bail!("interrupted");
        }
        results.add(machine, spawn::rate(program, size.spawns)?);
        if let Some(hyperqueue) = &self.hyperqueue {
            results.add(peer, hyperqueue.rate(program, size.hyperqueue_tasks)?);
        }
        if let Some(shipway) = &self.shipway {
            results.add(ours, shipway.dispatch_rate(program, size.shipway_tasks)?);
        }
        Ok(())
    }
}

/// A warning if others use the machine: a busy one does not slow all lines alike.
fn busy(loadavg: &str) -> Option<String> {
    let load: f64 = loadavg.split_whitespace().next()?.parse().ok()?;
    (load > 0.5).then(|| format!("the machine was busy before we began: load {load}"))
}

/// Whose tasks they are decides how they are started: root's pilot takes other accounts and limits
/// that an ordinary user's has not, so two runs compare only where it was the same.
fn ran_as(is_root: bool) -> &'static str {
    if is_root { "measured as root" } else { "measured as an ordinary user" }
}

/// Tasks at a time, for everything that runs tasks.
fn slots() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_notes_say_whom_it_ran_as() {
        let results = Results { notes: vec![ran_as(true).to_owned()], ..Results::default() };
        assert!(report::table(&results, false).contains("measured as root"));
        assert!(ran_as(false).ends_with("an ordinary user"));
    }

    #[test]
    fn a_busy_machine_is_mentioned() {
        assert_eq!(busy("0.08 1.00 9.00 1/100 7"), None);
        let note = busy("6.33 4.21 2.38 1/100 7").expect("it is busy");
        assert!(note.ends_with("load 6.33"), "{note}");
        assert_eq!(busy(""), None);
    }
}
