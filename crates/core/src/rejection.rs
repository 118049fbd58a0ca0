//! Why a command was refused: a code to branch on, a sentence to read, a hint to act on.

use shipway_model::validate::Problem;
use shipway_model::{JobId, TaskId, UserName};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    #[error("the job cannot be accepted: {}", list(.0))]
    InvalidSpec(Vec<Problem>),
    #[error("there is no job {0}")]
    NoSuchJob(JobId),
    #[error("there is no task {0}")]
    NoSuchTask(TaskId),
    #[error("the job is to wait for job {0}, which does not exist")]
    NoSuchDependency(JobId),
    #[error("the key was already used for job {0}, which says something else")]
    KeyReused(JobId),
    #[error("there is no user {0}")]
    NoSuchUser(UserName),
    #[error("user {0} exists already with another role")]
    UserExists(UserName),
    #[error("there is no token {0}")]
    NoSuchToken(String),
    #[error("only an admin may {0}")]
    NotAllowed(&'static str),
    #[error("a monitor may look at the metrics and the nodes, and change nothing")]
    OnlyLooks,
    #[error("nothing of the selection can be {0}")]
    NothingToDo(&'static str),
    #[error("pilot {0} is not known")]
    NoSuchPilot(String),
    #[error("the plan no longer fits the state: {0}")]
    StalePlan(&'static str),
}

fn list(problems: &[Problem]) -> String {
    problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("; ")
}

impl Rejection {
    /// Stable; clients branch on it.
    pub fn code(&self) -> &'static str {
        match self {
            Rejection::InvalidSpec(_) => "invalid_spec",
            Rejection::NoSuchJob(_) => "no_such_job",
            Rejection::NoSuchTask(_) => "no_such_task",
            Rejection::NoSuchDependency(..) => "no_such_dependency",
            Rejection::KeyReused(_) => "key_reused",
            Rejection::NoSuchUser(_) => "no_such_user",
            Rejection::UserExists(_) => "user_exists",
            Rejection::NoSuchToken(_) => "no_such_token",
            Rejection::NotAllowed(_) | Rejection::OnlyLooks => "not_allowed",
            Rejection::NothingToDo(_) => "nothing_to_do",
            Rejection::NoSuchPilot(_) => "no_such_pilot",
            Rejection::StalePlan(_) => "stale_plan",
        }
    }

    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Rejection::InvalidSpec(_) => Some("`shipway submit --dry-run FILE` checks a job file"),
            Rejection::NoSuchJob(_) | Rejection::NoSuchTask(_) => {
                Some("`shipway jobs` lists your jobs; `shipway show JOB` lists a job's tasks")
            }
            Rejection::NoSuchDependency(..) => Some("submit the job it waits for first"),
            Rejection::KeyReused(_) => Some("use a new idempotency key for a different job"),
            Rejection::NoSuchUser(_) => Some("`shipway user list` lists them"),
            Rejection::UserExists(_) => {
                Some("`shipway user remove NAME` first; it revokes the user's tokens")
            }
            Rejection::NoSuchToken(_) => Some("`shipway token list` lists them"),
            Rejection::NotAllowed(_) | Rejection::OnlyLooks => Some("ask an admin of this server"),
            Rejection::NothingToDo(_) => Some("`shipway show JOB` says what state it is in"),
            Rejection::NoSuchPilot(_) | Rejection::StalePlan(_) => None,
        }
    }
}
