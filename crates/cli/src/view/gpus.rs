//! The GPUs there are, what of each is free, and what a request would find; then those that batch
//! systems would give.

use super::View;
use super::paper::{Paper, Tone};
use super::site_gpus;
use super::table::{Cell, Table};
use super::time::Reader;
use serde::Serialize;
use shipway_api::types::SiteGpus;
use shipway_model::{GpuDevice, GpuRequest, GpuShare, GpuSource, GpuVendor, NodeName, Withheld};

/// What a request would find in a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Match {
    /// It fits, and what is wanted of it is free.
    Now,
    /// It fits and is in use, or its node is out of touch.
    Later,
    No,
}

#[derive(Debug, Serialize)]
pub struct GpuRow {
    pub node: NodeName,
    pub device: GpuDevice,
    /// Ten-thousandths that are free.
    pub free: u32,
    #[serde(rename = "match", skip_serializing_if = "Option::is_none")]
    pub matched: Option<Match>,
}

#[derive(Debug, Serialize)]
pub struct GpuTable {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<GpuRequest>,
    /// Nodes that have enough matching devices, and those that have them free.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes_that_could: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes_that_can_now: Option<usize>,
    pub gpus: Vec<GpuRow>,
    /// Those that are there and are not offered.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub withheld: Vec<WithheldRow>,
    /// Of pilots that batch systems would give.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sites: Vec<SiteGpus>,
    #[serde(skip)]
    pub reader: Reader,
}

#[derive(Debug, Serialize)]
pub struct WithheldRow {
    pub node: NodeName,
    #[serde(flatten)]
    pub held: Withheld,
}

impl View for GpuTable {
    fn text(&self, paper: &mut Paper) {
        self.of_nodes(paper);
        self.remarks(paper);
        site_gpus::write(paper, &self.sites, &self.reader);
        self.sentence(paper);
    }
}

impl GpuTable {
    fn of_nodes(&self, paper: &mut Paper) {
        if self.gpus.is_empty() {
            let here =
                if self.sites.is_empty() { "no GPUs" } else { "no node that is there has GPUs" };
            return paper.line(here);
        }
        let mut heading =
            vec!["NODE", "MODEL", "MEMORY", "CAPABILITY", "DRIVER", "SOURCE", "FREE", "ID"];
        if self.request.is_some() {
            heading.push("MATCH");
        }
        let mut table = Table::new(&heading);
        for gpu in &self.gpus {
            let mut cells = row(gpu);
            cells.extend(gpu.matched.map(match_cell));
            table.row(cells);
        }
        table.write(paper);
    }

    fn remarks(&self, paper: &mut Paper) {
        if !self.withheld.is_empty() {
            paper.end_line();
        }
        for WithheldRow { node, held } in &self.withheld {
            let model = &held.gpu.model;
            paper.write(Tone::Bad, &format!("not offered: {model} of {node}: {held}"));
            paper.end_line();
        }
    }

    fn sentence(&self, paper: &mut Paper) {
        let (Some(request), Some(could), Some(now)) =
            (&self.request, self.nodes_that_could, self.nodes_that_can_now)
        else {
            return;
        };
        if self.gpus.is_empty() && self.sites.is_empty() {
            return;
        }
        paper.end_line();
        let nodes =
            |count: usize| if count == 1 { "1 node".into() } else { format!("{count} nodes") };
        let here = match (could, now) {
            (0, _) => "no node has that".to_owned(),
            (could, 0) => format!("{} could, none now", nodes(could)),
            (could, now) => format!("{} could, {now} now", nodes(could)),
        };
        let at_sites = site_gpus::sentence(&self.sites);
        let at_sites = at_sites.map(|said| format!("; {said}")).unwrap_or_default();
        paper.line(&format!("{request}: {here}{at_sites}"));
    }
}

fn row(gpu: &GpuRow) -> Vec<Cell> {
    let device = &gpu.device;
    let or_dash = |version: &Option<shipway_model::gpu::Version>| {
        version.as_ref().map_or_else(|| Cell::from("-"), Cell::from)
    };
    let model = match &device.slice {
        Some(slice) => format!("{} {slice}", device.model),
        None => device.model.clone(),
    };
    let vendor = match device.vendor {
        GpuVendor::Nvidia => "",
        GpuVendor::Amd => "amd ",
        GpuVendor::Intel => "intel ",
    };
    let (source, tone) = match device.source {
        GpuSource::Nvml => ("nvml", Tone::Plain),
        GpuSource::Sysfs => ("sysfs", Tone::Plain),
        GpuSource::Declared => ("declared", Tone::Strong),
    };
    vec![
        Cell::from(&gpu.node),
        format!("{vendor}{model}").into(),
        device.memory.into(),
        or_dash(&device.capability),
        or_dash(&device.driver),
        Cell::toned(source, tone),
        GpuShare(gpu.free).into(),
        Cell::from(&device.id),
    ]
}

fn match_cell(matched: Match) -> Cell {
    match matched {
        Match::Now => Cell::toned("now", Tone::Good),
        Match::Later => Cell::toned("later", Tone::Plain),
        Match::No => Cell::toned("no", Tone::Faint),
    }
}
