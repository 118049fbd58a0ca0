//! Processes of one world: found by its path in their words or variables, ended by id.

use rustix::process::{Pid, Signal, kill_process};
use std::path::Path;
use std::time::{Duration, Instant};

/// How long a guard may take to end everything below it.
const END_WITHIN: Duration = Duration::from_secs(30);

fn pid(number: u32) -> Pid {
    let number = i32::try_from(number).expect("a process id");
    Pid::from_raw(number).expect("a process id")
}

/// `kill -9`. One that has gone already is fine.
pub fn kill(process: u32) {
    let _ = kill_process(pid(process), Signal::KILL);
}

/// It goes on only to die.
pub fn stop(process: u32) {
    let _ = kill_process(pid(process), Signal::STOP);
}

pub fn interrupt(process: u32) {
    let _ = kill_process(pid(process), Signal::INT);
}

pub fn terminate(process: u32) {
    let _ = kill_process(pid(process), Signal::TERM);
}

/// Alive, and not only waiting to be reaped.
pub fn is_alive(process: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

/// Every living process, but this one, that has the directory in its words or variables.
pub(super) fn processes_of(dir: &Path) -> Vec<u32> {
    let dir = dir.to_str().expect("a plain path").as_bytes();
    let entries = std::fs::read_dir("/proc").expect("procfs").flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let own = std::process::id();
    let mentions = |process: u32, file: &str| {
        let text = std::fs::read(format!("/proc/{process}/{file}")).unwrap_or_default();
        text.windows(dir.len()).any(|window| window == dir)
    };
    let of_dir = |process: &u32| mentions(*process, "cmdline") || mentions(*process, "environ");
    numbers.filter(|process| *process != own && of_dir(process) && is_alive(*process)).collect()
}

/// The process that started this one; 0 when it has gone.
pub(super) fn parent(process: u32) -> u32 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The name before it is in parentheses and may hold anything; the state comes next.
    let rest = stat.rsplit_once(") ").map(|(_, rest)| rest).unwrap_or_default();
    rest.split(' ').nth(1).and_then(|parent| parent.parse().ok()).unwrap_or(0)
}

/// The living processes that this one started, by any of its threads.
pub fn children(process: u32) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").expect("procfs").flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter(|child| parent(*child) == process && is_alive(*child)).collect()
}

pub fn has_word(process: u32, word: &str) -> bool {
    let text = std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    text.split(|byte| *byte == 0).any(|found| found == word.as_bytes())
}

/// Asks the guards to end, waits, and kills what does not: those are returned, with their words.
pub(super) fn end_all_of(dir: &Path) -> Vec<String> {
    let deadline = Instant::now() + END_WITHIN;
    loop {
        let left = processes_of(dir);
        if left.is_empty() {
            return Vec::new();
        }
        if Instant::now() > deadline {
            let named = left.iter().map(|process| words(*process)).collect();
            left.into_iter().for_each(kill);
            return named;
        }
        // Guards only: whatever they do not end is what a test must hear of.
        let guard =
            |process: &&u32| has_word(**process, "pilot") && !has_word(**process, "--inner");
        left.iter().filter(guard).for_each(|process| terminate(*process));
        super::pause(Duration::from_millis(20));
    }
}

fn words(process: u32) -> String {
    let text = std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    format!("{process} {}", String::from_utf8_lossy(&text).replace('\0', " "))
}
