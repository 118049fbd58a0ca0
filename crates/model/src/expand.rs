//! From a job's template to one task: `{field}` in the command, fields and names as variables.
//!
//! Used by the pilot before it starts a task, and by a dry run that shows what would be started.

use crate::ids::{Attempt, TaskId};
use std::collections::BTreeMap;

/// Replaces `{name}` by the field of that name; an unknown name
/// stays as it is, because shells and programs use braces too.
pub fn substitute(text: &str, fields: &BTreeMap<String, String>) -> String {
    if fields.is_empty() || !text.contains('{') {
        return text.to_string();
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(open) = rest.find('{') {
        out.push_str(&rest[..open]);
        rest = &rest[open..];
        let field = rest.find('}').and_then(|close| Some((close, fields.get(&rest[1..close])?)));
        if let Some((close, value)) = field {
            out.push_str(value);
            rest = &rest[close + 1..];
        } else {
            out.push('{');
            rest = &rest[1..];
        }
    }
    out.push_str(rest);
    out
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
        for (text, expected) in [
            ("--seed={seed}", "--seed=7"),
            ("{seed}{seed}", "77"),
            ("${HOME} {other} {", "${HOME} {other} {"),
            ("{{seed}}", "{7}"),
            ("plain", "plain"),
        ] {
            assert_eq!(substitute(text, &fields), expected);
        }
    }
}
