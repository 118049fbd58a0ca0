//! What is wrong with a submit file, and what is worth a warning: each with its place.

use super::limits::{
    MAX_INCLUDE_DEPTH, MAX_INCLUDES, MAX_JOBS, MAX_LINE_BYTES, MAX_LINES, MAX_MACROS, MAX_QUEUES,
    MAX_TASKS, MAX_VALUE_BYTES, MAX_VARIABLES,
};
use super::present;
use shipway_model::validate::Problem;
use std::fmt;

/// Where something is written.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct SourcePosition {
    pub file: String,
    /// From 1; 0 is the file as a whole.
    pub line: usize,
}

impl fmt::Display for SourcePosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if self.line > 0 { write!(f, ", line {}", self.line) } else { Ok(()) }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {wrong}{}", of_item(.item.as_deref()))]
pub struct SubmitError {
    pub place: SourcePosition,
    pub wrong: Wrong,
    /// The item of `queue` that it comes up with, where others may be right.
    pub item: Option<String>,
}

/// Letters of an item that a message repeats.
const ITEM_SHOWN: usize = 80;

fn of_item(item: Option<&str>) -> String {
    let Some(item) = item else { return String::new() };
    let mut shown: String = item.chars().take(ITEM_SHOWN).collect();
    if shown.len() < item.len() {
        shown.push('…');
    }
    format!(" (in the item `{shown}` of `queue`)")
}

/// Something that is done differently here, or not at all.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Warning {
    pub place: SourcePosition,
    pub what: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.what)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Wrong {
    #[error("the line is longer than {MAX_LINE_BYTES} bytes")]
    LongLine,
    #[error("there are more than {MAX_LINES} lines")]
    ManyLines,
    #[error("the text has a character that texts cannot have (U+{0:04X})")]
    Character(u32),
    #[error("`{0}` is not a statement: NAME = VALUE, queue, if, or include is wanted")]
    NoStatement(String),
    #[error("`{0}` cannot name a macro (letters, digits, _ and .)")]
    Name(String),
    #[error("more than {MAX_MACROS} names have values")]
    ManyMacros,
    #[error("`@{0}` is missing: a text of several lines ends with it")]
    NoHereEnd(String),
    #[error("`{0}` is not a condition: {1}")]
    Condition(String, &'static str),
    #[error("`{0}` without an `if`")]
    NoIf(&'static str),
    #[error("`{0}` after `else`")]
    AfterElse(&'static str),
    #[error("an `if` has no `endif`")]
    NoEndIf,
    #[error("`if` inside of `if` goes too deep")]
    DeepIf,
    #[error("error: {0}")]
    Said(String),
    #[error("`{0}` cannot stand between `include` and `:`")]
    IncludeWord(String),
    #[error("cannot include the output of a command: submitting runs nothing on this machine")]
    IncludeCommand,
    #[error("`include` goes deeper than {MAX_INCLUDE_DEPTH} files; does `{0}` include itself?")]
    DeepInclude(String),
    #[error("more than {MAX_INCLUDES} files are included")]
    ManyIncludes,
    #[error("cannot read `{name}`: {said}")]
    Unreadable { name: String, said: String },
    #[error("`use {0}` is a template of an HTCondor installation; there is none here")]
    Use(String),
    #[error("`queue` is in an included file; HTCondor takes it only in the submit file itself")]
    QueueInInclude,
    #[error("`{0}` is not a number of tasks")]
    QueueCount(String),
    #[error("`{0}` does not fit the `{1}` before it")]
    QueueWord(String, &'static str),
    #[error("`{0}` is not a slice ([first:end:step], step from 1)")]
    Slice(String),
    #[error("the list of items has no closing `)` on a line of its own")]
    NoListEnd,
    #[error("cannot take items from the command `{0}`: submitting runs nothing on this machine")]
    QueueCommand(String),
    #[error("cannot take items from standard input; write them to a file")]
    QueueStandardInput,
    #[error("`queue` names more than {MAX_VARIABLES} variables")]
    ManyVariables,
    #[error("there are more than {MAX_QUEUES} `queue` statements")]
    ManyQueues,
    #[error("{0} tasks; at most {MAX_TASKS} in one file")]
    ManyTasks(u64),
    #[error("there is no `queue` statement")]
    NoQueue,
    #[error("there is nothing to submit: {0}")]
    NoTasks(String),
    #[error("the value of `{0}` becomes longer than {MAX_VALUE_BYTES} bytes")]
    LongValue(String),
    #[error(
        "the macros of `{0}` have no end: they refer to themselves or each other, or there are \
         more of them with each step"
    )]
    Endless(String),
    #[error("${function}({arguments}): {what}")]
    Function { function: &'static str, arguments: String, what: String },
    #[error("{command}: {what}")]
    Value { command: String, what: String },
    #[error("{command} cannot be honoured: {why}")]
    Refused { command: String, why: String },
    #[error("the tasks differ so much that they become more than {MAX_JOBS} jobs")]
    ManyJobs,
    #[error("{command}: there is no {what} `{path}`")]
    Missing { command: &'static str, what: &'static str, path: String },
    #[error("{command}: `{path}` {what}")]
    WrongKind { command: &'static str, what: &'static str, path: String },
    #[error("this becomes a job that cannot run: {0}")]
    Problem(ProblemText),
}

/// A problem of the job, kept as it is said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProblemText(pub String);

impl fmt::Display for ProblemText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<Problem> for ProblemText {
    fn from(problem: Problem) -> Self {
        ProblemText(problem.to_string())
    }
}

impl Wrong {
    pub fn at(self, place: &SourcePosition) -> SubmitError {
        SubmitError { place: place.clone(), wrong: self, item: None }
    }

    pub fn value(command: &str, what: impl Into<String>) -> Wrong {
        Wrong::Value { command: command.into(), what: what.into() }
    }

    /// The way out, where there is one.
    pub fn hint(&self) -> Option<String> {
        let text = match self {
            Wrong::Refused { command, .. } => {
                return Some(format!(
                    "take the line out, or empty it for one submission: --set {command}="
                ));
            }
            Wrong::Missing { command, path, .. } | Wrong::WrongKind { command, path, .. } => {
                return Some(present::hint(command, path));
            }
            Wrong::IncludeCommand => "run the command first and include the file it wrote",
            Wrong::QueueCommand(_) => "run the command first: `queue … from FILE`",
            Wrong::Use(_) => "write out what the template says",
            Wrong::Condition(..) => {
                "a condition is a number, true or false, `defined NAME` or `version >= x.y.z`"
            }
            Wrong::ManyTasks(_) => "split it into several files",
            Wrong::Endless(_) | Wrong::LongValue(_) => {
                "a macro that should add to itself is written once: NAME = $(NAME) more"
            }
            _ => return None,
        };
        Some(text.into())
    }
}
