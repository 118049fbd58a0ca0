//! What programs measure that stand beside the code they measure: containers beside bwrap, images
//! beside podman and umoci. Here their answers become samples.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::{Measure as M, Results};
use crate::{children, repo};

/// Starts by each in one round.
const STARTS: &str = "100";
/// Rounds, and megabytes of the image's files; a quick image is only to see that it works.
const FULL: [&str; 2] = ["3", "250"];
const QUICK: [&str; 2] = ["1", "40"];

/// Microseconds of one start, by the name it has in the answer.
const CONTAINERS: [(&str, M); 2] = [("native", M::ContainerStart), ("bwrap", M::BwrapStart)];

/// Seconds of one image, by the name it has in the answer.
const IMAGES: [(&str, M); 5] = [
    ("ours, pull", M::ImagePull),
    ("podman pull", M::PodmanPull),
    ("umoci unpack", M::UmociUnpack),
    ("ours, unpack", M::ImageUnpack),
    ("libdeflate and write", M::UnpackFloor),
];

pub(super) fn containers(results: &mut Results) -> Result<()> {
    let answer = answer_of("shipway-pilot", "start_rate", &[STARTS])?;
    for (name, measure) in CONTAINERS {
        if let Some(micros) = answer.get(name).and_then(Value::as_f64) {
            results.add(measure, micros);
        }
    }
    Ok(())
}

/// Rates, so that more is better as in the goals.
pub(super) fn images(quick: bool, scratch: &Path, results: &mut Results) -> Result<()> {
    let dir = scratch.join("images").display().to_string();
    let [rounds, megabytes] = if quick { QUICK } else { FULL };
    let answer = answer_of("shipway-images", "speed", &[&dir, rounds, megabytes])?;
    for (name, measure) in IMAGES {
        let seconds = answer.get(name).and_then(Value::as_array).into_iter().flatten();
        for seconds in seconds.filter_map(Value::as_f64) {
            results.add(measure, 60.0 / seconds);
        }
    }
    Ok(())
}

/// The last line of what an example prints.
fn answer_of(package: &str, example: &str, args: &[&str]) -> Result<BTreeMap<String, Value>> {
    let build = ["build", "--release", "--quiet", "-p", package, "--example", example];
    children::run(repo::cargo().args(build))?;
    let binary = repo::target_dir()?.join("release/examples").join(example);
    let text = children::stdout_of(Command::new(binary).args(args).arg("--json"))?;
    let answer = text.lines().last().unwrap_or_default();
    serde_json::from_str(answer).with_context(|| format!("the answer of {example} is no JSON"))
}
