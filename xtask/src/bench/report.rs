//! What a benchmark says: a table of ratios for people, every sample as JSON for programs.

use std::fmt::Write as _;

use anyhow::Result;
use serde_json::{Map, Value, json};

use super::samples::Samples;
use super::{Measure, Results, slots};

/// One ratio: ours over a reference of the same kind.
struct Line {
    name: &'static str,
    ours: Measure,
    reference: (&'static str, Measure),
    unit: &'static str,
}

const fn line(
    name: &'static str,
    ours: Measure,
    reference: (&'static str, Measure),
    unit: &'static str,
) -> Line {
    Line { name, ours, reference, unit }
}

const MACHINE: &str = "posix_spawn + wait";
const PEER: &str = "HyperQueue";

const LINES: [Line; 9] = [
    line("peer: true", Measure::HyperQueueTrue, (MACHINE, Measure::SpawnTrue), "/s"),
    line("peer: static", Measure::HyperQueueStatic, (MACHINE, Measure::SpawnStatic), "/s"),
    line("dispatch true", Measure::ShipwayTrue, (MACHINE, Measure::SpawnTrue), "/s"),
    line("dispatch true", Measure::ShipwayTrue, (PEER, Measure::HyperQueueTrue), "/s"),
    line("dispatch static", Measure::ShipwayStatic, (MACHINE, Measure::SpawnStatic), "/s"),
    line("dispatch static", Measure::ShipwayStatic, (PEER, Measure::HyperQueueStatic), "/s"),
    line("submit by CLI", Measure::ShipwaySubmit, ("fdatasync 256 B", Measure::Fdatasync), "/s"),
    line(
        "submit by CLI",
        Measure::ShipwaySubmit,
        ("shipway --version", Measure::ShipwayStartRate),
        "/s",
    ),
    line(
        "run -- true, p50",
        Measure::ShipwayLatency,
        ("shipway --version", Measure::ShipwayStart),
        "ms",
    ),
];

/// Medians, with the least and the greatest of all rounds in brackets.
pub(super) fn table(results: &Results) -> String {
    let mut text =
        format!("{:<17} {:<27} {:<19} {:<27} ratio\n", "line", "ours", "reference", "reference's");
    for Line { name, ours, reference: (against, reference), unit } in &LINES {
        let (ours, reference) = (results.samples.get(ours), results.samples.get(reference));
        let ratio = ours.zip(reference).map(|(ours, reference)| ours.over(reference));
        let (ours, reference) = (cell(ours, unit), cell(reference, unit));
        let ratio = cell(ratio.as_ref(), "");
        writeln!(text, "{name:<17} {ours:<27} {against:<19} {reference:<27} {ratio}")
            .expect("a String takes any text");
    }
    for note in &results.notes {
        writeln!(text, "{note}").expect("a String takes any text");
    }
    text
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
    let ours = results.samples.get(&line.ours)?;
    let ratio = ours.over(results.samples.get(&line.reference.1)?);
    let (least, greatest) = ratio.spread()?;
    Some(json!({
        "line": line.name,
        "reference": line.reference.0,
        "median": ratio.median()?,
        "least": least,
        "greatest": greatest,
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
        let text = table(&results());
        let line = text.lines().nth(1).expect("a line under the head");
        assert!(line.contains("60.00/s (50.00–70.00)"), "{line}");
        assert!(line.contains("100/s (100–100)"), "{line}");
        assert!(line.ends_with("0.60 (0.50–0.70)"), "{line}");
    }

    #[test]
    fn what_was_not_measured_is_a_dash_and_a_note() {
        let text = table(&results());
        let ours = text.lines().find(|line| line.starts_with("dispatch true")).expect("a line");
        assert!(ours.ends_with('-'), "{ours}");
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
