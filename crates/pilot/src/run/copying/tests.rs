//! What is done about processes that end, hang and are stopped. They are shells here: what a real
//! one copies plays no part.

use super::*;
use shipway_runtime::native::{Helper, Start};
use shipway_runtime::plan::Process;
use std::sync::Arc;

const LONG: Duration = Duration::from_mins(10);

fn after() -> After {
    let helper = Helper::as_it_stands("/bin/true".into(), vec!["true".into()]);
    helper.before(Start::default(), &Process::default()).unwrap().after
}

fn run(script: &str, stop: &Stop, patience: Duration) -> Copied {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", script]);
    Copying::start(command, stop).unwrap().attend(&after(), patience, &AtomicU64::new(0))
}

/// Says where it is, as a process that copies files does.
const AT_SOME_FILE: &str = "printf '\\1\\0\\0\\0\\0\\0\\0\\0\\7\\0\\0\\0/a/file';";

#[test]
fn what_is_still_is_killed_and_what_dies_not_is_given_up() {
    let start = Instant::now();
    let minute = Duration::from_mins(1);
    let mut watch = Watch::new(10 * minute, start);
    assert_eq!(watch.look(1, false, start + 9 * minute), Verdict::GoOn);
    assert_eq!(watch.look(1, false, start + 18 * minute), Verdict::GoOn, "it had moved");
    assert_eq!(watch.look(1, false, start + 19 * minute), Verdict::Kill);
    assert_eq!(watch.look(1, false, start + 19 * minute), Verdict::GoOn, "it is dying");
    assert_eq!(watch.look(2, false, start + 20 * minute), Verdict::GiveUp);
    let mut watch = Watch::new(10 * minute, start);
    assert_eq!(watch.look(1, true, start), Verdict::Kill, "it is to stop");
    assert_eq!(watch.look(1, true, start + DIES_WITHIN), Verdict::GiveUp);
}

#[test]
fn one_that_moves_nothing_is_killed_and_its_file_is_named() {
    let script = format!("{AT_SOME_FILE} exec sleep 1000");
    let copied = run(&script, &Stop::default(), Duration::from_millis(500));
    let problem = copied.result.unwrap_err();
    assert!(problem.contains("at /a/file") && copied.left.is_none(), "{problem}");
}

#[test]
fn a_stop_ends_it_before_and_after_it_has_begun() {
    let stop = Stop::default();
    stop.now();
    assert!(run("exec sleep 1000", &stop, LONG).result.unwrap_err().contains("stopped"));
    let stop = Arc::new(Stop::default());
    let from_elsewhere = Arc::clone(&stop);
    let stopper = std::thread::spawn(move || {
        while from_elsewhere.process.get().is_none() {
            std::thread::yield_now();
        }
        from_elsewhere.now();
    });
    assert!(run("exec sleep 1000", &stop, LONG).result.unwrap_err().contains("stopped"));
    stopper.join().unwrap();
}

/// Somebody who has taken what it tells by holds up nobody.
#[test]
fn its_end_is_its_own_whoever_holds_what_it_had() {
    let dir = tempfile::tempdir().unwrap();
    let holder = dir.path().join("pid");
    let script = format!("sleep 1000 & echo $! > {}; exit 3", holder.display());
    let copied = run(&script, &Stop::default(), LONG);
    let holder = std::fs::read_to_string(holder).unwrap().trim().parse().unwrap();
    rustix::process::kill_process(Pid::from_raw(holder).unwrap(), Signal::KILL).unwrap();
    assert_eq!(copied.result.unwrap_err(), "copying files ended with 3");
}
