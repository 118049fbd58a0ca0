//! Signals and ends: the task's end comes out as it was, and nothing outlives the helper.

use crate::attacks::with_this_program;
use crate::site::{Site, wait_for};
use crate::{Case, On, probe};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use shipway_runtime::report::Ending;
use std::fs;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::Child;

pub(crate) const ALL: &[Case] = &[
    Case { name: "death by signal comes out", on: On::Native, run: death_by_signal },
    Case { name: "a signal to the group reaches the task once", on: On::All, run: signal_to_group },
    Case { name: "a task without a handler dies", on: On::Native, run: signal_without_handler },
    Case { name: "what the task leaves dies with it", on: On::All, run: leftovers },
    Case { name: "orphans inside are buried", on: On::Native, run: orphans },
    Case { name: "one that asks to be traced goes on", on: On::Native, run: traced },
    Case { name: "killing the helper kills everything inside", on: On::Native, run: kill_helper },
    Case { name: "killing the group kills everything inside", on: On::Native, run: kill_group },
];

fn death_by_signal(site: &Site) {
    for number in [1, 2, 6, 9, 11, 15] {
        let (child, after) = site.start(&site.script(&format!("kill -{number} $$")), None);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.signal(), Some(number), "the helper dies alike");
        match after.ending(output.status) {
            Ending::Signal { number: found, .. } => assert_eq!(found, number),
            other => panic!("{other:?}"),
        }
    }
}

/// Its parent is not there for that.
fn traced(site: &Site) {
    let run = |what| site.run(&with_this_program(site, what, &[probe::TRACED, what]));
    let on = run("signal");
    assert_eq!((on.ending, on.stdout.as_str()), (Ending::Exit(7), "went on\n"), "{}", on.stderr);
    let ended = run("end").ending;
    assert_eq!(ended, Ending::Signal { number: Signal::TERM.as_raw(), core_dumped: false });
    assert_eq!(run("program").ending, Ending::Exit(0));
}

pub(crate) fn wait_until_ready(child: &mut Child) {
    assert_eq!(read_word(child), "ready");
}

fn read_word(child: &mut Child) -> String {
    let out = child.stdout.as_mut().unwrap();
    let mut word = Vec::new();
    let mut byte = [0];
    while out.read(&mut byte).unwrap() == 1 && byte[0] != b'\n' {
        word.push(byte[0]);
    }
    String::from_utf8(word).unwrap()
}

fn signal_to_group(site: &Site) {
    let script = "trap 'echo got; exit 9' TERM; echo ready; while :; do sleep 0.05; done";
    let (mut child, after) = site.start(&site.script(script), None);
    wait_until_ready(&mut child);
    kill_process_group(Pid::from_child(&child), Signal::TERM).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(after.ending(output.status), Ending::Exit(9));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "got\n");
}

/// Where the task is the first process of its namespace, the kernel would not let it die of it.
fn signal_without_handler(site: &Site) {
    let (mut child, after) = site.start(&site.script("echo ready; sleep 1000"), None);
    wait_until_ready(&mut child);
    kill_process_group(Pid::from_child(&child), Signal::TERM).unwrap();
    let status = child.wait().unwrap();
    assert_eq!(after.ending(status), Ending::Signal { number: 15, core_dumped: false });
}

/// A mark in the arguments of processes, by which they are found from outside.
fn mark(name: &str) -> String {
    format!("100000.{}{name}", std::process::id())
}

fn running(mark: &str) -> usize {
    let processes = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let lines = processes.filter_map(|entry| fs::read_to_string(entry.path().join("cmdline")).ok());
    lines.filter(|line| line.starts_with("sleep\0") && line.contains(mark)).count()
}

fn leftovers(site: &Site) {
    let mark = mark("1");
    site.says(&format!("sleep {mark} & (sleep {mark} &) ; exit 0"));
    assert_eq!(running(&mark), 0);
}

fn orphans(site: &Site) {
    let said = site.says(
        "for i in 1 2 3 4 5; do (sleep 0.01 &) ; done; sleep 0.3; \
         grep -l 'State.*Z' /proc/[0-9]*/status | wc -l",
    );
    assert_eq!(said, "0\n");
}

fn kill_helper(site: &Site) {
    let mark = mark("2");
    let script = format!("sleep {mark} & echo ready; sleep {mark}");
    let (mut child, _after) = site.start(&site.script(&script), None);
    wait_until_ready(&mut child);
    wait_for("both to run", || running(&mark) == 2);
    kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
    child.wait().unwrap();
    wait_for("everything inside to die", || running(&mark) == 0);
}

fn kill_group(site: &Site) {
    let mark = mark("3");
    let script = format!("sleep {mark} & echo ready; sleep {mark}");
    let (mut child, after) = site.start(&site.script(&script), None);
    wait_until_ready(&mut child);
    wait_for("both to run", || running(&mark) == 2);
    kill_process_group(Pid::from_child(&child), Signal::KILL).unwrap();
    let status = child.wait().unwrap();
    assert_eq!(after.ending(status), Ending::Signal { number: 9, core_dumped: false });
    wait_for("everything inside to die", || running(&mark) == 0);
}
