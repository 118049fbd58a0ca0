//! Reading output after it was written.

use super::common::{World, kill, wait_for};
use super::{bytes_of, has_file, wait_for_node};

#[test]
fn standard_output_and_error_stay_apart() {
    let world = World::started();
    let text = "echo out; echo err >&2; printf 'no newline'";
    let ran = world.cli(&["run", "--", "sh", "-c", text]);
    assert_eq!(
        (ran.code, ran.stdout.as_str(), ran.stderr.as_str()),
        (0, "out\nno newline", "err\n")
    );
    for (words, stdout, stderr) in [
        (&["logs", "1"][..], "out\nno newline", "err\n"),
        (&["logs", "--stdout", "1"], "out\nno newline", ""),
        (&["logs", "--stderr", "1"], "", "err\n"),
        (&["logs", "-f", "1/0"], "out\nno newline", "err\n"),
    ] {
        let ran = world.cli(words);
        assert_eq!((ran.code, &*ran.stdout, &*ran.stderr), (0, stdout, stderr), "{words:?}");
    }
}

#[test]
fn bytes_are_bytes() {
    let world = World::started();
    let text = "head -c 300000 /dev/urandom > bytes; cat bytes";
    let shown = bytes_of(&world, &["run", "--", "sh", "-c", text]);
    let written = std::fs::read(world.work().join("bytes")).expect("the task's file");
    assert_eq!(written.len(), 300_000);
    assert!(shown.stdout == written, "`run` passes on what was written");
    assert!(bytes_of(&world, &["logs", "1"]).stdout == written, "so does `logs`");
}

#[test]
fn every_attempt_has_its_own_output() {
    let world = World::started();
    let text = "echo attempt $SHIPWAY_ATTEMPT; [ $SHIPWAY_ATTEMPT = 3 ]";
    let ran =
        world.cli(&["run", "--retries", "5", "--retry-delay", "10ms", "--", "sh", "-c", text]);
    assert_eq!((ran.code, &*ran.stdout), (0, "attempt 1\nattempt 2\nattempt 3\n"));
    assert_eq!(world.ok(&["logs", "1"]), "attempt 3\n", "the newest, unless one is named");
    assert_eq!(world.ok(&["logs", "--attempt", "1", "1"]), "attempt 1\n");
    assert_eq!(world.ok(&["logs", "--attempt", "2", "1/0"]), "attempt 2\n");
    let ran = world.cli(&["logs", "--attempt", "4", "1"]);
    assert_eq!(ran.code, 3, "{}", ran.stderr);
    assert!(ran.stderr.contains("task 1/0 has no attempt 4"), "{}", ran.stderr);
}

#[test]
fn silence_is_no_error_and_what_is_not_there_is_one() {
    let world = World::started();
    assert_eq!(world.cli(&["run", "--", "true"]).code, 0);
    for words in [&["logs", "1"][..], &["logs", "-f", "1"], &["logs", "1/0"]] {
        let ran = world.cli(words);
        assert_eq!((ran.code, &*ran.stdout, &*ran.stderr), (0, "", ""), "{words:?}");
    }
    let waits = world.submit(&["--gpus", "64", "--", "true"]);
    assert_eq!(world.ok(&["logs", &waits]), "", "a job that has not run has written nothing");
    for target in ["1/7", "99", "99/0"] {
        let ran = world.cli(&["logs", target]);
        assert_eq!((ran.code, &*ran.stdout), (3, ""), "{target}: {}", ran.stderr);
    }
}

#[test]
fn the_output_of_all_tasks_comes_in_the_order_of_the_array() {
    let world = World::started();
    assert_eq!(
        world.cli(&["run", "--array", "9,3,5", "--", "sh", "-c", "echo $SHIPWAY_INDEX"]).code,
        0
    );
    let expected = "==> 1/3 <==\n3\n==> 1/5 <==\n5\n==> 1/9 <==\n9\n";
    assert_eq!(world.ok(&["logs", "1"]), expected);
    assert_eq!(world.ok(&["logs", "1/5"]), "5\n");
}

#[test]
fn output_outlives_the_server_and_the_pilot() {
    let world = World::started();
    let text = "echo attempt $SHIPWAY_ATTEMPT; touch ran$SHIPWAY_ATTEMPT; \
                [ $SHIPWAY_ATTEMPT != 1 ] || sleep 1000";
    let job = world.submit(&["--", "sh", "-c", text]);
    wait_for("the first attempt runs", || has_file(&world, "ran1"));
    // What is still in the pipe goes down with the pilot; what it has taken does not.
    wait_for("its output is kept", || world.ok(&["logs", &job]) == "attempt 1\n");
    kill(world.pilot_pid());
    assert_eq!(world.cli(&["wait", &job]).code, 0, "it is tried again");
    let check = |when: &str| {
        assert_eq!(world.ok(&["logs", "--attempt", "1", &job]), "attempt 1\n", "{when}");
        assert_eq!(world.ok(&["logs", &job]), "attempt 2\n", "{when}");
    };
    check("after the loss of the pilot");
    let task = &world.json(&["show", &format!("{job}/0")])["task"];
    assert_eq!(task["attempts"][0]["outcome"]["kind"], "lost", "{task}");
    world.kill_server();
    world.up();
    wait_for_node(&world);
    check("after a restart of the server");
}

#[test]
fn output_is_kept_as_long_as_asked() {
    let world = World::started();
    for words in ["old", "new"] {
        assert_eq!(world.cli(&["run", "--", "echo", words]).code, 0);
    }
    assert!(world.stop_server().success());
    let file = |job: &str| world.home().join(format!("pilot/logs/{job}/0.1.out"));
    let week = std::time::Duration::from_hours(7 * 24);
    let old = std::fs::File::options().write(true).open(file("1")).expect("its output");
    old.set_modified(std::time::SystemTime::now() - week).expect("a time");
    world.up();
    wait_for_node(&world);
    assert_eq!(world.ok(&["logs", "1"]), "old\n", "nothing is removed unasked");
    assert!(world.stop_server().success());
    world.up_with(&["--keep-output", "2d"], |_| {});
    wait_for("the old output is removed", || !file("1").exists());
    wait_for_node(&world);
    assert_eq!(world.ok(&["logs", "1"]), "");
    assert_eq!(world.ok(&["logs", "2"]), "new\n");
    assert!(world.up_refused(&["--keep-output", "5m"]).stderr.contains("at least 1h"));
}
