//! Why a command was refused: a code to branch on, a sentence to read, a hint to act on.

use crate::batch::MAX_SITES;
use shipway_model::limits::{
    MAX_RUNS_CHANGED, MAX_TOKENS, MAX_UNFINISHED_BYTES, MAX_UNFINISHED_BYTES_OF_OPERATORS,
    MAX_UNFINISHED_JOBS, MAX_UNFINISHED_JOBS_OF_OPERATORS, MAX_UNFINISHED_TASKS,
};
use shipway_model::validate::Problem;
use shipway_model::{Actor, JobId, May, Millis, PilotId, Role, SiteName, TaskId, UserName};
use std::fmt;

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
    #[error("the token was revoked or has expired meanwhile")]
    TokenEnded,
    #[error("a token makes none that is good for longer than itself, and this one ends in {left}")]
    OutlivesItsMaker { left: Millis },
    #[error("{0}")]
    TooMany(TooMany),
    #[error(
        "these tasks of job {job} cannot be {} apart from the others: jobs of {owner} that have \
         not ended take the {} MiB of the server's memory that they may",
        act.done(), MAX_UNFINISHED_BYTES >> 20
    )]
    TooScattered { act: Scatters, job: JobId, owner: UserName },
    #[error("user {0} is a monitor and has no jobs")]
    HasNoJobs(UserName),
    #[error("job {0} was of a user {1} who is no longer here")]
    OwnerRemoved(JobId, UserName),
    #[error("only {}", .0.words())]
    NotAllowed(May),
    #[error("a monitor may look at the metrics and the nodes, and change nothing")]
    OnlyLooks,
    #[error("nothing of the selection can be {0}")]
    NothingToDo(&'static str),
    #[error("the site cannot be taken: {}", list(.0))]
    InvalidSite(Vec<Problem>),
    #[error("there is no site {0}")]
    NoSuchSite(SiteName),
    #[error("a server has at most {MAX_SITES} sites")]
    TooManySites,
    #[error("site {site} still has {allocations} allocations of ours")]
    SiteInUse { site: SiteName, allocations: usize },
    #[error("pilot {0} is not known")]
    NoSuchPilot(String),
    #[error("the token of pilot {0} is in use in another folder")]
    PilotElsewhere(PilotId),
    #[error("pilot {0} has opened a newer connection")]
    PilotOvertaken(PilotId),
    #[error("the plan no longer fits the state: {0}")]
    StalePlan(&'static str),
}

/// What people do that parts the tasks of a job into runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scatters {
    Cancel,
    Retry,
}

impl Scatters {
    fn done(self) -> &'static str {
        match self {
            Scatters::Cancel => "cancelled",
            Scatters::Retry => "retried",
        }
    }
}

/// What a user may have only so many of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TooMany {
    Tokens,
    Jobs(Role),
    Tasks,
    Bytes(Role),
    /// Jobs that come back from history at once.
    Revived,
    /// Runs of tasks that change at once.
    Runs,
}

impl TooMany {
    pub fn most_jobs(role: Role) -> u64 {
        let has_more = role.may(May::HaveMore);
        if has_more { MAX_UNFINISHED_JOBS_OF_OPERATORS } else { MAX_UNFINISHED_JOBS }
    }

    pub fn most_bytes(role: Role) -> u64 {
        let has_more = role.may(May::HaveMore);
        if has_more { MAX_UNFINISHED_BYTES_OF_OPERATORS } else { MAX_UNFINISHED_BYTES }
    }
}

impl fmt::Display for TooMany {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TooMany::Tokens => {
                write!(f, "a user has at most {MAX_TOKENS} tokens that are good at the same time")
            }
            TooMany::Jobs(role) => {
                let most = TooMany::most_jobs(*role);
                write!(f, "a user has at most {most} jobs that have not ended")
            }
            TooMany::Tasks => {
                let most = MAX_UNFINISHED_TASKS;
                write!(f, "the jobs of a user that have not ended have at most {most} tasks")
            }
            TooMany::Revived => f.write_str(
                "so many jobs that ended long ago do not come back from history at once",
            ),
            TooMany::Runs => write!(
                f,
                "these are more than {MAX_RUNS_CHANGED} separate tasks or ranges of tasks, too \
                 many for one request"
            ),
            TooMany::Bytes(role) => {
                let most = TooMany::most_bytes(*role) >> 20;
                write!(
                    f,
                    "requirements, lists of indices, dependencies and scattered tasks of a user's \
                     jobs that have not ended take at most {most} MiB of the server's memory"
                )
            }
        }
    }
}

/// Whether somebody may do something, or why not.
pub fn needs(by: &Actor, act: May) -> Result<(), Rejection> {
    if by.may(act) {
        return Ok(());
    }
    Err(if act == May::Change { Rejection::OnlyLooks } else { Rejection::NotAllowed(act) })
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
            Rejection::TokenEnded => "unauthenticated",
            Rejection::TooMany(_) | Rejection::TooScattered { .. } | Rejection::TooManySites => {
                "too_many"
            }
            Rejection::HasNoJobs(_) => "has_no_jobs",
            Rejection::OwnerRemoved(..) => "owner_removed",
            Rejection::NotAllowed(_)
            | Rejection::OnlyLooks
            | Rejection::OutlivesItsMaker { .. } => "not_allowed",
            Rejection::NothingToDo(_) => "nothing_to_do",
            Rejection::NoSuchPilot(_) => "no_such_pilot",
            Rejection::PilotElsewhere(_) => "pilot_elsewhere",
            Rejection::PilotOvertaken(_) => "pilot_overtaken",
            Rejection::StalePlan(_) => "stale_plan",
            Rejection::InvalidSite(_) => "invalid_site",
            Rejection::NoSuchSite(_) => "no_such_site",
            Rejection::SiteInUse { .. } => "site_in_use",
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
                Some("`shipway user remove NAME` first; it ends the user's tokens and jobs")
            }
            Rejection::NoSuchToken(_) => Some("`shipway token list` lists them"),
            Rejection::TokenEnded => Some("ask an admin for a new one: `shipway token new`"),
            Rejection::OutlivesItsMaker { .. } => {
                Some("ask for less with --lasts, or use a token that is good for longer")
            }
            Rejection::TooMany(TooMany::Tokens) => Some("`shipway token revoke ID` ends one"),
            Rejection::TooMany(TooMany::Jobs(_)) => {
                Some("one job of many tasks (--array, --each) counts once; or wait until some end")
            }
            Rejection::TooMany(TooMany::Tasks) => Some("wait until some have ended"),
            Rejection::TooMany(TooMany::Revived) => Some("retry some of them, and then the others"),
            Rejection::TooMany(TooMany::Runs) => {
                Some("name fewer jobs at once, or tasks of one (JOB/INDEX, at most 100000)")
            }
            Rejection::TooMany(TooMany::Bytes(_)) => {
                Some("equal requirements count once, 1-1000 as one index; or wait until some end")
            }
            Rejection::TooScattered { act: Scatters::Cancel, .. } => {
                Some("cancel the whole job, or all tasks before or after one; or wait for ends")
            }
            Rejection::TooScattered { act: Scatters::Retry, .. } => {
                Some("retry them when some of the jobs have ended, or cancel one")
            }
            Rejection::HasNoJobs(_) => Some("name a user, an operator or an admin"),
            Rejection::OwnerRemoved(..) => Some("`shipway show JOB` has what was submitted"),
            Rejection::NotAllowed(May::ReadMetrics) => {
                Some("ask an admin for a token of a user with the role `monitor`")
            }
            Rejection::NotAllowed(May::TouchAllJobs) => {
                Some("without an owner, your own jobs are listed")
            }
            Rejection::NotAllowed(_) | Rejection::OnlyLooks => Some("ask an admin of this server"),
            Rejection::NothingToDo(_) => Some("`shipway show JOB` says what state it is in"),
            Rejection::PilotElsewhere(_) => {
                Some("`shipway token pilot` makes one for each pilot; none can be shared")
            }
            Rejection::InvalidSite(_) => Some("`shipway site check FILE` checks a site's file"),
            Rejection::NoSuchSite(_) => Some("`shipway site list` lists them"),
            Rejection::TooManySites => Some("`shipway site remove NAME` one that is not used"),
            Rejection::SiteInUse { .. } => {
                Some("`shipway site drain NAME`, and remove it when its allocations have ended")
            }
            Rejection::NoSuchPilot(_) | Rejection::PilotOvertaken(_) | Rejection::StalePlan(_) => {
                None
            }
        }
    }
}
