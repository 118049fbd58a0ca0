//! What waits, and what sites could still give, taken from the state.
//!
//! Taking it is quick, so that whoever holds the state is soon done with it; which kinds would do
//! for what waits, and matching, are for whoever has the time.

use super::expected::Expected;
use super::known::{Known, Waits};
use super::matching::{Demand, Matched, SiteRoom, Supply, matching};
use super::{Ask, Proposal};
use crate::batch::BatchSite;
use crate::job::Job;
use crate::ranks;
use crate::ready::UserQueue;
use crate::shape::{Pace, Shape, ShapeId};
use crate::site::Phase;
use crate::state::State;
use shipway_model::{AllocationId, Millis, SiteName, Timestamp};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A pilot that waits for longer than this at its batch system may wait for long.
const STUCK_AFTER: Millis = Millis(60_000);
/// What nobody needs is given back only when it has waited for so long: work comes and goes.
const GIVEN_BACK_AFTER: Millis = Millis(30_000);
/// A pilot is worth its start when it has so much to do, where that is known.
const WORTH_A_PILOT: Millis = Millis(30_000);
/// A pilot of a kind of which others died is trusted when it has lived for so long.
const TRUSTED_AFTER: Millis = Millis(10 * 60_000);

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
        let asked = self.kinds.into_iter().zip(matched.asks).filter(|(_, count)| *count > 0);
        let ask = |((site, class), count): ((usize, String), u32)| {
            Some(Ask { site: self.site_names.get(site)?.clone(), class, count })
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

/// What is asked for of one kind, by how it stands.
#[derive(Debug, Default)]
struct Asked {
    /// All that is not over.
    all: u32,
    there: u32,
    coming: u32,
    stuck: u32,
    /// Of those that are there, they have nothing to do.
    idle: u32,
    /// Of what was asked for since the kind may be tried again: those that have not shown yet
    /// whether they live.
    on_trial: u32,
    /// The longest that any has been waiting.
    waits: Millis,
    /// What may be given back, and when it was asked for.
    pending: Vec<(Timestamp, AllocationId)>,
}

/// By the place of the site, and the name of the class.
type AskedOf<'a> = BTreeMap<(usize, &'a str), Asked>;

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
        let Asked { all, there, coming, stuck, idle, on_trial, waits, mut pending } = of_class;
        let is_open = site.is_open(&class.name, now);
        let may_wait = site.spec.most_waiting().saturating_sub(coming + stuck);
        look.supplies.push(Supply {
            site: place,
            model: kind.alike.at(),
            has_gpus: class.gpus.as_ref().is_some_and(|gpus| gpus.count > 0),
            wall: site.spec.longest_task(),
            room: match is_open {
                true if site.is_on_trial(&class.name) => u32::from(on_trial == 0),
                true => class.pilots.saturating_sub(all).min(may_wait),
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
        let most = sites.get(site)?.pilots;
        Some(((site_names.get(site)?.clone(), class), supply.room.min(most)))
    };
    kinds.into_iter().zip(supplies).filter_map(of).collect()
}

fn asked<'a>(state: &'a State, sites: &[SiteName], now: Timestamp) -> AskedOf<'a> {
    let pilots = state.pilots().values();
    let come: BTreeSet<&AllocationId> = pilots.clone().map(|pilot| &pilot.allocation).collect();
    let idle = pilots.filter(|pilot| pilot.takes_work() && pilot.placed.is_empty());
    let idle: BTreeSet<&AllocationId> = idle.map(|pilot| &pilot.allocation).collect();
    let tokens = state.pilot_tokens().values();
    let awaited: BTreeSet<&AllocationId> = tokens.map(|token| &token.allocation).collect();
    let mut found = AskedOf::new();
    for (id, known) in state.allocations().iter().filter(|(_, it)| !it.phase.is_over()) {
        let batch = known.batch.as_deref();
        let site = state.sites().get(&known.site).zip(sites.binary_search(&known.site).ok());
        let (Some(batch), Some((site, place))) = (batch, site) else { continue };
        let asked = found.entry((place, &*batch.class)).or_default();
        asked.all += 1;
        let waits = now.since(batch.asked);
        let has_come = come.contains(id);
        match known.phase {
            Phase::Held => asked.stuck += 1,
            Phase::Asked | Phase::Queued if waits >= STUCK_AFTER => asked.stuck += 1,
            Phase::Asked | Phase::Queued => asked.coming += 1,
            Phase::Running if has_come => {
                asked.there += 1;
                asked.idle += u32::from(idle.contains(id));
            }
            Phase::Running if awaited.contains(id) => asked.coming += 1,
            Phase::Running | Phase::GivenUp | Phase::Ended(_) => {}
        }
        let trouble = site.troubles.get(&batch.class);
        if trouble.is_some_and(|trouble| batch.asked >= trouble.until) {
            let has_lived = has_come && now.since(known.since) >= TRUSTED_AFTER;
            asked.on_trial += u32::from(!has_lived);
        }
        if known.phase.is_pending() {
            asked.waits = asked.waits.max(waits);
            if waits >= GIVEN_BACK_AFTER {
                asked.pending.push((batch.asked, id.clone()));
            }
        }
    }
    found
}

fn room_of(place: usize, site: &BatchSite, asked: &AskedOf<'_>, now: Timestamp) -> SiteRoom {
    let of_site = || asked.range((place, "")..).take_while(move |((at, _), _)| *at == place);
    let all: u32 = of_site().map(|(_, asked)| asked.all).sum();
    let waiting = of_site().map(|(_, asked)| asked.coming + asked.stuck);
    let limits = &site.spec.limits;
    let by_pending = limits.pending.saturating_sub(waiting.sum());
    let by_running = limits.running.saturating_sub(all);
    SiteRoom { pilots: by_pending.min(by_running).min(site.starts_left(now)) }
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
