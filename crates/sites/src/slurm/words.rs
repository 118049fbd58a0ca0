//! What Slurm's commands say when they do not do it, and what can be done about it.
//!
//! The texts are those of Slurm's own table of errors, which has kept them for a decade; the
//! commands print them in English whatever the language is.

use crate::batch::{EngineError, EngineTrouble, MAX_WORDS};
use crate::way::{Output, WayError};
use shipway_model::plain_text::clean;
use std::error::Error;

/// Nobody has decided about what was asked, or nobody told.
const NOT_REACHED: [&str; 16] = [
    "Unable to contact slurm controller",
    "Communication connection failure",
    "Communication shutdown failure",
    "Socket timed out on send/recv operation",
    "Zero Bytes were transmitted or received",
    "Unable to establish controller machine",
    "Unable to establish control machine",
    "Slurm backup controller in standby mode",
    "Controller is in standby mode",
    "Could not establish a configuration source",
    "Unexpected missing socket error",
    "Connection refused",
    "Connection timed out",
    "Failed to connect to authentication agent",
    "Munge encode failed",
    "Protocol authentication error",
];

/// The same words of an account's limits stand for those that pass and for those that do not.
const LASTING: [&str; 3] = ["PerJob", "MaxWallDuration", "MinTRES"];

const NOT_NOW: [&str; 14] = [
    "temporarily unable to accept job",
    "Resource temporarily unavailable",
    "Unable to create job record, try again",
    "Requested partition configuration not available now",
    "Requested reservation not usable now",
    "Job violates accounting/QOS policy",
    "MaxSubmit",
    "Requested operation is presently disabled",
    "Slurm internal error",
    "I/O error writing script/environment to file",
    "DB index is being set",
    "Requested account has breached requested QOS usage threshold",
    "try again",
    "rate limit",
];

/// Of `timeout` and of shells, between us and the command.
const TIMED_OUT: i32 = 124;
const CANNOT_RUN: i32 = 126;
const NOT_FOUND: i32 = 127;

pub(super) fn trouble(said: &str) -> EngineTrouble {
    let any = |texts: &[&str]| texts.iter().any(|text| said.contains(text));
    match () {
        () if any(&NOT_REACHED) => EngineTrouble::NotReached,
        () if any(&NOT_NOW) && !any(&LASTING) => EngineTrouble::NotNow,
        () => EngineTrouble::Refused,
    }
}

/// Whether `scancel` complains of nothing but jobs that are over.
pub(super) fn was_over(said: &str) -> bool {
    let over = ["Invalid job id specified", "Job/step already completing or completed"];
    let mut lines = said.lines().map(str::trim).filter(|line| !line.is_empty()).peekable();
    lines.peek().is_some() && lines.all(|line| over.iter().any(|text| line.contains(text)))
}

/// Of a command that ended with an error.
pub(super) fn failed(act: &str, output: &Output) -> EngineError {
    let said = String::from_utf8_lossy(&output.stderr);
    let kind = match output.code {
        // It was ended, by somebody or for its slowness, or is not there: nothing was decided.
        None | Some(TIMED_OUT | CANNOT_RUN | NOT_FOUND) => EngineTrouble::NotReached,
        Some(_) => trouble(&said),
    };
    let mut words = in_one_line(&said);
    if words.is_empty() {
        words = match output.code {
            Some(code) => format!("it ended with code {code} and said nothing"),
            None => "it was ended by a signal and said nothing".to_string(),
        };
    }
    EngineError { act: act.to_string(), words, kind }
}

pub(super) fn not_run(act: &str, error: &WayError) -> EngineError {
    let kind = match error {
        WayError::TooMuch { .. } => EngineTrouble::Unreadable,
        _ => EngineTrouble::NotReached,
    };
    let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
    // The one command that is started by another (`queue.rs`).
    let error = error.to_string().replace("`env`", "`squeue`");
    EngineError { act: act.to_string(), words: cut(&format!("{error}{cause}")), kind }
}

/// Nobody answered, or the answer did not come to its end.
pub(super) fn failed_to_ask(act: &str, words: &str) -> EngineError {
    EngineError { act: act.to_string(), words: cut(words), kind: EngineTrouble::NotReached }
}

pub(super) fn unreadable(act: &str, answer: &str) -> EngineError {
    let words = cut(&format!("its answer makes no sense: {answer}"));
    EngineError { act: act.to_string(), words, kind: EngineTrouble::Unreadable }
}

/// `sbatch: error: ` before each line says nothing; the last lines often repeat the first.
fn in_one_line(said: &str) -> String {
    let mut lines: Vec<&str> = Vec::new();
    for line in said.lines().map(without_program).filter(|line| !line.is_empty()) {
        if !lines.contains(&line) && lines.len() < MAX_WORDS {
            lines.push(line);
        }
    }
    cut(&lines.join("; "))
}

fn without_program(line: &str) -> &str {
    let line = line.trim();
    let rest = line.split_once(": ").filter(|(program, _)| {
        program.starts_with('s') && program.chars().all(|c| c.is_ascii_lowercase())
    });
    let line = rest.map_or(line, |(_, rest)| rest);
    line.strip_prefix("error: ").unwrap_or(line)
}

/// To what may be shown and journaled.
pub(super) fn cut(words: &str) -> String {
    clean(&words.chars().take(MAX_WORDS).collect::<String>()).trim().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn what_can_be_done_depends_on_the_words() {
        let table = [
            ("Unable to contact slurm controller (connect failure)", EngineTrouble::NotReached),
            ("Socket timed out on send/recv operation", EngineTrouble::NotReached),
            (
                "Slurm temporarily unable to accept job, sleeping and retrying",
                EngineTrouble::NotNow,
            ),
            ("Invalid partition name specified", EngineTrouble::Refused),
            ("Requested node configuration is not available", EngineTrouble::Refused),
            ("Invalid account or account/partition combination specified", EngineTrouble::Refused),
            ("unrecognized option '--bogus'", EngineTrouble::Refused),
            (
                "sbatch: error: AssocMaxSubmitJobLimit\nsbatch: error: Batch job submission \
                 failed: Job violates accounting/QOS policy (job submit limit, user's size …)",
                EngineTrouble::NotNow,
            ),
            (
                "sbatch: error: QOSMaxWallDurationPerJobLimit\nsbatch: error: Batch job \
                 submission failed: Job violates accounting/QOS policy (job submit limit, …)",
                EngineTrouble::Refused,
            ),
        ];
        for (said, kind) in table {
            assert_eq!(trouble(said), kind, "{said}");
        }
    }

    /// All that the recorded commands complained of is somebody's mistake, but the last line.
    #[test]
    fn real_complaints_are_judged_as_what_they_are() {
        for said in [
            include_str!("../../tests/fixtures/slurm/22.05.8/errors.txt"),
            include_str!("../../tests/fixtures/slurm/24.11.5/errors.txt"),
            include_str!("../../tests/fixtures/slurm/26.05.5/errors.txt"),
        ] {
            let (mistakes, silence) = said.trim().rsplit_once('\n').expect("several lines");
            assert_eq!(trouble(silence), EngineTrouble::NotReached, "{silence}");
            for line in mistakes.lines() {
                assert_eq!(trouble(line), EngineTrouble::Refused, "{line}");
            }
        }
    }

    #[test]
    fn words_are_one_line_without_the_name_of_the_command() {
        let said = b"sbatch: error: invalid partition specified: nope\nsbatch: error: Batch job \
                     submission failed: Invalid partition name specified\n"
            .to_vec();
        let output = Output { code: Some(1), stdout: Vec::new(), stderr: said };
        let error = failed("submit to partition nope", &output);
        assert_eq!(
            error.to_string(),
            "cannot submit to partition nope: invalid partition specified: nope; Batch job \
             submission failed: Invalid partition name specified"
        );
        assert_eq!(error.kind, EngineTrouble::Refused);
        let stderr = "a\u{1b}[31m\n".repeat(900).into_bytes();
        let words = failed("x", &Output { code: Some(1), stdout: Vec::new(), stderr }).words;
        assert_eq!(words, "a?[31m");
        assert_eq!(cut(&"é".repeat(900)).chars().count(), MAX_WORDS);
    }

    #[test]
    fn jobs_that_are_over_are_no_trouble() {
        let invalid = "scancel: error: Kill job error on job id 7: Invalid job id specified\n";
        assert!(was_over(invalid));
        assert!(!was_over(""), "it failed and did not say why");
        let denied = "scancel: error: Kill job error on job id 8: Access/permission denied\n";
        assert!(!was_over(&format!("{invalid}{denied}")));
    }

    #[test]
    fn silence_and_signals_are_told() {
        let output = |code| Output { code, stdout: Vec::new(), stderr: Vec::new() };
        let error = failed("list jobs", &output(Some(2)));
        assert_eq!(error.words, "it ended with code 2 and said nothing");
        assert_eq!(error.kind, EngineTrouble::Refused);
        for code in [None, Some(124), Some(127)] {
            assert_eq!(failed("list jobs", &output(code)).kind, EngineTrouble::NotReached);
        }
        let slow = WayError::TooSlow { program: "squeue".into(), within: Duration::from_secs(5) };
        let error = not_run("list jobs", &slow);
        assert_eq!(error.words, "`squeue` did not end within 5 s");
        assert_eq!(error.kind, EngineTrouble::NotReached);
    }
}
