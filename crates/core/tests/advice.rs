//! Advice is true: in random situations everything that is said to start now is done as it is
//! advised, and starts; what could run on a free node runs there when it is free; and what is kept
//! for a job by a stated moment has it by then. Each situation comes from a seed that is named
//! when one fails. It says nothing about whether better advice could have been given.

#[path = "advice/situation.rs"]
mod situation;

use shipway_core::State;
use shipway_core::command::{Command, Pick, Select};
use shipway_core::explain::{explain_need, prospect, prospect_of_new};
use shipway_core::job::Terms;
use shipway_core::shape::{Gang, Shape};
use shipway_model::prospect::{Change, Prospect};
use shipway_model::reason::SiteWait;
use shipway_model::{JobId, JobSpec, Reason, TaskState};
use situation::{Situation, actor, place, spec, submit};
use std::ops::Range;

const SEEDS: Range<u64> = 0..10_000;

/// How much was found true.
#[derive(Debug, Default)]
struct Counts {
    at_once: u32,
    later: u32,
    at_sites: u32,
    new_now: u32,
    bounds: u32,
    /// Stated too, and somebody who has used less went first, as it says.
    others_first: u32,
}

#[test]
fn what_is_advised_happens_when_it_is_done() {
    let mut counts = Counts::default();
    for seed in SEEDS {
        let situation = Situation::random(seed);
        for job in situation.waiting() {
            let found = prospect(&situation.state, job, situation.now).expect("it waits");
            of_job(&situation, job, &found, &mut counts);
            bound(&situation, job, &found, &mut counts);
        }
        new_one(&situation, &mut counts);
    }
    println!("{} situations: {counts:?}", SEEDS.end);
    let Counts { at_once, later, at_sites, new_now, bounds, .. } = counts;
    // Where one of these is rare, nothing was shown.
    assert!(at_once > 500 && later > 500 && at_sites > 500, "{counts:?}");
    assert!(new_now > 500 && bounds > 500, "{counts:?}");
}

fn of_job(situation: &Situation, job: JobId, found: &Prospect, counts: &mut Counts) {
    let (user, json) = &situation.specs[&job];
    for change in &found.changes {
        let mut state = situation.state.clone();
        let select =
            Select { by: actor(*user), jobs: vec![(job, Pick::State(TaskState::Waiting))] };
        situation.tell(&mut state, &Command::Cancel(select));
        try_it(situation, state, (*user, changed(&spec(json), change)), change, counts);
    }
}

/// The same for a job that nobody has submitted yet.
fn new_one(situation: &Situation, counts: &mut Counts) {
    let (user, json) = &situation.new;
    let (mut wanted, now) = (spec(json), situation.now);
    // Whoever waits for other jobs is told of those, and nothing else is advised.
    wanted.after.clear();
    let shape = Shape::of(&wanted, &actor(*user).user, Gang::default());
    let owner = &actor(*user).user;
    let state = &situation.state;
    if explain_need(state, &shape, (owner, &Terms::default()), now).is_empty() {
        let mut copy = state.clone();
        let job = submit(&mut copy, now, *user, wanted);
        place(&mut copy, now);
        assert!(has_started(&copy, job), "{situation}: {json} could start now");
        counts.new_now += 1;
        return;
    }
    for change in &prospect_of_new(state, &shape, owner, now).changes {
        let asked = (*user, changed(&wanted, change));
        try_it(situation, state.clone(), asked, change, counts);
    }
}

/// Asks for what was advised, and looks whether it helps as it was said.
fn try_it(
    situation: &Situation,
    mut state: State,
    (user, spec): (usize, JobSpec),
    change: &Change,
    counts: &mut Counts,
) {
    let now = situation.now;
    if change.now {
        let job = submit(&mut state, now, user, spec);
        place(&mut state, now);
        assert!(has_started(&state, job), "{situation}: did not start: {change}");
        counts.at_once += 1;
        return;
    }
    if let Some(site) = &change.site {
        let job = submit(&mut state, now, user, spec);
        let reasons = shipway_core::explain::explain(&state, job, now);
        let is_there = |reason: &&Reason| {
            matches!(reason, Reason::AtSite { site: at, class, .. }
            if at == site && *class == change.class)
        };
        let why: Vec<&Reason> = reasons.iter().filter(is_there).collect();
        let never = |reason: &&&Reason| {
            let Reason::AtSite { wait, .. } = reason else { return false };
            matches!(
                wait,
                SiteWait::TooSmall { .. } | SiteWait::Requires { .. } | SiteWait::TooShort { .. }
            )
        };
        assert_eq!(why.iter().find(never), None, "{situation}: {change}");
        counts.at_sites += 1;
        return;
    }
    assert!(change.nodes > 0, "{situation}: {change}");
    situation.empty(&mut state);
    let job = submit(&mut state, now, user, spec);
    place(&mut state, now);
    assert!(has_started(&state, job), "{situation}: not on free nodes: {change}");
    counts.later += 1;
}

/// What is kept for a job has it by the moment that is stated, whoever comes meanwhile, unless it
/// is somebody who stands before its owner.
fn bound(situation: &Situation, job: JobId, found: &Prospect, counts: &mut Counts) {
    let held = found.place.as_ref().and_then(|place| place.held.as_ref());
    let Some(held) = held.filter(|held| !held.behind_own) else { return };
    let Some(latest) = held.latest else { return };
    let mut situation = situation.clone();
    let before = situation.placed_of(job);
    if situation.go_on_until(latest, job, &held.nodes) {
        counts.others_first += 1;
        return;
    }
    assert!(
        situation.placed_of(job) > before || situation.is_over(job),
        "{situation}: {job} had no room at {latest:?}: {held:?}"
    );
    counts.bounds += 1;
}

fn has_started(state: &State, job: JobId) -> bool {
    state.job(job).is_some_and(|job| job.tasks.counts().active > 0)
}

/// The request as somebody would write it who follows the advice.
fn changed(spec: &JobSpec, change: &Change) -> JobSpec {
    let mut spec = spec.clone();
    for ask in &change.ask {
        spec.resources = spec.resources.clone().with(ask);
    }
    if let Some(limit) = change.time_limit {
        // As `--time-limit` would be read.
        let text = format!("\"{limit}\"");
        spec.time_limit = Some(serde_json::from_str(&text).expect("a time limit"));
    }
    if let Some(term) = &change.without {
        let all = spec.requirements.take().expect("it had requirements");
        let left: Vec<&str> = all.split(" && ").filter(|one| *one != term).collect();
        assert!(left.join(" && ").len() < all.len(), "`{term}` is no term of `{all}`");
        spec.requirements = (!left.is_empty()).then(|| left.join(" && "));
    }
    spec
}
