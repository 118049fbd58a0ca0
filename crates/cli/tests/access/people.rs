//! One user's jobs are nobody else's: for others they do not exist.

use super::common::{Ran, World, wait_for};
use super::{act, person};

const HOLD: &str = "echo bobs words; until [ -e go ]; do sleep 0.02; done";

fn refused_as_missing(ran: &Ran, job: &str, words: &[&str]) {
    assert_eq!((ran.code, &*ran.stdout), (3, ""), "{words:?}: {}", ran.stderr);
    assert!(ran.stderr.contains(&format!("there is no job {job}")), "{words:?}: {}", ran.stderr);
}

#[test]
fn for_another_user_a_job_does_not_exist() {
    let world = World::started();
    let (alice, bob) = (person(&world, "alice", "user"), person(&world, "bob", "user"));
    let submit = act(&world, &bob, &["run", "-d", "--label", "a=b", "--", "sh", "-c", HOLD]);
    let job = submit.stdout.trim();
    let task = format!("{job}/0");
    wait_for("it runs", || act(&world, &bob, &["logs", job]).stdout == "bobs words\n");

    for words in [
        &["show", job][..],
        &["show", &task],
        &["why", job],
        &["logs", job],
        &["logs", "-f", job],
        &["logs", &task],
        &["wait", job],
        &["cancel", job],
        &["retry", job],
        &["cancel", &task],
        &["cancel", job, "--state", "running"],
    ] {
        refused_as_missing(&act(&world, &alice, words), job, words);
    }
    let after = act(&world, &alice, &["run", "-d", "--after", job, "--", "true"]);
    assert_eq!(after.code, 3, "{}", after.stderr);
    assert!(after.stderr.contains("does not exist"), "{}", after.stderr);
    assert_eq!(act(&world, &alice, &["cancel", "--label", "a=b"]).code, 3);
    assert!(!act(&world, &alice, &["jobs"]).stdout.contains(job));
    assert_eq!(act(&world, &alice, &["jobs", "--all"]).code, 3);
    std::fs::write(world.work().join("go"), "").expect("a file");
    assert_eq!(act(&world, &bob, &["wait", job]).code, 0, "nobody has touched it");
}

#[test]
fn an_operator_sees_and_stops_everything_and_keeps_no_users() {
    let world = World::started();
    let (bob, op) = (person(&world, "bob", "user"), person(&world, "olga", "operator"));
    let submit = act(&world, &bob, &["run", "-d", "--", "sh", "-c", HOLD]);
    let job = submit.stdout.trim();
    wait_for("it runs", || act(&world, &op, &["logs", job]).stdout == "bobs words\n");
    assert!(act(&world, &op, &["jobs", "--all"]).stdout.contains("bob"));
    assert_eq!(act(&world, &op, &["jobs"]).stdout, "no jobs\n", "unasked, only one's own");
    assert_eq!(act(&world, &op, &["cancel", job]).code, 0);
    assert_eq!(act(&world, &bob, &["wait", job]).code, 130);
    assert_eq!(act(&world, &op, &["retry", job]).code, 0);
    let shown = act(&world, &op, &["--json", "show", job]);
    assert!(shown.stdout.contains("\"bob\""), "it stays its owner's: {}", shown.stdout);
    std::fs::write(world.work().join("go"), "").expect("a file");
    assert_eq!(act(&world, &op, &["wait", job]).code, 0);
    for words in [
        &["user", "add", "eve"][..],
        &["user", "remove", "bob"],
        &["token", "new", "--user", "bob"],
    ] {
        let ran = act(&world, &op, words);
        assert_eq!(ran.code, 3, "{words:?}: {}", ran.stderr);
        assert!(ran.stderr.contains("only an admin"), "{words:?}: {}", ran.stderr);
    }
}

#[test]
fn a_user_keeps_no_users_and_a_removed_one_is_out() {
    let world = World::started();
    let (alice, admin) = (person(&world, "alice", "user"), person(&world, "ada", "admin"));
    for words in [
        &["user", "add", "eve"][..],
        &["user", "add", "alice", "--role", "admin"],
        &["user", "remove", "ada"],
        &["token", "new", "--user", "ada"],
    ] {
        assert_eq!(act(&world, &alice, words).code, 3, "{words:?}");
    }
    let listed = act(&world, &alice, &["user", "list"]).stdout;
    assert!(listed.contains("alice") && !listed.contains("ada"), "{listed}");
    assert_eq!(act(&world, &admin, &["user", "add", "eve"]).code, 0);
    assert_eq!(act(&world, &admin, &["user", "remove", "alice"]).code, 0);
    let out = act(&world, &alice, &["jobs"]);
    assert_eq!(out.code, 3);
    assert!(out.stderr.contains("token"), "{}", out.stderr);
}

#[test]
fn a_monitor_looks_and_changes_nothing() {
    let world = World::started();
    let (bob, eye) = (person(&world, "bob", "user"), person(&world, "eye", "monitor"));
    let submit = act(&world, &bob, &["run", "-d", "--", "sh", "-c", HOLD]);
    let job = submit.stdout.trim();
    assert_eq!(act(&world, &eye, &["nodes"]).code, 0);
    assert_eq!(act(&world, &eye, &["jobs"]).stdout, "no jobs\n");
    for words in [
        &["run", "-d", "--", "true"][..],
        &["token", "new"],
        &["token", "revoke", "anything"],
        &["user", "add", "eve"],
    ] {
        let ran = act(&world, &eye, words);
        assert_eq!(ran.code, 3, "{words:?}: {}", ran.stderr);
        assert!(ran.stderr.contains("change nothing"), "{words:?}: {}", ran.stderr);
    }
    for words in [&["cancel", job][..], &["retry", job], &["show", job], &["logs", job]] {
        assert_eq!(act(&world, &eye, words).code, 3, "{words:?}");
    }
    std::fs::write(world.work().join("go"), "").expect("a file");
    assert_eq!(act(&world, &bob, &["wait", job]).code, 0, "nobody has touched it");
}
