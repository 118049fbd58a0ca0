//! Tasks that were parted from those beside them: they count for who owns the job, who parts no
//! more of them once the memory for it is used up.

use super::*;
use crate::rejection::{Scatters, TooMany};
use shipway_model::limits::MAX_UNFINISHED_BYTES;

fn bytes(state: &State) -> u64 {
    state.unfinished().of(&ada().user).bytes
}

fn these(indices: impl IntoIterator<Item = u64>) -> Pick {
    Pick::Tasks(indices.into_iter().map(TaskIndex).collect())
}

fn cancel(by: Actor, job: JobId, pick: Pick) -> Command {
    Command::Cancel(Select { by, jobs: vec![(job, pick)] })
}

fn retry(by: Actor, job: JobId, pick: Pick) -> Command {
    let select = Select { by, jobs: vec![(job, pick)] };
    Command::Retry { select, revived: Vec::new() }
}

/// Requirements of ada's take all the memory that they may.
fn fill(told: &mut Told) {
    let long = "x".repeat(15_000);
    for count in 0.. {
        let json = format!(r#"{{"requirements":"Machine == \"{long}{count}\""}}"#);
        let command = submission(told.state.next_job(), ada(), &json, None);
        match step(&mut told.state, Timestamp(told.now), &command) {
            Ok(_) => {}
            Err(refused) => {
                assert_eq!(refused, Rejection::TooMany(TooMany::Bytes(Role::User)));
                return;
            }
        }
    }
}

#[test]
fn runs_of_tasks_count_for_their_owner_until_they_are_joined_again() {
    let mut told = Told::default();
    let job = told.submit(r#"{"array":"0-9999"}"#);
    let before = bytes(&told.state);
    told.cancel(job, these((1..9_999).step_by(2)));
    assert!(bytes(&told.state) >= before + 4_999 * 24, "{}", bytes(&told.state));
    told.retry(job, Pick::State(TaskState::Cancelled));
    assert_eq!(bytes(&told.state), before + 24, "one run, of all that was touched");
    told.cancel(job, these((0..9_999).step_by(2)));
    told.cancel(job, Pick::All);
    assert_eq!(bytes(&told.state), 0);
}

/// Placed in any order, ended, tried again and cancelled while they run: what the index says is
/// compared with the jobs after every step.
#[test]
fn what_becomes_of_tasks_by_itself_is_counted_too() {
    let mut told = Told::default();
    told.join("p", 8, 0);
    let job = told.submit(r#"{"array":"0-7","retries":{"limit":1,"delay":"1s"}}"#);
    let before = bytes(&told.state);
    told.place();
    for index in [1, 4, 6] {
        told.ended("p", task(job, index), 1, FAILED);
    }
    assert_eq!(bytes(&told.state), before + 6 * 48, "three tried again, three in a back-off");
    told.cancel(job, these([0, 7]));
    told.ended("p", task(job, 0), 1, OK);
    told.wait(2_000);
    told.place();
    for index in [1, 4, 6] {
        told.ended("p", task(job, index), 2, OK);
    }
    for index in [2, 3, 5, 7] {
        told.ended("p", task(job, index), 1, OK);
    }
    assert_eq!(bytes(&told.state), 0, "it has ended");
    assert!(told.state.job(job).expect("there").ended.is_some());
}

#[test]
fn who_has_no_memory_left_parts_no_more_tasks_but_may_cancel_all_of_a_job() {
    let mut told = Told::default();
    told.join("p", 2, 0);
    let job = told.submit(r#"{"array":"0-99"}"#);
    told.cancel(job, these([10, 12]));
    told.place();
    fill(&mut told);
    let now = Timestamp(told.now);
    let state = &mut told.state;
    let mut apply = |command: Command| step(state, now, &command).map(|_| ());
    let refused = |act| Err(Rejection::TooScattered { act, job, owner: ada().user });

    assert_eq!(apply(cancel(ada(), job, these([20]))), refused(Scatters::Cancel));
    assert_eq!(apply(cancel(ada(), job, these(30..40))), refused(Scatters::Cancel));
    // What joins as much as it parts, or touches nothing that waits.
    assert_eq!(apply(cancel(ada(), job, these([11, 20]))), Ok(()));
    assert_eq!(apply(cancel(ada(), job, these(90..100))), Ok(()));
    assert_eq!(apply(cancel(ada(), job, these([0]))), Ok(()), "it runs");
    assert_eq!(apply(retry(ada(), job, these([95]))), refused(Scatters::Retry));
    assert_eq!(apply(retry(ada(), job, these([10]))), Ok(()), "next to one that waits");
    // Who keeps the server going may; it counts for ada.
    let grace = || actor("grace", Role::Operator);
    assert_eq!(apply(cancel(grace(), job, these([50, 52]))), Ok(()));
    assert_eq!(apply(retry(grace(), job, these([95]))), Ok(()));
    // What happens by itself is told as ever, however it scatters them.
    let held = vec![ended(task(job, 1), 1, end(now.0, FAILED))];
    let report = PilotReported { pilot: id("p"), held };
    assert_eq!(apply(Command::PilotReported(report)), Ok(()));
    let plan = schedule(state, now);
    assert_eq!(plan.len(), 1);
    step(state, now, &Command::ApplyPlan(plan)).expect("it is placed");

    assert_eq!(check(state), []);
    assert!(bytes(state) > MAX_UNFINISHED_BYTES);
    let before = bytes(state);
    step(state, now, &cancel(ada(), job, Pick::All)).expect("a whole job");
    assert!(bytes(state) < before);
}
