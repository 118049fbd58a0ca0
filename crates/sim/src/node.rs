//! One simulated node: what it has, the pilot that lives on it now, and that pilot's processes.

use crate::behaviour::Fate;
use shipway_model::{
    AttemptId, Bytes, Capacity, Cores, DeviceId, GpuDevice, GpuSource, GpuVendor, Held, Millis,
    NodeAd, NodeName, PilotId, SiteClass,
};
use shipway_pilot::machine::{Identity, Lent, Machine};
use std::collections::BTreeMap;

#[derive(Debug)]
pub struct Node {
    pub ad: NodeAd,
    pub lease: Option<Millis>,
    /// Of a batch system: who comes there, once, and for how long.
    pub lent: Option<(PilotId, Lent)>,
    pub pilot: Option<Pilot>,
    /// Ends that a killed pilot left word of.
    pub left: Vec<Held>,
    /// Pilots that lived here before.
    pub earlier: Vec<PilotId>,
    /// Nothing gets through before this time.
    pub cut_until: u64,
    /// Processes of a killed pilot may linger until this time; no other pilot starts before.
    pub clean_at: u64,
}

#[derive(Debug)]
pub struct Pilot {
    pub id: PilotId,
    pub machine: Machine,
    /// The connection it uses.
    pub connection: Option<u64>,
    pub processes: BTreeMap<AttemptId, Process>,
    pub tick_at: Option<u64>,
}

#[derive(Debug)]
pub struct Process {
    pub fate: Fate,
    pub stubborn: bool,
    /// Confirmed to its pilot.
    pub confirmed: bool,
    /// Tells the exit that counts from those that were overtaken by a signal.
    pub version: u64,
}

/// What to build a node from.
#[derive(Debug, Clone)]
pub struct Kind {
    pub cpus: u64,
    pub memory: Bytes,
    pub gpus: u32,
    pub model: &'static str,
    pub gpu_memory: Bytes,
    pub licences: u64,
}

impl Kind {
    pub const fn plain(cpus: u64, gigabytes: u64) -> Kind {
        Kind {
            cpus,
            memory: Bytes(gigabytes * 1_000_000_000),
            gpus: 0,
            model: "",
            gpu_memory: Bytes(0),
            licences: 0,
        }
    }
}

impl Node {
    pub fn new(name: &str, kind: &Kind, lease: Option<Millis>) -> Node {
        let device = |at: u32| GpuDevice {
            id: DeviceId::new(&format!("{name}-gpu{at}")).expect("a plain name"),
            model: kind.model.to_string(),
            memory: kind.gpu_memory,
            vendor: GpuVendor::Nvidia,
            source: GpuSource::Declared,
            capability: None,
            driver: None,
            slice: None,
        };
        let licences = Some(("licence".to_string(), kind.licences)).filter(|(_, n)| *n > 0);
        let mut capacity = Capacity {
            cpus: Cores::whole(kind.cpus),
            memory: kind.memory,
            disk: Bytes(100_000_000_000),
            ..Capacity::default()
        };
        capacity.named.extend(licences);
        let ad = NodeAd {
            node: NodeName::new(name).expect("a plain name"),
            capacity,
            gpus: (0..kind.gpus).map(device).collect(),
            notes: Vec::new(),
            unfit: Vec::new(),
            withheld: Vec::new(),
            people: None,
            attributes: BTreeMap::new(),
        };
        let (pilot, earlier, left) = (None, Vec::new(), Vec::new());
        Node { ad, lease, lent: None, pilot, left, earlier, cut_until: 0, clean_at: 0 }
    }

    /// One that a batch system gives, with all that its class says.
    pub fn lent(name: &str, class: &SiteClass, pilot: &PilotId, lent: Lent, lease: Millis) -> Node {
        let plain = Node::new(name, &Kind::plain(1, 1), Some(lease));
        let mut ad = NodeAd { node: plain.ad.node.clone(), ..class.expected() };
        for (at, gpu) in ad.gpus.iter_mut().enumerate() {
            gpu.id = DeviceId::new(&format!("{name}-gpu{at}")).expect("a plain name");
        }
        Node { ad, lent: Some((pilot.clone(), lent)), ..plain }
    }

    /// A new pilot takes over; it has seen that nothing of the earlier ones lives.
    pub fn start_pilot(&mut self) -> PilotId {
        let text = format!("{}.{}", self.ad.node, self.earlier.len() + 1);
        let own = || PilotId::new(&text).expect("a plain name");
        let id = self.lent.as_ref().map_or_else(own, |(pilot, _)| pilot.clone());
        let machine = Machine::new(Identity {
            pilot: id.clone(),
            version: "sim".into(),
            ad: self.ad.clone(),
            lease: self.lease,
            folder_key: format!("folder of {}", self.ad.node),
        });
        let mut machine = machine.with_left(self.left.clone());
        if let Some((_, lent)) = &self.lent {
            machine = machine.lent(*lent);
        }
        self.pilot = Some(Pilot {
            id: id.clone(),
            machine,
            connection: None,
            processes: BTreeMap::new(),
            tick_at: None,
        });
        self.earlier.push(id.clone());
        id
    }

    /// Tells happenings meant for this pilot from those meant for one before it.
    pub fn life(&self) -> usize {
        self.earlier.len()
    }
}
