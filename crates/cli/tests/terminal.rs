//! The command line at a terminal and away from one: questions, progress, pipes.
//!
//! The terminal is a real one (`common/terminal.rs`).

#[path = "common/mod.rs"]
mod common;

use common::{Terminal, World, cannot, wait_for};
use std::io::Read;
use std::process::{Command, Stdio};

const CONTROL_C: &str = "\x03";
const QUESTION: &str = "cancel the job, or detach and let it run? [c/d]";
const STAY: &str = "run -- sh -c 'echo begun; until [ -e go ]; do sleep 0.02; done'";

#[test]
fn control_c_asks_once_and_detaches_or_cancels() {
    let world = World::started();
    let Some(mut terminal) = Terminal::run(&world, STAY) else {
        return cannot("there is no `script`");
    };
    let state = |id: &str| world.json(&["show", id])["job"]["state"].clone();
    terminal.wait_for_text("begun");
    terminal.type_in(CONTROL_C);
    terminal.wait_for_text(QUESTION);
    terminal.type_in("yes\n");
    terminal.wait_for_text("`c` cancels the job");
    terminal.type_in("d\n");
    assert_eq!(terminal.exit_code(), Some(130));
    terminal.wait_for_text("job 1 goes on");
    assert_eq!(terminal.seen().matches(QUESTION).count(), 1, "{}", terminal.seen());
    assert_eq!(state("1"), "running");

    let mut terminal = Terminal::run(&world, STAY).expect("it was here a moment ago");
    terminal.wait_for_text("begun");
    terminal.type_in(CONTROL_C);
    terminal.wait_for_text(QUESTION);
    terminal.type_in("c\n");
    assert_eq!(terminal.exit_code(), Some(130));
    terminal.wait_for_text("job 2: cancelled");
    assert_eq!((state("1"), state("2")), ("running".into(), "cancelled".into()));
    std::fs::write(world.work().join("go"), "").expect("a file");
    assert_eq!(world.cli(&["wait", "1"]).code, 0, "what was left alone came to its end");
}

#[test]
fn a_second_control_c_leaves_without_an_answer() {
    let world = World::started();
    let Some(mut terminal) = Terminal::run(&world, STAY) else {
        return cannot("there is no `script`");
    };
    terminal.wait_for_text("begun");
    terminal.type_in(CONTROL_C);
    terminal.wait_for_text(QUESTION);
    terminal.type_in(CONTROL_C);
    assert_eq!(terminal.exit_code(), Some(130));
    assert_eq!(world.json(&["show", "1"])["job"]["state"], "running");
}

#[test]
fn without_a_terminal_an_interrupt_leaves_the_job_running() {
    let world = World::started();
    let hold = ["run", "--", "sh", "-c", "echo begun; until [ -e go ]; do sleep 0.02; done"];
    let mut command = world.command(&hold);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the binary starts");
    let mut begun = [0; 6];
    child.stdout.as_mut().expect("piped").read_exact(&mut begun).expect("its output");
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("a child of ours");
    let output = child.wait_with_output().expect("a child");
    assert_eq!(output.status.code(), Some(130));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("job 1 goes on") && !said.contains(QUESTION), "{said}");
    assert_eq!(world.json(&["show", "1"])["job"]["state"], "running");
}

#[test]
fn progress_is_a_bar_on_a_terminal_and_plain_lines_elsewhere() {
    let world = World::started();
    let ran = world.cli(&["run", "--array", "1-3", "--", "true"]);
    assert_eq!((ran.code, &*ran.stdout), (0, ""));
    assert!(ran.stderr.contains("3 of 3 succeeded"), "{}", ran.stderr);
    let control = |text: &str| text.contains('\x1b') || text.contains('\r');
    assert!(!control(&ran.stderr), "{:?}", ran.stderr);
    for words in [&["jobs"][..], &["show", "1"], &["nodes"], &["--help"]] {
        assert!(!control(&world.ok(words)), "{words:?}");
    }
    let hold = "run --array 1-2 -- sh -c 'until [ -e go ]; do sleep 0.02; done'";
    let Some(mut terminal) = Terminal::run(&world, hold) else {
        return cannot("there is no `script`");
    };
    wait_for("the bar is drawn again", || control(&terminal.seen().replace("\r\n", "\n")));
    std::fs::write(world.work().join("go"), "").expect("a file");
    assert_eq!(terminal.exit_code(), Some(0));
    terminal.wait_for_text("2 of 2 succeeded");
}

/// What a task says that tries to reach the terminal of its server, and what it has of the shell
/// that started it.
const INTRUDE: &str = "(echo intruder > /dev/tty) 2>/dev/null && echo wrote; \
    (: < /dev/tty) 2>/dev/null && echo opened; \
    for n in 3 4 5 6 7 8 9; do test -e /proc/$$/fd/$n && echo descriptor $n; done; \
    grep -E '^(NoNewPrivs|SigIgn)' /proc/self/status; echo over";

/// The bit of the first signal in a set of them.
const HANGUP: u64 = 1;

#[test]
fn tasks_have_no_part_in_the_terminal_of_the_server() {
    for image in ["none", "host"] {
        let world = World::new();
        // Ignored signals and open descriptors go on to whatever a shell starts.
        let program = env!("CARGO_BIN_EXE_shipway");
        let line = format!(
            "trap '' HUP; exec 7>>left-open; \
             exec {program} up --listen 127.0.0.1:0 --default-image {image}"
        );
        let Some(mut terminal) = Terminal::shell(&world, &line) else {
            return cannot("there is no `script`");
        };
        wait_for("the server is ready", || world.is_ready());
        let said = world.ok(&["run", "--workdir", "private", "--", "sh", "-c", INTRUDE]);
        let lines: Vec<&str> = said.lines().collect();
        let [ignored, "NoNewPrivs:\t1", "over"] = lines[..] else { panic!("{image}: {said}") };
        let ignored = ignored.trim_start_matches("SigIgn:").trim();
        let ignored = u64::from_str_radix(ignored, 16).expect("a set of signals");
        assert_eq!(ignored & HANGUP, 0, "{said}");
        assert!(!terminal.seen().contains("intruder"), "{}", terminal.seen());
        // The signal is the server's alone, which ends its pilot in order.
        terminal.type_in(CONTROL_C);
        assert_eq!(terminal.exit_code(), Some(0), "{}", terminal.seen());
        wait_for("the pilot is gone", || world.processes().is_empty());
    }
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    let world = World::started();
    world.submit(&["--array", "1-500", "--", "true"]);
    for words in
        [&["jobs"][..], &["show", "1", "--limit", "500"], &["--json", "jobs"], &["openapi"]]
    {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let output = world.command(words).stdout(writer).output().expect("the binary runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.is_empty(), "{words:?}: {said}");
        assert_eq!(output.status.code(), Some(0), "{words:?}");
    }
}

#[test]
fn completions_are_taken_by_the_shell() {
    let world = World::new();
    for shell in ["bash", "zsh", "fish"] {
        assert!(world.ok(&["completions", shell]).contains("shipway"), "{shell}");
    }
    let script = world.ok(&["completions", "bash"]);
    let file = world.work().join("completions");
    std::fs::write(&file, script).expect("a file");
    let checked = Command::new("bash").arg("-n").arg(&file).output().expect("bash is here");
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}

#[test]
fn without_a_server_the_way_to_one_is_told() {
    let world = World::new();
    let ran = world.cli(&["jobs"]);
    assert_eq!((ran.code, &*ran.stdout), (4, ""));
    assert!(ran.stderr.contains("shipway up"), "{}", ran.stderr);
    let ran = world.cli(&["--json", "jobs"]);
    let error: serde_json::Value = serde_json::from_str(&ran.stderr).expect("JSON");
    assert!(error.to_string().contains("no_server"), "{error}");
}
