//! The panels of nodes and of GPUs.

use super::grid::{Cell, Grid};
use super::style::{Tone, bar};
use crate::top::app::{App, GpuAt};
use crate::view::nodes::gpus_used;
use shipway_api::types::NodeView;
use shipway_model::{GpuShare, GpuSource};

/// From here on there is room for bars and for what a probe could not do.
const ROOMY: u16 = 90;
const BAR: usize = 6;
/// Tasks named on one GPU; more share it than anybody reads.
const TASKS_NAMED: usize = 3;

pub(super) fn nodes(app: &App, width: u16) -> Grid {
    let is_roomy = width >= ROOMY;
    let columns = vec![
        ("NODE", 18),
        ("LINK", 12),
        ("CORES", 20),
        ("MEMORY", 24),
        ("GPUS", 11),
        ("RUNS", 6),
        ("BACKLOG", 7),
        ("NOTES", 0),
    ];
    let rows = app.data.nodes.iter().map(|node| node_row(app, node, is_roomy)).collect();
    let empty = "no nodes (`shipway up` without --no-pilot has one)";
    Grid { columns, rows, selected: Some(app.node), empty }
}

fn node_row(app: &App, node: &NodeView, is_roomy: bool) -> Vec<Cell> {
    let capacity = &node.ad.capacity;
    let tone = if node.link == "connected" { Tone::Good } else { Tone::Bad };
    let link = match node.away_since {
        Some(since) => format!("{} {}", node.link, app.reader.age(since)),
        None => node.link.clone(),
    };
    let with_bar = |text: String, used: u64, all: u64| {
        if is_roomy { format!("{} {text}", bar(used, all, BAR)) } else { text }
    };
    let cores = format!("{}/{}", node.used.cpus, capacity.cpus);
    let memory = format!("{}/{}", node.used.memory, capacity.memory);
    vec![
        Cell::from(&node.name),
        Cell::toned(link, tone),
        with_bar(cores, node.used.cpus.milli, capacity.cpus.milli).into(),
        with_bar(memory, node.used.memory.0, capacity.memory.0).into(),
        format!("{}/{}", gpus_used(&node.gpus), node.gpus.len()).into(),
        node.running.into(),
        node.backlog.into(),
        node.ad.remarks().join("; ").into(),
    ]
}

pub(super) fn gpus(app: &App, width: u16) -> Grid {
    let is_roomy = width >= ROOMY;
    let model = if is_roomy { 40 } else { 22 };
    let mut columns =
        vec![("NODE", 16), ("MODEL", model), ("MEMORY", 8), ("SOURCE", 8), ("USE", 12)];
    if is_roomy {
        columns.push(("ID", 40));
    }
    columns.push(("BY", 0));
    let gpus = app.gpus();
    let rows = gpus.iter().map(|at| gpu_row(*at, is_roomy)).collect();
    Grid { columns, rows, selected: Some(app.gpu), empty: "no GPUs" }
}

fn gpu_row(at: GpuAt<'_>, is_roomy: bool) -> Vec<Cell> {
    let device = &at.gpu.device;
    let slice = device.slice.as_ref().map(|slice| format!(" {slice}")).unwrap_or_default();
    let source = match device.source {
        GpuSource::Nvml => "nvml",
        GpuSource::Sysfs => "sysfs",
        GpuSource::Declared => "declared",
    };
    // Room is scarce, and who sees the model's name knows who makes it.
    let model = device.model.strip_prefix("NVIDIA ").unwrap_or(&device.model);
    let mut cells = vec![
        Cell::from(&at.node.name),
        format!("{model}{slice}").into(),
        device.memory.into(),
        source.into(),
        usage(at),
    ];
    if is_roomy {
        cells.push(Cell::from(&device.id));
    }
    cells.push(holders(at).into());
    cells
}

fn usage(at: GpuAt<'_>) -> Cell {
    let free = GpuShare::WHOLE.0.saturating_sub(at.gpu.used);
    match (at.node.link.as_str(), at.gpu.used) {
        ("connected", 0) => Cell::toned("free", Tone::Good),
        ("connected", _) if free == 0 => Cell::toned("in use", Tone::Busy),
        ("connected", _) => Cell::toned(format!("{} free", GpuShare(free)), Tone::Busy),
        (link, _) => Cell::toned(link, Tone::Bad),
    }
}

/// Who uses it, as far as the server says.
fn holders(at: GpuAt<'_>) -> String {
    let tasks = &at.gpu.tasks;
    let mut named: Vec<String> = tasks.iter().take(TASKS_NAMED).map(ToString::to_string).collect();
    if tasks.len() > TASKS_NAMED {
        named.push(format!("+{}", tasks.len() - TASKS_NAMED));
    }
    match (at.gpu.used, named.is_empty()) {
        (0, _) => "-".into(),
        (_, true) => "others".into(),
        (_, false) => named.join(" "),
    }
}
