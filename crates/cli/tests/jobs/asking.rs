//! Ways to ask: scripts, variables, keys, and asking without meaning it.

use super::common::{World, wait_for};
use super::write;
use std::io::Write;
use std::process::Stdio;

#[test]
fn a_script_travels_with_the_job() {
    let world = World::started();
    write(&world, "fit.sh", "echo \"$1,$2\" in $(pwd)\n");
    let here = world.work().canonicalize().expect("a directory");
    let expected = format!("a b,c in {}\n", here.display());
    assert_eq!(world.ok(&["run", "--script", "fit.sh", "--", "a b", "c"]), expected);

    write(&world, "shebang", "#!/usr/bin/env -S sed -n 1p\nfirst words\n");
    assert_eq!(world.ok(&["run", "--script", "shebang"]), "#!/usr/bin/env -S sed -n 1p\n");

    let mut command = world.command(&["run", "--script", "-", "--", "x"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("started");
    child.stdin.take().expect("piped").write_all(b"echo from stdin $1\n").expect("written");
    let output = child.wait_with_output().expect("a child");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "from stdin x\n");
    let missing = world.cli(&["run", "--script", "missing.sh"]);
    assert!(missing.code == 2 && missing.stderr.contains("missing.sh"), "{}", missing.stderr);
}

#[test]
fn only_the_named_variables_go_along() {
    let world = World::started();
    let text = "echo \"${MINE-none} ${GIVEN-none} ${SHIPWAY_TOKEN-none}\"";
    let run = |options: &[&str]| {
        let mut command = world.command(&[&["run"], options, &["--", "sh", "-c", text]].concat());
        command.env("MINE", "mine").env("SHIPWAY_TOKEN", world.token());
        let output = command.output().expect("the binary runs");
        String::from_utf8_lossy(&output.stdout).trim().to_string()
    };
    assert_eq!(run(&[]), "none none none");
    assert_eq!(run(&["--env", "GIVEN=a b=c"]), "none a b=c none");
    assert_eq!(run(&["--env", "MINE"]), "mine none none");
    assert_eq!(run(&["--export-all"]), "mine none none", "a token is not a task's business");
    assert_eq!(run(&["--export-all", "--env", "MINE=other"]), "other none none");
    let absent = world.cli(&["run", "--env", "NO_SUCH_VARIABLE", "--", "true"]);
    assert_eq!(absent.code, 2);
    assert!(absent.stderr.contains("NO_SUCH_VARIABLE"), "{}", absent.stderr);
}

#[test]
fn a_task_knows_who_it_is() {
    let world = World::started();
    let text = "echo $SHIPWAY_JOB $SHIPWAY_TASK $SHIPWAY_INDEX $SHIPWAY_ATTEMPT $SHIPWAY_WORKDIR";
    let ran = world.cli(&["run", "--array", "4,7", "--", "sh", "-c", text]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let here = world.work().display().to_string();
    assert_eq!(world.ok(&["logs", "1/7"]), format!("1 1/7 7 1 {here}\n"));
    let private = ["run", "--workdir", "private", "--", "sh", "-c", "pwd; ls -A | wc -l"];
    let ran = world.cli(&private);
    let lines: Vec<&str> = ran.stdout.lines().map(str::trim).collect();
    assert!(lines[0].starts_with(world.home().to_str().expect("text")), "{}", ran.stdout);
    assert_eq!(lines[1], "0", "a fresh directory is empty");
}

#[test]
fn the_same_key_submits_once() {
    let world = World::started();
    let first = world.submit(&["--key", "k-1", "--", "true"]);
    assert_eq!(world.submit(&["--key", "k-1", "--", "true"]), first);
    let other = world.cli(&["run", "-d", "--key", "k-1", "--", "false"]);
    assert_eq!(other.code, 3);
    assert!(other.stderr.contains(&format!("job {first}")), "{}", other.stderr);
    world.kill_server();
    world.up();
    assert_eq!(world.submit(&["--key", "k-1", "--", "true"]), first, "after a restart too");
    assert_ne!(world.submit(&["--", "true"]), first, "without a key each is its own");
}

#[test]
fn a_dry_run_submits_nothing() {
    let world = World::started();
    wait_for("there is a node", || {
        world.ok(&["run", "--dry-run", "--", "true"]).contains("It could start now.")
    });
    write(&world, "job.yaml", "command: [echo, \"{line}\"]\neach: [a, b]\nresources: {gpu: 64}\n");
    let dry = world.json(&["submit", "--dry-run", "job.yaml"]);
    let dry = dry.as_array().map_or(&dry, |many| &many[0]);
    assert_eq!(dry["tasks"], 2, "{dry}");
    assert_eq!(dry["first_command"], serde_json::json!(["echo", "a"]));
    assert!(!dry["reasons"].as_array().expect("reasons").is_empty(), "64 GPUs are not here: {dry}");
    let typed = world.json(&["run", "--dry-run", "--array", "4-9", "--gpus", "64", "--", "true"]);
    assert_eq!((&typed[0]["tasks"], &typed[0]["reasons"]), (&6.into(), &dry["reasons"]), "{typed}");
    assert_eq!(world.json(&["jobs"])["jobs"].as_array().map(Vec::len), Some(0));

    write(&world, "bad.yaml", "comand: [echo]\n");
    for words in [&["submit", "bad.yaml"][..], &["submit", "--dry-run", "bad.yaml"]] {
        let ran = world.cli(words);
        assert_eq!(ran.code, 2, "{words:?}: {}", ran.stderr);
        assert!(ran.stderr.contains("comand") && ran.stderr.contains("command"), "{}", ran.stderr);
    }
}
