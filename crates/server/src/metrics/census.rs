//! Jobs, tasks and nodes in numbers, taken from the state in one look that costs as much as there
//! are pilots, not jobs.

use super::text::{Kind, Text, decimal};
use shipway_core::State;
use shipway_core::pilot::{Link, Pilot};
use shipway_core::totals::{Amount, Totals};
use shipway_model::GpuSource;

const LINKS: [&str; 3] = ["connected", "away", "lost"];

#[derive(Debug, Default)]
pub struct Census {
    totals: Totals,
    placed: u64,
    running: u64,
    /// By link, as in `LINKS`.
    nodes: [Nodes; LINKS.len()],
    users: u64,
}

#[derive(Debug, Default)]
struct Nodes {
    pilots: u64,
    milli_cores: Used,
    memory: Used,
    found: Used,
    declared: Used,
}

/// How much there is, and how much of it is given to tasks.
#[derive(Debug, Default, Clone, Copy)]
struct Used {
    all: u64,
    used: u64,
}

impl Used {
    fn add(&mut self, all: u64, used: u64) {
        self.all = self.all.saturating_add(all);
        self.used = self.used.saturating_add(used);
    }
}

impl Census {
    pub fn take(state: &State) -> Self {
        let mut census = Census {
            totals: state.totals(),
            users: state.users().len() as u64,
            ..Census::default()
        };
        for pilot in state.pilots().values() {
            census.placed += u64::from(pilot.unstarted);
            let [connected, away, lost] = &mut census.nodes;
            let nodes = match pilot.link {
                Link::Connected => connected,
                Link::Away { lost: false, .. } => away,
                Link::Away { lost: true, .. } => lost,
            };
            nodes.add(pilot);
        }
        census.running = (state.active().len() as u64).saturating_sub(census.placed);
        census
    }

    pub(super) fn write(&self, text: &mut Text) {
        let Totals { held, waiting, running } = self.totals;
        let jobs = [("held", held), ("waiting", waiting), ("running", running)];
        text.family("shipway_jobs", Kind::Gauge, "Jobs that are not over, by state.");
        for (state, Amount { jobs, .. }) in jobs {
            text.sample(&[("state", state)], jobs);
        }
        let help = "Tasks that are not over; those of held jobs apart.";
        text.family("shipway_tasks", Kind::Gauge, help);
        let ready = waiting.waiting_tasks + running.waiting_tasks;
        for (state, count) in [
            ("held", held.waiting_tasks),
            ("waiting", ready),
            ("placed", self.placed),
            ("running", self.running),
        ] {
            text.sample(&[("state", state)], count);
        }
        text.family("shipway_pilots", Kind::Gauge, "Pilots, by their connection.");
        for (link, nodes) in LINKS.iter().zip(&self.nodes) {
            text.sample(&[("link", link)], nodes.pilots);
        }
        self.write_nodes(text);
        text.single("shipway_users", Kind::Gauge, "Users known.", self.users);
    }

    fn write_nodes(&self, text: &mut Text) {
        let cores = |nodes: &Nodes| nodes.milli_cores;
        let memory = |nodes: &Nodes| nodes.memory;
        self.by_link(text, "shipway_cores", "Cores of nodes.", 3, cores, |used| used.all);
        let help = "Cores given to tasks.";
        self.by_link(text, "shipway_cores_in_use", help, 3, cores, |used| used.used);
        let help = "Memory of nodes.";
        self.by_link(text, "shipway_memory_bytes", help, 0, memory, |used| used.all);
        let help = "Memory given to tasks.";
        self.by_link(text, "shipway_memory_in_use_bytes", help, 0, memory, |used| used.used);
        let help = "GPUs of nodes; those declared in a file apart.";
        self.gpus(text, "shipway_gpus", help, |used| used.all);
        self.gpus(text, "shipway_gpus_in_use", "GPUs given to tasks, shares as parts.", |used| {
            used.used
        });
    }

    fn by_link(
        &self,
        text: &mut Text,
        name: &'static str,
        help: &str,
        places: u32,
        of: impl Fn(&Nodes) -> Used,
        pick: impl Fn(Used) -> u64,
    ) {
        text.family(name, Kind::Gauge, help);
        for (link, nodes) in LINKS.iter().zip(&self.nodes) {
            text.sample(&[("link", link)], decimal(pick(of(nodes)), places));
        }
    }

    fn gpus(&self, text: &mut Text, name: &'static str, help: &str, pick: fn(Used) -> u64) {
        text.family(name, Kind::Gauge, help);
        for (link, nodes) in LINKS.iter().zip(&self.nodes) {
            for (source, used) in [("found", nodes.found), ("declared", nodes.declared)] {
                text.sample(&[("link", link), ("source", source)], decimal(pick(used), 4));
            }
        }
    }
}

impl Nodes {
    fn add(&mut self, pilot: &Pilot) {
        let (capacity, load) = (&pilot.ad.capacity, &pilot.load);
        self.pilots += 1;
        self.milli_cores.add(capacity.cpus.milli, load.used.amounts.cpus().milli);
        self.memory.add(capacity.memory.0, load.used.amounts.memory().0);
        for device in &pilot.ad.gpus {
            let declared = device.source == GpuSource::Declared;
            let of = if declared { &mut self.declared } else { &mut self.found };
            let used = load.gpus.get(&device.id).map_or(0, |share| share.0);
            of.add(u64::from(shipway_model::GpuShare::WHOLE.0), u64::from(used));
        }
    }
}
