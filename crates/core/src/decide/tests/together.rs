//! Several nodes in one allocation: how many are asked for, and what becomes of all of them when
//! one leaves, does not come or dies, and when the batch system ends them together.

use super::sites::{admin, awaited, hpc, site};
use super::*;
use crate::broker::room;
use crate::command::AskBatch;
use crate::invariants::Violation;
use crate::site::Phase;
use shipway_model::reason::{SiteLimit, SiteWait};
use shipway_model::{AllocationEnd, SiteName, SiteSpec};

const COMPLETED: Phase = Phase::Ended(AllocationEnd::Completed);
const CANCELLED: Phase = Phase::Ended(AllocationEnd::Cancelled);

impl Told {
    /// A site with up to four pilots of four cores, two in each allocation.
    fn with_pairs() -> Told {
        let mut told = Told { no_token_of_itself: true, ..Told::default() };
        told.apply(described(2));
        told
    }

    /// Two tasks, each on its pilot of one allocation.
    fn with_a_pair() -> (Told, JobId, String) {
        let mut told = Told::with_pairs();
        let job = told.submit(r#"{"array":"0-1","resources":{"cpus":4}}"#);
        let [name] = told.broker().try_into().expect("one allocation");
        told.comes(&name, 4, 0);
        told.comes(&other(&name), 4, 0);
        assert_eq!(told.place().len(), 2);
        (told, job, name)
    }

    /// A task that was worth a pilot's start.
    fn has_run(&mut self, name: &str, task: TaskId) {
        let end = Ended { ran: Millis(600_000), ..end(self.now, OK) };
        self.report(name, vec![ended(task, 1, end)]);
    }

    fn leaves(&mut self, name: &str) {
        self.apply(Command::PilotEnded { pilot: id(name) });
    }

    fn standing(&self, job: JobId) -> SiteWait {
        let found = self.why(job).into_iter().find_map(|why| {
            let Reason::AtSite { wait, .. } = why else { return None };
            Some(wait)
        });
        found.expect("a reason of the site")
    }

    fn tokens(&self) -> Vec<&PilotId> {
        self.state.pilot_tokens().keys().collect()
    }
}

fn described(nodes: u32) -> Command {
    let json = format!(
        r#"{{"name":"hpc","kind":"slurm","program":"/opt/shipway","server":"http://h:7447",
            "shared":["/"],"limits":{{"pending":6,"running":12,"starts_per_hour":100}},
            "classes":[{{"name":"mpi","pilots":4,"nodes":{nodes},"cpus":4,"memory":"16GB"}}]}}"#
    );
    let spec: SiteSpec = serde_json::from_str(&json).expect(&json);
    Command::AddSite { by: admin(), spec: Box::new(spec) }
}

/// The pilot of the second node.
fn other(name: &str) -> String {
    format!("{name}.1")
}

fn away(name: &str) -> Command {
    Command::PilotAway { pilot: id(name), connection: ConnectionNumber(1) }
}

#[test]
fn each_submission_brings_two_pilots_and_no_more_come_than_work_needs() {
    for (tasks, asks) in [(1, 1), (2, 1), (3, 2), (9, 2)] {
        let mut told = Told::with_pairs();
        told.submit(&format!(r#"{{"array":"1-{tasks}","resources":{{"cpus":4}}}}"#));
        assert_eq!(told.asks(), [("mpi".into(), asks)], "{tasks} tasks, and four pilots at most");
        assert_eq!(told.broker().len(), asks as usize);
        let tokens = told.tokens().len();
        assert_eq!(tokens, 2 * asks as usize, "one for each node");
        assert_eq!(told.asks(), [], "all of them are coming");
    }
}

#[test]
fn what_is_said_of_pilots_counts_all_nodes() {
    let mut told = Told::with_pairs();
    let left = |told: &Told| {
        let key = (hpc(), "mpi".to_owned());
        room(&told.state, Timestamp(told.now)).get(&key).copied()
    };
    assert_eq!(left(&told), Some(4));
    let job = told.submit(r#"{"array":"1-9","resources":{"cpus":4}}"#);
    let names = told.broker();
    assert_eq!(left(&told), Some(0));
    let SiteWait::Pending { pilots: 4, .. } = told.standing(job) else {
        panic!("{:?}", told.standing(job));
    };
    let all = names.iter().flat_map(|name| [name.clone(), other(name)]);
    for name in all.collect::<Vec<_>>() {
        told.comes(&name, 4, 0);
    }
    told.place();
    let limit = SiteWait::AtLimit { limit: SiteLimit::Pilots, most: 4 };
    assert_eq!(told.standing(job), limit);
}

#[test]
fn one_that_leaves_ends_neither_the_others_nor_the_allocation() {
    let (mut told, job, name) = Told::with_a_pair();
    let waits = told.submit(r#"{"array":"1-9","resources":{"cpus":4}}"#);
    told.has_run(&name, task(job, 0));
    told.leaves(&name);
    assert_eq!(told.tokens(), [&id(&other(&name))], "nobody comes with its token again");
    assert_eq!(told.counts(job).active, 1);
    assert_eq!(told.state.allocations().len(), 1, "it goes on");
    // The node that it leaves is held: there is room for two more, not for three.
    assert_eq!(told.asks(), [("mpi".into(), 1)]);
    told.sees(&[(&name, Phase::Running, "RUNNING")]);
    told.has_run(&other(&name), task(job, 1));
    told.leaves(&other(&name));
    assert_eq!(told.state.allocations().len(), 1, "until its site has said so");
    told.sees(&[(&name, COMPLETED, "COMPLETED")]);
    assert!(told.state.allocations().is_empty() && told.tokens().is_empty());
    assert!(told.state.sites()[&hpc()].troubles.is_empty(), "all came, and left as they should");
    assert_eq!(told.asks(), [("mpi".into(), 2)]);
    assert_eq!(told.counts(waits).waiting, 9);
}

#[test]
fn what_the_site_cancels_is_lost_on_all_its_nodes_and_runs_again() {
    // Whether the server sees that the pilots are gone before or after the site has said so.
    for was_away in [true, false] {
        let (mut told, job, name) = Told::with_a_pair();
        let both = [name.clone(), other(&name)];
        if was_away {
            for pilot in &both {
                told.apply(away(pilot));
            }
        }
        let mut events = told.sees(&[(&name, CANCELLED, "CANCELLED by 0")]);
        if !was_away {
            assert_eq!(told.counts(job).active, 2, "they are in touch");
            for pilot in &both {
                events.extend(told.apply(away(pilot)));
            }
        }
        let lost = events.iter().filter_map(|event| {
            let Event::AttemptEnded(ended) = event else { return None };
            Some(ended.outcome.clone())
        });
        let expected = Outcome::Lost { why: Lost::PilotCancelled };
        assert_eq!(lost.collect::<Vec<_>>(), [expected.clone(), expected]);
        assert!(told.state.pilots().is_empty() && told.state.allocations().is_empty());
        assert_eq!((told.counts(job).waiting, told.tokens().len()), (2, 0));
        told.wait(1);
        let [again] = told.broker().try_into().expect("one allocation");
        told.comes(&again, 4, 0);
        told.comes(&other(&again), 4, 0);
        assert_eq!(told.place().len(), 2);
    }
}

#[test]
fn one_that_does_not_come_keeps_no_task_waiting_and_is_told_of() {
    let mut told = Told::with_pairs();
    told.submit(r#"{"array":"0-1","resources":{"cpus":4}}"#);
    let [name] = told.broker().try_into().expect("one allocation");
    told.comes(&name, 4, 0);
    assert_eq!(told.place().len(), 1);
    assert_eq!(told.asks(), [], "it is thought to come");
    told.wait(60_000);
    assert_eq!(told.asks(), [("mpi".into(), 1)], "and no longer");
    told.leaves(&name);
    told.sees(&[(&name, Phase::Ended(AllocationEnd::Failed), "FAILED (exit code 73)")]);
    let trouble = &told.state.sites()[&hpc()].troubles["mpi"];
    assert_eq!(trouble.words, "of its 2 pilots 1 did not come: FAILED (exit code 73)");
    assert!(told.state.allocations().is_empty() && told.tokens().is_empty());
}

#[test]
fn pilots_of_one_allocation_that_die_together_count_once() {
    let (mut told, _, name) = Told::with_a_pair();
    told.sees(&[(&name, Phase::Ended(AllocationEnd::Failed), "FAILED")]);
    let site = &told.state.sites()[&hpc()];
    assert_eq!((site.troubles["mpi"].times, site.is_on_trial("mpi")), (1, false));
}

#[test]
fn after_a_restart_all_its_pilots_are_asked_for_again() {
    let mut told = Told::with_pairs();
    told.submit(r#"{"resources":{"cpus":4}}"#);
    let [name] = told.broker().try_into().expect("one allocation");
    for again in [false, true] {
        if again {
            told.apply(Command::ServerStarted);
        }
        let asked = told.effects.iter().find_map(|effect| {
            let Effect::Ask { pilots, again: is_again, .. } = effect else { return None };
            (*is_again == again).then_some(pilots)
        });
        assert_eq!(asked, Some(&vec![id(&name), id(&other(&name))]), "{again}");
    }
}

#[test]
fn only_an_allocation_with_a_pilot_for_each_node_is_asked_for() {
    let mut told = Told::with_pairs();
    let ask = |told: &mut Told, name: &str, pilots| {
        let allocations = vec![(AllocationId::new(name).expect("good"), pilots)];
        let site = SiteName::new("hpc").expect("good");
        let ask = AskBatch { site, class: "mpi".into(), allocations };
        told.apply(Command::AskBatch(Box::new(ask))).len()
    };
    assert_eq!(ask(&mut told, "a", awaited("a", 1)), 0, "the file was another when it was made");
    assert_eq!(ask(&mut told, "a", awaited("a", 3)), 0);
    let twice = [awaited("a", 1), awaited("a", 1)].concat();
    assert_eq!(ask(&mut told, "a", twice), 0, "one pilot is on one node");
    assert_eq!(ask(&mut told, "a", awaited("a", 2)), 1);
    let of_another = [awaited("b", 1), awaited("a", 1)].concat();
    assert_eq!(ask(&mut told, "b", of_another), 0, "a pilot is of one allocation");
    assert_eq!(ask(&mut told, "b", awaited("b", 2)), 1);
    assert_eq!(ask(&mut told, "c", awaited("c", 2)), 0, "there are four");
    // Of what was asked for before, an allocation has the nodes that it had then.
    told.apply(described(4));
    assert_eq!(ask(&mut told, "c", awaited("c", 4)), 0);
    told.sees(&[("b", COMPLETED, "COMPLETED")]);
    assert_eq!(ask(&mut told, "c", awaited("c", 4)), 0, "two of four are held");
    told.apply(Command::GiveUp { allocations: vec![AllocationId::new("a").expect("good")] });
    told.sees(&[("a", CANCELLED, "CANCELLED")]);
    told.now += 5_000;
    assert_eq!(ask(&mut told, "c", awaited("c", 4)), 1);
}

#[test]
fn more_pilots_than_nodes_are_a_broken_promise() {
    let (mut told, _, name) = Told::with_a_pair();
    let allocation = AllocationId::new(&name).expect("good");
    let known = told.state.allocations.get_mut(&allocation).expect("there");
    known.batch.as_mut().expect("of a batch system").nodes = 1;
    assert_eq!(check(&told.state), [Violation::AllocationShared(allocation)]);
    let (mut told, _, name) = Told::with_a_pair();
    told.state.allocations.get_mut(&AllocationId::new(&name).expect("good"));
    let token = told.state.pilot_tokens.get_mut(&id(&name)).expect("there");
    token.allocation = AllocationId::new("another").expect("good");
    assert!(check(&told.state).contains(&Violation::PilotOfAnother(id(&name))));
}

/// What journals of before have names one pilot for each.
#[test]
fn what_was_asked_for_before_has_one_node() {
    let mut told = Told { no_token_of_itself: true, ..Told::default() };
    told.apply(site(""));
    told.submit(r#"{"resources":{"gpu":1}}"#);
    told.broker();
    let stored = snapshot::write(&told.state);
    assert!(!String::from_utf8_lossy(&stored).contains(r#""nodes""#), "as it was written before");
    let read = snapshot::read(&stored).expect("reads back");
    let mut of_batch = read.allocations().values().filter_map(|known| known.batch.as_ref());
    assert_eq!(of_batch.next().map(|batch| batch.nodes), Some(1));
}
