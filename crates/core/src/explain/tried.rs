//! Advice is tried before it is given: the change is made on a copy of all there is, and the
//! planner plans there. What it would not do is not advised.

use super::explain;
use super::look::Asker;
use crate::broker::expected::Kind;
use crate::command::Command;
use crate::engine::{apply, step};
use crate::event::{CancelReason, Event, Which};
use crate::evolve::add_job;
use crate::job::{Job, Terms};
use crate::schedule::needs::Need;
use crate::schedule::schedule;
use crate::shape::Shape;
use crate::state::State;
use crate::task_table::TaskTable;
use shipway_classad::{parse_expression, without};
use shipway_model::limits::{DEFAULT_GRACE, PRIORITY_RANGE};
use shipway_model::prospect::Change;
use shipway_model::{IndexSet, JobId, Millis, Reason, SiteName, Timestamp};
use std::collections::BTreeMap;

/// Copies that are made for one question; each takes milliseconds.
const MAX_TRIED: usize = 6;
/// More than this is not copied: then nothing is said to start at once.
const MAX_JOBS: usize = 20_000;
const MAX_PILOTS: usize = 2_000;
/// Plans that are made until it has had its turn.
const MAX_PLANS: usize = 16;
/// Tasks that are somewhere, and submissions whose keys are remembered.
const MAX_ACTIVE: usize = 50_000;
const MAX_KEYS: usize = 100_000;
/// Steps of requirements for the changes of one question, and where the writer answers it, which
/// keeps everybody waiting meanwhile. Beyond those nothing more is offered.
const MAX_STEPS: u64 = 2_000_000;
const MAX_STEPS_OF_WRITER: u64 = 250_000;
/// One that is not submitted yet stands behind all that are.
const LAST: i32 = *PRIORITY_RANGE.start();

/// Whether there is so little that a question may copy it all.
pub fn can_be_tried(state: &State) -> bool {
    state.jobs().len() <= MAX_JOBS
        && state.pilots().len() <= MAX_PILOTS
        && state.active().len() <= MAX_ACTIVE
        && state.keys.len() <= MAX_KEYS
}

/// What is in the way of a new job that seems to fit: that it comes can be what has a node kept for
/// somebody else. Nothing if the planner starts it, or where that cannot be tried.
pub(super) fn in_the_way(
    state: &State,
    shape: &Shape,
    asker: Asker<'_>,
    at: Timestamp,
) -> Vec<Reason> {
    if !can_be_tried(state) {
        return Vec::new();
    }
    let tried = Tried::new(state, asker, at);
    let planned = tried.planned(shape.clone());
    planned.map(|(copy, id)| explain(&copy, id, tried.now)).unwrap_or_default()
}

pub(super) struct Tried<'a> {
    state: &'a State,
    asker: Asker<'a>,
    now: Timestamp,
    left: usize,
    steps: u64,
}

impl<'a> Tried<'a> {
    pub(super) fn new(state: &'a State, asker: Asker<'a>, now: Timestamp) -> Tried<'a> {
        let (left, steps) =
            if can_be_tried(state) { (MAX_TRIED, MAX_STEPS) } else { (0, MAX_STEPS_OF_WRITER) };
        Tried { state, asker, now: now.max(state.at()), left, steps }
    }

    /// The change as far as it is true; `None` where it would not help.
    pub(super) fn good(&mut self, shape: &Shape, change: Change) -> Option<Change> {
        // Where nothing is tried any more, nothing is said to start now.
        if self.left == 0 && change.now && change.without.is_none() && change.site.is_none() {
            return None;
        }
        if self.steps == 0 {
            return None;
        }
        let changed = changed(shape, &change);
        if let Some(site) = &change.site {
            let pilots = Some(self.could_come(&changed, site, &change.class)?);
            let nodes = self.nodes(&changed);
            return Some(Change { nodes, pilots, ..change });
        }
        let nodes = self.nodes(&changed);
        let now = change.now && self.starts_now(changed);
        // Without a term it is another request, which a node may run later as well.
        let may_be_later = !change.now || change.without.is_some();
        (nodes > 0 && (now || may_be_later)).then_some(Change { now, nodes, ..change })
    }

    /// Connected nodes that could run one such task when they are free.
    fn nodes(&mut self, shape: &Shape) -> u32 {
        let (state, nodes) = (self.state, &self.state.planner().nodes);
        let need = Need::of(shape, nodes);
        self.steps = self.steps.saturating_sub(need.steps());
        let could = nodes.classes().filter(|(at, _)| need.could_use(*at)).map(|(_, class)| {
            let all = class.members.nodes().iter();
            let pilot = |at| state.pilots().get(nodes.pilot(at)?);
            let could = |at| need.on_node(nodes, (at, self.now), || pilot(at)).is_some();
            all.filter(|at| could(**at)).count()
        });
        u32::try_from(could.sum::<usize>()).unwrap_or(u32::MAX)
    }

    /// How many pilots there may be that could run it, at all the sites that it may go to; `None`
    /// where none of this kind could.
    fn could_come(&mut self, shape: &Shape, site: &SiteName, class: &str) -> Option<u32> {
        let state = self.state;
        let expected = state.expected();
        let need = Need::of(shape, expected.table());
        self.steps = self.steps.saturating_sub(need.steps());
        let class_of = |kind: &Kind| {
            let known = state.sites().get(&kind.site)?;
            Some((known, known.spec.classes.get(kind.class)?))
        };
        let may_go = |kind: &&Kind| !shape.kept_from.contains(&kind.site);
        let could = expected.kinds().iter().filter(may_go).filter(|kind| need.could_use(kind.at));
        let (mut is_there, mut at_site) = (false, BTreeMap::<&SiteName, (u32, u32)>::new());
        for kind in could {
            let Some((known, of)) = class_of(kind) else { continue };
            is_there |= kind.site == *site && of.name == class;
            let most = at_site.entry(&kind.site).or_insert((0, known.spec.limits.running));
            most.0 = most.0.saturating_add(of.pilots);
        }
        let all = at_site.values().map(|(pilots, most)| *pilots.min(most));
        is_there.then(|| all.fold(0, u32::saturating_add))
    }

    /// Whether the planner would place one task of it, if it stood where the job does that it is
    /// to replace.
    fn starts_now(&mut self, shape: Shape) -> bool {
        if self.left == 0 {
            return false;
        }
        self.left -= 1;
        self.planned(shape).is_none()
    }

    /// The copy in which the planner has no place for it, and its job there; `None`: it has one.
    fn planned(&self, shape: Shape) -> Option<(State, JobId)> {
        let mut copy = self.state.clone();
        let id = self.submit_to(&mut copy, shape);
        for _ in 0..MAX_PLANS {
            let plan = schedule(&mut copy, self.now);
            if plan.by_pilot().flat_map(|(_, placed)| placed).any(|one| one.task.job == id) {
                return None;
            }
            if plan.is_empty() {
                if copy.planner().is_behind() {
                    continue;
                }
                break;
            }
            if step(&mut copy, self.now, &Command::ApplyPlan(plan)).is_err() {
                break;
            }
        }
        Some((copy, id))
    }

    fn submit_to(&self, copy: &mut State, shape: Shape) -> JobId {
        let old = self.asker.job.and_then(|id| self.state.job(id));
        if let Some(job) = self.asker.job {
            let (which, why) = (Which::AllWaiting, CancelReason::Asked);
            let taken_back = Event::TasksCancelled { job, which, why };
            apply(copy, self.now, vec![taken_back], &mut |_, _| {});
        }
        let id = copy.next_job();
        let (paths, tags) =
            old.map(|old| (old.terms.paths.clone(), old.terms.tags.clone())).unwrap_or_default();
        let job = Job {
            owner: copy.fair_share.name(self.asker.user, self.now),
            shape: copy.shapes.intern(shape),
            priority: old.map_or(LAST, |old| old.priority),
            indices: IndexSet::single(),
            tasks: TaskTable::new(1),
            terms: copy.terms.share(Terms { paths, tags, ..Terms::default() }),
            after: Box::default(),
            submitted: self.now,
            ended: None,
            revision: 0,
            pace: None,
        };
        add_job(copy, id, job);
        id
    }
}

fn changed(shape: &Shape, change: &Change) -> Shape {
    let mut changed = shape.clone();
    for ask in &change.ask {
        changed.resources = changed.resources.with(ask);
    }
    if let Some(limit) = change.time_limit {
        changed.at_most = Some(Millis(limit.0.saturating_add(DEFAULT_GRACE.0)));
    }
    if let Some(term) = &change.without {
        let text = changed.expressions.requirements.take();
        let expr = text.and_then(|text| parse_expression(&text).ok());
        changed.expressions.requirements = expr.and_then(|expr| without(&expr, term));
    }
    changed
}
