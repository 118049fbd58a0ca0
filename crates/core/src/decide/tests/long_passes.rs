//! Requirements that take long are worked out in several passes, and nobody else waits for them.

use super::*;

fn submit(told: &mut Told, by: &str, json: &str) -> JobId {
    let job = told.state.next_job();
    let command = submission(job, actor(by, Role::User), json, None);
    step(&mut told.state, Timestamp(told.now), &command).expect("accepted");
    job
}

/// What one pass places; it becomes true.
fn pass(told: &mut Told) -> Vec<JobId> {
    let now = Timestamp(told.now);
    let plan = schedule(&mut told.state, now);
    let jobs = plan.by_pilot().flat_map(|(_, tasks)| tasks).map(|placed| placed.task.job).collect();
    if !plan.is_empty() {
        step(&mut told.state, now, &Command::ApplyPlan(plan)).expect("it fits");
    }
    jobs
}

/// Whether a pass is to follow at once.
fn is_behind(told: &Told) -> bool {
    told.state.next_deadline().is_some_and(|at| at <= told.state.at())
}

#[test]
fn needs_of_many_new_jobs_are_worked_out_some_at_a_time() {
    let mut told = Told::default();
    told.join("p", 1_000, 0);
    let long = "x".repeat(15_000);
    for count in 0..200 {
        let json = format!(r#"{{"requirements":"Cpus > 0 || Arch == \"{long}{count}\""}}"#);
        submit(&mut told, "ada", &json);
    }
    let bobs = submit(&mut told, "bob", r#"{"requirements":"Cpus > 0"}"#);
    let first = pass(&mut told);
    assert!(first.contains(&bobs), "his came last, and he does not wait for hers");
    assert!((10..150).contains(&first.len()), "{}", first.len());
    assert!(is_behind(&told));
    // Who comes meanwhile waits no longer either.
    let cleos = submit(&mut told, "cleo", r#"{"resources":{"cpus":3}}"#);
    let mut placed = pass(&mut told);
    assert!(placed.contains(&cleos));
    placed.extend(first);
    for _ in 0..20 {
        placed.extend(pass(&mut told));
    }
    assert_eq!(placed.len(), 202);
    assert!(!is_behind(&told));
}

#[test]
fn requirements_that_every_node_is_asked_about_leave_the_others_their_turn() {
    let mut told = Told::default();
    for node in 0..40 {
        told.join(&format!("p{node}"), 1, 0);
    }
    // Some four thousand steps for each node, and none will do.
    let long = "x".repeat(15_000);
    for count in 0..4 {
        let asks = format!(r#"regexp(\"y{count}\", strcat(Machine, \"{long}\"))"#);
        submit(&mut told, "ada", &format!(r#"{{"requirements":"{asks}"}}"#));
    }
    let bobs = submit(&mut told, "bob", r#"{"requirements":"Machine == \"p7\""}"#);
    assert_eq!(pass(&mut told), [bobs]);
    assert!(is_behind(&told), "not all of hers were asked");
    for _ in 0..4 {
        assert_eq!(pass(&mut told), []);
    }
    assert!(!is_behind(&told), "none will do");
}

/// As many attributes as make it double so often, which is more than any evaluation may take.
fn doubling(name: &str) -> Vec<(String, String)> {
    (0..40)
        .map(|at| (format!("{name}{at}"), format!("{name}{next}+{name}{next}", next = at + 1)))
        .collect()
}

fn join_kind(told: &mut Told, name: &str, gpus: u64, attributes: Vec<(String, String)>) {
    let mut joined = pilot(name, 4, gpus);
    for (at, gpu) in joined.ad.gpus.iter_mut().enumerate() {
        gpu.model = format!("model {at}");
    }
    joined.ad.attributes = attributes.into_iter().collect();
    told.apply(Command::PilotJoined(Box::new(joined)));
}

#[test]
fn requirements_that_take_long_everywhere_do_not_take_longer_with_each_kind_of_nodes() {
    let mut told = Told::default();
    for rack in 0..200 {
        join_kind(&mut told, &format!("p{rack}"), 0, vec![("Rack".into(), rack.to_string())]);
    }
    let links: Vec<String> =
        doubling("c").iter().map(|(name, text)| format!("{name}={text};")).collect();
    let chain = links.concat();
    let requirements = format!("Rack == 199 || [{chain}c40=1].c0 > Rack");
    let job = submit(&mut told, "ada", &format!(r#"{{"requirements":"{requirements}"}}"#));
    assert_eq!(pass(&mut told), [job], "the last kind has its turn too");
    let shape = told.state.job(job).expect("there").shape;
    let steps = told.state.planner().known_need(shape).expect("worked out").steps();
    assert!(steps < 1_500_000, "of ten million that two hundred kinds would take: {steps}");
}

/// A pilot says what its node has in expressions of its own.
#[test]
fn what_a_pilot_says_of_its_node_keeps_no_job_from_others() {
    let mut told = Told::default();
    for number in 0..20 {
        let mut said = doubling("c");
        said.push(("HasFoo".into(), format!("c0 =!= {number} ? 5 : 5")));
        join_kind(&mut told, &format!("a{number}"), 64, said);
    }
    join_kind(&mut told, "z", 1, vec![("HasFoo".into(), "6".into())]);
    let job = submit(&mut told, "bob", r#"{"resources":{"gpu":1},"requirements":"HasFoo == 6"}"#);
    assert_eq!(pass(&mut told), [job]);
    let shape = told.state.job(job).expect("there").shape;
    let steps = told.state.planner().known_need(shape).expect("worked out").steps();
    assert!(steps < 1_000_000, "of sixty million that all their kinds would take: {steps}");
}
