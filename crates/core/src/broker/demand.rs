//! What waits, and what sites could still give, taken from the state.
//!
//! Taking it is quick, so that whoever holds the state is soon done with it; which kinds would do
//! for what waits, and matching, are for whoever has the time.

use super::asked::{Asked, asked, room_of};
use super::expected::Expected;
use super::known::{Known, Waits};
use super::matching::{Demand, Matched, SiteRoom, Supply, matching};
use super::{Ask, Proposal};
use crate::job::Job;
use crate::ranks;
use crate::ready::UserQueue;
use crate::shape::{Pace, Shape, ShapeId};
use crate::state::State;
use shipway_model::{AllocationId, Millis, SiteName, Timestamp};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A pilot is worth its start when it has so much to do, where that is known.
const WORTH_A_PILOT: Millis = Millis(30_000);

/// What there is to be matched.
#[derive(Debug, Clone, Default)]
pub struct Look {
    expected: Arc<Expected>,
    waiting: Vec<Waiting>,
    /// In order.
    site_names: Vec<SiteName>,
    sites: Vec<SiteRoom>,
    supplies: Vec<Supply>,
    /// What each supply is.
    kinds: Vec<(usize, String)>,
    /// What was asked for of each, that nobody needs if there is too much: the newest first.
    pending: Vec<Vec<AllocationId>>,
}

/// Tasks of one shape.
#[derive(Debug, Clone)]
struct Waiting {
    id: ShapeId,
    shape: Arc<Shape>,
    tasks: u64,
    pace: Pace,
    /// How many of the same user's shapes are worked out before it.
    turn: usize,
}

impl Waits for Waiting {
    fn id(&self) -> ShapeId {
        self.id
    }
    fn shape(&self) -> &Arc<Shape> {
        &self.shape
    }
    fn turn(&self) -> usize {
        self.turn
    }
}

/// Takes what is to be matched from the state; `None` where no site is asked by us.
pub fn look(state: &State, now: Timestamp) -> Option<Look> {
    if state.sites().is_empty() {
        return None;
    }
    let mut look = supplies(state, now);
    let turns = turns(state);
    let of_shape = |(id, tasks): (ShapeId, u64)| {
        let shape = Arc::clone(state.shapes().shared(id)?);
        let (pace, turn) = (state.shapes().pace(id), turns.get(&id).copied().unwrap_or_default());
        (tasks > 0).then_some(Waiting { id, shape, tasks, pace, turn })
    };
    look.waiting = waiting(state, |_| true).into_iter().filter_map(of_shape).collect();
    Some(look)
}

impl Look {
    /// By itself, with nothing known of looks before.
    pub fn propose(self) -> Proposal {
        self.propose_with(&mut Known::default())
    }

    /// What was found out about shapes is kept for the next look, and so much is found out in one:
    /// thousands of one user's requirements keep nobody else's pilots waiting.
    pub fn propose_with(self, known: &mut Known) -> Proposal {
        let matched = self.matched(known);
        let nodes = self.supplies.iter().map(|supply| supply.nodes);
        let asked = self.kinds.into_iter().zip(nodes).zip(matched.asks);
        let asked = asked.filter(|(_, count)| *count > 0);
        let ask = |(((site, class), nodes), count): (((usize, String), u32), u32)| {
            Some(Ask { site: self.site_names.get(site)?.clone(), class, count, nodes })
        };
        let asks = asked.filter_map(ask).collect();
        let surplus = self.pending.into_iter().zip(matched.surplus);
        let surplus = surplus.flat_map(|(pending, count)| pending.into_iter().take(count as usize));
        Proposal { asks, surplus: surplus.collect() }
    }

    fn matched(&self, known: &mut Known) -> Matched {
        known.follow(&self.expected, &self.waiting);
        let demand = |waiting: &Waiting| self.demand(waiting, known.slots(waiting)?);
        let demands: Vec<Demand> = self.waiting.iter().filter_map(demand).collect();
        matching(&demands, &self.supplies, &self.sites)
    }

    /// `None` where no kind of any site would do.
    fn demand(&self, waiting: &Waiting, slots: &[u64]) -> Option<Demand> {
        let Waiting { shape, tasks, pace, .. } = waiting;
        let place = |site: &SiteName| self.site_names.binary_search(site).ok();
        slots.iter().any(|slots| *slots > 0).then(|| Demand {
            tasks: *tasks,
            most_pilots: worth(*pace, *tasks),
            slots: slots.to_vec(),
            wants_gpus: shape.resources.gpu.is_some(),
            kept_from: shape.kept_from.iter().filter_map(place).collect(),
            at_most: shape.at_most,
        })
    }
}

fn supplies(state: &State, now: Timestamp) -> Look {
    let site_names: Vec<SiteName> = state.sites().keys().cloned().collect();
    let mut asked = asked(state, &site_names, now);
    let mut look = Look { expected: Arc::clone(state.expected()), ..Look::default() };
    for (at, site) in state.sites().values().enumerate() {
        look.sites.push(room_of(at, site, &asked, now));
    }
    for kind in state.expected().kinds() {
        let site = state.sites().get(&kind.site);
        let class = site.and_then(|site| site.spec.classes.get(kind.class));
        let (Some(site), Some(class)) = (site, class) else { continue };
        let Ok(place) = site_names.binary_search(&kind.site) else { continue };
        let of_class = asked.remove(&(place, &*class.name)).unwrap_or_default();
        let Asked {
            waiting, nodes, there, coming, stuck, idle, on_trial, waits, mut pending, ..
        } = of_class;
        let is_open = site.is_open(&class.name, now);
        let may_wait = site.spec.most_waiting().saturating_sub(waiting);
        look.supplies.push(Supply {
            site: place,
            model: kind.alike.at(),
            has_gpus: class.gpus.as_ref().is_some_and(|gpus| gpus.count > 0),
            wall: site.spec.longest_task(),
            nodes: class.nodes.get(),
            room: match is_open {
                true if site.is_on_trial(&class.name) => u32::from(on_trial == 0),
                true => (class.pilots.saturating_sub(nodes) / class.nodes).min(may_wait),
                false => 0,
            },
            there,
            // Whoever does not begin on those does not begin on others of the kind either.
            coming: coming + idle,
            stuck,
            cost: class.cost.milli,
            // What waits now for longer than others did knows better.
            wait: waits.max(site.recent_wait(&class.name, now).unwrap_or_default()),
        });
        look.kinds.push((place, class.name.clone()));
        pending.sort();
        look.pending.push(pending.into_iter().rev().map(|(_, allocation)| allocation).collect());
    }
    look.site_names = site_names;
    look
}

/// How many more pilots of each kind could be asked for now, by all limits.
pub fn room(state: &State, now: Timestamp) -> BTreeMap<(SiteName, String), u32> {
    let Look { site_names, sites, supplies, kinds, .. } = supplies(state, now);
    let of = |((site, class), supply): ((usize, String), Supply)| {
        let most = supply.room.min(sites.get(site)?.allocations);
        Some(((site_names.get(site)?.clone(), class), most.saturating_mul(supply.nodes)))
    };
    kinds.into_iter().zip(supplies).filter_map(of).collect()
}

/// How many of its user's shapes stand before each; where several have the same, the least.
fn turns(state: &State) -> BTreeMap<ShapeId, usize> {
    let mut turns = BTreeMap::new();
    for queue in state.ready().users().values() {
        for (at, (shape, _)) in queue.shapes().enumerate() {
            let turn = turns.entry(shape).or_insert(at);
            *turn = at.min(*turn);
        }
    }
    turns
}

/// Tasks that wait with these shapes.
pub(crate) fn waiting(state: &State, is_asked: impl Fn(ShapeId) -> bool) -> BTreeMap<ShapeId, u64> {
    let mut found: BTreeMap<ShapeId, u64> = BTreeMap::new();
    let queues = state.ready().users().values().flat_map(UserQueue::shapes);
    for (shape, ranks) in queues.filter(|(shape, _)| is_asked(*shape)) {
        let of = |rank: &ranks::Rank| match rank.kind() {
            ranks::Kind::Fresh | ranks::Kind::Single => 1,
            ranks::Kind::Array => state.job(rank.job()).map_or(0, placeable),
        };
        let tasks = ranks.pieces().flatten().map(of).sum::<u64>();
        *found.entry(shape).or_default() += tasks;
    }
    found
}

fn placeable(job: &Job) -> u64 {
    let off: u64 =
        job.tasks.backing_off().map(|(first, last, _)| u64::from(last - first) + 1).sum();
    let waiting = u64::from(job.tasks.counts().waiting).saturating_sub(off);
    waiting.min(u64::from(job.room()))
}

/// The pilots that have enough to do, as far as it is known how long such tasks run.
fn worth(pace: Pace, tasks: u64) -> u64 {
    if pace.tasks == 0 {
        return u64::MAX;
    }
    let work = u128::from(pace.mean.0).saturating_mul(u128::from(tasks));
    let pilots = work / u128::from(WORTH_A_PILOT.0);
    u64::try_from(pilots).unwrap_or(u64::MAX).max(1)
}
