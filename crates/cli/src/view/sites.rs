//! Sites: the list, one in full, and what became of one.

use super::View;
use super::paper::{Paper, Tone};
use super::table::{Cell, Table};
use super::time::Reader;
use serde::Serialize;
use shipway_api::types::{AllocationView, RemovedSite, SiteList, SiteNodesView, SiteView};
use shipway_model::{NodeName, SiteSpec};

/// Allocations that are over, in `show`.
const ENDED_SHOWN: usize = 5;
/// Nodes of one allocation that are named.
const NODES_SHOWN: usize = 4;

#[derive(Debug, Serialize)]
#[serde(transparent)]
pub struct SiteTable {
    pub list: SiteList,
}

impl View for SiteTable {
    fn text(&self, paper: &mut Paper) {
        if self.list.sites.is_empty() {
            return paper.line("no sites but this machine (`shipway site add FILE`)");
        }
        let mut table = Table::new(&["SITE", "KIND", "STATE", "PENDING", "RUNNING", "CLASSES"]);
        for site in &self.list.sites {
            let sum = |of: fn(&shipway_api::types::SiteClassView) -> u32| -> u32 {
                site.classes.iter().map(of).sum()
            };
            let names: Vec<&str> = site.classes.iter().map(|class| &*class.name).collect();
            table.row(vec![
                Cell::from(&site.name),
                site.kind.into(),
                Cell::toned(&site.state, tone(&site.state)),
                sum(|class| class.pending).into(),
                sum(|class| class.running).into(),
                names.join(", ").into(),
            ]);
        }
        table.write(paper);
    }
}

fn tone(state: &str) -> Tone {
    if state == "open" { Tone::Plain } else { Tone::Bad }
}

#[derive(Debug, Serialize)]
#[serde(transparent)]
pub struct SiteChanged {
    pub site: SiteView,
    #[serde(skip)]
    pub became: &'static str,
}

impl View for SiteChanged {
    fn text(&self, paper: &mut Paper) {
        paper.line(&format!("site {} {}", self.site.name, self.became));
    }
}

#[derive(Debug, Serialize)]
#[serde(transparent)]
pub struct SiteRemoved {
    pub removed: RemovedSite,
}

impl View for SiteRemoved {
    fn text(&self, paper: &mut Paper) {
        paper.line(&format!("site {} is removed", self.removed.removed));
    }
}

#[derive(Debug, Serialize)]
#[serde(transparent)]
pub struct SiteChecked {
    pub spec: SiteSpec,
}

impl View for SiteChecked {
    fn text(&self, paper: &mut Paper) {
        let SiteSpec { name, kind, classes, .. } = &self.spec;
        paper.line(&format!("the file of site {name} ({kind}) is in order; nothing was asked"));
        for class in classes {
            let gpus = class.gpus.as_ref();
            let gpus = gpus.map_or("no GPU".into(), |it| format!("{} × {}", it.count, it.model));
            let (name, pilots) = (&class.name, class.pilots);
            let (cpus, memory) = (class.cpus, class.memory);
            let together = together(class.nodes.get());
            paper.line(&format!(
                "  {name}: at most {pilots} pilots with {cpus} cores, {memory}, {gpus}{together}"
            ));
        }
    }
}

#[derive(Debug, Serialize)]
#[serde(transparent)]
pub struct SiteShown {
    pub site: SiteView,
    #[serde(skip)]
    pub reader: Reader,
}

impl View for SiteShown {
    fn text(&self, paper: &mut Paper) {
        let site = &self.site;
        paper.write(Tone::Strong, &format!("Site {}", site.name));
        paper.write(Tone::Plain, &format!(" ({}) is ", site.kind));
        paper.write(tone(&site.state), &site.state);
        paper.end_line();
        for trouble in &site.troubles {
            let about = match trouble.class.as_str() {
                "" => String::new(),
                class => format!(" ({class})"),
            };
            let (kind, words) = (trouble.kind, &trouble.words);
            let next = self.reader.moment(trouble.until);
            paper.write(Tone::Bad, &format!("  {kind}{about}: {words}"));
            paper.line(&format!("; tried again {next}"));
        }
        for found in &site.findings {
            let (class, node, words) = (&found.class, &found.node, &found.words);
            let when = self.reader.moment_and_age(found.at);
            paper.write(Tone::Bad, &format!("  {class}, on node {node}: {words}"));
            paper.line(&format!(
                "; seen {when}: mend the site's file (`site add` it again) or the batch system"
            ));
        }
        if let Some(heard) = site.heard {
            paper.line(&format!("  {} last answered {} ago", site.kind, self.reader.age(heard)));
        }
        self.for_jobs(paper);
        self.classes(paper);
        self.allocations(paper);
        if let Some(nodes) = &site.nodes {
            self.nodes(paper, nodes);
        }
        self.changes(paper);
    }
}

/// How many pilots come at a time, where it is not each for itself.
fn together(nodes: u32) -> String {
    if nodes == 1 { String::new() } else { format!(", {nodes} nodes in an allocation") }
}

/// `n1, n2 and 6 more (8 of 16)`
fn nodes(one: &AllocationView) -> String {
    let names: Vec<&str> = one.nodes.iter().take(NODES_SHOWN).map(NodeName::as_str).collect();
    let more = match one.nodes.len().saturating_sub(names.len()) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let there = match one.nodes.len() {
        there if there == one.pilots as usize || one.pilots == 1 => String::new(),
        there => format!(" ({there} of {})", one.pilots),
    };
    format!("{}{more}{there}", names.join(", ")).trim_start().to_owned()
}

impl SiteShown {
    /// What decides whether a job may go there.
    fn for_jobs(&self, paper: &mut Paper) {
        let SiteView { wall, shared, tags, required_tags, .. } = &self.site;
        paper.line(&format!("  pilots are asked for {wall}"));
        for (what, words) in [
            ("shares", shared),
            ("has the tags", tags),
            ("only for jobs that ask for the tags", required_tags),
        ] {
            if !words.is_empty() {
                paper.line(&format!("  {what} {}", words.join(", ")));
            }
        }
    }

    fn classes(&self, paper: &mut Paper) {
        paper.end_line();
        let mut table = Table::new(&["CLASS", "PENDING", "RUNNING", "AT MOST", "EACH WITH"]);
        for class in &self.site.classes {
            table.row(vec![
                Cell::from(&class.name),
                class.pending.into(),
                class.running.into(),
                class.most.into(),
                format!("{}{}", class.has, together(class.nodes)).into(),
            ]);
        }
        table.write(paper);
    }

    fn allocations(&self, paper: &mut Paper) {
        let heading = ["ALLOCATION", "CLASS", "STATE", "SINCE", "THERE", "NODES", "ITS WORDS"];
        let mut table = Table::new(&heading);
        for one in &self.site.allocations {
            table.row(vec![
                Cell::from(&one.allocation),
                Cell::from(&one.class),
                Cell::from(&one.phase),
                self.reader.age(one.since).into(),
                one.engine_id.as_deref().unwrap_or("").into(),
                nodes(one).into(),
                Cell::from(&one.words),
            ]);
        }
        for past in self.site.ended.iter().rev().take(ENDED_SHOWN) {
            table.row(vec![
                Cell::from(&past.allocation),
                Cell::from(&past.class),
                past.end.into(),
                self.reader.age(past.at).into(),
                "".into(),
                "".into(),
                Cell::from(&past.words),
            ]);
        }
        if !table.is_empty() {
            paper.end_line();
            table.write(paper);
        }
    }

    fn changes(&self, paper: &mut Paper) {
        let mut table = Table::new(&["DONE", "BY", "AT"]);
        for change in &self.site.changes {
            let by = change.by.as_ref().map_or_else(|| "?".into(), ToString::to_string);
            let at = self.reader.moment(change.at);
            table.row(vec![Cell::from(&change.what), by.into(), at.into()]);
        }
        if !table.is_empty() {
            paper.end_line();
            table.write(paper);
        }
    }

    fn nodes(&self, paper: &mut Paper, nodes: &SiteNodesView) {
        paper.end_line();
        paper.line(&format!("Its nodes, as it said {}:", self.reader.age(nodes.seen)));
        let mut table = Table::new(&["PARTITION", "NODES", "UP", "IDLE", "EACH WITH"]);
        for group in &nodes.groups {
            table.row(vec![
                group.partition.as_deref().unwrap_or("").into(),
                group.count.into(),
                group.up.into(),
                group.idle.into(),
                Cell::from(&group.has),
            ]);
        }
        table.write(paper);
        for down in nodes.groups.iter().flat_map(|group| &group.down) {
            paper.line(&format!("  not up: {down}"));
        }
    }
}
