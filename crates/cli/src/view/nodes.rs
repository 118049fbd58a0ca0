//! The nodes, one line each.

use super::View;
use super::paper::{Paper, Tone};
use super::table::{Cell, Table};
use serde::Serialize;
use shipway_api::types::{GpuView, NodeList, NodeView};
use shipway_model::{GpuShare, People};

#[derive(Debug, Serialize)]
#[serde(transparent)]
pub struct NodeTable {
    pub list: NodeList,
}

impl View for NodeTable {
    fn text(&self, paper: &mut Paper) {
        if self.list.nodes.is_empty() {
            return paper.line("no nodes");
        }
        let mut table = Table::new(&[
            "NODE", "SITE", "LINK", "RUNNING", "CPUS", "MEMORY", "GPUS", "APART", "NOTES",
        ]);
        for node in &self.list.nodes {
            table.row(row(node));
        }
        table.write(paper);
    }
}

/// What of these GPUs is given to tasks, parts as parts.
pub fn gpus_used<'a>(gpus: impl IntoIterator<Item = &'a GpuView>) -> GpuShare {
    GpuShare(gpus.into_iter().fold(0, |used, gpu| gpu.used.saturating_add(used)))
}

/// Who supplied it: `hpc (a100)`, `this-machine`.
pub fn supplied(node: &NodeView) -> String {
    let site = node.site.as_ref().map(ToString::to_string).unwrap_or_default();
    node.class.as_ref().map_or_else(|| site.clone(), |class| format!("{site} ({class})"))
}

/// Used of all, for each thing.
fn row(node: &NodeView) -> Vec<Cell> {
    let capacity = &node.ad.capacity;
    let together = matches!(node.ad.people, Some(People::No { .. } | People::Refused { .. }));
    let people = node.ad.people.as_ref().map(People::short).unwrap_or_default();
    let tone = if node.link == "connected" { Tone::Good } else { Tone::Bad };
    vec![
        Cell::from(&node.name),
        supplied(node).into(),
        Cell::toned(&node.link, tone),
        node.running.into(),
        format!("{}/{}", node.used.cpus, capacity.cpus).into(),
        format!("{}/{}", node.used.memory, capacity.memory).into(),
        format!("{}/{}", gpus_used(&node.gpus), node.gpus.len()).into(),
        Cell::toned(people, if together { Tone::Bad } else { Tone::Plain }),
        node.ad.remarks().join("; ").into(),
    ]
}
