//! What the history remembers of ours: how it is asked and read. Pure.

use super::ad;
use super::jobs::{ATTRIBUTES, Job, job};
use super::queue::ours;
use crate::batch::Naming;

/// More than end between two looks, by far.
const MAX_FOUND: u32 = 5_000;
/// The history is a file that is read from its end, whoever's jobs are in it: of a busy schedd
/// this is some hours, and a second's work.
const MAX_READ: u32 = 50_000;

/// The command, without the words that say whose history.
pub(super) fn command(naming: &Naming) -> Option<Vec<String>> {
    let (found, read) = (MAX_FOUND.to_string(), MAX_READ.to_string());
    let attributes = ATTRIBUTES.join(",");
    let words = ["condor_history", "-json", "-limit", &found, "-scanlimit", &read];
    let mut words: Vec<String> = words.map(String::from).to_vec();
    words.extend(["-attributes".into(), attributes, "-constraint".into(), ours(naming)?]);
    Some(words)
}

pub(super) fn read(stdout: &[u8], naming: &Naming) -> Result<Vec<Job>, String> {
    Ok(ad::read(stdout)?.iter().filter_map(|ad| job(ad, naming)).collect())
}
