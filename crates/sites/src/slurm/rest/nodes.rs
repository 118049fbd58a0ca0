//! What slurmrestd says of nodes and partitions, alike nodes of a partition together. Before
//! v0.0.39 it does not say what a node keeps for itself.

use super::super::nodes::{Kind, Kinds};
use super::shapes::{Number, Told, Words, rows};
use crate::batch::EngineNodes;
use serde::Deserialize;
use shipway_model::Millis;
use std::collections::BTreeMap;
use std::io::Read;

/// More than any cluster has. Of what is longer nothing is believed.
const MAX_NODES: usize = 200_000;
const MAX_PARTITIONS: usize = 10_000;
const MINUTE: u64 = 60_000;

/// A node as it is said; kept whole until its partitions are known.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Node {
    name: Words,
    state: Words,
    /// v0.0.38 has them apart.
    state_flags: Words,
    cpus: Number,
    effective_cpus: Number,
    real_memory: Number,
    specialized_memory: Number,
    gres: Words,
    features: Words,
    reason: Words,
    partitions: Words,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
#[expect(clippy::struct_field_names, reason = "slurmrestd's own names")]
struct Partition {
    name: Words,
    /// v0.0.38 has both here, later versions below.
    state: Words,
    max_time_limit: Number,
    partition: Within,
    maximums: Maximums,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Within {
    state: Words,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Maximums {
    time: Number,
}

/// Whether a partition takes jobs, and how long they may be.
#[derive(Debug)]
pub(super) struct Terms {
    open: String,
    limit: Option<Millis>,
}

pub(super) type Partitions = BTreeMap<String, Terms>;

pub(super) fn partitions(from: impl Read) -> Result<(Partitions, Told), serde_json::Error> {
    let mut all = Partitions::new();
    let told = rows(from, "partitions", |one: Partition| {
        let state = if one.state.0.is_empty() { one.partition.state } else { one.state };
        let minutes = one.max_time_limit.0.or(one.maximums.time.0);
        let limit = minutes.and_then(|minutes| minutes.checked_mul(MINUTE)).map(Millis);
        let terms = Terms { open: state.text().to_ascii_lowercase(), limit };
        all.insert(one.name.text(), terms);
        at_most(all.len(), MAX_PARTITIONS, "partitions")
    })?;
    Ok((all, told))
}

pub(super) fn nodes(from: impl Read) -> Result<(Vec<Node>, Told), serde_json::Error> {
    let mut all = Vec::new();
    let told = rows(from, "nodes", |node: Node| {
        all.push(node);
        at_most(all.len(), MAX_NODES, "nodes")
    })?;
    Ok((all, told))
}

fn at_most(count: usize, most: usize, what: &str) -> Result<(), String> {
    if count > most { Err(format!("more than {most} {what}")) } else { Ok(()) }
}

/// A partition that is not listed is hidden from the account, which cannot use it.
pub(super) fn together(nodes: &[Node], partitions: &Partitions) -> Vec<EngineNodes> {
    let texts: Vec<Texts<'_>> = nodes.iter().map(Texts::of).collect();
    let mut kinds = Kinds::default();
    for texts in &texts {
        let node = texts.node;
        let (Some(cpus), Some(memory)) = (node.cpus.0, node.real_memory.0) else { continue };
        let usable = node.effective_cpus.0.filter(|usable| *usable > 0);
        let cpus = usable.map_or(cpus, |usable| usable.min(cpus));
        let memory_mib = memory.saturating_sub(node.specialized_memory.0.unwrap_or(0));
        for partition in texts.partitions() {
            let Some(terms) = partitions.get(partition) else { continue };
            let (gres, features, limit) =
                (texts.gres.as_str(), texts.features.as_str(), terms.limit);
            let kind = Kind { partition, cpus, memory_mib, gres, features, limit };
            kinds.add(kind, &texts.name, (&terms.open, &texts.state), &texts.reason);
        }
    }
    kinds.all()
}

/// What is compared and shown of a node.
struct Texts<'a> {
    node: &'a Node,
    name: String,
    state: String,
    gres: String,
    features: String,
    reason: String,
}

impl<'a> Texts<'a> {
    fn of(node: &'a Node) -> Texts<'a> {
        let states: Vec<String> = node.state.0.iter().chain(&node.state_flags.0).cloned().collect();
        Texts {
            node,
            name: node.name.text(),
            state: states.join("+").to_ascii_lowercase(),
            gres: node.gres.text(),
            features: node.features.text(),
            // Whatever lines people wrote: `sinfo` has the first.
            reason: node.reason.text().lines().next().unwrap_or_default().to_owned(),
        }
    }

    fn partitions(&self) -> impl Iterator<Item = &'a str> {
        self.node.partitions.0.iter().flat_map(|names| names.split(','))
    }
}

#[cfg(test)]
mod tests;
