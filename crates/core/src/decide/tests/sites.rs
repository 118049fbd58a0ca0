//! Batch systems as sites: what is asked of them, what they say, and what becomes of tasks there.

use super::*;
use crate::broker::demand::Look;
use crate::broker::{Proposal, look, room};
use crate::command::{AskBatch, Said, SeenAllocation, SiteSaid};
use crate::event::Awaited;
use crate::explain::explain_gpus;
use crate::job::Terms;
use crate::shape::{Gang, Shape};
use crate::site::Phase;
use shipway_model::reason::{ExpectedStart, KeptFrom, SiteLimit, SiteWait};
use shipway_model::{AllocationEnd, EngineTrouble, SiteName, SiteSpec};

const LEASE: Option<Millis> = Some(Millis(600_000));

pub(super) fn admin() -> Actor {
    actor("root", Role::Admin)
}

pub(super) fn hpc() -> SiteName {
    SiteName::new("hpc").expect("good")
}

/// Two kinds: four pilots with an A100 and eight cores, ten with four cores.
pub(super) fn described(more: &str) -> SiteSpec {
    let json = format!(
        r#"{{"name":"hpc","kind":"slurm","program":"/opt/shipway","server":"http://h:7447",
            "shared":["/home"],"limits":{{"pending":6,"running":12,"starts_per_hour":100}},
            "classes":[
                {{"name":"a100","pilots":4,"cpus":8,"memory":"16GB","gpus":
                    {{"count":1,"model":"NVIDIA A100","memory":"40GB","kind":"a100"}}}},
                {{"name":"cpu","pilots":10,"cpus":4,"memory":"16GB"}}]{more}}}"#
    );
    serde_json::from_str(&json).expect(&json)
}

pub(super) fn site(more: &str) -> Command {
    Command::AddSite { by: admin(), spec: Box::new(described(more)) }
}

fn said(said: Said) -> Command {
    Command::SiteSaid(SiteSaid { site: hpc(), said })
}

fn allocation(name: &str) -> AllocationId {
    AllocationId::new(name).expect("good")
}

/// The pilot of the first node goes by the name of the allocation.
pub(super) fn awaited(name: &str, nodes: u32) -> Vec<Awaited> {
    let one = |at: u32| {
        let pilot = if at == 0 { name.to_owned() } else { format!("{name}.{at}") };
        Awaited { pilot: id(&pilot), hash: pilot }
    };
    (0..nodes).map(one).collect()
}

impl Told {
    pub(super) fn with_site() -> Told {
        let mut told = Told { no_token_of_itself: true, ..Told::default() };
        told.apply(site(""));
        told
    }

    fn proposal(&self) -> Proposal {
        look(&self.state, Timestamp(self.now)).map(Look::propose).unwrap_or_default()
    }

    pub(super) fn asks(&self) -> Vec<(String, u32)> {
        self.proposal().asks.into_iter().map(|ask| (ask.class, ask.count)).collect()
    }

    /// Asks for what the broker proposes; the names of the pilots that will come.
    pub(super) fn broker(&mut self) -> Vec<String> {
        let mut names = Vec::new();
        for ask in self.proposal().asks {
            let number = self.state.allocations().len();
            let new: Vec<String> = (0..ask.count)
                .map(|at| format!("batch-{}-{at}", self.now + number as u64))
                .collect();
            let one = |name: &String| (allocation(name), awaited(name, ask.nodes));
            let allocations = new.iter().map(one).collect();
            let ask = AskBatch { site: ask.site, class: ask.class, allocations };
            self.apply(Command::AskBatch(Box::new(ask)));
            names.extend(new);
        }
        names
    }

    pub(super) fn comes(&mut self, name: &str, cpus: u64, gpus: u64) {
        let joined = PilotJoined { lease: LEASE, ..pilot(name, cpus, gpus) };
        self.apply(Command::PilotJoined(Box::new(joined)));
    }

    pub(super) fn sees(&mut self, seen: &[(&str, Phase, &str)]) -> Vec<Event> {
        self.now += 1;
        let seen = seen.iter().map(|(name, phase, words)| SeenAllocation {
            allocation: allocation(name),
            engine_id: format!("1{name}"),
            phase: *phase,
            words: (*words).into(),
        });
        let (began, seen) = (Timestamp(self.now), seen.collect());
        self.apply(said(Said::Looked { began, seen }))
    }

    fn phase(&self, name: &str) -> Option<Phase> {
        self.state.allocations().get(&allocation(name)).map(|known| known.phase)
    }

    fn waits(&self, job: JobId) -> Vec<(String, SiteWait)> {
        let at_sites = self.why(job).into_iter().filter_map(|why| {
            let Reason::AtSite { class, wait, .. } = why else { return None };
            Some((class, wait))
        });
        at_sites.collect()
    }
}

#[test]
fn pilots_are_asked_for_of_the_kind_that_waits_and_of_no_other() {
    let mut told = Told::with_site();
    assert_eq!(told.asks(), []);
    told.submit(r#"{"array":"1-3","resources":{"gpu":1}}"#);
    assert_eq!(told.asks(), [("a100".into(), 3)]);
    let plain = told.submit(r#"{"array":"1-7"}"#);
    assert_eq!(told.asks(), [("a100".into(), 3), ("cpu".into(), 2)], "four cores each");
    let said = [("a100".into(), SiteWait::HasGpus), ("cpu".into(), SiteWait::Asking)];
    assert_eq!(told.waits(plain), said);
    told.submit(r#"{"array":"1-90","resources":{"gpu":1}}"#);
    let total: u32 = told.asks().iter().map(|(_, count)| count).sum();
    assert_eq!((told.asks()[0].clone(), total), (("a100".into(), 4), 6), "the limits hold");
    assert_eq!(told.broker().len(), 6);
    assert_eq!(told.asks(), [], "they are coming");
    let open = told.state.allocations_of(&hpc()).count();
    assert_eq!((open, told.state.pilot_tokens().len()), (6, 6));
}

#[test]
fn a_task_goes_to_the_pilot_that_comes_and_what_ran_there_is_seen_to_the_end() {
    let mut told = Told::with_site();
    let job = told.submit(r#"{"resources":{"gpu":1}}"#);
    let names = told.broker();
    let [name] = names.as_slice() else { panic!("{names:?}") };
    assert!(told.effects.iter().any(|effect| matches!(effect, Effect::Ask { again: false, .. })));
    told.apply(said(Said::Taken { allocation: allocation(name), engine_id: "17".into() }));
    assert_eq!(told.phase(name), Some(Phase::Queued));
    told.sees(&[(name, Phase::Queued, "PENDING (Resources)")]);
    let words = String::from("PENDING (Resources)");
    assert_eq!(told.waits(job)[0].1, SiteWait::Pending { pilots: 1, words, start: None });
    told.comes(name, 8, 1);
    assert_eq!(told.phase(name), Some(Phase::Running));
    assert_eq!(told.place().len(), 1);
    told.ended(name, task(job, 0), 1, OK);
    assert_eq!(told.job_state(job), JobState::Succeeded);
    told.apply(Command::PilotEnded { pilot: id(name) });
    assert_eq!(told.phase(name), Some(Phase::Running), "until its site has said so");
    told.sees(&[(name, Phase::Ended(AllocationEnd::Completed), "COMPLETED")]);
    assert_eq!(told.phase(name), None);
    assert!(told.state.allocations().is_empty() && told.state.pilot_tokens().is_empty());
    assert_eq!(told.state.sites()[&hpc()].ends.len(), 1);
}

#[test]
fn what_a_site_ends_is_lost_when_that_is_certain_and_not_before() {
    for (end, is_certain) in [
        (AllocationEnd::Cancelled, true),
        (AllocationEnd::TimeLimit, true),
        (AllocationEnd::NodeFailed, false),
        (AllocationEnd::Unknown, false),
    ] {
        for was_away in [true, false] {
            let mut told = Told::with_site();
            let job = told.submit(r#"{"resources":{"gpu":1}}"#);
            let name = told.broker().remove(0);
            told.comes(&name, 8, 1);
            told.place();
            let away = Command::PilotAway { pilot: id(&name), connection: ConnectionNumber(1) };
            if was_away {
                told.apply(away.clone());
            }
            told.sees(&[(&name, Phase::Ended(end), "it ended")]);
            if !was_away {
                assert_eq!(told.counts(job).active, 1, "{end:?}: it is in touch");
                told.apply(away);
            }
            assert_eq!(told.counts(job).active, u32::from(!is_certain), "{end:?} {was_away}");
            told.wait(600_000);
            assert_eq!(told.counts(job).active, 0, "{end:?}: its lease is over");
            assert_eq!(told.counts(job).waiting, 1);
            assert!(told.state.allocations().is_empty(), "{end:?} {was_away}");
            assert!(told.state.pilot_tokens().is_empty(), "{end:?}: nobody comes with it again");
        }
    }
}

#[test]
fn what_a_site_forgot_is_over_and_what_it_could_not_know_is_not() {
    let mut told = Told::with_site();
    told.submit(r#"{"array":"1-2","resources":{"gpu":1}}"#);
    let names = told.broker();
    told.apply(said(Said::Taken { allocation: allocation(&names[0]), engine_id: "1".into() }));
    let began = Timestamp(told.now - 1);
    told.apply(said(Said::Looked { began, seen: Vec::new() }));
    assert_eq!(told.phase(&names[0]), Some(Phase::Queued), "it was handed in after that look");
    told.sees(&[]);
    assert_eq!(told.phase(&names[0]), None);
    assert_eq!(told.phase(&names[1]), Some(Phase::Asked), "nobody has handed it in yet");
}

#[test]
fn after_a_restart_what_was_not_heard_of_is_asked_for_again() {
    let mut told = Told::with_site();
    told.submit(r#"{"array":"1-2","resources":{"gpu":1}}"#);
    let names = told.broker();
    told.apply(said(Said::Taken { allocation: allocation(&names[0]), engine_id: "1".into() }));
    told.effects.clear();
    told.apply(Command::ServerStarted);
    let again: Vec<_> = told
        .effects
        .iter()
        .filter_map(|effect| {
            let Effect::Ask { allocation, again: true, .. } = effect else { return None };
            Some(allocation.to_string())
        })
        .collect();
    assert_eq!(again, [names[1].clone()]);
}

#[test]
fn a_refusal_is_of_what_was_asked_for_and_rests_it() {
    let mut told = Told::with_site();
    let job = told.submit(r#"{"resources":{"gpu":1}}"#);
    let trouble = |name: &str, kind| Said::Trouble {
        allocation: Some(allocation(name)),
        words: "invalid partition specified: gpu".into(),
        kind,
    };
    let name = told.broker().remove(0);
    told.apply(said(trouble(&name, EngineTrouble::Refused)));
    assert_eq!(told.phase(&name), None, "nothing is left of it");
    assert!(told.state.pilot_tokens().is_empty());
    assert_eq!(told.asks(), [], "it rests");
    let waits = told.waits(job);
    let is_told =
        |wait: &SiteWait| matches!(wait, SiteWait::Trouble { words, .. } if words.contains("gpu"));
    assert!(waits.iter().any(|(class, wait)| class == "a100" && is_told(wait)), "{waits:?}");
    told.submit(r#"{"array":"1-4"}"#);
    assert_eq!(told.asks(), [("cpu".into(), 1)], "the other kind was not refused");
    told.now += 5_000;
    assert_eq!(told.asks()[0], ("a100".into(), 1), "and then it is tried again");
    let name = told.broker().remove(0);
    told.apply(said(trouble(&name, EngineTrouble::Refused)));
    told.now += 5_000;
    assert!(!told.asks().iter().any(|(class, _)| class == "a100"), "for longer each time");
    told.sees(&[]);
    assert!(!told.state.sites()[&hpc()].troubles.is_empty(), "that it answers mends no refusal");
    told.apply(site(r#","wall":"1h""#));
    assert_eq!(told.asks()[0], ("a100".into(), 1), "its file was changed");
}

#[test]
fn a_site_that_does_not_answer_is_left_alone_and_nothing_is_taken_for_refused() {
    let mut told = Told::with_site();
    told.submit(r#"{"resources":{"gpu":1}}"#);
    let name = told.broker().remove(0);
    told.apply(said(Said::Trouble {
        allocation: Some(allocation(&name)),
        words: "no answer".into(),
        kind: EngineTrouble::NotReached,
    }));
    assert_eq!(told.phase(&name), Some(Phase::Asked), "it may have been taken");
    told.submit(r#"{"array":"1-9"}"#);
    assert_eq!(told.asks(), []);
    told.sees(&[(&name, Phase::Running, "RUNNING")]);
    assert_eq!(told.phase(&name), Some(Phase::Running), "it was");
    assert_eq!(told.asks(), [("cpu".into(), 3)]);
}

#[test]
fn what_nobody_needs_any_more_is_given_up() {
    let mut told = Told::with_site();
    let job = told.submit(r#"{"array":"1-3","resources":{"gpu":1}}"#);
    let names = told.broker();
    told.comes(&names[0], 8, 1);
    told.cancel(job, Pick::All);
    assert_eq!(told.proposal().surplus, [], "not at once");
    told.now += 30_000;
    let surplus = told.proposal().surplus;
    assert_eq!(surplus.len(), 2, "and not what has come");
    told.apply(Command::GiveUp { allocations: surplus.clone() });
    assert!(surplus.iter().all(|id| told.phase(id.as_str()) == Some(Phase::GivenUp)));
    told.effects.clear();
    told.apply(Command::ServerStarted);
    let again = told.effects.iter().filter(|it| matches!(it, Effect::GiveUp { .. })).count();
    assert_eq!(again, 2, "said again until it is heard of");
    told.sees(&[]);
    assert!(surplus.iter().all(|id| told.phase(id.as_str()).is_none()));
}

#[test]
fn a_drained_site_takes_nothing_new_and_can_be_removed_when_it_is_empty() {
    let mut told = Told::with_site();
    let job = told.submit(r#"{"array":"1-2","resources":{"gpu":1}}"#);
    let names = told.broker();
    told.comes(&names[0], 8, 1);
    told.place();
    let drain = |draining| Command::DrainSite { by: admin(), site: hpc(), draining };
    told.apply(drain(true));
    assert_eq!(told.phase(&names[1]), Some(Phase::GivenUp));
    told.ended(&names[0], task(job, 1), 1, OK);
    assert_eq!(told.place(), [], "its pilots take nothing more");
    let waits = told.waits(job);
    assert!(waits.iter().any(|(_, wait)| *wait == SiteWait::Draining), "{waits:?}");
    let remove = Command::RemoveSite { by: admin(), site: hpc() };
    assert_eq!(told.refused(remove.clone()), "site_in_use");
    told.apply(Command::PilotEnded { pilot: id(&names[0]) });
    told.sees(&[]);
    told.apply(remove);
    assert!(told.state.sites().is_empty() && told.state.allocations().is_empty());
    assert_eq!(told.refused(drain(true)), "no_such_site");
}

#[test]
fn only_an_admin_keeps_sites() {
    let mut told = Told::default();
    for role in [Role::User, Role::Operator] {
        let spec = Box::new(described(""));
        assert_eq!(told.refused(Command::AddSite { by: actor("eve", role), spec }), "not_allowed");
    }
    let (by, mut spec) = (admin(), Box::new(described("")));
    spec.classes.clear();
    assert_eq!(told.refused(Command::AddSite { by, spec }), "invalid_site");
}

#[test]
fn a_job_goes_only_where_its_paths_and_its_owner_may_go() {
    let mut told = Told::with_site();
    let here = told.submit(r#"{"workdir":"/home/ada/x","resources":{"gpu":1}}"#);
    let elsewhere = told.submit(r#"{"workdir":"/scratch/ada","resources":{"gpu":1}}"#);
    assert_eq!(told.asks(), [("a100".into(), 1)], "for one of the two");
    let path = KeptFrom::Path { path: "/scratch/ada".into() };
    assert_eq!(
        told.waits(elsewhere).last(),
        Some(&("a100, cpu".into(), SiteWait::KeptFrom { why: path }))
    );
    let name = told.broker().remove(0);
    told.comes(&name, 8, 1);
    let placed = told.place();
    assert_eq!(placed.len(), 1);
    assert_eq!(placed[0].task.job, here);
    told.ended(&name, task(here, 0), 1, OK);
    assert_eq!(told.place(), [], "though there is room now");
    told.apply(site(r#","scratch":"/tmp","users":["lin"]"#));
    assert_eq!(told.place(), [], "nor for ada now");
    let why = told.waits(elsewhere);
    let user = KeptFrom::User { user: ada().user };
    assert!(
        why.iter().any(|(_, wait)| *wait == SiteWait::KeptFrom { why: user.clone() }),
        "{why:?}"
    );
    let (by, mut spec) = (admin(), Box::new(described("")));
    spec.shared = vec!["/".into()];
    told.apply(Command::AddSite { by, spec });
    assert_eq!(told.place().len(), 1, "all is shared");
}

#[test]
fn what_could_never_run_at_a_site_says_what_is_missing() {
    let mut told = Told::with_site();
    let large = told.submit(r#"{"resources":{"gpu":2}}"#);
    assert_eq!(told.asks(), []);
    let waits = told.waits(large);
    assert!(matches!(&waits[0].1, SiteWait::TooSmall { .. }), "{waits:?}");
    assert!(told.why(large).iter().all(Reason::is_hopeless));
    let long = told.submit(r#"{"time_limit":"3d"}"#);
    let waits = told.waits(long);
    assert!(waits.iter().all(|(_, wait)| matches!(wait, SiteWait::TooShort { .. })), "{waits:?}");
    let odd = told.submit(r#"{"requirements":"HasFast == true"}"#);
    let waits = told.waits(odd);
    assert!(waits.iter().all(|(_, wait)| matches!(wait, SiteWait::Requires { .. })), "{waits:?}");
    let many = told.submit(r#"{"array":"1-99","resources":{"gpu":1}}"#);
    for name in told.broker() {
        told.comes(&name, 8, 1);
    }
    told.place();
    let at = SiteWait::AtLimit { limit: SiteLimit::Pilots, most: 4 };
    assert!(told.waits(many).contains(&("a100".into(), at)), "{:?}", told.waits(many));
}

#[test]
fn a_site_whose_pilots_are_of_no_use_is_asked_for_one_now_and_then() {
    let mut told = Told::with_site();
    let job = told.submit(r#"{"array":"1-9","resources":{"gpu":1}}"#);
    let mut unfit = PilotJoined { lease: LEASE, ..pilot("p", 8, 0) };
    let names = told.broker();
    for name in &names {
        (unfit.pilot, unfit.ad.node) = (id(name), NodeName::new(name).expect("good"));
        unfit.ad.unfit = vec!["asked for 1 GPU, found none".into()];
        told.apply(Command::PilotJoined(Box::new(unfit.clone())));
        told.apply(Command::PilotEnded { pilot: id(name) });
    }
    told.sees(&[]);
    assert_eq!(told.asks(), [], "it rests");
    let waits = told.waits(job);
    let is_told =
        |wait: &SiteWait| matches!(wait, SiteWait::Trouble { what: EngineTrouble::Unfit, .. });
    assert!(waits.iter().any(|(_, wait)| is_told(wait)), "{waits:?}");
    told.now += 600_000;
    assert_eq!(told.asks(), [("a100".into(), 1)], "one, to see");
    let name = told.broker().remove(0);
    assert_eq!(told.asks(), [], "and no other meanwhile");
    told.apply(said(Said::Taken { allocation: allocation(&name), engine_id: "5".into() }));
    assert_eq!(told.asks(), [], "that it was taken says nothing");
    told.sees(&[(&name, Phase::Ended(AllocationEnd::Failed), "FAILED (NonZeroExitCode)")]);
    assert_eq!(told.asks(), [], "none came");
    told.now += 600_000;
    let name = told.broker().remove(0);
    told.comes(&name, 8, 1);
    assert_eq!(told.place().len(), 1);
    assert_eq!(told.asks(), [("a100".into(), 3)], "it works");
}

#[test]
fn what_is_held_waits_for_a_person_unless_it_has_had_its_start() {
    let mut told = Told::with_site();
    told.submit(r#"{"array":"1-2","resources":{"gpu":1}}"#);
    let names = told.broker();
    let held = (Phase::Held, "HELD (code 1: it is too warm)");
    told.comes(&names[0], 8, 1);
    assert_eq!(told.place().len(), 1);
    told.sees(&[(&names[0], Phase::Running, "RUNNING"), (&names[1], held.0, held.1)]);
    assert_eq!(told.phase(&names[1]), Some(Phase::Held));
    assert_eq!(told.asks(), [], "a person may release it");
    told.sees(&[(&names[0], held.0, held.1), (&names[1], held.0, held.1)]);
    assert_eq!(told.phase(&names[0]), Some(Phase::GivenUp), "it would start nothing");
    assert_eq!(told.phase(&names[1]), Some(Phase::Held));
}

#[test]
fn a_kind_whose_pilots_die_again_and_again_is_tried_by_one() {
    let mut told = Told::with_site();
    told.submit(r#"{"array":"1-9","resources":{"gpu":1}}"#);
    let end = Phase::Ended(AllocationEnd::Failed);
    let dies = |told: &mut Told, names: &[String]| {
        for name in names {
            told.comes(name, 8, 1);
        }
        told.place();
        let seen: Vec<_> = names.iter().map(|name| (&**name, end, "FAILED")).collect();
        for name in names {
            let connection = ConnectionNumber(1);
            told.apply(Command::PilotAway { pilot: id(name), connection });
        }
        told.sees(&seen);
    };
    let names = told.broker();
    assert_eq!(names.len(), 4);
    dies(&mut told, &names);
    assert_eq!(told.state.sites()[&hpc()].troubles["a100"].times, 1, "all for one cause, perhaps");
    assert_eq!(told.asks(), []);
    told.wait(5_000);
    let names = told.broker();
    assert_eq!(names.len(), 4, "once may be their nodes' affair");
    dies(&mut told, &names);
    told.wait(10_000);
    let names = told.broker();
    assert_eq!(names.len(), 1);
    told.comes(&names[0], 8, 1);
    let placed = told.place();
    assert_eq!(told.asks(), [], "that it came says nothing");
    told.ended(&names[0], placed[0].task, placed[0].attempt.0, OK);
    assert!(told.state.sites()[&hpc()].troubles.is_empty());
    told.place();
    assert_eq!(told.asks(), [("a100".into(), 1)], "a task has ended there; they are short");
}

#[test]
fn sites_where_pilots_come_soon_are_asked_first_then_the_cheap() {
    let mut told = Told::with_site();
    let mut other = described(r#","wall":"13h""#);
    other.name = SiteName::new("other").expect("good");
    other.classes[0].cost = "2.5".parse().expect("a price");
    let mut first = described("");
    first.classes[0].cost = "3".parse().expect("a price");
    for spec in [other, first] {
        told.apply(Command::AddSite { by: admin(), spec: Box::new(spec) });
    }
    let asked_of = |told: &Told| -> Vec<String> {
        told.proposal().asks.iter().map(|ask| ask.site.to_string()).collect()
    };
    told.submit(r#"{"resources":{"gpu":1}}"#);
    assert_eq!(asked_of(&told), ["other"], "it is cheaper");
    let name = told.broker().remove(0);
    told.now += 120_000;
    assert_eq!(asked_of(&told), ["hpc"], "that one waits for two minutes");
    assert_eq!(told.proposal().surplus.len(), 1);
    told.comes(&name, 8, 1);
    told.place();
    told.submit(r#"{"resources":{"gpu":1}}"#);
    assert_eq!(asked_of(&told), ["hpc"], "the last one waited for two minutes");
    told.now += 3_600_000;
    assert_eq!(asked_of(&told), ["other"], "that was long ago");
}

#[test]
fn what_ended_and_is_run_again_goes_only_where_it_may_by_now() {
    let mut told = Told::with_site();
    let job = told.submit(r#"{"resources":{"gpu":1}}"#);
    let name = told.broker().remove(0);
    told.comes(&name, 8, 1);
    told.place();
    told.ended(&name, task(job, 0), 1, FAILED);
    assert_eq!(told.job_state(job), JobState::Failed);
    told.apply(site(r#","users":["lin"]"#));
    told.retry(job, Pick::All);
    assert_eq!(told.place(), [], "it is for lin now");
}

#[test]
fn a_pilot_that_runs_and_never_comes_is_said_and_is_taken_back_by_draining() {
    let mut told = Told::with_site();
    let job = told.submit(r#"{"resources":{"gpu":1}}"#);
    let name = told.broker().remove(0);
    told.apply(said(Said::Taken { allocation: allocation(&name), engine_id: "17".into() }));
    told.sees(&[(&name, Phase::Running, "RUNNING")]);
    let waits = told.waits(job);
    let is_told = |wait: &SiteWait| {
        let SiteWait::Pending { words, .. } = wait else { return false };
        words.contains("has not come")
    };
    assert!(waits.iter().any(|(_, wait)| is_told(wait)), "{waits:?}");
    told.apply(Command::DrainSite { by: admin(), site: hpc(), draining: true });
    assert_eq!(told.phase(&name), Some(Phase::GivenUp));
    told.sees(&[]);
    assert_eq!(told.phase(&name), None);
}

#[test]
fn of_gpus_at_sites_is_said_what_why_would_say() {
    let mut told = Told::with_site();
    let gpus = |told: &Told, request: &str| {
        let gpu = Some(request.parse().expect(request));
        let resources = shipway_model::Resources { gpu, ..shipway_model::Resources::default() };
        let spec = shipway_model::JobSpec { resources, ..shipway_model::JobSpec::default() };
        let (ada, terms) = (ada(), Terms::of(&spec));
        let shape = Shape::of(&spec, &ada.user, Gang::default());
        let shape = told.state.at_sites(shape, &ada.user, &terms);
        let now = Timestamp(told.now);
        explain_gpus(&told.state, &shape, (&ada.user, &terms), now)
    };
    let key = (hpc(), String::from("a100"));
    let room = |told: &Told| room(&told.state, Timestamp(told.now)).get(&key).copied();
    assert_eq!(gpus(&told, "1")[&key], [SiteWait::Asking]);
    assert_eq!(gpus(&told, "1").len(), 1, "the class without GPUs is none of it");
    assert_eq!(room(&told), Some(4));
    let small = gpus(&told, "2");
    assert!(matches!(small[&key][..], [SiteWait::TooSmall { .. }]), "{small:?}");
    let job = told.submit(r#"{"array":"1-3","resources":{"gpu":1}}"#);
    let names = told.broker();
    let said: Vec<_> =
        names.iter().map(|it| (&**it, Phase::Queued, "PENDING (Priority)")).collect();
    told.sees(&said);
    assert_eq!(gpus(&told, "1")[&key], [told.waits(job)[0].1.clone()]);
    assert_eq!(room(&told), Some(1), "three of four are asked for");
    told.apply(Command::DrainSite { by: admin(), site: hpc(), draining: true });
    assert_eq!(room(&told), Some(0));
    told.apply(Command::DrainSite { by: admin(), site: hpc(), draining: false });
    told.apply(site(r#","required_tags":["test"]"#));
    let kept = gpus(&told, "1");
    assert!(matches!(kept[&key][..], [SiteWait::KeptFrom { .. }]), "{kept:?}");
}

#[test]
fn of_a_pilot_that_waits_it_is_said_how_long_the_last_ones_did() {
    let mut told = Told::with_site();
    let job = told.submit(r#"{"array":"1-4","resources":{"gpu":1}}"#);
    let start = |told: &Told| {
        let SiteWait::Pending { start, .. } = told.waits(job)[0].1.clone() else { return None };
        start
    };
    let names = told.broker();
    let all = |told: &mut Told, phase| {
        let seen: Vec<_> = names.iter().map(|it| (&**it, phase, "PENDING")).collect();
        told.sees(&seen);
    };
    all(&mut told, Phase::Queued);
    assert_eq!(start(&told), None, "nothing is known of others");
    let asked = Timestamp(told.now);
    told.wait(40_000);
    told.comes(&names[0], 8, 1);
    told.wait(100_000);
    told.comes(&names[1], 8, 1);
    assert_eq!(told.place().len(), 2, "the other two wait for the other pilots");
    let Some(ExpectedStart::Others { pilots: 2, shortest, longest, newest }) = start(&told) else {
        panic!("{:?}", told.waits(job));
    };
    assert!(shortest.0.abs_diff(40_000) < 1_000 && longest.0.abs_diff(140_000) < 1_000);
    assert!(newest.0.abs_diff(told.now) < 1_000);
    assert!(newest.since(asked).0.abs_diff(longest.0) < 1_000);
    all(&mut told, Phase::Held);
    assert_eq!(start(&told), None, "what waits for a person waits as long as that takes");
    all(&mut told, Phase::Queued);
    told.wait(24 * 3_600_000);
    assert_eq!(start(&told), None, "that was too long ago");
}

#[test]
fn a_change_for_a_site_says_how_many_pilots_it_would_admit() {
    let mut told = Told::with_site();
    let changes = |told: &Told, job| {
        let found = crate::explain::prospect(&told.state, job, Timestamp(told.now));
        found.expect("it waits").changes
    };
    let two = told.submit(r#"{"resources":{"gpu":2}}"#);
    let [change] = &changes(&told, two)[..] else { panic!("{:?}", changes(&told, two)) };
    assert_eq!((change.site.as_ref(), change.pilots, change.nodes), (Some(&hpc()), Some(4), 0));
    let said = "ask for 1 instead of 2 GPUs: pilots of site hpc (a100) could run it (at most 4 \
                such pilots at a time)";
    assert_eq!(change.to_string(), said);
    let data = serde_json::to_value(change).expect("data");
    assert_eq!(
        (data.get("nodes"), data["pilots"].as_u64()),
        (None, Some(4)),
        "no number is made up"
    );
    // Both kinds have four cores, and together there may be no more than the site lets run.
    let wide = told.submit(r#"{"resources":{"cpus":16}}"#);
    let all = changes(&told, wide);
    let four = all.iter().find(|change| change.class == "cpu").unwrap_or(&all[0]);
    assert_eq!(four.pilots, Some(if four.class == "cpu" { 12 } else { 4 }), "{all:?}");
}
