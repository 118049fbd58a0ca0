//! The nodes that batch systems would give, as the scheduler would see them: one of each kind.
//!
//! They stand in a table like that of the connected nodes, so that whether a shape could run there
//! is judged by the very same code. Follows from the sites; never stored.

use crate::batch::BatchSite;
use crate::load::Load;
use crate::pilot::{Link, Pilot};
use crate::schedule::index::nodes::{ClassAt, NodeAt, NodeTable};
use shipway_model::{AllocationId, ConnectionNumber, NodeAd, PilotId, SiteClass, SiteName};
use std::collections::{BTreeMap, BTreeSet};

const PREFIX: &str = "expected-";

#[derive(Debug, Clone, Default)]
pub struct Expected {
    table: NodeTable,
    /// The same without their sites: whether tasks fit is judged once for all that are alike.
    alike: NodeTable,
    kinds: Vec<Kind>,
}

/// One kind of pilots of one site.
#[derive(Debug, Clone)]
pub struct Kind {
    pub site: SiteName,
    /// Its place among the classes of the site.
    pub class: usize,
    pub(crate) at: ClassAt,
    /// Its class among those that are told apart by what they have only.
    pub(crate) alike: ClassAt,
    pilot: Pilot,
}

/// All of it follows from the sites, which are compared.
impl PartialEq for Expected {
    fn eq(&self, other: &Expected) -> bool {
        let names = |it: &Expected| -> Vec<(SiteName, usize)> {
            it.kinds.iter().map(|kind| (kind.site.clone(), kind.class)).collect()
        };
        names(self) == names(other)
    }
}

impl Expected {
    pub(crate) fn of(sites: &BTreeMap<SiteName, BatchSite>) -> Expected {
        let (mut table, mut alike) = (NodeTable::default(), NodeTable::default());
        let mut kinds = Vec::new();
        for (site, known) in sites {
            for (class, spec) in known.spec.classes.iter().enumerate() {
                let Some(id) = name(kinds.len()) else { continue };
                let Some(pilot) = pilot_of(site, spec) else { continue };
                table.renew(&id, Some(&pilot));
                alike.renew(&id, Some(&Pilot { site: None, ..pilot.clone() }));
                if let Some((at, alike)) = table.class_of(&id).zip(alike.class_of(&id)) {
                    kinds.push(Kind { site: site.clone(), class, at, alike, pilot });
                }
            }
        }
        Expected { table, alike, kinds }
    }

    /// Everything but which site they are of; that is asked of each site.
    pub(crate) fn alike(&self) -> &NodeTable {
        &self.alike
    }

    pub(crate) fn table(&self) -> &NodeTable {
        &self.table
    }

    /// The pilot that is thought of there.
    pub(crate) fn pilot(&self, at: NodeAt) -> Option<&Pilot> {
        self.named(self.table.pilot(at)?)
    }

    /// The same of what is told apart by what it has only.
    pub(crate) fn alike_pilot(&self, at: NodeAt) -> Option<&Pilot> {
        self.named(self.alike.pilot(at)?)
    }

    fn named(&self, id: &PilotId) -> Option<&Pilot> {
        let number: usize = id.as_str().strip_prefix(PREFIX)?.parse().ok()?;
        self.kinds.get(number).map(|kind| &kind.pilot)
    }

    pub fn kinds(&self) -> &[Kind] {
        &self.kinds
    }
}

fn name(number: usize) -> Option<PilotId> {
    PilotId::new(&format!("{PREFIX}{number}")).ok()
}

/// Connected and empty, with all that its kind says.
fn pilot_of(site: &SiteName, class: &SiteClass) -> Option<Pilot> {
    let ad: NodeAd = class.expected();
    Some(Pilot {
        ad,
        name: None,
        connection: ConnectionNumber(0),
        lease: None,
        allocation: AllocationId::new("expected").ok()?,
        site: Some(site.clone()),
        guests: class.guests,
        until: None,
        folder: None,
        link: Link::Connected,
        leaving: false,
        closed: false,
        load: Load::default(),
        placed: BTreeSet::new(),
        unstarted: 0,
    })
}
