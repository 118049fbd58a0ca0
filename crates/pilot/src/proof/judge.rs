//! From facts to checks: what is good enough, and what helps where it is not. Pure.
//!
//! - `judge/node.rs`        folders, clock, room for processes, image source
//! - `judge/containers.rs`  namespaces, overlays, limits, filters
//! - `judge/gpus.rs`        drivers, kernels, what a container sees
//! - `judge/people.rs`      whether people are kept apart

mod containers;
mod gpus;
mod node;
mod people;

use super::Check;
use super::facts::{Facts, NodeFacts, TriedFacts};

/// Every check, in the order in which people should read them.
pub fn judge(facts: &Facts) -> Vec<Check> {
    let mut checks = looked_at(&facts.node);
    checks.extend(tried(&facts.tried));
    checks.push(people::people(&facts.people));
    checks.push(people::pilot(&facts.people, facts.people_now.as_ref()));
    checks.push(node::image_source(facts.image.as_ref()));
    checks
}

/// What a look is enough for.
pub fn looked_at(facts: &NodeFacts) -> Vec<Check> {
    let NodeFacts { work, images, clock, processes, kept, hanging } = facts;
    let kept = kept.iter().map(node::kept).chain(node::hanging(hanging));
    let folders = [node::work_folder(work), node::image_store(images)];
    let rest = [node::clock(clock), node::processes(*processes)];
    folders.into_iter().chain(rest).chain(kept).collect()
}

/// What had to be tried.
pub fn tried(facts: &TriedFacts) -> Vec<Check> {
    let mut checks = containers::checks(&facts.containers);
    checks.extend(gpus::checks(facts, containers::one_started(&facts.containers)));
    checks
}
