//! What a fact does to the state. Cannot fail and decides nothing: the same for a fresh event, a
//! restart and a replay.

mod sites;

use crate::event::{AttemptEnded, Event, Joined, Part, Placement, Submitted, Verdict, Which};
use crate::guests;
use crate::job::{Job, JobRecord, Terms};
use crate::keys::{KeyDigest, UsedKey};
use crate::load::Load;
use crate::ordinals::Ordinals;
use crate::pilot::{Active, Link, Pilot};
use crate::shape::Shape;
use crate::site::{Allocation, Phase, PilotToken, REMEMBERED_FOLDERS, SiteKind};
use crate::state::State;
use crate::task_table::TaskTable;
use crate::usage::charge;
use crate::weight;
use shipway_model::{
    After, AllocationId, Attempt, IndexSet, JobId, NodeAd, Ordinal, PilotId, TaskId, TaskState,
    Timestamp, Usage, UserName,
};

pub fn evolve(state: &mut State, at: Timestamp, event: &Event) {
    state.at = state.at.max(at);
    match event {
        Event::ServerStarted => {
            for (id, pilot) in &mut state.pilots {
                pilot.link = Link::Away { since: at, lost: false };
                state.planner.nodes.renew(id, None);
            }
        }
        Event::JobSubmitted(submitted) => submit(state, at, submitted),
        Event::DependencyMet { job, on } => dependency_met(state, *job, *on),
        Event::TasksPlaced { parts } => parts.iter().for_each(|part| place(state, at, part)),
        Event::AttemptsStarted { tasks } => {
            for (task, _, started) in tasks {
                start(state, *task, *started);
            }
        }
        Event::AttemptsUsed { tasks } => used(state, tasks),
        Event::AttemptEnded(ended) => attempt_ended(state, at, ended),
        Event::TasksReady { tasks } => tasks.iter().for_each(|task| ready(state, *task)),
        Event::TasksCancelled { job, which, .. } => cancel(state, *job, which),
        Event::StopRequested { tasks, why } => {
            for task in tasks {
                if let Some(active) = state.active.get_mut(task) {
                    active.stopping = Some(*why);
                }
            }
        }
        Event::TasksRequeued { job, tasks } => requeue(state, *job, tasks),
        Event::JobEnded { job, .. } => job_ended(state, at, *job),
        Event::JobRevived { record } => revive(state, record),
        Event::JobsArchived { jobs } => jobs.iter().for_each(|job| forget(state, *job)),
        Event::PilotJoined(joined) => join(state, at, joined),
        Event::PilotAway { pilot } => change_pilot(state, pilot, |it| it.link = away_since(at)),
        Event::PilotChanged { pilot, ad } => describe(state, pilot, ad),
        Event::PilotLeaving { pilot } => change_pilot(state, pilot, |pilot| pilot.leaving = true),
        Event::PilotLost { pilot } => {
            if let Some(Pilot { link: Link::Away { lost, .. }, .. }) = state.pilots.get_mut(pilot) {
                *lost = true;
            }
        }
        Event::PilotEnded { pilot } => pilot_ended(state, at, pilot),
        Event::UserAdded { user, role, number } => state.users.add(user.clone(), *role, *number),
        Event::UserRemoved { user, before } => remove_user(state, at, user, *before),
        Event::JobsGiven { jobs, to, since } => give(state, at, jobs, to, *since),
        Event::TokenIssued { token } => {
            state.tokens.insert(token.id.clone(), token.clone());
        }
        Event::TokenRevoked { id } => {
            state.tokens.remove(id);
        }
        Event::TokensExpired { before } => {
            state.tokens.retain(|_, token| token.expires >= *before);
        }
        Event::AllocationAsked { .. }
        | Event::AllocationChanged { .. }
        | Event::SiteAdded { .. }
        | Event::SiteRemoved { .. }
        | Event::SiteDrained { .. }
        | Event::SiteTroubled { .. }
        | Event::SiteReached { .. }
        | Event::SiteDiffers { .. } => sites::evolve(state, at, event),
        Event::PilotTokenEnded { pilot } => end_token(state, pilot),
        Event::KeysExpired { before } => state.keys.expire(*before),
        Event::HalfLifeSet { half_life } => state.fair_share.set_half_life(at, *half_life),
        Event::ShareSet { user, share } => state.fair_share.set_share(user, at, *share),
    }
}

fn submit(state: &mut State, at: Timestamp, submitted: &Submitted) {
    let spec = &submitted.spec;
    let id = submitted.job;
    let indices = spec.indices().unwrap_or_else(IndexSet::single);
    let waits = spec.after.iter().filter(|after| !submitted.met.contains(&after.job));
    let terms = Terms::of(spec);
    let shape = Shape::of(spec, &submitted.owner, submitted.gang);
    let shape = state.at_sites(shape, &submitted.owner, &terms);
    let job = Job {
        owner: state.fair_share.name(&submitted.owner, at),
        shape: state.shapes.intern(shape),
        priority: spec.priority,
        tasks: TaskTable::new(indices.len()),
        indices,
        terms: state.terms.share(terms),
        after: waits.copied().collect(),
        submitted: at,
        ended: None,
        revision: 0,
        pace: None,
    };
    for after in &job.after {
        state.dependents.entry(after.job).or_default().insert(id);
        if state.jobs.get(after.job).is_some_and(|job| job.ended.is_some()) {
            state.untold.insert(after.job);
        }
    }
    if let Some(key) = &submitted.key {
        let key = KeyDigest::of(&submitted.owner, key);
        state.keys.insert(key, UsedKey { job: id, digest: submitted.digest, at });
    }
    add_job(state, id, job);
}

/// A job that was not there before has its place in the queue.
pub(crate) fn add_job(state: &mut State, id: JobId, job: Job) {
    state.planner.somebody_came = true;
    state.ready.refresh(id, &job);
    state.totals.add(&job);
    state.unfinished.add(&job, &state.shapes);
    state.jobs.insert(id, job);
    state.next_job = state.next_job.max(id.0 + 1);
}

/// Changes a job and puts it back where it belongs in the queue.
fn change(state: &mut State, id: JobId, change: impl FnOnce(&mut Job)) {
    if let Some(job) = state.jobs.get_mut(id) {
        let before = weight::of_tasks(&job.tasks);
        state.totals.remove(job);
        change(job);
        state.totals.add(job);
        if state.ready.refresh(id, job) {
            state.planner.is_back(job.shape);
        }
        if job.ended.is_none() {
            state.unfinished.tasks_changed(job, before);
        }
    }
}

fn used(state: &mut State, tasks: &[(TaskId, Attempt, Box<Usage>)]) {
    for (task, attempt, usage) in tasks {
        let active = state.active.get_mut(task).filter(|active| active.attempt == *attempt);
        if let Some(active) = active {
            active.usage = Some(usage.clone());
        }
    }
}

/// The position of a task in its job's table.
fn ordinal(state: &State, task: TaskId) -> Option<Ordinal> {
    state.jobs.get(task.job)?.indices.ordinal(task.index)
}

fn dependency_met(state: &mut State, id: JobId, on: JobId) {
    unlink(state, id, on);
    waits_for(state, id, |after| after.iter().filter(|after| after.job != on).copied().collect());
}

/// Changes what a job waits for, which is a part of what its owner is counted for.
fn waits_for(state: &mut State, id: JobId, still: impl FnOnce(&[After]) -> Box<[After]>) {
    if let Some(job) = state.jobs.get(id).filter(|job| job.ended.is_none()) {
        state.unfinished.remove(job, &state.shapes);
    }
    change(state, id, |job| job.after = still(&job.after));
    if let Some(job) = state.jobs.get(id).filter(|job| job.ended.is_none()) {
        state.unfinished.add(job, &state.shapes);
    }
}

fn unlink(state: &mut State, id: JobId, on: JobId) {
    if let Some(waiting) = state.dependents.get_mut(&on) {
        waiting.remove(&id);
        if waiting.is_empty() {
            state.dependents.remove(&on);
            state.untold.remove(&on);
        }
    }
}

fn place(state: &mut State, at: Timestamp, Part { pilot: pilot_id, tasks }: &Part) {
    for placement in tasks {
        let task = placement.task;
        let Some(position) = ordinal(state, task) else { continue };
        change(state, task.job, |job| job.tasks.place(position));
        hold(state, at, pilot_id, placement);
        let active = Active {
            attempt: placement.attempt,
            pilot: pilot_id.clone(),
            devices: placement.devices.clone(),
            placed: at,
            started: None,
            stopping: None,
            usage: None,
        };
        state.active.insert(task, active);
    }
    if let Some(pilot) = state.pilots.get(pilot_id) {
        state.planner.nodes.refresh(pilot_id, pilot);
    }
}

/// Counts what an attempt takes, on its pilot and for its user.
fn hold(state: &mut State, at: Timestamp, pilot: &PilotId, placement: &Placement) {
    let Some(job) = state.jobs.get(placement.task.job) else { return };
    let need = &state.shapes.get(job.shape).resources;
    if let Some(pilot) = state.pilots.get_mut(pilot) {
        pilot.load.add(need, &placement.devices);
        pilot.placed.insert(placement.task);
        pilot.unstarted += 1;
    }
    state.fair_share.add(&job.owner, at, charge(need));
}

fn start(state: &mut State, task: TaskId, started: Timestamp) {
    let Some(active) = state.active.get_mut(&task) else { return };
    if active.started.replace(started).is_some() {
        return; // Told twice in one breath; it left the backlog once.
    }
    if let Some(pilot) = state.pilots.get_mut(&active.pilot) {
        pilot.unstarted -= 1;
        state.planner.nodes.refresh(&active.pilot, pilot);
    }
}

fn attempt_ended(state: &mut State, at: Timestamp, ended: &AttemptEnded) {
    let task = ended.task;
    release(state, at, task);
    let Some(position) = ordinal(state, task) else { return };
    change(state, task.job, |job| {
        match ended.verdict {
            Verdict::Succeeded => job.tasks.finish(position, TaskState::Succeeded),
            Verdict::Failed => job.tasks.finish(position, TaskState::Failed),
            Verdict::Cancelled => job.tasks.finish(position, TaskState::Cancelled),
            Verdict::Retry { at, .. } if ended.outcome.had_to_go() => {
                job.tasks.put_back(position, at);
            }
            Verdict::Retry { at, counted } => job.tasks.back_off(position, at, counted),
        }
        if ended.started.is_some() {
            job.learn_pace(ended.ran);
        }
    });
    if let Verdict::Retry { at, .. } = ended.verdict {
        state.back_offs.insert((at, task));
    }
    if let Some(job) = state.jobs.get(task.job).filter(|_| ended.started.is_some()) {
        state.shapes.learn(job.shape, ended.ran, at);
    }
}

/// Gives back what an attempt held on its pilot.
fn release(state: &mut State, at: Timestamp, task: TaskId) {
    let Some(active) = state.active.remove(&task) else { return };
    let Some(job) = state.jobs.get(task.job) else { return };
    let need = &state.shapes.get(job.shape).resources;
    state.fair_share.remove(&job.owner, at, charge(need));
    if let Some(pilot) = state.pilots.get_mut(&active.pilot) {
        pilot.load.remove(need, &active.devices);
        pilot.placed.remove(&task);
        pilot.unstarted -= u32::from(active.started.is_none());
        state.planner.nodes.refresh(&active.pilot, pilot);
    }
}

fn ready(state: &mut State, task: TaskId) {
    let Some(position) = ordinal(state, task) else { return };
    clear_back_off(state, task, position);
    change(state, task.job, |job| job.tasks.ready(position));
}

fn clear_back_off(state: &mut State, task: TaskId, position: Ordinal) {
    let at = state.jobs.get(task.job).and_then(|job| job.tasks.back_off_of(position));
    if let Some(at) = at {
        state.back_offs.remove(&(at, task));
    }
}

fn cancel(state: &mut State, id: JobId, which: &Which) {
    let Some(job) = state.jobs.get(id) else { return };
    let chosen: Vec<(u32, u32)> = match which {
        Which::AllWaiting => vec![(0, u32::MAX)],
        Which::These(tasks) => tasks.runs().collect(),
    };
    for (first, last) in chosen {
        for (first, last, at) in job.tasks.backing_off_within(first, last) {
            let indices = (first..=last).filter_map(|task| job.indices.index(Ordinal(task)));
            for index in indices {
                state.back_offs.remove(&(at, id.task(index)));
            }
        }
    }
    change(state, id, |job| match which {
        Which::AllWaiting => job.tasks.cancel_waiting(),
        Which::These(tasks) => {
            tasks.runs().for_each(|(first, last)| job.tasks.cancel(first, last));
        }
    });
    // A job without waiting tasks waits for nobody.
    let over = state.jobs.get(id).filter(|job| job.tasks.counts().is_over());
    let waits = over.map(|job| job.after.clone()).unwrap_or_default();
    for after in &waits {
        unlink(state, id, after.job);
    }
    if !waits.is_empty() {
        waits_for(state, id, |_| Box::default());
    }
}

fn requeue(state: &mut State, id: JobId, tasks: &Ordinals) {
    if let Some(job) = state.jobs.get(id).filter(|job| job.ended.is_some()) {
        state.ended.remove(id, job);
        state.unfinished.add(job, &state.shapes);
    }
    // Who was not told of its end waits for the next one.
    state.untold.remove(&id);
    change(state, id, |job| {
        job.ended = None;
        job.tasks.requeue(tasks);
    });
}

fn job_ended(state: &mut State, at: Timestamp, id: JobId) {
    if let Some(job) = state.jobs.get(id) {
        state.unfinished.remove(job, &state.shapes);
    }
    change(state, id, |job| {
        job.ended = Some(at);
        job.revision += 1;
    });
    if let Some(job) = state.jobs.get(id) {
        state.ended.add(id, job);
    }
    if state.dependents.contains_key(&id) {
        state.untold.insert(id);
    }
}

fn revive(state: &mut State, record: &JobRecord) {
    let mut job = record.job.clone();
    let shape = Shape {
        resources: record.resources.clone(),
        at_most: record.at_most,
        expressions: record.expressions.clone(),
        gang: record.gang,
        kept_from: Vec::new(),
        is_guest: false,
    };
    let shape = state.at_sites(shape, &record.job.owner, &record.job.terms);
    job.shape = state.shapes.intern(shape);
    job.terms = state.terms.share(job.terms);
    job.owner = state.fair_share.name(&job.owner, state.at);
    state.given.extend(record.given.map(|since| (record.id, since)));
    state.ended.add(record.id, &job);
    state.totals.add(&job);
    if let Some(old) = state.jobs.remove(record.id) {
        state.totals.remove(&old);
        state.release(&old);
    }
    state.jobs.insert(record.id, job);
}

fn remove_user(state: &mut State, at: Timestamp, user: &UserName, before: Option<JobId>) {
    state.users.remove(user, before);
    state.tokens.retain(|_, token| token.user != *user);
    if before.is_some() {
        state.fair_share.start_anew(user, at);
    }
}

/// What runs is charged to the new owner from now on, and what waits waits in that one's queue.
fn give(state: &mut State, at: Timestamp, jobs: &[JobId], to: &UserName, since: JobId) {
    let to = state.fair_share.name(to, at);
    let mut before = Vec::new();
    for id in jobs {
        let Some(job) = state.jobs.get_mut(*id) else { continue };
        state.ready.remove(*id, job);
        state.unfinished.remove(job, &state.shapes);
        let from = std::mem::replace(&mut job.owner, to.clone());
        let old = state.shapes.get(job.shape);
        let rate = charge(&old.resources) * u64::from(job.tasks.counts().active);
        state.fair_share.remove(&from, at, rate);
        state.fair_share.add(&to, at, rate);
        let mut shape = old.clone();
        shape.expressions.owner = shape.expressions.owner.map(|_| to.clone());
        let whose = (&to, &*job.terms);
        let shape = guests::at_sites(&state.sites, &state.expected, shape, whose);
        let shape = shape.kept_as_before(old, job);
        if *old != shape {
            let given = state.shapes.intern(shape);
            before.push(std::mem::replace(&mut job.shape, given));
        }
        state.ready.refresh(*id, job);
        state.unfinished.add(job, &state.shapes);
        state.given.insert(*id, since);
    }
    for shape in before {
        state.release_shape(shape);
    }
    // Used up, so that whoever is removed after this has an end that is later.
    state.next_job = state.next_job.max(since.0 + 1);
    state.planner.somebody_came = true;
}

fn forget(state: &mut State, id: JobId) {
    state.given.remove(&id);
    if let Some(job) = state.jobs.remove(id) {
        state.ready.remove(id, &job);
        state.totals.remove(&job);
        state.ended.remove(id, &job);
        state.release(&job);
    }
}

fn describe(state: &mut State, pilot: &PilotId, ad: &NodeAd) {
    let allocation = state.pilots.get(pilot).map(|known| &known.allocation);
    let until = allocation.and_then(|allocation| state.until(allocation, ad));
    change_pilot(state, pilot, |it| {
        it.ad.clone_from(ad);
        it.until = until;
    });
}

fn join(state: &mut State, at: Timestamp, joined: &Joined) {
    let token = state.pilot_tokens.get_mut(&joined.pilot);
    let Some(allocation) = allocation_of(token, joined) else { return };
    sites::learn_wait(state, at, &allocation, Phase::Running);
    let asked = state.allocations.get_mut(&allocation);
    let site = asked.as_ref().map(|known| known.site.clone());
    let site = site.filter(|site| state.sites.contains_key(site));
    if let Some(asked) = asked.filter(|known| known.phase.is_pending()) {
        (asked.phase, asked.since) = (Phase::Running, at);
    }
    let closed = site.as_ref().and_then(|site| state.sites.get(site)).is_some_and(|it| it.draining);
    let guests = state.guests_of(&allocation);
    let until = state.until(&allocation, &joined.ad);
    let fresh = || Pilot {
        ad: joined.ad.clone(),
        name: None,
        connection: joined.connection,
        lease: joined.lease,
        allocation,
        site,
        guests,
        until: None,
        folder: None,
        link: Link::Connected,
        leaving: false,
        closed,
        load: Load::default(),
        placed: std::collections::BTreeSet::new(),
        unstarted: 0,
    };
    let pilot = state.pilots.entry(joined.pilot.clone()).or_insert_with(fresh);
    pilot.ad = joined.ad.clone();
    pilot.name.clone_from(&joined.name);
    pilot.connection = joined.connection;
    pilot.lease = joined.lease;
    pilot.link = Link::Connected;
    pilot.leaving = false;
    pilot.closed = closed;
    pilot.until = until;
    pilot.folder.clone_from(&joined.folder);
    state.planner.nodes.renew(&joined.pilot, Some(pilot));
}

/// A pilot is of the allocation that its token was made for, and the token is good only in the
/// folder that it is first used in. The first journals let pilots in without one.
fn allocation_of(token: Option<&mut PilotToken>, joined: &Joined) -> Option<AllocationId> {
    let Some(token) = token else { return AllocationId::new(joined.pilot.as_str()).ok() };
    if token.folder.is_none() {
        token.folder.clone_from(&joined.folder);
    }
    Some(token.allocation.clone())
}

fn end_token(state: &mut State, pilot: &PilotId) {
    if let Some(token) = state.pilot_tokens.remove(pilot) {
        state.forget_unused(&token.allocation);
    }
}

fn pilot_ended(state: &mut State, at: Timestamp, id: &PilotId) {
    let Some(ended) = state.pilots.remove(id) else { return end_token(state, id) };
    state.planner.nodes.renew(id, None);
    // Where nobody sees its end, one whose lease ran out may live and come back.
    let is_over = |known: &Allocation| known.phase.is_over();
    let is_over = state.allocations.get(&ended.allocation).is_none_or(is_over);
    if is_over || state.kind_of(&ended.allocation).is_none_or(SiteKind::is_watched) {
        state.pilot_tokens.remove(id);
    }
    state.forget_unused(&ended.allocation);
    // This machine's need not be remembered: there is one folder for all of them.
    let folder = ended.folder.filter(|_| SiteKind::of_pilot(id) != SiteKind::ThisMachine);
    if let Some(folder) = folder {
        state.folders.insert(id.clone(), (at, folder));
    }
    if state.folders.len() > REMEMBERED_FOLDERS {
        let oldest = state.folders.iter().min_by_key(|(_, (at, _))| *at);
        if let Some(oldest) = oldest.map(|(id, _)| id.clone()) {
            state.folders.remove(&oldest);
        }
    }
}

fn away_since(since: Timestamp) -> Link {
    Link::Away { since, lost: false }
}

fn change_pilot(state: &mut State, id: &PilotId, change: impl FnOnce(&mut Pilot)) {
    if let Some(pilot) = state.pilots.get_mut(id) {
        change(pilot);
        state.planner.nodes.renew(id, Some(pilot));
    }
}
