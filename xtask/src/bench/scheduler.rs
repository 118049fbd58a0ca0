//! The scheduler alone, at scale: what `shipway-sim scale` measures, as samples.

use std::process::Command;

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::{Measure as M, Results};
use crate::{children, repo};

/// Full size: a million jobs on ten thousand nodes, and a month of two users.
const FULL: [&str; 0] = [];
const QUICK: [&str; 6] = ["--jobs", "50000", "--nodes", "500", "--days", "3"];

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
    let text = children::stdout_of(Command::new(binary).args(["scale", "--json"]).args(size))?;
    let found: Value = serde_json::from_str(&text).context("the simulation's answer is no JSON")?;
    for (field, measure) in FIELDS {
        let value = found[field].as_f64().with_context(|| format!("no {field} in the answer"))?;
        results.add(measure, value);
    }
    Ok(())
}
