//! Who may be connected: a place for every connection, and who has to go when there is none left.
//!
//! Places are kept by what a connection has shown to be, not only by where it comes from: on one
//! machine everybody comes from the same address. A stranger has shown nothing yet. They have few
//! places and little time, and the oldest of them makes way for the next; so no number of them
//! keeps anybody out. Of those who are signed in nobody has more than a part of the places, some
//! are kept for operators and for pilots, and who is idle makes way. A pilot has a handful of them,
//! whose work is calls that go on: one of a pilot's that is idle makes way for anybody.
//!
//! Only decides and counts; connections are served, and closed, in `serve.rs`.
#![expect(
    clippy::indexing_slicing,
    reason = "kinds of guests are constants, each below the length of the array"
)]

use crate::metrics::{Connections, Left};
use shipway_model::{Actor, May, PilotId, UserName};
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// A stranger has this long before it may have to go for another: more than a client on a busy
/// machine takes to send its first request. So even where strangers come back as fast as they are
/// let go, whoever has a token gets in after those who came before.
const FIRST_WORDS: Duration = Duration::from_millis(250);
/// Whoever has not taken anything of an answer for this long, and waits for nothing, is idle.
const TAKES_NOTHING: Duration = Duration::from_mins(1);
/// Connections of one pilot. It works over one, and those before it may not have been noticed to
/// be broken when it comes again.
const ONE_PILOT: usize = 4;

/// How many places there are, and for whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shares {
    strangers: usize,
    signed_in: usize,
    kept_for_operators: usize,
    kept_for_pilots: usize,
    one_user: usize,
}

impl Shares {
    pub(super) fn of(limit: usize) -> Self {
        // Strangers sign in within milliseconds: few places are enough for many of them.
        let strangers = (limit / 4).clamp(4, 512);
        let signed_in = limit.saturating_sub(strangers).max(4);
        let kept_for_operators = (limit / 16).max(2);
        let kept_for_pilots = (limit / 8).max(2);
        let open = signed_in.saturating_sub(kept_for_operators + kept_for_pilots);
        Shares {
            strangers,
            signed_in,
            kept_for_operators,
            kept_for_pilots,
            one_user: (open / 2).max(2),
        }
    }
}

/// What a connection has shown to be.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Who {
    User(UserName),
    Operator(UserName),
    Pilot(PilotId),
}

/// The kinds that are counted, in the order of the metrics.
const STRANGER: usize = 0;
const USER: usize = 1;
const OPERATOR: usize = 2;
const PILOT: usize = 3;

impl Who {
    fn kind(&self) -> usize {
        match self {
            Who::User(_) => USER,
            Who::Operator(_) => OPERATOR,
            Who::Pilot(_) => PILOT,
        }
    }

    /// Whose connections are counted together: a user's also as an operator.
    fn of(&self) -> Of {
        match self {
            Who::User(user) | Who::Operator(user) => Of::User(user.clone()),
            Who::Pilot(pilot) => Of::Pilot(pilot.clone()),
        }
    }
}

/// One user, or one pilot.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Of {
    User(UserName),
    Pilot(PilotId),
}

impl Of {
    /// As many connections as it may have.
    fn most(&self, shares: &Shares) -> usize {
        match self {
            Of::User(_) => shares.one_user,
            Of::Pilot(_) => ONE_PILOT,
        }
    }

    fn has_most(&self) -> NoPlace {
        match self {
            Of::User(_) => NoPlace::OfThisUser,
            Of::Pilot(_) => NoPlace::OfThisPilot,
        }
    }
}

/// There is no place for it, and nobody who could make way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoPlace {
    /// The user has as many connections as one may have, and all of them are in use.
    OfThisUser,
    OfThisPilot,
    AtAll,
}

#[derive(Debug)]
pub(super) struct Places {
    shares: Shares,
    rooms: Mutex<Rooms>,
    /// Told when somebody has left.
    left: Notify,
    metrics: Arc<Connections>,
    began: Instant,
}

#[derive(Debug, Default)]
struct Rooms {
    next: u64,
    /// In the order of their arrival.
    guests: BTreeMap<u64, Arc<State>>,
    count: [usize; 4],
    of_one: HashMap<Of, usize>,
}

/// One connection, as it is seen from outside and from within.
#[derive(Debug)]
struct State {
    from: IpAddr,
    /// In milliseconds since the listener began.
    arrived: u64,
    who: OnceLock<Who>,
    /// Requests whose answers are not read to their end.
    busy: AtomicUsize,
    /// Of those, the ones that wait for the other side to take what it was given.
    offered: AtomicUsize,
    /// When something last moved, in milliseconds since the listener began.
    moved: AtomicU64,
    /// When a piece of a large answer was handed out that nobody has taken yet; 0: none.
    large_since: AtomicU64,
    /// Told to go.
    going: AtomicBool,
    go: Notify,
}

impl State {
    /// Whether it could go without anybody missing an answer.
    fn is_idle(&self, now: u64) -> bool {
        let busy = self.busy.load(Ordering::Relaxed);
        let waits_for_nobody = self.offered.load(Ordering::Relaxed) >= busy;
        let long = now.saturating_sub(self.moved.load(Ordering::Relaxed)) > millis(TAKES_NOTHING);
        !self.going.load(Ordering::Relaxed) && (busy == 0 || waits_for_nobody && long)
    }

    fn tell_to_go(&self) {
        self.going.store(true, Ordering::Relaxed);
        self.go.notify_one();
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

impl Places {
    pub(super) fn new(limit: usize, metrics: Arc<Connections>) -> Arc<Self> {
        metrics.may_be_open(limit);
        let (rooms, left, began) = (Mutex::default(), Notify::new(), Instant::now());
        Arc::new(Places { shares: Shares::of(limit), rooms, left, metrics, began })
    }

    fn rooms(&self) -> MutexGuard<'_, Rooms> {
        self.rooms.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> u64 {
        millis(self.began.elapsed())
    }

    /// A place for a newcomer. Where strangers have taken theirs, one of them goes: the oldest of
    /// the address that has most. Waits only until one has had its time, or has left.
    pub(super) async fn arrive(self: &Arc<Self>, from: IpAddr) -> Guest {
        loop {
            let left = self.left.notified();
            tokio::pin!(left);
            left.as_mut().enable();
            if let Some(guest) = self.try_arrive(from) {
                return guest;
            }
            let _ = tokio::time::timeout(FIRST_WORDS / 8, left).await;
        }
    }

    fn try_arrive(self: &Arc<Self>, from: IpAddr) -> Option<Guest> {
        let mut rooms = self.rooms();
        if rooms.count[STRANGER] >= 2 * self.shares.strangers {
            return None;
        }
        let now = self.now();
        let staying = rooms.strangers().filter(|stranger| !stranger.is_going()).count();
        if staying >= self.shares.strangers {
            rooms.stranger_to_go(now)?.tell_to_go();
            self.metrics.left(Left::MadeWay);
        }
        let state = Arc::new(State {
            from,
            arrived: now,
            who: OnceLock::new(),
            busy: AtomicUsize::new(0),
            offered: AtomicUsize::new(0),
            moved: AtomicU64::new(now),
            large_since: AtomicU64::new(0),
            going: AtomicBool::new(false),
            go: Notify::new(),
        });
        let id = rooms.next;
        rooms.next += 1;
        rooms.guests.insert(id, Arc::clone(&state));
        rooms.count[STRANGER] += 1;
        self.metrics.open(&rooms.count);
        Some(Guest(Arc::new(Seat { id, state, places: Arc::clone(self) })))
    }

    fn sign_in(&self, state: &State, who: Who) -> Result<(), NoPlace> {
        let mut rooms = self.rooms();
        if state.who.get().is_some() {
            return Ok(());
        }
        let now = self.now();
        let of = who.of();
        let own = |other: &State| other.who.get().is_some_and(|who| who.of() == of);
        if rooms.of_one(&of) >= of.most(&self.shares) {
            rooms.make_way(now, own).ok_or(of.has_most())?;
            self.metrics.left(Left::MadeWay);
        } else if !rooms.has_place(&who, &self.shares) {
            // A pilot that works always has a call under way.
            let pilots = |other: &State| matches!(other.who.get(), Some(Who::Pilot(_)));
            let ordinary = |other: &State| matches!(other.who.get(), Some(Who::User(_)));
            let makes_way = rooms.make_way(now, pilots).or_else(|| rooms.make_way(now, ordinary));
            makes_way.ok_or(NoPlace::AtAll)?;
            self.metrics.left(Left::MadeWay);
        }
        rooms.count[STRANGER] -= 1;
        rooms.count[who.kind()] += 1;
        *rooms.of_one.entry(of).or_default() += 1;
        let _ = state.who.set(who);
        self.metrics.open(&rooms.count);
        Ok(())
    }

    fn leave(&self, id: u64, state: &State) {
        let mut rooms = self.rooms();
        rooms.guests.remove(&id);
        let kind = state.who.get().map_or(STRANGER, Who::kind);
        rooms.count[kind] = rooms.count[kind].saturating_sub(1);
        if let Some(of) = state.who.get().map(Who::of) {
            let left = rooms.of_one.get_mut(&of).map(|count| {
                *count = count.saturating_sub(1);
                *count
            });
            if left == Some(0) {
                rooms.of_one.remove(&of);
            }
        }
        self.metrics.open(&rooms.count);
        drop(rooms);
        self.left.notify_one();
    }
}

impl Rooms {
    fn strangers(&self) -> impl Iterator<Item = &Arc<State>> {
        self.guests.values().filter(|guest| guest.who.get().is_none())
    }

    /// The oldest of the address that most strangers come from, of those who have had their time.
    fn stranger_to_go(&self, now: u64) -> Option<&Arc<State>> {
        let had_time = |stranger: &State| now >= stranger.arrived + millis(FIRST_WORDS);
        let staying = || self.strangers().filter(|one| !one.is_going() && had_time(one));
        let mut addresses: HashMap<IpAddr, usize> = HashMap::new();
        for stranger in staying() {
            *addresses.entry(stranger.from).or_default() += 1;
        }
        let most = addresses.values().copied().max()?;
        staying().find(|stranger| addresses.get(&stranger.from) == Some(&most))
    }

    /// Connections of one user or pilot, those included that were told to go.
    fn of_one(&self, of: &Of) -> usize {
        self.of_one.get(of).copied().unwrap_or_default()
    }

    fn has_place(&self, who: &Who, shares: &Shares) -> bool {
        let signed_in: usize = self.count[USER] + self.count[OPERATOR] + self.count[PILOT];
        let for_operators = shares.kept_for_operators.saturating_sub(self.count[OPERATOR]);
        let for_pilots = shares.kept_for_pilots.saturating_sub(self.count[PILOT]);
        let kept = match who {
            Who::User(_) => for_operators + for_pilots,
            Who::Operator(_) => for_pilots,
            Who::Pilot(_) => for_operators,
        };
        signed_in + kept < shares.signed_in
    }

    /// Tells the one to go that has been idle for longest, of those that may be asked.
    fn make_way(&self, now: u64, may_be: impl Fn(&State) -> bool) -> Option<()> {
        let idle = self.guests.values().filter(|guest| may_be(guest) && guest.is_idle(now));
        let longest = idle.min_by_key(|guest| guest.moved.load(Ordering::Relaxed))?;
        longest.tell_to_go();
        Some(())
    }
}

impl State {
    fn is_going(&self) -> bool {
        self.going.load(Ordering::Relaxed)
    }
}

/// A connection's place, known to the connection and to its requests.
#[derive(Debug, Clone)]
pub(crate) struct Guest(Arc<Seat>);

#[derive(Debug)]
struct Seat {
    id: u64,
    state: Arc<State>,
    places: Arc<Places>,
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.places.leave(self.id, &self.state);
    }
}

impl Guest {
    pub(crate) fn is_person(&self, actor: &Actor) -> Result<(), NoPlace> {
        if !self.is_stranger() {
            return Ok(());
        }
        let user = actor.user.clone();
        let is_operator = actor.may(May::TouchAllJobs);
        let who = if is_operator { Who::Operator(user) } else { Who::User(user) };
        self.0.places.sign_in(&self.0.state, who)
    }

    /// It has shown a token of this pilot's that is good.
    pub(crate) fn is_pilot(&self, pilot: &PilotId) -> Result<(), NoPlace> {
        if !self.is_stranger() {
            return Ok(());
        }
        self.0.places.sign_in(&self.0.state, Who::Pilot(pilot.clone()))
    }

    pub(super) fn is_stranger(&self) -> bool {
        self.0.state.who.get().is_none()
    }

    /// Comes when the place is needed for somebody else.
    pub(super) async fn told_to_go(&self) {
        self.0.state.go.notified().await;
    }

    /// Counts that a stranger stayed for too long.
    pub(super) fn stayed_too_long(&self) {
        self.0.places.metrics.left(Left::NoToken);
    }

    /// Comes when nothing was taken of a large answer for too long.
    pub(super) async fn takes_nothing(&self) {
        loop {
            tokio::time::sleep(TAKES_NOTHING / 2).await;
            let since = self.0.state.large_since.load(Ordering::Relaxed);
            let now = self.0.places.now();
            if since > 0 && now.saturating_sub(since) > millis(TAKES_NOTHING) {
                return self.0.places.metrics.left(Left::TookNothing);
            }
        }
    }

    /// A request has come.
    pub(super) fn ask(&self) -> Request {
        self.0.state.busy.fetch_add(1, Ordering::Relaxed);
        self.moved();
        Request { guest: self.clone(), offered: false, is_large: false }
    }

    fn moved(&self) {
        self.0.state.moved.store(self.0.places.now(), Ordering::Relaxed);
    }
}

/// A request, until its answer is read.
#[derive(Debug)]
pub(super) struct Request {
    guest: Guest,
    offered: bool,
    is_large: bool,
}

impl Request {
    /// It has its answer, which may be a large one.
    pub(super) fn answered(self, is_large: bool) -> Self {
        let mut answered = self;
        answered.is_large = is_large;
        answered
    }

    /// Something of the answer was handed out, and the next is asked for when that is taken.
    pub(super) fn offer(&mut self) {
        if !std::mem::replace(&mut self.offered, true) {
            self.guest.0.state.offered.fetch_add(1, Ordering::Relaxed);
            self.set_large(self.guest.0.places.now().max(1));
        }
    }

    /// It was taken.
    pub(super) fn taken(&mut self) {
        if std::mem::replace(&mut self.offered, false) {
            self.guest.0.state.offered.fetch_sub(1, Ordering::Relaxed);
            self.set_large(0);
            self.guest.moved();
        }
    }

    fn set_large(&self, since: u64) {
        if self.is_large {
            self.guest.0.state.large_since.store(since, Ordering::Relaxed);
        }
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        self.taken();
        self.guest.moved();
        self.guest.0.state.busy.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
#[path = "places_tests.rs"]
mod tests;
