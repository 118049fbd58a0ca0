//! What whoever asked is told: of what they asked for, not of all that follows from it.

use super::*;

fn touched(told: &Told) -> u32 {
    let Done::Touched { tasks } = told.done else { panic!("{:?}", told.done) };
    tasks
}

#[test]
fn a_submission_is_answered_with_its_first_job_also_when_repeated() {
    let mut told = Told::default();
    let first = told.state.next_job();
    let mut two = submission(first, ada(), "{}", Some("key"));
    let Command::Submit(submit) = &mut two else { panic!() };
    submit.jobs.push(NewJob::new(JobId(first.0 + 1), spec("{}")));
    told.apply(two.clone());
    assert_eq!(told.done, Done::Submitted { first, repeated: false });
    let Command::Submit(submit) = &mut two else { panic!() };
    submit.jobs.iter_mut().for_each(|new| new.job.0 += 2);
    assert_eq!(told.apply(two), []);
    assert_eq!(told.done, Done::Submitted { first, repeated: true });
}

#[test]
fn what_waited_and_what_ran_is_counted_and_what_had_ended_is_not() {
    let mut told = Told::default();
    told.join("p", 2, 0);
    let job = told.submit(r#"{"array":"1-5","resources":{"cpus":1}}"#);
    told.place();
    told.ended("p", task(job, 1), 1, FAILED);
    assert_eq!(told.done, Done::Plain);
    told.cancel(job, Pick::Tasks(vec![TaskIndex(1), TaskIndex(3), TaskIndex(3)]));
    assert_eq!(touched(&told), 1);
    told.cancel(job, Pick::All);
    assert_eq!(touched(&told), 3, "one runs, and two wait");
    told.ended("p", task(job, 2), 1, Outcome::Signal { signal: 15 });
    told.retry(job, Pick::State(TaskState::Cancelled));
    assert_eq!(touched(&told), 4);
}

#[test]
fn jobs_that_end_with_one_that_is_cancelled_count_only_if_they_are_named() {
    for named in [false, true] {
        let mut told = Told::default();
        let first = told.submit(r#"{"array":"1-3"}"#);
        let after = told.submit(&format!(r#"{{"array":"1-7","after":["{first}"]}}"#));
        let mut jobs = vec![(first, Pick::All)];
        jobs.extend(named.then_some((after, Pick::All)));
        told.apply(Command::Cancel(Select { by: ada(), jobs }));
        assert_eq!(told.job_state(after), JobState::Cancelled);
        assert_eq!(touched(&told), if named { 10 } else { 3 });
    }
}

#[test]
fn who_removes_a_user_hears_how_many_jobs_were_left() {
    let mut told = Told::default();
    let root = || actor("root", Role::Admin);
    let user = ada().user;
    told.apply(Command::AddUser { by: root(), user: user.clone(), role: Role::User });
    let ended = told.submit("{}");
    told.cancel(ended, Pick::All);
    told.submit("{}");
    told.submit(r#"{"array":"1-3"}"#);
    told.apply(Command::RemoveUser { by: root(), user, give_jobs_to: None });
    assert_eq!(told.done, Done::Removed { jobs: 2 });
}
