//! Guests on a site's nodes with GPUs: who is one, when they come, and how they leave.

use super::sites::{admin, described, hpc};
use super::*;
use crate::command::AskBatch;
use crate::event::Awaited;
use shipway_model::reason::SiteWait;
use shipway_model::{AllocationId, Lost, SiteName};

const SPAN: Millis = Millis(30_000);

impl Told {
    /// A site with two kinds of pilots, whose GPUs let guests in for this long, and one pilot of
    /// the kind with GPUs: eight cores and a GPU.
    fn with_guests(span: Option<Millis>) -> Told {
        let mut told = Told { no_token_of_itself: true, ..Told::default() };
        let mut spec = described("");
        spec.classes[0].guests = span;
        told.apply(Command::AddSite { by: admin(), spec: Box::new(spec) });
        told.comes_with_gpu("batch-1");
        told
    }

    fn comes_with_gpu(&mut self, name: &str) {
        let allocation = AllocationId::new(name).expect("good");
        let awaited = Awaited { pilot: id(name), hash: name.into() };
        let allocations = vec![(allocation, vec![awaited])];
        let ask = AskBatch { site: hpc(), class: "a100".into(), allocations };
        self.apply(Command::AskBatch(Box::new(ask)));
        let joined = PilotJoined { lease: Some(Millis(600_000)), ..pilot(name, 8, 1) };
        self.apply(Command::PilotJoined(Box::new(joined)));
    }

    fn waits_at(&self, job: JobId, class: &str) -> SiteWait {
        let found = self.why(job).into_iter().find_map(|why| {
            let Reason::AtSite { class: of, wait, .. } = why else { return None };
            (of == class).then_some(wait)
        });
        found.expect("it waits there")
    }

    fn stopped(&mut self) -> Vec<(PilotId, usize, Millis)> {
        let effects = std::mem::take(&mut self.effects);
        let stops = effects.into_iter().filter_map(|effect| {
            let Effect::Stop { pilot, attempts, grace } = effect else { return None };
            Some((pilot, attempts.len(), grace))
        });
        stops.collect()
    }
}

/// Nodes are told apart by their names: what asks for one that is not there wants none of these.
#[test]
fn what_could_never_run_there_keeps_no_guest_out() {
    let mut told = Told::with_guests(Some(SPAN));
    told.submit(r#"{"resources":{"gpu":1},"requirements":"Name == \"nosuch\""}"#);
    let guest = told.submit("{}");
    let placed = told.place();
    assert_eq!(placed.iter().map(|one| one.task.job).collect::<Vec<_>>(), [guest]);
}

#[test]
fn who_has_another_home_stays_away_where_guests_are_not_let_in() {
    let mut told = Told::with_guests(None);
    let plain = told.submit("{}");
    assert_eq!(told.place(), []);
    assert_eq!(told.waits_at(plain, "a100"), SiteWait::HasGpus);
    let large = told.submit(r#"{"resources":{"cpus":6}}"#);
    assert_eq!(told.place()[0].task.job, large, "no pilot without a GPU has as many cores");
    let mut spec = described("");
    spec.classes.truncate(1);
    told.apply(Command::AddSite { by: admin(), spec: Box::new(spec) });
    assert_eq!(told.place()[0].task.job, plain, "its home has gone");
}

#[test]
fn guests_leave_for_who_needs_the_gpu_and_are_tried_again() {
    let mut told = Told::with_guests(Some(SPAN));
    let guests = told.submit(r#"{"array":"1-12"}"#);
    assert_eq!(told.place().len(), 8, "a core each");
    assert_eq!(told.waits_at(guests, "a100"), SiteWait::AsGuest { leaves_within: SPAN });
    for index in 1..=8 {
        told.started("batch-1", task(guests, index), 1);
    }
    told.effects.clear();
    let wants = told.submit(r#"{"resources":{"cpus":2,"gpu":1}}"#);
    assert_eq!(told.place(), [], "there is no room yet");
    assert_eq!(told.stopped(), [(id("batch-1"), 2, SPAN)], "for two cores two have to leave");
    told.submit(r#"{"array":"1-3"}"#);
    assert_eq!(told.place(), []);
    assert_eq!(told.stopped(), [], "nobody leaves twice for the same");
    let leaving: Vec<TaskId> = told
        .state
        .active()
        .iter()
        .filter(|(_, active)| active.stopping == Some(StopReason::Preempted))
        .map(|(task, _)| *task)
        .collect();
    let events = told.ended("batch-1", leaving[0], 1, Outcome::Cancelled);
    let Some(Event::AttemptEnded(ended)) = events.first() else { panic!("{events:?}") };
    assert_eq!(ended.outcome, Outcome::Lost { why: Lost::MadeRoom });
    assert_eq!(told.place(), [], "nobody takes the first core that is left");
    told.ended("batch-1", leaving[1], 1, Outcome::Signal { signal: 9 });
    let placed: Vec<JobId> = told.place().iter().map(|placed| placed.task.job).collect();
    assert_eq!(placed, [wants]);
    let counts = told.counts(guests);
    assert_eq!((counts.active, counts.waiting, counts.failed), (6, 6, 0));
    let job = told.state.job(guests).expect("in memory");
    let tries = job.tasks.tries(job.indices.ordinal(leaving[0].index).expect("of it"));
    assert_eq!((tries.failed, tries.lost), (0, 0), "that says nothing about it");
    told.ended("batch-1", task(wants, 0), 1, OK);
    assert_eq!(told.place().len(), 2, "nobody wants the GPU any more");
}

#[test]
fn nobody_comes_as_a_guest_while_gpus_are_waited_for() {
    let mut told = Told::with_guests(Some(SPAN));
    let first = told.submit(r#"{"array":"1-2","resources":{"gpu":1}}"#);
    assert_eq!(told.place().len(), 1);
    let guests = told.submit(r#"{"array":"1-3"}"#);
    assert_eq!(told.place(), [], "seven cores are free, and one waits for the GPU");
    assert_eq!(told.waits_at(guests, "a100"), SiteWait::AsGuest { leaves_within: SPAN });
    told.cancel(first, Pick::Tasks(vec![TaskIndex(2)]));
    assert_eq!(told.place().len(), 3, "now nobody does");
    told.submit(r#"{"array":"1-2","resources":{"gpu":1}}"#);
    assert_eq!(told.place(), []);
    assert_eq!(told.stopped(), [], "that no guest is in the way of");
}

#[test]
fn a_gang_is_no_guest_and_a_guest_that_ended_well_has_ended() {
    let mut told = Told::with_guests(Some(SPAN));
    let guest = told.submit(r#"{"resources":{"cpus":4}}"#);
    let other = told.submit(r#"{"resources":{"cpus":4}}"#);
    assert_eq!(told.place().len(), 2);
    told.submit(r#"{"resources":{"gpu":1}}"#);
    told.place();
    let active = |told: &Told, job| told.state.active()[&task(job, 0)].stopping;
    let left = [guest, other].into_iter().find(|job| active(&told, *job).is_some());
    let left = left.expect("one has to leave");
    told.ended("batch-1", task(left, 0), 1, OK);
    assert_eq!(told.job_state(left), JobState::Succeeded);
}

#[test]
fn who_came_when_there_was_no_other_home_does_not_have_to_leave() {
    let mut told = Told::with_guests(Some(SPAN));
    let all = described("");
    let mut without = described("");
    without.classes.truncate(1);
    without.classes[0].guests = Some(SPAN);
    told.apply(Command::AddSite { by: admin(), spec: Box::new(without) });
    told.submit(r#"{"resources":{"cpus":8}}"#);
    assert_eq!(told.place().len(), 1);
    told.apply(Command::AddSite { by: admin(), spec: Box::new(all) });
    told.effects.clear();
    told.submit(r#"{"resources":{"gpu":1}}"#);
    told.place();
    assert_eq!(told.stopped(), []);
}

#[test]
fn a_site_that_is_drained_is_no_home() {
    let mut told = Told::with_guests(None);
    let mut other = described("");
    other.name = SiteName::new("other").expect("good");
    other.classes.remove(0);
    told.apply(Command::AddSite { by: admin(), spec: Box::new(other.clone()) });
    let mut gpus_only = described("");
    gpus_only.classes.truncate(1);
    told.apply(Command::AddSite { by: admin(), spec: Box::new(gpus_only) });
    told.submit("{}");
    assert_eq!(told.place(), [], "its home is the other site");
    let site = other.name;
    told.apply(Command::DrainSite { by: admin(), site, draining: true });
    assert_eq!(told.place().len(), 1);
}

#[test]
fn who_says_which_nodes_will_do_is_no_guest() {
    let mut told = Told::with_guests(None);
    told.submit(r#"{"requirements":"Machine == \"batch-1\""}"#);
    assert_eq!(told.place().len(), 1);
}
