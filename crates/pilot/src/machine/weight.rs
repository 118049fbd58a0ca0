//! How many bytes of the pilot's memory each person's tasks take by what they are started from:
//! variables, rows, scripts and lists of files.
//!
//! What is weighed counts until it is dropped, wherever it is by then: so nobody has to remember
//! to count it back. What a process uses once it runs is not counted here.

use shipway_api::link::{Files, Template};
use shipway_model::limits::MAX_PATH_BYTES;
use shipway_model::{Bytes, FileMap, Outputs};
use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// One person's part of the node's memory, and the least that it is: room for a hundred tasks of
/// the largest kind, or for a million small ones.
const PART_OF_NODE: u64 = 16;
const LEAST: u64 = 256 << 20;

/// What a piece of text takes beyond its bytes, in a list or a map.
const PIECE: u64 = 64;

/// What somebody's tasks take now.
type Total = Arc<AtomicU64>;

/// Bytes that count for one person until this is dropped.
#[derive(Debug)]
pub struct Weight {
    bytes: u64,
    of: Total,
}

impl Weight {
    fn new(bytes: u64, of: &Total) -> Self {
        of.fetch_add(bytes, Ordering::Relaxed);
        Weight { bytes, of: Arc::clone(of) }
    }
}

impl Drop for Weight {
    fn drop(&mut self) {
        self.of.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Something with its weight.
#[derive(Debug)]
pub struct Weighed<T> {
    it: T,
    weight: Weight,
}

impl<T> Weighed<T> {
    pub fn new(it: T, weight: Weight) -> Self {
        Weighed { it, weight }
    }

    /// For something that is made of this for the same person: all these texts together.
    pub fn more<'a>(&self, texts: impl Iterator<Item = &'a [u8]>) -> Weight {
        Weight::new(texts.map(|text| PIECE + length(text)).sum(), &self.weight.of)
    }
}

/// What counts for nobody.
#[cfg(test)]
impl<T> From<T> for Weighed<T> {
    fn from(it: T) -> Self {
        Weighed::new(it, Weight::new(0, &Total::default()))
    }
}

impl<T> Deref for Weighed<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.it
    }
}

impl<T: PartialEq> PartialEq for Weighed<T> {
    fn eq(&self, other: &Self) -> bool {
        self.it == other.it
    }
}

/// Weighs what comes in, for each person.
#[derive(Debug)]
pub(super) struct Scales {
    most: u64,
    people: BTreeMap<String, Total>,
}

impl Scales {
    pub(super) fn new(memory: Bytes) -> Self {
        Scales { most: (memory.0 / PART_OF_NODE).max(LEAST), people: BTreeMap::new() }
    }

    pub(super) fn weigh<T>(&mut self, user: &str, it: T, bytes: u64) -> Weighed<T> {
        if let Some(total) = self.people.get(user) {
            return Weighed::new(it, Weight::new(bytes, total));
        }
        // A good moment to forget those of whom nothing is here any more.
        self.people.retain(|_, total| Arc::strong_count(total) > 1);
        let total = self.people.entry(user.to_owned()).or_default();
        Weighed::new(it, Weight::new(bytes, total))
    }

    /// Why no more of this person's tasks can be kept, if that is so.
    pub(super) fn refuses(&self, user: &str) -> Option<String> {
        let taken = self.people.get(user).map_or(0, |total| total.load(Ordering::Relaxed));
        (taken > self.most).then(|| {
            format!(
                "with it, what tasks of {user} on this node are started from (variables, rows, \
                 scripts, lists of files) takes {} of its pilot's memory; at most {} for each \
                 person: put large ones into files that tasks read, or have fewer tasks at a time",
                Bytes(taken),
                Bytes(self.most)
            )
        })
    }
}

/// What a template takes.
pub(super) fn of_template(template: &Template) -> u64 {
    let files = template.files.iter();
    let streams = files.clone().flat_map(|it| [&it.stdin, &it.stdout, &it.stderr]);
    let inputs = files.map(|it| of_files(&it.inputs)).sum::<u64>();
    let image = template.image.iter().map(|image| of_text(&image.to_string())).sum::<u64>();
    let texts = [&template.script, &template.workdir].into_iter().chain(streams).flatten();
    let texts = texts.chain(&template.command);
    let texts = texts.chain(template.binds.iter().flat_map(|bind| [&bind.source, &bind.target]));
    let texts = texts.chain(template.env.iter().flat_map(|(name, value)| [name, value]));
    inputs + image + texts.map(of_text).sum::<u64>()
}

/// What the list of its outputs takes.
pub(super) fn of_outputs(outputs: &Outputs) -> u64 {
    outputs.to.as_ref().map_or(0, of_text) + of_files(outputs.names())
}

fn of_files(files: &[FileMap]) -> u64 {
    files.iter().map(|it| of_text(&it.source) + it.target.as_ref().map_or(0, of_text)).sum()
}

fn of_text(text: &String) -> u64 {
    PIECE + length(text.as_bytes())
}

fn length(text: &[u8]) -> u64 {
    text.len() as u64
}

/// What the fields of a row make of the files of a template. A path can be little but the names of
/// fields, and each task has its own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Filled {
    /// Paths that name a field, and the bytes of the longest.
    paths: u64,
    longest: u64,
}

impl Filled {
    pub(super) fn of(files: &Files) -> Self {
        let outputs = files.outputs.iter().flat_map(Outputs::names);
        let maps = files.inputs.iter().chain(outputs);
        let paths = maps.flat_map(|it| [Some(&it.source), it.target.as_ref()]).flatten();
        paths.filter(|path| path.contains('{')).fold(Filled::default(), |all, path| Filled {
            paths: all.paths + 1,
            longest: all.longest.max(length(path.as_bytes())),
        })
    }

    /// What a row takes, and what becomes of those paths with it.
    pub(super) fn with(self, row: &BTreeMap<String, String>) -> u64 {
        let row: u64 = row.iter().map(|(name, value)| of_text(name) + of_text(value)).sum();
        row + self.paths * row.saturating_mul(self.longest).min(MAX_PATH_BYTES as u64)
    }
}
