//! The same plan, found in the plainest way: one task at a time, every job and every node looked
//! at, nothing remembered but how far each shape's search has come. No backlogs.

use crate::event::Placement;
use crate::job::Job;
use crate::load::Usable;
use crate::ready::rank;
use crate::schedule::index::nodes::{ClassAt, NodeAt, NodeTable};
use crate::schedule::needs::{Groups, Need};
use crate::schedule::reserve::{Other, Reservation, most, rooms_at};
use crate::shape::ShapeId;
use crate::state::State;
use crate::usage::Standing;
use shipway_model::limits::MAX_UNSTARTED;
use shipway_model::{JobId, Ordinal, PilotId, Timestamp, UserName};
use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

const MAX_SEARCHES: usize = 4;
const MAX_LOOKED_AT: usize = 64;

#[derive(Default, Clone, Copy)]
struct Cursor {
    class: usize,
    spot: Option<Spot>,
}

#[derive(Clone, Copy)]
struct Spot {
    whole: u32,
    place: usize,
    moved: usize,
}

struct Asking {
    job: JobId,
    user: UserName,
    shape: ShapeId,
    standing: Standing,
}

pub(super) struct Plain<'a> {
    state: &'a State,
    now: Timestamp,
    /// A table and pilots of its own, which each task that is placed really changes.
    after: State,
    standings: BTreeMap<UserName, Standing>,
    given: BTreeMap<JobId, u32>,
    closed: BTreeSet<ShapeId>,
    closed_for: BTreeSet<(UserName, ShapeId)>,
    cursors: BTreeMap<ShapeId, Cursor>,
    moved: BTreeMap<ClassAt, Vec<NodeAt>>,
    reservations: Vec<Reservation>,
    /// The search has come by a node that is kept from this user alone.
    left_to_own: Cell<bool>,
    searches: usize,
    placed: Vec<(NodeAt, Placement)>,
}

/// What goes to which pilot, and for which jobs nodes are kept, from all or from their own users.
pub(super) type Found = (Vec<(PilotId, Vec<Placement>)>, Vec<(JobId, Vec<NodeAt>, bool)>);

/// The plan of a planner that remembers nothing.
pub(super) fn plan(state: &State, now: Timestamp) -> Found {
    let standing = |user: &UserName| (user.clone(), state.fair_share().standing(user, now));
    let mut plain = Plain {
        state,
        now,
        after: state.clone(),
        standings: state.ready().users().keys().map(standing).collect(),
        given: BTreeMap::new(),
        closed: BTreeSet::new(),
        closed_for: BTreeSet::new(),
        cursors: BTreeMap::new(),
        moved: BTreeMap::new(),
        reservations: Vec::new(),
        left_to_own: Cell::new(false),
        searches: 0,
        placed: Vec::new(),
    };
    while let Some(asking) = plain.next() {
        if !plain.place(&asking) {
            plain.close(&asking);
        }
    }
    plain.end()
}

impl Plain<'_> {
    fn table(&self) -> &NodeTable {
        &self.after.planner.nodes
    }
    fn need(&self, shape: ShapeId) -> Need {
        Need::of(self.state.shapes().get(shape), self.table())
    }

    /// The first of the next that are placed together.
    fn task_of(&self, id: JobId, job: &Job) -> Option<Ordinal> {
        let gang = self.state.shapes().get(job.shape).gang;
        let given = self.given.get(&id).copied().unwrap_or(0);
        let task = job.placeable(gang).nth(given as usize)?;
        (job.wants_placing() && (given + 1) * gang.size() <= job.room()).then_some(task)
    }

    /// A place for each that is placed together with this one, or for none.
    fn place(&mut self, asking: &Asking) -> bool {
        let job = self.state.job(asking.job).expect("a job");
        let first = self.task_of(asking.job, job).expect("its turn");
        let need = self.need(asking.shape);
        let before = (self.after.clone(), self.moved.clone(), self.placed.clone());
        let mut last = None;
        for task in need.gang.around(first) {
            self.left_to_own.set(false);
            last = if need.gang.is_one() {
                self.find(asking)
            } else {
                self.find_beside(asking, &need, last)
            };
            let Some(at) = last else {
                (self.after, self.moved, self.placed) = before;
                return false;
            };
            self.put(asking, task, at);
        }
        *self.given.entry(asking.job).or_default() += 1;
        let standing = self.standings.get_mut(&job.owner).expect("a user");
        *standing = standing.with(need.charge_of_gang());
        true
    }

    /// Where the one before is, or the fullest of the first class that has room.
    fn find_beside(&self, asking: &Asking, need: &Need, last: Option<NodeAt>) -> Option<NodeAt> {
        let has_room = |at: &NodeAt| self.has_room(asking, need, *at);
        last.filter(has_room).or_else(|| {
            need.classes.iter().find_map(|(class, _)| {
                let nodes = self.table().class(*class).members.nodes().iter().copied();
                nodes.filter(has_room).min_by_key(|at| self.table().free(*at).whole)
            })
        })
    }

    /// The best job of the user who stands first, of all that may still be placed.
    fn next(&self) -> Option<Asking> {
        let jobs = self.state.jobs().iter();
        let open = jobs.filter(|(id, job)| {
            !self.closed.contains(&job.shape)
                && !self.closed_for.contains(&(job.owner.clone(), job.shape))
                && self.task_of(*id, job).is_some()
        });
        let standing = |job: &Job| self.standings[&job.owner];
        let first = open.min_by(|(a, one), (b, other)| {
            let by_user = standing(one).order(standing(other));
            let by_name = one.owner.cmp(&other.owner);
            by_user.then(by_name).then_with(|| rank(*a, one).cmp(&rank(*b, other)))
        });
        first.map(|(job, of)| Asking {
            job,
            user: of.owner.clone(),
            shape: of.shape,
            standing: standing(of),
        })
    }

    fn has_room(&self, asking: &Asking, need: &Need, at: NodeAt) -> bool {
        let pilot = &self.after.pilots[self.table().pilot(at).expect("a node")];
        let resources = &self.state.shapes().get(asking.shape).resources;
        let is_behind = need.gang.is_one() && pilot.unstarted >= MAX_UNSTARTED;
        if is_behind || pilot.load.lacks(&pilot.ad, resources, Usable::All).is_some() {
            return false;
        }
        let in_the_way = self.in_the_way(asking, need, at);
        if !in_the_way.is_empty() && in_the_way.iter().all(|held| held.behind_own) {
            self.left_to_own.set(true);
        }
        in_the_way.is_empty()
    }

    fn is_of(&self, held: &Reservation, user: &UserName) -> bool {
        self.state.job(held.job).expect("a job").owner == *user
    }

    /// The reservations that keep a node from this one.
    fn in_the_way(&self, asking: &Asking, need: &Need, at: NodeAt) -> Vec<&Reservation> {
        let held = self.reservations.iter();
        let others = held.filter(|held| held.job != asking.job);
        let lets_by = |held: &&Reservation| {
            let Some(kept) = held.at(at) else { return true };
            let is_own = self.is_of(held, &asking.user);
            let other = Other { need, standing: Some(asking.standing), is_own };
            held.lets_by(kept, self.now, &other, self.table().free(at))
        };
        others.filter(|held| !lets_by(held)).collect()
    }

    fn find(&mut self, asking: &Asking) -> Option<NodeAt> {
        let need = self.need(asking.shape);
        let mut cursor = self.cursors.get(&asking.shape).copied().unwrap_or_default();
        let mut found = None;
        while let Some((class, _)) = need.classes.get(cursor.class) {
            let moved = self.moved.get(class).map_or(0, Vec::len);
            let least = if need.is_whole() { need.gpus } else { 0 };
            let mut spot = cursor.spot.unwrap_or(Spot { whole: least, place: 0, moved });
            found = self.find_in(asking, &need, *class, &mut spot);
            if found.is_some() {
                cursor.spot = Some(spot);
                break;
            }
            cursor = Cursor { class: cursor.class + 1, spot: None };
        }
        // What was found out about one user says nothing of the others.
        if !self.left_to_own.get() {
            self.cursors.insert(asking.shape, cursor);
        }
        found
    }

    fn find_in(
        &self,
        asking: &Asking,
        need: &Need,
        class: ClassAt,
        spot: &mut Spot,
    ) -> Option<NodeAt> {
        let nodes = self.table().class(class).members.nodes();
        let whole = |at: NodeAt| self.table().free(at).whole;
        if need.gpus == 0 {
            let mut places = spot.place..nodes.len();
            spot.place = places.find(|place| self.has_room(asking, need, nodes[*place]))?;
            return Some(nodes[spot.place]);
        }
        for (nth, at) in self.moved.get(&class).into_iter().flatten().enumerate().skip(spot.moved) {
            spot.moved = nth;
            if whole(*at) <= spot.whole && self.has_room(asking, need, *at) {
                return Some(*at);
            }
            spot.moved += 1;
        }
        let most = u32::try_from(self.table().class(class).key.gpus()).expect("few");
        while spot.whole <= most {
            for (place, at) in nodes.iter().enumerate().skip(spot.place) {
                spot.place = place;
                if whole(*at) == spot.whole && self.has_room(asking, need, *at) {
                    return Some(*at);
                }
            }
            (spot.whole, spot.place) = (spot.whole + 1, 0);
        }
        None
    }

    fn put(&mut self, asking: &Asking, task: Ordinal, at: NodeAt) {
        let job = self.state.job(asking.job).expect("a job");
        let resources = &self.state.shapes().get(asking.shape).resources;
        let (before, class) = (self.table().free(at).whole, self.table().free(at).class);
        let id = self.table().pilot(at).expect("a node").clone();
        let pilot = self.after.pilots.get_mut(&id).expect("a pilot");
        let devices = pilot.load.choose_devices(&pilot.ad, resources, Usable::All);
        pilot.load.add(resources, &devices);
        pilot.unstarted += 1;
        self.after.planner.nodes.refresh(&id, &self.after.pilots[&id]);
        if self.table().free(at).whole != before {
            self.moved.entry(class).or_default().push(at);
        }
        let task_id = asking.job.task(job.indices.index(task).expect("an index"));
        let attempt = job.tasks.next_attempt(task);
        self.placed.push((at, Placement { task: task_id, attempt, devices }));
    }

    /// It fits nowhere; a node may be kept for it.
    fn close(&mut self, asking: &Asking) {
        if self.left_to_own.get() {
            self.closed_for.insert((asking.user.clone(), asking.shape));
        } else {
            self.closed.insert(asking.shape);
        }
        let need = self.need(asking.shape);
        let waiting = self.state.ready().demand().shapes();
        let least = waiting.map(|shape| self.need(shape).charge).min().unwrap_or(0);
        let held = || self.reservations.iter();
        let own = || held().filter(|held| held.behind_own && self.is_of(held, &asking.user));
        let is_enough = |count: usize| count >= most(self.table().len());
        let from_all = held().filter(|held| !held.behind_own);
        let are_enough = is_enough(from_all.flat_map(Reservation::nodes).count())
            || is_enough(own().count())
            || held().any(|held| held.job == asking.job);
        if least >= need.charge_of_gang() || are_enough || self.searches == MAX_SEARCHES {
            return;
        }
        let taken = |at: &NodeAt| {
            let mut all = held().filter(|held| !held.behind_own).chain(own());
            all.any(|held| held.at(*at).is_some())
        };
        let resources = &self.state.shapes().get(asking.shape).resources;
        let nodes = need.classes.iter().flat_map(|(class, _): &(ClassAt, Groups)| {
            let mut nodes = self.table().class(*class).members.nodes().to_vec();
            nodes.sort_by_key(|at| Reverse(self.table().free(*at).whole));
            nodes.into_iter().take(MAX_LOOKED_AT)
        });
        // When each node has room for one of them, for a second beside it, and so on.
        let rooms = nodes.filter(|at| !taken(at)).flat_map(|at| {
            let pilot = &self.state.pilots()[self.table().pilot(at).expect("a node")];
            let asked = (&asking.user, resources, need.gang.size() as usize);
            let mut rooms = Vec::new();
            let node = (pilot, Usable::All);
            rooms_at(self.state, node, asked, self.now, |room| rooms.push((room, at)));
            rooms
        });
        let (places, asked) = (rooms.collect(), (asking.job, &need, asking.standing));
        let made = Reservation::new(asked, places, self.now);
        self.searches += 1;
        self.reservations.extend(made);
    }

    fn end(mut self) -> Found {
        self.placed.sort_by_key(|(at, _)| *at);
        let mut by_pilot: Vec<(PilotId, Vec<Placement>)> = Vec::new();
        for (at, placement) in std::mem::take(&mut self.placed) {
            let pilot = self.table().pilot(at).expect("a node").clone();
            match by_pilot.last_mut().filter(|(last, _)| *last == pilot) {
                Some((_, placements)) => placements.push(placement),
                None => by_pilot.push((pilot, vec![placement])),
            }
        }
        let held = self.reservations.iter();
        let held = held.map(|held| (held.job, held.nodes().collect(), held.behind_own));
        (by_pilot, held.collect())
    }
}
