//! What waits for what, and who goes first.

use super::common::{World, wait_for};
use super::{UNTIL_GO, declared, job, read, signal, state, wait_for_running, write};

#[test]
fn a_job_waits_for_the_end_that_it_names() {
    let world = World::started();
    let hold = |code: &str| world.submit(&["--", "sh", "-c", &format!("{UNTIL_GO}; exit {code}")]);
    let (good, bad) = (hold("0"), hold("1"));
    let mut followers = Vec::new();
    for job in [&good, &bad] {
        for condition in ["", ":ok", ":failed", ":any"] {
            let after = format!("{job}{condition}");
            let runs = match condition {
                ":any" => true,
                ":failed" => job == &bad,
                _ => job == &good,
            };
            followers.push((world.submit(&["--after", &after, "--", "true"]), after, runs));
        }
    }
    let both = format!("{good}:ok,{bad}:failed");
    followers.push((world.submit(&["--after", &both, "--", "true"]), both, true));
    for (id, after, _) in &followers {
        assert_eq!(state(&world, id), "held", "{after}");
    }
    assert!(world.ok(&["why", &followers[0].0]).contains(&format!("job {good}")));
    signal(&world, "go");
    for (id, after, runs) in &followers {
        let code = world.cli(&["wait", id]).code;
        let expected = if *runs { ("succeeded", 0) } else { ("cancelled", 130) };
        assert_eq!((&*state(&world, id), code), expected, "{after}");
    }
}

#[test]
fn chains_run_in_order_and_break_as_a_whole() {
    let world = World::started();
    let step = |after: Option<&str>, name: &str, end: &str| {
        let text = format!("echo {name} >> order; {end}");
        let options = after.map_or(vec![], |after| vec!["--after", after]);
        world.submit(&[&options[..], &["--", "sh", "-c", &text]].concat())
    };
    let first = step(None, "first", UNTIL_GO);
    let second = step(Some(&first), "second", "true");
    let third = step(Some(&second), "third", "false");
    let fourth = step(Some(&third), "fourth", "true");
    let fifth = step(Some(&fourth), "fifth", "true");
    signal(&world, "go");
    assert_eq!(world.cli(&["wait", &third]).code, 1);
    assert_eq!(world.cli(&["wait", &fifth]).code, 130);
    assert_eq!(read(&world, "order"), "first\nsecond\nthird\n");
    let late = step(Some(&second), "late", "true");
    assert_eq!(world.cli(&["wait", &late]).code, 0, "what has ended long ago counts too");
    let unknown = world.cli(&["run", "--after", "999", "--", "true"]);
    assert_eq!(unknown.code, 3);
    assert!(unknown.stderr.contains("job 999"), "{}", unknown.stderr);
}

const GRAPH: &str = "\
name: last\ncommand: echo last >> order\nworkdir: .\nafter: [left, 'right:failed']\n---\n\
name: left\ncommand: until [ -e go ]; do sleep 0.02; done; echo middle >> order\n\
workdir: .\nafter: [first]\n---\n\
name: right\ncommand: echo middle >> order; false\nworkdir: .\nafter: [first]\n---\n\
name: first\ncommand: echo first >> order\nworkdir: .\n---\n\
name: never\ncommand: echo never >> order\nworkdir: .\nafter: [right]\n";

#[test]
fn jobs_of_a_file_come_together_and_wait_for_each_other() {
    let world = World::started();
    write(&world, "graph.yaml", GRAPH);
    let would = world.ok(&["submit", "--dry-run", "graph.yaml"]);
    assert!(would.contains("1. left of this file has to succeed first"), "{would}");
    let submit = || world.ok(&["submit", "--key", "k", "graph.yaml"]);
    let ids: Vec<String> = submit().lines().map(Into::into).collect();
    assert_eq!(ids, ["4", "2", "3", "1", "5"], "in the order of the file");
    assert_eq!(submit().lines().collect::<Vec<_>>(), ids, "a repeat is one");
    let why = world.ok(&["why", "4"]);
    assert!(why.contains("job 2") || why.contains("job 3"), "{why}");
    signal(&world, "go");
    assert_eq!(world.cli(&["wait", "4"]).code, 0);
    assert_eq!(world.cli(&["wait", "5"]).code, 130);
    assert_eq!(read(&world, "order"), "first\nmiddle\nmiddle\nlast\n");
}

#[test]
fn a_file_with_one_bad_job_submits_none() {
    let world = World::started();
    write(&world, "bad.yaml", "command: 'true'\n---\ncommand: 'true'\nafter: [999]\n");
    let refused = world.cli(&["submit", "bad.yaml"]);
    assert_eq!(refused.code, 3, "{}", refused.stderr);
    assert!(refused.stderr.contains("job 999"), "{}", refused.stderr);
    assert_eq!(world.json(&["jobs"])["jobs"].as_array().map(Vec::len), Some(0));
}

#[test]
fn with_one_slot_the_higher_priority_goes_first() {
    let world = declared(r#"{"cpus_milli": 1000}"#);
    let first = world.submit(&["--", "sh", "-c", UNTIL_GO]);
    wait_for_running(&world, &first, 1);
    let named = |priority: &str, name: &str| {
        let text = format!("echo {name} >> order");
        world.submit(&["--priority", priority, "--", "sh", "-c", &text])
    };
    let waiting =
        [("0", "usual"), ("-5", "low"), ("7", "high"), ("7", "high-later"), ("100", "highest")];
    let waiting = waiting.map(|(priority, name)| named(priority, name));
    signal(&world, "go");
    for id in &waiting {
        assert_eq!(world.cli(&["wait", id]).code, 0);
    }
    assert_eq!(read(&world, "order"), "highest\nhigh\nhigh-later\nusual\nlow\n");
}

#[test]
fn counted_resources_are_never_given_out_twice() {
    let world = declared(r#"{"named": {"licences": 2}}"#);
    let text = format!("echo x >> held; {UNTIL_GO}");
    let words = ["--array", "1-5", "--cpus", "0.1", "--resource", "licences=1", "--", "sh", "-c"];
    let id = world.submit(&[&words[..], &[&text]].concat());
    wait_for_running(&world, &id, 2);
    wait_for("both have begun", || read(&world, "held").lines().count() == 2);
    assert_eq!(super::tasks_in(&world, &id, "waiting"), 3);
    assert!(world.ok(&["why", &id]).contains("licences"), "{}", world.ok(&["why", &id]));
    signal(&world, "go");
    assert_eq!(world.cli(&["wait", &id]).code, 0);
    let never = world.submit(&["--resource", "licences=3", "--", "true"]);
    let unknown = world.submit(&["--resource", "dongles=1", "--", "true"]);
    for (id, word) in [(never, "licences"), (unknown, "dongles")] {
        assert_eq!(job(&world, &id)["reasons"][0]["kind"], "too_small", "{word}");
        assert!(world.ok(&["why", &id]).contains(word), "{}", world.ok(&["why", &id]));
    }
}
