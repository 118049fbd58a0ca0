//! What HTCondor's words and codes mean to us: why a job is over or held, and what can be done
//! about a command that failed. Its own words are kept beside, for people.

use super::ad::Ad;
use super::submit::{HELD_FOR_FILES, HELD_FOR_MEMORY, MEMORY, NO_FILES, TAKEN, WALL};
use crate::batch::{AllocationEnd, EngineTrouble, MAX_WORDS};
use crate::exits;

/// What `JobStatus` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    Idle,
    Running,
    Removed,
    Completed,
    Held,
    /// Its output goes back: it still has the node.
    Transferring,
    Suspended,
}

pub(super) fn status(ad: &Ad) -> Option<Status> {
    Some(match ad.whole("JobStatus")? {
        1 => Status::Idle,
        2 => Status::Running,
        3 => Status::Removed,
        4 => Status::Completed,
        5 => Status::Held,
        6 => Status::Transferring,
        7 => Status::Suspended,
        _ => return None,
    })
}

/// Why a job that was removed or completed is over.
pub(super) fn end(ad: &Ad) -> AllocationEnd {
    match status(ad) {
        Some(Status::Completed) if ad.is_true("ExitBySignal") => AllocationEnd::Failed,
        Some(Status::Completed) => match ad.whole("ExitCode") {
            Some(0) => AllocationEnd::Completed,
            Some(_) => AllocationEnd::Failed,
            None => AllocationEnd::Unknown,
        },
        Some(Status::Removed) => removed(ad),
        _ => AllocationEnd::Unknown,
    }
}

fn removed(ad: &Ad) -> AllocationEnd {
    let Some(reason) = ad.text("RemoveReason") else { return AllocationEnd::Unknown };
    let started = ad.whole("JobStartDate").is_some();
    match reason {
        WALL => AllocationEnd::TimeLimit,
        TAKEN => taken(ad),
        MEMORY => AllocationEnd::OutOfMemory,
        NO_FILES => AllocationEnd::Failed,
        // An engine that does not know our reason says which expression it was, and no more.
        _ if reason.contains("attribute PeriodicRemove expression") && started => {
            match ad.whole("LastJobStatus") {
                Some(1) => taken(ad),
                Some(2) => AllocationEnd::TimeLimit,
                _ => AllocationEnd::Unknown,
            }
        }
        _ if reason.contains("attribute PeriodicRemove expression") => AllocationEnd::Failed,
        // We may come before the engine does.
        _ if held_before(ad).is_some()
            && ad.whole("LastHoldReasonCode") == Some(HELD_FOR_MEMORY) =>
        {
            AllocationEnd::OutOfMemory
        }
        _ => AllocationEnd::Cancelled,
    }
}

/// Whether the node was lost, or somebody else has it now.
fn taken(ad: &Ad) -> AllocationEnd {
    // Of the shadow, the start, the claim, the starter, the connection, the startd.
    const BROKEN: [i64; 6] = [1002, 1003, 1006, 1007, 1008, 1012];
    let broken = ad.whole("VacateReasonCode").is_some_and(|code| BROKEN.contains(&code));
    // The connection was lost in that very moment: a node that gives a job back says so.
    let cut = ad.whole("JobDisconnectedDate");
    if broken || cut.is_some() && cut == ad.whole("LastVacateTime") {
        AllocationEnd::NodeFailed
    } else {
        AllocationEnd::Preempted
    }
}

/// What is shown of a job that has ended.
pub(super) fn end_words(ad: &Ad) -> String {
    if status(ad) == Some(Status::Removed) {
        let reason = ad.text("RemoveReason").unwrap_or("no reason is known");
        let vacated = ad.text("VacateReason").filter(|text| !text.is_empty());
        let vacated = vacated.map(|text| format!("; {text}")).unwrap_or_default();
        let held = held_before(ad).map(|text| format!("; it was held: {text}"));
        return cut(&format!("REMOVED ({reason}{vacated}{})", held.unwrap_or_default()));
    }
    let how = match (ad.is_true("ExitBySignal"), ad.whole("ExitSignal"), ad.whole("ExitCode")) {
        (true, Some(signal), _) => format!("ended by signal {signal}"),
        (_, _, Some(code)) => exits::words(code),
        _ => "how is not known".into(),
    };
    format!("COMPLETED ({how})")
}

/// Why it waited for a person, when it was removed.
fn held_before(ad: &Ad) -> Option<&str> {
    let by_somebody = ad.whole("LastHoldReasonCode") != Some(HELD_FOR_FILES);
    let was_held = ad.whole("LastJobStatus") == Some(5) && by_somebody;
    ad.text("LastHoldReason").filter(|_| was_held)
}

/// What is shown of a job that waits for a person.
pub(super) fn held_words(ad: &Ad) -> String {
    let reason = ad.text("HoldReason").unwrap_or("no reason is known");
    match ad.whole("HoldReasonCode") {
        Some(code) => cut(&format!("HELD (code {code}: {reason})")),
        None => cut(&format!("HELD ({reason})")),
    }
}

/// In one line, and not longer than people read.
pub(super) fn cut(text: &str) -> String {
    let mut line = String::new();
    for word in text.split(|c: char| c.is_whitespace() || c.is_control()) {
        if !word.is_empty() {
            line += if line.is_empty() { "" } else { " " };
            line += word;
        }
        if line.len() > MAX_WORDS * 4 {
            break;
        }
    }
    line.chars().take(MAX_WORDS).collect()
}

/// Said when nobody was there to be asked.
const NOT_REACHED: [&str; 18] = [
    "Collector has no record",
    "Failed to connect",
    "communication error",
    "contact the condor_collector",
    "unknown host",
    "Unable to locate",
    "find address of",
    "Can't find address",
    "Can't find your local",
    "Failed to fetch ads",
    "SECMAN:2003",
    "SECMAN:2007",
    "SECMAN:2011",
    "Connection refused",
    "timed out",
    "Failed to end classad message",
    "Couldn't locate",
    "Failed to open history",
];

/// Said by one that knows who asks. It says, too, that it was not connected to.
const REFUSED: [&str; 3] = ["DENIED", "AUTHENTICATE:", "not authorized"];

/// Said by one that may take it later.
const NOT_NOW: [&str; 6] =
    ["MAX_JOBS", "would exceed", "Too many", "busy", "not accepting", "Failed to create new proc"];

/// What can be done about a command that ended with `code` and these words.
pub(super) fn trouble(code: Option<i32>, stderr: &str) -> EngineTrouble {
    let says = |all: &[&str]| all.iter().any(|words| stderr.contains(words));
    match code {
        // A signal, and what shells say of a program that is not there or cannot be run.
        None | Some(126 | 127) => EngineTrouble::NotReached,
        Some(_) if says(&REFUSED) => EngineTrouble::Refused,
        Some(_) if says(&NOT_REACHED) => EngineTrouble::NotReached,
        Some(_) if says(&NOT_NOW) => EngineTrouble::NotNow,
        Some(_) => EngineTrouble::Refused,
    }
}

/// What a command said against itself, without the advice that fills a page.
pub(super) fn complaint(stdout: &str, stderr: &str) -> String {
    let advice = |line: &&str| !line.starts_with("WARNING: ");
    let before = stderr.split("Extra Info:").next().unwrap_or(stderr);
    let said = before.lines().filter(advice).collect::<Vec<_>>().join(" ");
    let said = cut(&said);
    if !said.is_empty() {
        return said;
    }
    let said = cut(stdout.lines().last().unwrap_or_default());
    if said.is_empty() { "it failed and did not say why".into() } else { said }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::htcondor::ad::read;

    fn ad(text: &str) -> Ad {
        read(format!("[{{{text}}}]").as_bytes()).expect("readable").remove(0)
    }

    #[test]
    fn each_end_is_told_apart() {
        let why = |text: &str| end(&ad(text));
        let removed = |reason: &str, rest: &str| {
            why(&format!(r#""JobStatus": 3, "JobStartDate": 1, "RemoveReason": "{reason}"{rest}"#))
        };
        let by_us = "The job attribute PeriodicRemove expression 'x' evaluated to TRUE";
        assert_eq!(why(r#""JobStatus": 4, "ExitCode": 0"#), AllocationEnd::Completed);
        assert_eq!(why(r#""JobStatus": 4, "ExitCode": 3"#), AllocationEnd::Failed);
        assert_eq!(why(r#""JobStatus": 4, "ExitBySignal": true"#), AllocationEnd::Failed);
        assert_eq!(why(r#""JobStatus": 4"#), AllocationEnd::Unknown);
        assert_eq!(why(r#""JobStatus": 3"#), AllocationEnd::Unknown);
        assert_eq!(removed("via condor_rm (by user a)", ""), AllocationEnd::Cancelled);
        let held = |code| format!(r#", "LastJobStatus": 5, "LastHoldReason": "x", {code}"#);
        let of_memory = held(r#""LastHoldReasonCode": 34"#);
        assert_eq!(removed("via condor_rm", &of_memory), AllocationEnd::OutOfMemory);
        let by_somebody = held(r#""LastHoldReasonCode": 1"#);
        assert_eq!(removed("via condor_rm", &by_somebody), AllocationEnd::Cancelled);
        assert_eq!(removed(WALL, ""), AllocationEnd::TimeLimit);
        assert_eq!(removed(MEMORY, ""), AllocationEnd::OutOfMemory);
        assert_eq!(removed(NO_FILES, ""), AllocationEnd::Failed);
        assert_eq!(removed(TAKEN, r#", "VacateReasonCode": 1018"#), AllocationEnd::Preempted);
        assert_eq!(removed(TAKEN, r#", "VacateReasonCode": 1008"#), AllocationEnd::NodeFailed);
        let lost = r#", "JobDisconnectedDate": 7, "LastVacateTime": 7"#;
        assert_eq!(removed(TAKEN, lost), AllocationEnd::NodeFailed);
        let came_back = r#", "JobDisconnectedDate": 7, "LastVacateTime": 9"#;
        assert_eq!(removed(TAKEN, came_back), AllocationEnd::Preempted);
        assert_eq!(removed(by_us, r#", "LastJobStatus": 1"#), AllocationEnd::Preempted);
        assert_eq!(removed(by_us, r#", "LastJobStatus": 2"#), AllocationEnd::TimeLimit);
        assert_eq!(removed(by_us, ""), AllocationEnd::Unknown);
    }

    #[test]
    fn words_say_how_it_ended_and_stay_short() {
        let text = r#""JobStatus": 4, "ExitBySignal": true, "ExitSignal": 9"#;
        assert_eq!(end_words(&ad(text)), "COMPLETED (ended by signal 9)");
        let text = r#""JobStatus": 4, "ExitCode": 127"#;
        assert!(end_words(&ad(text)).ends_with("the program is not there)"));
        let text = r#""JobStatus": 3, "RemoveReason": "via condor_rm", "LastJobStatus": 5,
            "LastHoldReason": "it is too warm", "LastHoldReasonCode": 1"#;
        let words = "REMOVED (via condor_rm; it was held: it is too warm)";
        assert_eq!(end_words(&ad(text)), words);
        let files = text.replace(r#"Code": 1"#, r#"Code": 16"#);
        assert_eq!(end_words(&ad(&files)), "REMOVED (via condor_rm)");
        let long = format!(r#""HoldReasonCode": 12, "HoldReason": "a\n{}""#, "ä ".repeat(1_500));
        let words = held_words(&ad(&long));
        assert!(words.starts_with("HELD (code 12: a ä"), "{words}");
        assert_eq!(words.chars().count(), MAX_WORDS);
    }

    #[test]
    fn trouble_is_what_can_be_done_about_it() {
        let of = |words: &str| trouble(Some(1), words);
        let refused = "SECMAN:2007:Failed to end classad message.";
        assert_eq!(of(refused), EngineTrouble::NotReached);
        let limit = "Number of submitted jobs would exceed MAX_JOBS_SUBMITTED";
        assert_eq!(of(limit), EngineTrouble::NotNow);
        assert_eq!(of("ERROR: Parse error in expression"), EngineTrouble::Refused);
        assert_eq!(trouble(Some(127), "sh: condor_q: not found"), EngineTrouble::NotReached);
        assert_eq!(trouble(None, ""), EngineTrouble::NotReached);
    }

    #[test]
    fn a_complaint_is_one_line_without_advice() {
        let stderr = "Error: unknown host nosuch\nExtra Info: The name given\nwith the -name";
        assert_eq!(complaint("", stderr), "Error: unknown host nosuch");
        let stderr = "WARNING: the line `x` was unused\n\nERROR: no\n";
        assert_eq!(complaint("Submitting job(s)", stderr), "ERROR: no");
        assert_eq!(complaint("a\nit said no\n", ""), "it said no");
        assert_eq!(complaint("", ""), "it failed and did not say why");
    }
}
