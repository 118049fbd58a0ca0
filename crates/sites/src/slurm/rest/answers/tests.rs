//! What real daemons answered, judged.

use super::*;

const SUBMITTED: [&str; 3] = [
    include_str!("../../../../tests/fixtures/slurm/22.05.8/v0.0.38-submit.jsonl"),
    include_str!("../../../../tests/fixtures/slurm/24.11.5/v0.0.40-submit.jsonl"),
    include_str!("../../../../tests/fixtures/slurm/24.11.5/v0.0.42-submit.jsonl"),
];
const CANCELLED: [&str; 3] = [
    include_str!("../../../../tests/fixtures/slurm/22.05.8/v0.0.38-cancel.jsonl"),
    include_str!("../../../../tests/fixtures/slurm/24.11.5/v0.0.40-cancel.jsonl"),
    include_str!("../../../../tests/fixtures/slurm/24.11.5/v0.0.42-cancel.jsonl"),
];
const TOKENS: [&str; 3] = [
    include_str!("../../../../tests/fixtures/slurm/22.05.8/v0.0.38-token.txt"),
    include_str!("../../../../tests/fixtures/slurm/24.11.5/v0.0.40-token.txt"),
    include_str!("../../../../tests/fixtures/slurm/24.11.5/v0.0.42-token.txt"),
];

/// A held one is taken and told as an error: handed in again, it would be there twice.
#[test]
fn submissions_are_taken_or_refused_in_its_words() {
    for answers in SUBMITTED {
        let judge = |line: &str| submitted("submit", 200, line.as_bytes());
        let all: Vec<_> = answers.lines().map(judge).collect();
        for (at, words) in
            [(0, "Invalid partition name specified"), (1, "Requested node configuration is not")]
        {
            let error = all[at].as_ref().expect_err(words);
            assert_eq!(error.kind, EngineTrouble::Refused, "{error}");
            assert!(error.words.starts_with(words), "{error}");
        }
        for taken in &all[2..] {
            let id = &taken.as_ref().expect("it was taken").0;
            assert!(id.parse::<u32>().is_ok_and(|id| id > 0), "{id}");
        }
    }
}

#[test]
fn an_odd_answer_to_a_submission_leaves_it_open() {
    for (status, answer, kind) in [
        (200, r#"{"errors": []}"#, EngineTrouble::Unreadable),
        (200, r#"{"job_id": 0, "errors": []}"#, EngineTrouble::Unreadable),
        (200, "", EngineTrouble::Unreadable),
        (502, "<html>Bad Gateway</html>", EngineTrouble::NotReached),
        (500, r#"{"errors": [{"error": "Unspecified error"}]}"#, EngineTrouble::NotReached),
        (500, r#"{"errors": []}"#, EngineTrouble::NotReached),
    ] {
        let error = submitted("submit", status, answer.as_bytes()).expect_err(answer);
        assert_eq!(error.kind, kind, "{error}");
    }
}

#[test]
fn what_is_over_needs_no_cancelling() {
    for answers in CANCELLED {
        for line in answers.lines() {
            cancelled("cancel", 200, line.as_bytes()).expect(line);
        }
    }
    let denied = r#"{"errors": [{"error": "Access/permission denied", "error_number": 2002}]}"#;
    let error = cancelled("cancel", 500, denied.as_bytes()).expect_err("denied");
    assert_eq!(error.to_string(), "cannot cancel: Access/permission denied");
    let of_one = r#"{"status": [{"error": {"string": "Access/permission denied", "code": 2002}}]}"#;
    assert!(cancelled("cancel", 200, of_one.as_bytes()).is_err());
    assert!(cancelled("cancel", 500, br#"{"errors": []}"#).is_err());
    // Of 24.11, whose controller was away.
    let away = r#"{"errors": [{"error": "Operation not permitted", "error_number": 1,
        "description": "Signal request failed"}]}"#;
    let error = cancelled("cancel", 500, away.as_bytes()).expect_err("away");
    assert_eq!(error.kind, EngineTrouble::NotReached, "{error}");
}

/// It is the site's trouble, not the submission's; and no more is said than is known.
#[test]
fn a_token_that_is_not_taken_is_told_as_far_as_it_is_known() {
    for said in TOKENS {
        let mut lines = said.lines();
        let none = odd("list jobs", 401, lines.next().expect("one").as_bytes());
        assert_eq!(
            none.words,
            "HTTP 401: Authentication failure (the token is missing, wrong or over)"
        );
        let wrong = odd("list jobs", 500, lines.next().expect("two").as_bytes());
        for error in [&none, &wrong] {
            assert_eq!(error.kind, EngineTrouble::NotReached, "{error}");
        }
        let is_doubt = wrong.words.contains("the token may be wrong or over");
        let is_told = wrong.words.starts_with("Protocol authentication error");
        assert!(is_doubt || is_told, "{wrong}");
    }
}
