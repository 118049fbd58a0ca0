//! Submission, arrays, dependencies, cancelling, ownership.

use super::*;

#[test]
fn a_job_goes_from_waiting_to_succeeded() {
    let mut told = Told::default();
    let job = told.submit("{}");
    assert_eq!((job, told.job_state(job)), (JobId(1), JobState::Waiting));
    told.join("p", 1, 0);
    assert_eq!(told.place().len(), 1);
    assert!(matches!(told.effects[..], [Effect::Assign { .. }]));
    assert_eq!(told.state.task_state(task(job, 0)), Some(TaskState::Placed));
    told.started("p", task(job, 0), 1);
    assert_eq!(told.state.task_state(task(job, 0)), Some(TaskState::Running));
    let events = told.ended("p", task(job, 0), 1, OK);
    assert_eq!(events[1], Event::JobEnded { job, state: JobState::Succeeded });
    assert_eq!(told.job_state(job), JobState::Succeeded);
    assert!(told.state.active().is_empty());
}

#[test]
fn a_repeat_is_recognised_and_a_reused_key_refused() {
    let mut told = Told::default();
    assert_eq!(told.apply(submission(JobId(1), ada(), "{}", Some("k"))).len(), 1);
    assert_eq!(told.apply(submission(JobId(2), ada(), "{}", Some("k"))), []);
    assert_eq!(told.state.jobs().len(), 1);
    let other = r#"{"priority":5}"#;
    assert_eq!(told.refused(submission(JobId(2), ada(), other, Some("k"))), "key_reused");
    let bob = actor("bob", Role::User);
    assert_eq!(told.apply(submission(JobId(2), bob, other, Some("k"))).len(), 1, "his own key");
    told.now += shipway_model::limits::IDEMPOTENCY_KEPT.0;
    // They are looked for now and then, not one by one.
    assert!(matches!(told.wait(11 * 60_000)[..], [Event::KeysExpired { .. }]));
    assert_eq!(told.state.next_deadline(), None);
    assert_eq!(told.apply(submission(JobId(3), ada(), other, Some("k"))).len(), 1, "forgotten");
}

#[test]
fn a_key_is_looked_at_just_after_its_time_so_that_nothing_spins() {
    let mut told = Told::default();
    told.apply(submission(JobId(1), ada(), "{}", Some("k")));
    let deadline = told.state.next_deadline().expect("the key ends").0;
    told.now = deadline - 2;
    assert_eq!(told.wait(0), [], "one moment before it is due");
    assert_eq!(told.wait(0).len(), 1, "when it is due");
}

#[test]
fn a_specification_that_cannot_run_is_refused_with_every_problem() {
    let mut told = Told::default();
    let mut bad = submission(JobId(1), ada(), r#"{"max_running":0,"after":[1,1]}"#, None);
    if let Command::Submit(submit) = &mut bad {
        submit.jobs[0].spec.command.clear();
    }
    match told.try_tell(&bad) {
        Err(Rejection::InvalidSpec(problems)) => assert!(problems.len() >= 2, "{problems:?}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(told.refused(submission(JobId(1), ada(), "{}", Some(""))), "invalid_spec");
    assert_eq!(
        told.refused(submission(JobId(1), ada(), r#"{"after":[7]}"#, None)),
        "no_such_dependency"
    );
}

#[test]
fn an_array_runs_in_order_and_never_more_than_it_allows() {
    let mut told = Told::default();
    told.join("p", 10, 0);
    let job = told.submit(r#"{"array":"1-6","max_running":2}"#);
    let placed: Vec<_> = told.place().iter().map(|placement| placement.task).collect();
    assert_eq!(placed, [task(job, 1), task(job, 2)]);
    for done in 1..=6 {
        told.ended("p", task(job, done), 1, OK);
        assert!(told.counts(job).active < 2);
        told.place();
    }
    assert_eq!(told.job_state(job), JobState::Succeeded);
}

#[test]
fn dependents_go_or_never_go_when_the_end_is_known() {
    for (outcome, condition, expected) in [
        (OK, "ok", JobState::Waiting),
        (OK, "failed", JobState::Cancelled),
        (OK, "any", JobState::Waiting),
        (FAILED, "ok", JobState::Cancelled),
        (FAILED, "failed", JobState::Waiting),
        (FAILED, "any", JobState::Waiting),
    ] {
        let mut told = Told::default();
        told.join("p", 1, 0);
        let first = told.submit("{}");
        told.place();
        let after = format!(r#"{{"after":["{first}:{condition}"]}}"#);
        let before = told.submit(&after);
        assert_eq!(told.job_state(before), JobState::Held);
        assert_eq!(told.place(), [], "a held job is not placed");
        told.ended("p", task(first, 0), 1, outcome.clone());
        assert_eq!(told.job_state(before), expected, "{outcome} {condition}, told before");
        let later = told.submit(&after);
        assert_eq!(told.job_state(later), expected, "{outcome} {condition}, told after");
    }
}

#[test]
fn a_chain_that_can_never_go_falls_as_a_whole() {
    let mut told = Told::default();
    told.join("p", 1, 0);
    let first = told.submit("{}");
    let second = told.submit(r#"{"after":[1],"array":"1-3"}"#);
    let third = told.submit(r#"{"after":[2]}"#);
    let tidy = told.submit(r#"{"after":["3:failed"]}"#);
    told.place();
    let events = told.ended("p", task(first, 0), 1, FAILED);
    let over = |event: &&Event| matches!(event, Event::JobEnded { .. });
    assert_eq!(events.iter().filter(over).count(), 3);
    assert_eq!(told.job_state(second), JobState::Cancelled);
    assert_eq!(told.job_state(third), JobState::Cancelled);
    assert_eq!(told.job_state(tidy), JobState::Waiting, "cancelled is not a success");
}

#[test]
fn a_job_waits_for_all_it_names() {
    let mut told = Told::default();
    told.join("p", 2, 0);
    let (first, second) = (told.submit("{}"), told.submit("{}"));
    let both = told.submit(r#"{"after":[1,2]}"#);
    told.place();
    told.ended("p", task(first, 0), 1, OK);
    assert_eq!(told.job_state(both), JobState::Held);
    told.ended("p", task(second, 0), 1, OK);
    assert_eq!(told.job_state(both), JobState::Waiting);
}

/// Of one request, numbered from the next id on.
fn together(told: &Told, jobs: &[&str], key: Option<&str>) -> Command {
    let first = told.state.next_job().0;
    let new = |(at, json): (usize, &&str)| NewJob::new(JobId(first + at as u64), spec(json));
    let jobs = jobs.iter().enumerate().map(new).collect();
    Command::Submit(Box::new(Submit { by: ada(), key: key.map(Into::into), digest: 7, jobs }))
}

#[test]
fn jobs_that_come_together_are_all_taken_or_none() {
    let mut told = Told::default();
    let graph = [r"{}", r#"{"after":[1]}"#, r#"{"after":["2:failed"]}"#];
    told.apply(together(&told, &graph, Some("k")));
    let states = |told: &Told| [1, 2, 3].map(|job| told.job_state(JobId(job)));
    assert_eq!(states(&told), [JobState::Waiting, JobState::Held, JobState::Held]);
    assert_eq!(told.apply(together(&told, &graph, Some("k"))), [], "a repeat");
    told.cancel(JobId(1), Pick::All);
    assert_eq!(states(&told), [JobState::Cancelled, JobState::Cancelled, JobState::Waiting]);
    let bad = together(&told, &["{}", r#"{"after":[999]}"#], None);
    assert_eq!(told.refused(bad), "no_such_dependency");
    let forward = together(&told, &[r#"{"after":[5]}"#, "{}"], None);
    assert_eq!(told.refused(forward), "no_such_dependency", "only of those before it");
    assert_eq!(told.state.next_job(), JobId(4), "none of them was taken");
}

#[test]
fn one_that_can_never_run_takes_those_with_it_that_came_together() {
    let mut told = Told::default();
    let gone = told.submit("{}");
    told.cancel(gone, Pick::All);
    let jobs = [r#"{"after":[1]}"#, r#"{"after":[2]}"#, r#"{"after":["3:any"]}"#];
    told.apply(together(&told, &jobs, None));
    let states = [2, 3, 4].map(|job| told.job_state(JobId(job)));
    assert_eq!(states, [JobState::Cancelled, JobState::Cancelled, JobState::Waiting]);
}

#[test]
fn a_dependency_may_have_left_memory() {
    let mut told = Told::default();
    let known = |how| {
        let mut command = submission(JobId(9), ada(), r#"{"after":[3]}"#, None);
        if let Command::Submit(submit) = &mut command {
            submit.jobs[0].ended = vec![(JobId(3), how)];
        }
        command
    };
    told.apply(known(JobState::Succeeded));
    assert_eq!(told.job_state(JobId(9)), JobState::Waiting);
}

#[test]
fn cancelling_takes_back_what_waits_and_asks_what_runs_to_stop() {
    let mut told = Told::default();
    told.join("p", 1, 0);
    let job = told.submit(r#"{"array":"1-3"}"#);
    told.place();
    let events = told.cancel(job, Pick::All);
    assert_eq!(
        events[0],
        Event::StopRequested { tasks: vec![task(job, 1)], why: StopReason::Asked }
    );
    assert!(matches!(told.effects[..], [Effect::Stop { .. }]));
    assert_eq!(told.counts(job).cancelled, 2);
    assert_eq!(told.job_state(job), JobState::Running, "until the running one has stopped");
    let select = Select { by: ada(), jobs: vec![(job, Pick::All)] };
    assert_eq!(told.refused(Command::Cancel(select)), "nothing_to_do");
    told.ended("p", task(job, 1), 1, Outcome::Cancelled);
    assert_eq!(told.job_state(job), JobState::Cancelled);
}

#[test]
fn a_stopped_task_that_succeeded_all_the_same_has_succeeded() {
    for (outcome, expected) in [
        (OK, JobState::Succeeded),
        (FAILED, JobState::Cancelled),
        (Outcome::Signal { signal: 9 }, JobState::Cancelled),
        (Outcome::Lost { why: Lost::PilotDied }, JobState::Cancelled),
    ] {
        let mut told = Told::default();
        told.join("p", 1, 0);
        let job = told.submit(r#"{"retries":3}"#);
        told.place();
        told.cancel(job, Pick::All);
        told.ended("p", task(job, 0), 1, outcome);
        assert_eq!(told.job_state(job), expected);
    }
}

#[test]
fn single_tasks_can_be_cancelled_and_unknown_ones_are_named() {
    let mut told = Told::default();
    let job = told.submit(r#"{"array":"1-4"}"#);
    told.cancel(job, Pick::Tasks(vec![TaskIndex(2), TaskIndex(4)]));
    assert_eq!(told.counts(job).cancelled, 2);
    let jobs = vec![(job, Pick::Tasks(vec![TaskIndex(9)]))];
    assert_eq!(told.refused(Command::Cancel(Select { by: ada(), jobs })), "no_such_task");
    told.join("p", 9, 0);
    let placed: Vec<_> = told.place().iter().map(|placement| placement.task.index.0).collect();
    assert_eq!(placed, [1, 3]);
}

#[test]
fn somebody_elses_job_does_not_exist() {
    let mut told = Told::default();
    let job = told.submit("{}");
    let select = |name, role| Select { by: actor(name, role), jobs: vec![(job, Pick::All)] };
    let bob = || select("bob", Role::User);
    assert_eq!(told.refused(Command::Cancel(bob())), "no_such_job");
    let retry = Command::Retry { select: bob(), revived: Vec::new() };
    assert_eq!(told.refused(retry), "no_such_job");
    let after = submission(JobId(2), actor("bob", Role::User), r#"{"after":[1]}"#, None);
    assert_eq!(told.refused(after), "no_such_dependency");
    told.apply(Command::Cancel(select("ops", Role::Operator)));
    assert_eq!(told.job_state(job), JobState::Cancelled);
}

#[test]
fn ended_jobs_leave_memory_and_come_back_for_a_retry() {
    let mut told = Told::default();
    told.join("p", 1, 0);
    let json = r#"{"array":"1-2","max_running":1,"retries":{"limit":1,"delay":"1ms"}}"#;
    let job = told.submit(json);
    assert_eq!(told.apply(Command::Archive { jobs: vec![job] }), [], "not before its end");
    for (index, attempt, outcome) in [(1, 1, OK), (2, 1, FAILED), (2, 2, FAILED)] {
        told.wait(10);
        told.place();
        told.ended("p", task(job, index), attempt, outcome);
    }
    assert_eq!(told.state.archivable(0, 0), [job]);
    let record = told.state.record(job).expect("in memory");
    told.apply(Command::Archive { jobs: vec![job] });
    assert!(told.state.job(job).is_none());
    let select = Select { by: ada(), jobs: vec![(job, Pick::All)] };
    told.apply(Command::Retry { select, revived: vec![record] });
    let placed = told.place();
    assert_eq!((placed[0].task, placed[0].attempt), (task(job, 2), Attempt(3)));
    told.ended("p", task(job, 2), 3, OK);
    assert_eq!(told.job_state(job), JobState::Succeeded);
    assert_eq!(told.state.job(job).expect("in memory").revision, 2);
}

#[test]
fn ended_jobs_leave_memory_by_their_tasks_too() {
    let mut told = Told::default();
    let jobs: Vec<JobId> = (0..4)
        .map(|_| {
            let job = told.submit(r#"{"array":"1-100"}"#);
            told.cancel(job, Pick::All);
            job
        })
        .collect();
    assert_eq!((told.state.ended().jobs(), told.state.ended().tasks()), (4, 400));
    assert_eq!(told.state.archivable(4, 400), []);
    assert_eq!(told.state.archivable(4, 399), jobs[..1]);
    assert_eq!(told.state.archivable(4, 100), jobs[..3]);
    assert_eq!(told.state.archivable(1, 400), jobs[..3]);
    told.apply(Command::Archive { jobs: jobs[..3].to_vec() });
    assert_eq!((told.state.ended().jobs(), told.state.ended().tasks()), (1, 100));
}
