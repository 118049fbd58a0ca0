//! From a job's template to one task: `{field}` in its texts, fields and names as variables.
//!
//! Used by the pilot before it starts a task, by the server for a task's event log, and by a dry
//! run that shows what would be started.

use crate::ids::{Attempt, JobId, TaskId, TaskIndex};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// What stands for `{name}` in the texts of one task: the fields of its row, then `{job}` and
/// `{index}`, and `{workdir}` in variables. A row's own field of such a name wins.
#[derive(Debug, Clone, Copy)]
pub struct Placeholders<'a> {
    row: &'a BTreeMap<String, String>,
    /// Not known before it is submitted.
    job: Option<JobId>,
    index: TaskIndex,
    /// Known where its variables are made, and nowhere else.
    workdir: Option<&'a str>,
}

/// What stands for the work directory in the value of a variable.
pub const WORKDIR: &str = "workdir";

impl<'a> Placeholders<'a> {
    pub fn of(task: TaskId, row: &'a BTreeMap<String, String>) -> Self {
        Placeholders { row, job: Some(task.job), index: task.index, workdir: None }
    }

    pub fn before_submission(index: TaskIndex, row: &'a BTreeMap<String, String>) -> Self {
        Placeholders { row, job: None, index, workdir: None }
    }

    /// For variables of a task that runs there.
    #[must_use]
    pub fn inside(self, workdir: &'a str) -> Self {
        Placeholders { workdir: Some(workdir), ..self }
    }

    fn value(&self, name: &str) -> Option<Cow<'a, str>> {
        if let Some(field) = self.row.get(name) {
            return Some(Cow::Borrowed(field));
        }
        match name {
            "job" => self.job.map(|job| job.to_string().into()),
            "index" => Some(self.index.to_string().into()),
            WORKDIR => self.workdir.map(Cow::Borrowed),
            _ => None,
        }
    }

    /// Replaces `{name}` by what it stands for; an unknown name stays as it is, because shells and
    /// programs use braces too.
    pub fn fill(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        for piece in pieces(text) {
            match piece {
                Piece::Text(text) => out.push_str(text),
                Piece::Name(name) => match self.value(name) {
                    Some(value) => out.push_str(&value),
                    None => out.extend(["{", name, "}"]),
                },
            }
        }
        out
    }
}

/// A part of a text with placeholders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Piece<'t> {
    /// As it is.
    Text(&'t str),
    /// What stood in braces. There are no braces in it.
    Name(&'t str),
}

/// The text once from left to right: many braces take no longer than other letters.
pub(crate) fn pieces(text: &str) -> impl Iterator<Item = Piece<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if let Some((name, after)) = name_at_start(rest) {
            rest = after;
            return Some(Piece::Name(name));
        }
        let next = match rest.strip_prefix('{') {
            Some(inside) => inside.find('{').map(|at| at + 1),
            None => rest.find('{'),
        };
        let (text, after) = rest.split_at(next.unwrap_or(rest.len()));
        if text.is_empty() {
            return None;
        }
        rest = after;
        Some(Piece::Text(text))
    })
}

/// A name in braces, and what is behind it.
fn name_at_start(text: &str) -> Option<(&str, &str)> {
    let inside = text.strip_prefix('{')?;
    let (name, after) = inside.split_at(inside.find(['{', '}'])?);
    Some((name, after.strip_prefix('}')?))
}

/// The variables every task finds, beside its own.
pub fn task_variables(
    task: TaskId,
    attempt: Attempt,
    workdir: &str,
) -> [(&'static str, String); 5] {
    [
        ("SHIPWAY_JOB", task.job.to_string()),
        ("SHIPWAY_TASK", task.to_string()),
        ("SHIPWAY_INDEX", task.index.to_string()),
        ("SHIPWAY_ATTEMPT", attempt.to_string()),
        ("SHIPWAY_WORKDIR", workdir.to_string()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_put_in_and_the_rest_is_left_alone() {
        let fields = BTreeMap::from([("seed".to_string(), "7".to_string())]);
        let task = JobId(12).task(TaskIndex(3));
        for (text, expected) in [
            ("--seed={seed}", "--seed=7"),
            ("{seed}{seed}", "77"),
            ("${HOME} {other} {", "${HOME} {other} {"),
            ("{{seed}}", "{7}"),
            ("{a{seed}}{}é{", "{a7}{}é{"),
            ("", ""),
            ("plain", "plain"),
            ("out.{job}.{index}", "out.12.3"),
        ] {
            assert_eq!(Placeholders::of(task, &fields).fill(text), expected);
        }
    }

    /// Each piece is looked at once: a square of a hundred thousand braces would take seconds.
    #[test]
    fn braces_that_are_never_closed_are_one_text_each() {
        let text = "{".repeat(100_000) + "x}";
        let found: Vec<Piece<'_>> = pieces(&text).collect();
        assert_eq!(found.len(), 100_000);
        assert_eq!(
            (found.first(), found.last()),
            (Some(&Piece::Text("{")), Some(&Piece::Name("x")))
        );
    }

    #[test]
    fn a_row_has_the_last_word_and_a_job_to_come_has_no_number() {
        let row = BTreeMap::from([("job".to_string(), "mine".to_string())]);
        let task = JobId(12).task(TaskIndex(3));
        assert_eq!(Placeholders::of(task, &row).fill("{job}/{index}"), "mine/3");
        let none = BTreeMap::new();
        let there = Placeholders::of(task, &none);
        assert_eq!(there.fill("{workdir}"), "{workdir}");
        assert_eq!(there.inside("/w").fill("{workdir}/x"), "/w/x");
        let before = Placeholders::before_submission(TaskIndex(3), &none);
        assert_eq!(before.fill("{job}/{index}"), "{job}/3");
    }
}
