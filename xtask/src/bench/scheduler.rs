//! The scheduler and the broker alone, at scale: what `shipway-sim scale` and `shipway-sim broker`
//! measure, as samples.

use std::process::Command;

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::{Measure as M, Results};
use crate::{children, repo};

/// Full size: a million jobs on ten thousand nodes, and a month of two users.
const FULL: [&str; 0] = [];
const QUICK: [&str; 6] = ["--jobs", "50000", "--nodes", "500", "--days", "3"];

/// The same of the broker.
const BROKER: [(&str, M); 3] = [
    ("grid_ms", M::BrokerGrid),
    ("large_ms", M::BrokerLarge),
    ("matched_per_second", M::BrokerMatched),
];
/// Each field of the answer and what it is a sample of.
const FIELDS: [(&str, M); 7] = [
    ("bare_ms", M::BarePass),
    ("pass_ms", M::FullPass),
    ("freed_p50_us", M::FreedNode),
    ("why_p99_ms", M::Why),
    ("few_percent", M::FewJobsPart),
    ("large_waited_min", M::LargeWaited),
    ("large_bound_min", M::LargeBound),
];

pub(super) fn measure(quick: bool, results: &mut Results) -> Result<()> {
    children::run(repo::cargo().args(["build", "--release", "--quiet", "-p", "shipway-sim"]))?;
    let binary = repo::target_dir()?.join("release/shipway-sim");
    let size: &[&str] = if quick { &QUICK } else { &FULL };
    let mut scale = Command::new(&binary);
    add(scale.args(["scale", "--json"]).args(size), &FIELDS, results)?;
    let quick = quick.then_some("--quick");
    add(Command::new(&binary).args(["broker", "--json"]).args(quick), &BROKER, results)
}

fn add(command: &mut Command, fields: &[(&str, M)], results: &mut Results) -> Result<()> {
    let text = children::stdout_of(command)?;
    let found: Value = serde_json::from_str(&text).context("the simulation's answer is no JSON")?;
    for (field, measure) in fields {
        let value = found[*field].as_f64().with_context(|| format!("no {field} in the answer"))?;
        results.add(*measure, value);
    }
    Ok(())
}
