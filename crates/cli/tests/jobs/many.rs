//! Jobs of many tasks.

use super::common::{World, quick};
use super::{UNTIL_GO, job, signal, tasks_in, wait_for_running, write};
use std::collections::BTreeSet;

fn names_in(world: &World, dir: &str) -> BTreeSet<u64> {
    let entries = std::fs::read_dir(world.work().join(dir)).expect("a directory");
    let name = |entry: std::io::Result<std::fs::DirEntry>| entry.expect("an entry").file_name();
    entries.map(|entry| name(entry).to_str().expect("text").parse().expect("a number")).collect()
}

#[test]
fn an_array_runs_each_index_once() {
    let world = World::started();
    let long = if quick() { "1-100" } else { "1-1000" };
    for (array, expected) in [
        (long, (1..=if quick() { 100 } else { 1000 }).collect()),
        ("0-99:3", (0..100).step_by(3).collect::<BTreeSet<u64>>()),
        ("1,5,9", BTreeSet::from([1, 5, 9])),
    ] {
        let dir = format!("seen-{array}");
        std::fs::create_dir(world.work().join(&dir)).expect("a directory");
        // `mkdir` fails when the index has run before.
        let text = format!("mkdir '{dir}'/$SHIPWAY_INDEX");
        let ran = world.cli(&["run", "--array", array, "--cpus", "0.1", "--", "sh", "-c", &text]);
        assert_eq!(ran.code, 0, "{array}: {}", ran.stderr);
        assert_eq!(names_in(&world, &dir), expected, "{array}");
    }
}

#[test]
fn arrays_that_make_no_sense_are_refused() {
    let world = World::started();
    for array in ["5-1", "", "a", "1-", "-3", "1-9223372036854775807", "1-10:0", "1,,2"] {
        let ran = world.cli(&["run", &format!("--array={array}"), "--", "true"]);
        assert_eq!(ran.code, 2, "`{array}`: {}", ran.stderr);
        assert!(ran.stderr.contains("--array"), "`{array}`: {}", ran.stderr);
    }
    assert_eq!(world.json(&["jobs"])["jobs"].as_array().map(Vec::len), Some(0));
}

#[test]
fn lines_and_rows_reach_the_command_and_the_environment() {
    let world = World::started();
    write(&world, "lines.txt", "a\n\nb  c\n$HOME 'x'\n");
    let job = world.submit(&[
        "--each",
        "lines.txt",
        "--",
        "sh",
        "-c",
        "printf '%s|%s\n' \"$0\" \"$line\"",
        "<{line}>",
    ]);
    assert_eq!(world.cli(&["wait", &job]).code, 0);
    let expected = "==> 1/0 <==\n<a>|a\n==> 1/1 <==\n<b  c>|b  c\n\
                    ==> 1/2 <==\n<$HOME 'x'>|$HOME 'x'\n";
    assert_eq!(world.ok(&["logs", &job]), expected, "a blank line is no task; nothing is unquoted");

    write(&world, "rows.jsonl", "{\"x\": 1, \"y\": \"p q\"}\n{\"x\": 2.5, \"y\": true}\n");
    let job = world.submit(&[
        "--each",
        "rows.jsonl",
        "--",
        "sh",
        "-c",
        "echo \"$0 $1 $x $y\"",
        "{x}",
        "{y}",
    ]);
    assert_eq!(world.cli(&["wait", &job]).code, 0);
    let expected = "==> 2/0 <==\n1 p q 1 p q\n==> 2/1 <==\n2.5 true 2.5 true\n";
    assert_eq!(world.ok(&["logs", &job]), expected);
}

#[test]
fn rows_that_make_no_sense_are_refused() {
    let world = World::started();
    for (text, words) in
        [("", "no rows"), ("{\"x\": 1}\n{\"x\":\n", "line 2"), ("{\"a b\": 1}\n", "a b")]
    {
        write(&world, "rows", text);
        let ran = world.cli(&["run", "--each", "rows", "--", "echo", "{x}"]);
        assert_eq!(ran.code, 2, "{text}: {}", ran.stderr);
        assert!(ran.stderr.contains(words), "{text}: {}", ran.stderr);
    }
    let ran = world.cli(&["run", "--each", "missing.txt", "--", "true"]);
    assert!(ran.code == 2 && ran.stderr.contains("missing.txt"), "{}", ran.stderr);
}

#[test]
fn no_more_run_at_once_than_the_job_allows() {
    let world = World::started();
    let words = ["--array", "1-12", "--cpus", "0.1", "--max-running", "3", "--", "sh", "-c"];
    let text = format!(
        "mkdir -p run; touch run/$SHIPWAY_INDEX; ls run | wc -l >> seen; {UNTIL_GO}; \
         ls run | wc -l >> seen; rm run/$SHIPWAY_INDEX"
    );
    let id = world.submit(&[&words[..], &[&text]].concat());
    wait_for_running(&world, &id, 3);
    assert_eq!(tasks_in(&world, &id, "waiting"), 9, "the machine has room for all of them");
    assert_eq!(job(&world, &id)["reasons"][0]["kind"], "max_running");
    signal(&world, "go");
    assert_eq!(world.cli(&["wait", &id]).code, 0);
    let seen = super::read(&world, "seen");
    let most = seen.lines().map(|line| line.trim().parse::<u32>().expect("a count")).max();
    assert_eq!(most, Some(3), "{seen}");
}
