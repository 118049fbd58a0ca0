//! What the queue has of ours: how it is asked and read. Pure.

use super::ad;
use super::jobs::{ATTRIBUTES, Job, job};
use super::quoting::string;
use super::submit::NAME;
use crate::batch::Naming;

/// The command, without the words that say which queue.
pub(super) fn command(naming: &Naming) -> Option<Vec<String>> {
    let attributes = ATTRIBUTES.join(",");
    let words = ["condor_q", "-json", "-attributes", &attributes, "-constraint", &ours(naming)?];
    Some(words.map(String::from).to_vec())
}

/// Ours by name. By `=?=`, which minds case and is false where there is no name.
pub(super) fn ours(naming: &Naming) -> Option<String> {
    let prefix = naming.prefix();
    Some(format!("substr({NAME}, 0, {}) =?= {}", prefix.len(), string(&prefix)?))
}

/// Which of these are still in the queue and not on their way out of it, whoever's they are: of
/// those of others it would not tell unasked.
pub(super) fn still_there(clusters: &[u64]) -> Vec<String> {
    let any: Vec<String> = clusters.iter().map(|it| format!("ClusterId == {it}")).collect();
    let there = format!("({}) && JobStatus =!= 3 && JobStatus =!= 4", any.join(" || "));
    let words = ["condor_q", "-allusers", "-json", "-attributes", "ClusterId", "-constraint"];
    let words = words.iter().copied().chain([there.as_str()]);
    words.map(String::from).collect()
}

pub(super) fn read(stdout: &[u8], naming: &Naming) -> Result<Vec<Job>, String> {
    Ok(ad::read(stdout)?.iter().filter_map(|ad| job(ad, naming)).collect())
}
