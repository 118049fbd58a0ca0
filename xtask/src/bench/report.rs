//! What a benchmark says: a table of ratios for people, every sample as JSON for programs.

use std::fmt::Write as _;

use anyhow::Result;
use serde_json::{Map, Value, json};

use super::samples::Samples;
use super::{Measure as M, Measure, Results, readers, slots};
use Goal::{AtLeast, AtMost};
use Reference::{Fixed, Measured};

/// One ratio: ours over a reference of the same kind.
struct Line {
    name: &'static str,
    ours: Measure,
    reference: Reference,
    unit: &'static str,
    goal: Goal,
}

/// What ours is compared with.
#[derive(Clone, Copy)]
enum Reference {
    Measured(&'static str, Measure),
    /// A fixed amount, where the machine's speed does not matter.
    Fixed(&'static str, f64),
}

/// What the ratio should be.
#[derive(Clone, Copy)]
enum Goal {
    AtLeast(f64),
    AtMost(f64),
    None,
}

const fn line(
    name: &'static str,
    ours: Measure,
    reference: Reference,
    unit: &'static str,
    goal: Goal,
) -> Line {
    Line { name, ours, reference, unit, goal }
}

const fn spawn(measure: Measure) -> Reference {
    Measured("posix_spawn + wait", measure)
}

const fn peer(measure: Measure) -> Reference {
    Measured("HyperQueue", measure)
}

const FDATASYNC: Reference = Measured("fdatasync 256 B", M::Fdatasync);
const FLOOR: Reference = Measured("sync+spawn+trip", M::Floor);
const VERSION: &str = "shipway --version";

const LINES: [Line; 43] = [
    line("peer: true", M::HyperQueueTrue, spawn(M::SpawnTrue), "/s", Goal::None),
    line("peer: static", M::HyperQueueStatic, spawn(M::SpawnStatic), "/s", Goal::None),
    line("dispatch true", M::ShipwayTrue, spawn(M::SpawnTrue), "/s", AtLeast(0.85)),
    line("dispatch true", M::ShipwayTrue, peer(M::HyperQueueTrue), "/s", AtLeast(2.0)),
    line("dispatch static", M::ShipwayStatic, spawn(M::SpawnStatic), "/s", AtLeast(0.5)),
    line("dispatch static", M::ShipwayStatic, peer(M::HyperQueueStatic), "/s", Goal::None),
    line("job by API, p50", M::ApiJob, FLOOR, "ms", AtMost(2.5)),
    line("job by API, p99", M::ApiJobP99, FLOOR, "ms", Goal::None),
    line("beside a reader, p50", M::ReadJob, Measured("job by API", M::ApiJob), "ms", AtMost(2.0)),
    line("beside a reader, p99", M::ReadJobP99, ALONE_P99, "ms", Goal::None),
    line("run -- true, p50", M::ShipwayLatency, ALLOWED, "ms", AtMost(1.0)),
    line(
        "run -- true, p50",
        M::ShipwayLatency,
        Measured(VERSION, M::ShipwayStart),
        "ms",
        Goal::None,
    ),
    line("submit by API", M::ApiSubmit, FDATASYNC, "/s", AtLeast(0.6)),
    line("submit, 64 clients", M::ApiSubmitMany, ONE_CLIENT, "/s", AtLeast(8.0)),
    line(
        "submit by CLI",
        M::ShipwaySubmit,
        Measured(VERSION, M::ShipwayStartRate),
        "/s",
        Goal::None,
    ),
    line("10^5 rows by CLI", M::RowsSubmit, Fixed("1 second", 1000.0), "ms", AtMost(1.0)),
    line("array of 10^6", M::ArraySubmit, FDATASYNC_TIME, "ms", AtMost(20.0)),
    line("array of 10^6", M::ArrayMemory, Fixed("1 MB", 1.0), "MB", AtMost(1.0)),
    line("queued job", M::QueuedMemory, Fixed("256 bytes", 256.0), "B", AtMost(1.0)),
    line("restart with jobs", M::QueuedRestart, Fixed("3 seconds", 3000.0), "ms", AtMost(1.0)),
    line("idle memory", M::IdleMemory, Fixed("20 MB", 20.0), "MB", AtMost(1.0)),
    line("idle processor", M::IdleCpu, Fixed("1 % of a core", 1.0), "%", AtMost(0.5)),
    line("start", M::IdleStart, Fixed("50 ms", 50.0), "ms", AtMost(1.0)),
    line("full pass", M::FullPass, Measured("bare first-fit", M::BarePass), "ms", AtMost(3.0)),
    line("freed node, p50", M::FreedNode, Fixed("50 µs", 50.0), "µs", AtMost(1.0)),
    line("why, p99", M::Why, Fixed("5 ms", 5.0), "ms", AtMost(1.0)),
    line("broker", M::BrokerGrid, Fixed("50 ms", 50.0), "ms", AtMost(1.0)),
    line("broker, large", M::BrokerLarge, Fixed("1 second", 1000.0), "ms", AtMost(1.0)),
    line("match", M::BrokerMatched, Fixed("10,000/s", 10_000.0), "/s", AtLeast(1.0)),
    line("to 10^4 pilots", M::ManyPilots, Measured("to one", M::OnePilot), "/s", AtLeast(0.8)),
    line("a pilot", M::PilotMemory, Fixed("30 kB", 30_000.0), "B", AtMost(1.0)),
    line("10^4 pilots beat", M::PilotBeats, Fixed("20 % of a core", 20.0), "%", AtMost(1.0)),
    line("10^4 pilots back", M::PilotsBack, Fixed("60 seconds", 60.0), "s", AtMost(1.0)),
    line("1 % of the jobs", M::FewJobsPart, Fixed("half of the time", 50.0), "%", AtLeast(0.95)),
    line("container start", M::ContainerStart, BWRAP, "µs", AtMost(1.0)),
    line("image pull", M::ImagePull, Measured("podman pull", M::PodmanPull), "/min", AtLeast(3.0)),
    line("image pull", M::ImagePull, UMOCI, "/min", AtLeast(3.0)),
    line("image unpack", M::ImageUnpack, UNPACK_FLOOR, "/min", AtLeast(0.6)),
    line("beside a control", M::DispatchBesideControl, NO_READER, "/s", Goal::None),
    line("beside readers", M::DispatchBesidePages, NO_READER, "/s", Goal::None),
    line("beside readers", M::DispatchBesidePages, CONTROL, "/s", AtLeast(0.95)),
    line("pages read", M::PagesRead, Fixed("200 × 10/s", readers::WANTED), "/s", AtLeast(0.9)),
    line("large request", M::LargeWaited, Measured("its bound", M::LargeBound), "min", AtMost(1.0)),
];
const NO_READER: Reference = Measured("no reader", M::DispatchAlone);
const CONTROL: Reference = Measured("a control", M::DispatchBesideControl);
const BWRAP: Reference = Measured("bwrap", M::BwrapStart);
const UMOCI: Reference = Measured("umoci unpack alone", M::UmociUnpack);
const UNPACK_FLOOR: Reference = Measured("inflate + write", M::UnpackFloor);
const ALLOWED: Reference = Measured("by API + 6 ms", M::CliAllowed);
const ALONE_P99: Reference = Measured("job by API, p99", M::ApiJobP99);
const ONE_CLIENT: Reference = Measured("one client", M::ApiSubmit);
const FDATASYNC_TIME: Reference = Measured("one fdatasync", M::FdatasyncTime);

impl Line {
    fn against(&self) -> &'static str {
        match self.reference {
            Reference::Measured(name, _) | Reference::Fixed(name, _) => name,
        }
    }

    /// What ours is compared with, once for each of our samples.
    fn reference(&self, results: &Results) -> Option<Samples> {
        let ours = results.samples.get(&self.ours)?;
        match self.reference {
            Reference::Measured(_, measure) => results.samples.get(&measure).cloned(),
            Reference::Fixed(_, amount) => Some(ours.values().iter().map(|_| amount).collect()),
        }
    }

    fn ratio(&self, results: &Results) -> Option<Samples> {
        let ours = results.samples.get(&self.ours)?;
        Some(ours.over(&self.reference(results)?))
    }
}

impl Goal {
    fn is_met(self, ratio: f64) -> Option<bool> {
        match self {
            Goal::AtLeast(least) => Some(ratio >= least),
            Goal::AtMost(most) => Some(ratio <= most),
            Goal::None => None,
        }
    }

    fn describe(self, ratio: Option<f64>) -> String {
        let verdict = match ratio.and_then(|ratio| self.is_met(ratio)) {
            Some(true) => ", met",
            Some(false) => ", missed",
            None => "",
        };
        match self {
            Goal::AtLeast(least) => format!("≥ {least}{verdict}"),
            Goal::AtMost(most) => format!("≤ {most}{verdict}"),
            Goal::None => String::new(),
        }
    }
}

/// Medians, with the least and the greatest of all rounds in brackets.
/// All lines, or only those that were measured.
pub(super) fn table(results: &Results, only: bool) -> String {
    let head = ["line", "ours", "reference", "reference's", "ratio", "goal"];
    let mut text = row(head.map(ToOwned::to_owned));
    for line in &LINES {
        let (ours, reference) = (results.samples.get(&line.ours), line.reference(results));
        if only && ours.is_none() {
            continue;
        }
        let ratio = line.ratio(results);
        text += &row([
            line.name.to_owned(),
            cell(ours, line.unit),
            line.against().to_owned(),
            cell(reference.as_ref(), line.unit),
            cell(ratio.as_ref(), ""),
            line.goal.describe(ratio.and_then(|ratio| ratio.median())),
        ]);
    }
    for note in &results.notes {
        writeln!(text, "{note}").expect("a String takes any text");
    }
    text
}

fn row([name, ours, against, reference, ratio, goal]: [String; 6]) -> String {
    let row = format!("{name:<18} {ours:<26} {against:<18} {reference:<26} {ratio:<18} {goal}");
    row.trim_end().to_owned() + "\n"
}

fn cell(samples: Option<&Samples>, unit: &str) -> String {
    let Some((median, (least, greatest))) = samples.and_then(|s| s.median().zip(s.spread())) else {
        return "-".to_owned();
    };
    // Rates are whole numbers; ratios and milliseconds are not.
    let places = if median >= 100.0 { 0 } else { 2 };
    format!("{median:.places$}{unit} ({least:.places$}–{greatest:.places$})")
}

pub(super) fn json(results: &Results, quick: bool) -> Result<String> {
    let samples: Map<String, Value> = results
        .samples
        .iter()
        .map(|(measure, samples)| (format!("{measure:?}"), json!(samples.values())))
        .collect();
    let ratios: Vec<Value> = LINES.iter().filter_map(|line| ratio(line, results)).collect();
    let whole = json!({
        "quick": quick,
        "slots": slots(),
        "ratios": ratios,
        "samples": samples,
        "notes": results.notes,
    });
    Ok(serde_json::to_string_pretty(&whole)? + "\n")
}

/// None for a line that could not be measured; the notes say why.
fn ratio(line: &Line, results: &Results) -> Option<Value> {
    let ratio = line.ratio(results)?;
    let (least, greatest) = ratio.spread()?;
    let median = ratio.median()?;
    Some(json!({
        "line": line.name,
        "reference": line.against(),
        "median": median,
        "least": least,
        "greatest": greatest,
        "goal": line.goal.describe(None),
        "met": line.goal.is_met(median),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results() -> Results {
        let mut results = Results::default();
        for (ours, machine) in [(50.0, 100.0), (60.0, 100.0), (70.0, 100.0)] {
            results.add(Measure::HyperQueueTrue, ours);
            results.add(Measure::SpawnTrue, machine);
        }
        results.notes.push("no Shipway: it does not build".to_owned());
        results
    }

    #[test]
    fn a_line_shows_medians_and_spread() {
        let text = table(&results(), false);
        let line = text.lines().nth(1).expect("a line under the head");
        assert!(line.contains("60.00/s (50.00–70.00)"), "{line}");
        assert!(line.contains("100/s (100–100)"), "{line}");
        assert!(line.ends_with("0.60 (0.50–0.70)"), "{line}");
    }

    #[test]
    fn a_goal_is_met_or_missed() {
        let mut results = results();
        results.add(Measure::ShipwayTrue, 90.0);
        results.add(Measure::IdleMemory, 30.0);
        let text = table(&results, false);
        let line = |name: &str| text.lines().find(|line| line.starts_with(name)).expect("a line");
        assert!(line("dispatch true").ends_with("0.90 (0.90–0.90)   ≥ 0.85, met"), "{text}");
        assert!(line("idle memory").ends_with("1.50 (1.50–1.50)   ≤ 1, missed"), "{text}");
    }

    #[test]
    fn what_was_not_measured_is_a_dash_and_a_note() {
        let text = table(&results(), false);
        let ours = text.lines().find(|line| line.starts_with("dispatch true")).expect("a line");
        assert!(ours.ends_with("-                  ≥ 0.85"), "{ours}");
        assert!(text.ends_with("no Shipway: it does not build\n"), "{text}");
    }

    #[test]
    fn json_holds_the_ratios_that_exist() {
        let text = json(&results(), true).expect("numbers and texts");
        let value: Value = serde_json::from_str(&text).expect("it was just written");
        assert_eq!(value["ratios"].as_array().map(Vec::len), Some(1));
        assert_eq!(value["ratios"][0]["median"], 0.6);
        assert_eq!(value["samples"]["SpawnTrue"], json!([100.0, 100.0, 100.0]));
    }
}
