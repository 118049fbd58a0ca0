//! Reading output while it is written.

use super::common::{World, pause, quick, wait_for};
use super::{bytes_of, has_file, signal, wait_for_node};
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// More than all buffers between a task and a reader that does not read.
const MORE_THAN_ALL_BUFFERS: u32 = 6_000_000;

fn sha256_of(mut command: Command) -> String {
    let mut source = command.stdout(Stdio::piped()).spawn().expect("a program starts");
    let from = source.stdout.take().expect("piped");
    let hashed = Command::new("sha256sum").stdin(from).output().expect("sha256sum runs");
    assert!(source.wait().expect("a child").success(), "{command:?}");
    String::from_utf8(hashed.stdout).expect("text")
}

fn numbers(count: u32) -> Command {
    let mut command = Command::new("seq");
    command.args(["1", &count.to_string()]);
    command
}

/// A task that says that it runs, waits for `go`, and counts.
fn submit_counting(world: &World, count: u32) -> String {
    let text = format!("touch started; until [ -e go ]; do sleep 0.02; done; seq 1 {count}");
    let job = world.submit(&["--log-limit", "2GB", "--", "sh", "-c", &text]);
    wait_for("the task has started", || has_file(world, "started"));
    job
}

fn follow(world: &World, job: &str) -> Child {
    let mut command = world.command(&["logs", "-f", job]);
    command.stdout(Stdio::piped()).spawn().expect("the binary starts")
}

#[test]
fn ten_million_lines_arrive_as_they_were_written() {
    let count = if quick() { 200_000 } else { 10_000_000 };
    let world = World::started();
    let job = submit_counting(&world, count);
    let mut reader = follow(&world, &job);
    let from = reader.stdout.take().expect("piped");
    let hashing = Command::new("sha256sum").stdin(from).stdout(Stdio::piped()).spawn();
    let hashing = hashing.expect("sha256sum starts");
    signal(&world, "go");
    let found = hashing.wait_with_output().expect("a child").stdout;
    assert!(reader.wait().expect("a child").success());
    assert_eq!(String::from_utf8(found).expect("text"), sha256_of(numbers(count)));
}

#[test]
fn a_reader_that_does_not_read_holds_nobody_up() {
    let world = World::started();
    let job = submit_counting(&world, MORE_THAN_ALL_BUFFERS);
    let mut reader = follow(&world, &job);
    let mut from = reader.stdout.take().expect("piped");
    signal(&world, "go");
    let mut read = vec![0; 1024];
    from.read_exact(&mut read).expect("the first lines");

    assert_eq!(world.cli(&["wait", &job]).code, 0, "the task ends while nobody reads");
    assert!(reader.try_wait().expect("a child").is_none(), "the reader has unread output");

    let mut hashing = Command::new("sha256sum");
    let mut hashing = hashing.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a sum");
    let mut into = hashing.stdin.take().expect("piped");
    into.write_all(&read).expect("written");
    std::io::copy(&mut from, &mut into).expect("copied");
    drop(into);
    let found = hashing.wait_with_output().expect("a child").stdout;
    assert!(reader.wait().expect("a child").success());
    let expected = sha256_of(numbers(MORE_THAN_ALL_BUFFERS));
    assert_eq!(String::from_utf8(found).expect("text"), expected, "and nothing is missing");
}

/// `run` stays until its reader has everything, however long after the job's end.
#[test]
fn a_slow_reader_of_run_gets_everything_too() {
    let world = World::started();
    let count = MORE_THAN_ALL_BUFFERS.to_string();
    let mut command = world.command(&["run", "--log-limit", "2GB", "--", "seq", "1", &count]);
    let mut running = command.stdout(Stdio::piped()).spawn().expect("the binary starts");
    let mut from = running.stdout.take().expect("piped");
    let mut read = vec![0; 1024];
    from.read_exact(&mut read).expect("the first lines");
    assert_eq!(world.cli(&["wait", "1"]).code, 0);
    // Longer than `run` waits for output that does not come.
    pause(Duration::from_secs(7));
    let size = 1024 + std::io::copy(&mut from, &mut std::io::sink()).expect("the rest");
    assert_eq!(running.wait().expect("a child").code(), Some(0));
    let whole = numbers(MORE_THAN_ALL_BUFFERS).output().expect("seq runs").stdout;
    assert_eq!(size, whole.len() as u64);
}

/// What is shown of an output over its limit: the head, the number dropped, the tail.
fn take_apart(shown: &[u8]) -> (&[u8], u64, &[u8]) {
    let (open, close) = (b"\n[shipway: ".as_slice(), b" bytes dropped here, over the log limit]\n");
    let find = |what: &[u8]| shown.windows(what.len()).position(|window| window == what);
    let (start, end) = (find(open).expect("a note"), find(close).expect("a note"));
    let number = std::str::from_utf8(&shown[start + open.len()..end]).expect("a number");
    (&shown[..start], number.parse().expect("a number"), &shown[end + close.len()..])
}

#[test]
fn over_the_limit_the_head_and_the_tail_are_kept_and_the_rest_is_counted() {
    let world = World::started();
    let written = numbers(200_000).output().expect("seq runs").stdout;
    let job = world.submit(&["--log-limit", "100KB", "--", "seq", "1", "200000"]);
    assert_eq!(world.cli(&["wait", &job]).code, 0);

    let check = |when: &str| {
        let output = bytes_of(&world, &["logs", &job]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{when}: {said}");
        let shown = output.stdout;
        let (head, dropped, tail) = take_apart(&shown);
        assert!(written.starts_with(head) && written.ends_with(tail), "{when}");
        assert!(head.len() >= 40_000 && tail.len() >= 40_000, "{when}: both ends are kept");
        assert!(head.len() + tail.len() <= 100_000, "{when}: no more than the limit is kept");
        let sum = head.len() as u64 + dropped + tail.len() as u64;
        assert_eq!(sum, written.len() as u64, "{when}: every byte is kept or counted");
    };
    check("after the end");
    world.kill_server();
    world.up();
    wait_for_node(&world);
    check("after a restart");
}

/// Nothing on standard output, which is the job's own; why there is nothing on the other.
#[test]
fn whoever_asks_for_the_output_of_a_job_that_waits_is_told_why() {
    let world = World::started();
    wait_for_node(&world);
    let one = world.submit(&["--cpus", "4000", "--", "true"]);
    let many = world.submit(&["--cpus", "4000", "--array", "1-2", "--", "true"]);
    let second = format!("{many}/2");
    for (target, job) in [(&one, &one), (&many, &many), (&second, &many)] {
        let ran = world.cli(&["logs", target]);
        assert_eq!((ran.code, ran.stdout.as_str()), (0, ""), "{}", ran.stderr);
        let said = format!("more with `shipway why {job}`");
        assert!(ran.stderr.contains("needs 4000 cores"), "{target}: {}", ran.stderr);
        assert!(ran.stderr.contains(&said) && ran.stderr.lines().count() == 1, "{}", ran.stderr);
    }
    let mut command = world.command(&["logs", "-f", &one]);
    let mut reader = command.stderr(Stdio::piped()).spawn().expect("the binary starts");
    let mut said = [0; "shipway: job".len()];
    reader.stderr.take().expect("piped").read_exact(&mut said).expect("it says something");
    assert!(reader.try_wait().expect("a child").is_none(), "it follows all the same");
    assert_eq!(world.cli(&["cancel", &one]).code, 0);
    assert!(reader.wait().expect("a child").success());

    let done = world.submit(&["--", "true"]);
    assert_eq!(world.cli(&["wait", &done]).code, 0);
    assert_eq!(world.cli(&["logs", &done]).stderr, "", "it has run, and wrote nothing");
}
