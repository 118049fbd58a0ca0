//! The closing table of a test run: every step, how it ended, how long it took.

use std::fmt::Write as _;
use std::time::Duration;

use super::{Outcome, Row};

pub(super) fn render(rows: &[Row]) -> String {
    let mut text = String::new();
    for Row { name, outcome, took } in rows {
        let (word, why) = match outcome {
            Outcome::Passed => ("ok", ""),
            Outcome::Skipped(why) => ("skipped", why.as_str()),
            Outcome::Failed(why) => ("FAILED", why.as_str()),
        };
        // The whole story was printed when it happened.
        let why = why.lines().next().unwrap_or_default();
        let seconds = took.as_secs_f64();
        let line = format!("{name:<12} {word:<8} {seconds:>7.1} s  {why}");
        writeln!(text, "{}", line.trim_end()).expect("a String takes any text");
    }
    let count = |wanted: fn(&Outcome) -> bool| rows.iter().filter(|r| wanted(&r.outcome)).count();
    let total: Duration = rows.iter().map(|row| row.took).sum();
    writeln!(
        text,
        "{} steps: {} ok, {} failed, {} skipped, {:.1} s",
        rows.len(),
        count(|outcome| matches!(outcome, Outcome::Passed)),
        count(|outcome| matches!(outcome, Outcome::Failed(_))),
        count(|outcome| matches!(outcome, Outcome::Skipped(_))),
        total.as_secs_f64(),
    )
    .expect("a String takes any text");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_and_every_skip_is_counted() {
        let row =
            |name, outcome, millis| Row { name, outcome, took: Duration::from_millis(millis) };
        let rows = [
            row("format", Outcome::Passed, 1200),
            row("deny", Outcome::Skipped("not installed".into()), 0),
            row("tests", Outcome::Failed("two failed\nand more".into()), 61_000),
        ];
        let expected = "\
format       ok           1.2 s
deny         skipped      0.0 s  not installed
tests        FAILED      61.0 s  two failed
3 steps: 1 ok, 1 failed, 1 skipped, 62.2 s
";
        assert_eq!(render(&rows), expected);
    }
}
