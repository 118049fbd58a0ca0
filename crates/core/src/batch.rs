//! Sites that are batch systems, as the core keeps them: what their operators wrote, how they are,
//! and what they know of allocations.
//!
//! Which pilots are asked of them is `broker/`'s question. Nothing is believed about a batch system
//! but what its own commands said: whoever runs those tells the core what they said and when.

use crate::site::{Allocation, Phase};
use crate::state::State;
use serde::{Deserialize, Serialize};
use shipway_model::reason::ExpectedStart;
use shipway_model::{
    AllocationEnd, AllocationId, EngineTrouble, Millis, NodeName, SiteName, SiteSpec, Timestamp,
    UserName,
};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Sites of one server.
pub const MAX_SITES: usize = 1_000;
/// Allocations that are over and still shown, of each site.
const REMEMBERED_ENDS: usize = 20;
/// What was done to a site and by whom: its beginning, and the last of the others.
const REMEMBERED_CHANGES: usize = 100;
/// Within which starts are counted.
const HOUR: Millis = Millis(3_600_000);
/// How long waits ended ago that still say something of the next one.
const WAITS_KEPT: Millis = Millis(3_600_000);
/// Pilots of a kind whose waits are kept one by one, to be shown; and how long they say anything.
const LAST_WAITS: usize = 5;
const LAST_WAITS_SHOWN: Millis = Millis(24 * 3_600_000);
/// Each counts for a quarter, so that a queue that begins to move is soon found out.
const WAIT_WEIGHT: u64 = 4;
/// After trouble a site is asked nothing for so long, twice as long each time it goes on.
const FIRST_REST: Millis = Millis(5_000);
const LONGEST_REST: Millis = Millis(10 * 60_000);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BatchSite {
    pub spec: Arc<SiteSpec>,
    pub added: Timestamp,
    /// It is asked for nothing more, and its pilots take nothing more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub draining: bool,
    /// By the kind of pilots it is over; that of the site itself under no name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub troubles: BTreeMap<String, Trouble>,
    /// How long pilots waited here lately, by their kind.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub waits: BTreeMap<String, RecentWait>,
    /// How long each of the last few pilots waited that began, by their kind: the newest last.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub last_waits: BTreeMap<String, VecDeque<Waited>>,
    /// When something was asked for, within the last hour.
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    pub asked: VecDeque<Timestamp>,
    /// The newest last.
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    pub ends: VecDeque<PastAllocation>,
    /// When its file was read last.
    #[serde(default, skip_serializing_if = "is_unknown")]
    pub(crate) described: Timestamp,
    /// By the kind of pilots, how the last one differed that had other than was asked for.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub findings: BTreeMap<String, Finding>,
    /// What people did to it, the newest last.
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    pub changes: VecDeque<SiteChange>,
}

/// Snapshots of before it was written down.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_unknown(at: &Timestamp) -> bool {
    at.0 == 0
}

/// A pilot that had other than was asked for: the site's file or the batch system is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    pub at: Timestamp,
    pub node: NodeName,
    /// `asked for 2 GPUs, found 1`
    pub words: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SiteChange {
    pub at: Timestamp,
    /// `None`: from before this was written down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<UserName>,
    pub what: Did,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Did {
    Added,
    /// Described anew.
    Changed,
    Drained,
    Resumed,
}

/// Why nothing is asked of a site for a while.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trouble {
    /// The batch system's own words.
    pub words: String,
    pub kind: EngineTrouble,
    pub since: Timestamp,
    /// It is tried again then.
    pub until: Timestamp,
    /// How often in a row.
    pub times: u32,
}

/// From asking for a pilot to the start of its allocation, as a moving average.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecentWait {
    pub mean: Millis,
    /// When the last one was over: what is old says little.
    pub at: Timestamp,
}

/// One pilot, from asking for it to the start of its allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waited {
    pub time: Millis,
    /// When it began.
    pub at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PastAllocation {
    pub allocation: AllocationId,
    pub class: String,
    pub end: AllocationEnd,
    pub words: String,
    pub at: Timestamp,
}

/// What a batch system knows of an allocation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InBatch {
    /// Which kind of pilot it is for.
    pub class: String,
    /// What the batch system calls it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine_id: Option<String>,
    /// Its own words for how it stands: `PENDING (Resources)`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub words: String,
    pub asked: Timestamp,
    /// With a pilot on each. All of them are held until the batch system says that it is over,
    /// whichever of their pilots have left.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub nodes: u32,
}

fn one() -> u32 {
    1
}
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over references")]
fn is_one(nodes: &u32) -> bool {
    *nodes == 1
}

impl InBatch {
    pub(crate) fn asked(class: String, asked: Timestamp, nodes: u32) -> InBatch {
        InBatch { class, engine_id: None, words: String::new(), asked, nodes }
    }
}

impl BatchSite {
    pub(crate) fn new(spec: SiteSpec, at: Timestamp) -> BatchSite {
        BatchSite {
            spec: Arc::new(spec),
            added: at,
            draining: false,
            troubles: BTreeMap::new(),
            waits: BTreeMap::new(),
            last_waits: BTreeMap::new(),
            asked: VecDeque::new(),
            ends: VecDeque::new(),
            described: at,
            findings: BTreeMap::new(),
            changes: VecDeque::new(),
        }
    }

    /// How it began stays known, however often it is changed.
    pub(crate) fn note(&mut self, at: Timestamp, by: Option<&UserName>, what: Did) {
        if self.changes.len() >= REMEMBERED_CHANGES {
            self.changes.remove(1);
        }
        self.changes.push_back(SiteChange { at, by: by.cloned(), what });
    }

    /// Whether a pilot of this kind may be asked of it now.
    pub fn is_open(&self, class: &str, now: Timestamp) -> bool {
        !self.draining && self.trouble(class).is_none_or(|trouble| trouble.until <= now)
    }

    /// Whether one alone is asked for, to see whether it works now. That pilots died once may be
    /// their node's affair.
    pub fn is_on_trial(&self, class: &str) -> bool {
        let is_again = |it: &Trouble| it.kind != EngineTrouble::Died || it.times > 1;
        self.troubles.get(class).is_some_and(is_again)
    }

    /// Whether a failure of this says more than is known: of what was asked for before the last one
    /// all may fail for the same cause.
    pub(crate) fn is_news(&self, asked: &InBatch) -> bool {
        self.troubles.get(&asked.class).is_none_or(|known| asked.asked >= known.until)
    }

    /// What stands against asking for a pilot of this kind.
    pub fn trouble(&self, class: &str) -> Option<&Trouble> {
        let both = ["", class].into_iter().filter_map(|over| self.troubles.get(over));
        both.max_by_key(|trouble| trouble.until)
    }

    /// Submissions that it still takes in this hour.
    pub fn starts_left(&self, now: Timestamp) -> u32 {
        let recent = self.asked.iter().filter(|at| at.plus(HOUR) > now).count();
        self.spec.limits.starts_per_hour.saturating_sub(u32::try_from(recent).unwrap_or(u32::MAX))
    }

    pub(crate) fn was_asked(&mut self, at: Timestamp) {
        while self.asked.front().is_some_and(|first| first.plus(HOUR) <= at) {
            self.asked.pop_front();
        }
        self.asked.push_back(at);
    }

    /// One has begun, or was given up as nobody needed it any more: then it would have waited for
    /// longer.
    pub(crate) fn has_waited(
        &mut self,
        class: &str,
        waited: Millis,
        has_begun: bool,
        at: Timestamp,
    ) {
        let known = self.waits.get(class).filter(|known| at.since(known.at) < WAITS_KEPT);
        let mean = match known {
            Some(known) if has_begun => {
                let sum = known.mean.0.saturating_mul(WAIT_WEIGHT - 1).saturating_add(waited.0);
                Millis(sum / WAIT_WEIGHT)
            }
            Some(known) => known.mean.max(waited),
            None => waited,
        };
        self.waits.insert(class.to_owned(), RecentWait { mean, at });
        if has_begun {
            let last = self.last_waits.entry(class.to_owned()).or_default();
            if last.len() >= LAST_WAITS {
                last.pop_front();
            }
            last.push_back(Waited { time: waited, at });
        }
    }

    /// How long the last few pilots of this kind waited, of those that began within a day.
    pub(crate) fn last_waits(&self, class: &str, now: Timestamp) -> Option<ExpectedStart> {
        let all = self.last_waits.get(class)?.iter();
        let last = all.filter(|one| now.since(one.at) < LAST_WAITS_SHOWN);
        Some(ExpectedStart::Others {
            pilots: u32::try_from(last.clone().count()).unwrap_or(u32::MAX),
            shortest: last.clone().map(|one| one.time).min()?,
            longest: last.clone().map(|one| one.time).max()?,
            newest: last.map(|one| one.at).max()?,
        })
    }

    /// How long pilots of this kind waited lately; nothing where that is not known, or too long
    /// ago.
    pub fn recent_wait(&self, class: &str, now: Timestamp) -> Option<Millis> {
        let known = self.waits.get(class).filter(|known| now.since(known.at) < WAITS_KEPT);
        known.map(|known| known.mean)
    }

    pub(crate) fn remember(&mut self, past: PastAllocation) {
        if self.ends.len() >= REMEMBERED_ENDS {
            self.ends.pop_front();
        }
        self.ends.push_back(past);
    }

    pub(crate) fn has_trouble(
        &mut self,
        at: Timestamp,
        class: &str,
        words: &str,
        kind: EngineTrouble,
        until: Timestamp,
    ) {
        let before = self.troubles.get(class);
        let since = before.map_or(at, |before| before.since);
        let times = before.map_or(0, |before| before.times).saturating_add(1);
        let trouble = Trouble { words: words.to_owned(), kind, since, until, times };
        self.troubles.insert(class.to_owned(), trouble);
    }

    /// How long it is left alone after one more failure.
    pub(crate) fn rest(&self, class: &str) -> Millis {
        let times = self.troubles.get(class).map_or(0, |trouble| trouble.times).min(16);
        Millis((FIRST_REST.0 << times).min(LONGEST_REST.0))
    }
}

impl State {
    pub fn sites(&self) -> &BTreeMap<SiteName, BatchSite> {
        &self.sites
    }

    /// Allocations of one batch system.
    pub fn allocations_of<'a>(
        &'a self,
        site: &'a SiteName,
    ) -> impl Iterator<Item = (&'a AllocationId, &'a Allocation, &'a InBatch)> + Clone {
        let of_it = self.allocations().iter().filter(move |(_, known)| known.site == *site);
        of_it.filter_map(|(id, known)| Some((id, known, known.batch.as_deref()?)))
    }

    /// Whether it is not known to be given up: then a pilot should have come of it.
    pub(crate) fn is_wanted(&self, allocation: &AllocationId) -> bool {
        let phase = self.allocations().get(allocation).map(|known| known.phase);
        phase.is_some_and(|phase| phase != Phase::GivenUp)
    }

    /// How its batch system says that it ended, while something of it is still to be settled.
    pub(crate) fn end_of(&self, allocation: &AllocationId) -> Option<AllocationEnd> {
        let Phase::Ended(end) = self.allocations().get(allocation)?.phase else { return None };
        Some(end)
    }

    /// Whether what was asked for is over, and nothing of it can still run.
    pub(crate) fn is_certainly_over(&self, allocation: &AllocationId) -> bool {
        self.end_of(allocation).is_some_and(AllocationEnd::is_certain)
    }
}
