//! What readers of history may ask, while the writer writes, and the words of the answers. It is
//! beside `Journal`, which is what the writer asks; no storage is here.
//! Jobs that have not ended are the core's to tell; here is only what was committed.

use super::{EventSeq, JournalError, Snapshot};
use shipway_model::{JobId, Usage, UserName};
use shipway_shell::History;

/// Rows of one page: enough for a screen or a script's loop, small enough to answer at once, and
/// one more by which the caller knows that another page follows.
pub const MAX_PAGE: usize = 1_001;

/// Job ids of one selection: what a bulk command such as "cancel all of mine" may name.
pub const MAX_SELECTION: usize = 100_000;

/// Attempts shown for one page of tasks: several for each, without a limit for none.
pub const MAX_ATTEMPTS: usize = 10 * MAX_PAGE;

/// Events of one page, so that a view far behind does not hold the whole journal in memory.
pub const MAX_EVENTS_PAGE: usize = 10_000;

/// One connection, which only reads. `try_clone` gives another thread its own.
pub trait HistoryReader: Send + std::fmt::Debug {
    fn try_clone(&self) -> Result<Box<dyn HistoryReader>, JournalError>;

    fn job(&self, job: u64) -> Result<Option<JobRow>, JournalError>;

    /// Whose job it is, and its spec as it was submitted, as JSON.
    fn spec(&self, job: u64) -> Result<Option<(String, String)>, JournalError>;

    /// How many tasks the job has.
    fn tasks_of(&self, job: u64) -> Result<Option<u64>, JournalError>;

    /// How the job ended last; a retried job ends more than once.
    fn last_end(&self, job: u64) -> Result<Option<JobEnd>, JournalError>;

    /// Of that the state alone: a record can be large.
    fn end_state(&self, job: u64) -> Result<Option<String>, JournalError>;

    /// One page of jobs, newest first, `MAX_PAGE` at most.
    fn jobs(&self, filter: &JobFilter, limit: usize) -> Result<Vec<JobRow>, JournalError>;

    /// The ids of the selected jobs, newest first, `MAX_SELECTION` at most.
    fn job_ids(&self, filter: &JobFilter) -> Result<Vec<u64>, JournalError>;

    /// Ended attempts of the tasks `first` to `last`, in order of task and attempt, `MAX_ATTEMPTS`
    /// at most. Those that still run are the core's to tell.
    fn attempts_between(
        &self,
        job: u64,
        first: u64,
        last: u64,
    ) -> Result<Vec<AttemptRow>, JournalError>;

    /// The last attempt with this state, of the first task that has one.
    fn last_with(&self, job: u64, state: &str) -> Result<Option<AttemptRow>, JournalError>;

    /// Events after `after`, `limit` at most, and no more than `MAX_EVENTS_PAGE`.
    fn events_after(&self, after: EventSeq, limit: usize) -> Result<EventsPage, JournalError>;

    /// The newest snapshot that checks out.
    fn snapshot(&self) -> Result<Option<Snapshot>, JournalError>;

    /// The last committed event.
    fn tip(&self) -> Result<EventSeq, JournalError>;
}

/// What the desk asks.
impl History for Box<dyn HistoryReader> {
    type Error = JournalError;

    fn owner(&self, job: JobId) -> Result<Option<(UserName, JobId)>, JournalError> {
        let row = self.job(job.0)?;
        Ok(row.and_then(|row| Some((UserName::new(&row.owner).ok()?, JobId(row.since)))))
    }
    fn last_state(&self, job: JobId) -> Result<Option<String>, JournalError> {
        self.end_state(job.0)
    }
    fn last_record(&self, job: JobId) -> Result<Option<String>, JournalError> {
        Ok(self.last_end(job.0)?.map(|end| end.record))
    }
}

/// Which jobs; every part given must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct JobFilter {
    pub owner: Option<String>,
    /// Of the owner's, only what is theirs since this one: see `Owned` of the model.
    pub since: u64,
    pub name: Option<String>,
    pub labels: Vec<(String, String)>,
    /// Only jobs with a smaller id: where the last page ended.
    pub before: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobRow {
    pub job: u64,
    pub seq: EventSeq,
    pub owner: String,
    /// The job's own number, or what it was given with.
    pub since: u64,
    pub name: String,
    /// A JSON object of strings.
    pub labels: String,
    pub tasks: u64,
    pub priority: i64,
    pub submitted_ms: u64,
    /// How large its specification is, as JSON.
    pub spec_bytes: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobEnd {
    pub job: u64,
    pub seq: EventSeq,
    pub revision: u64,
    pub state: String,
    pub ended_ms: u64,
    pub ok: u64,
    pub failed: u64,
    pub cancelled: u64,
    pub record: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptRow {
    pub job: u64,
    pub index: u64,
    pub attempt: u64,
    pub seq: EventSeq,
    pub state: String,
    pub outcome: String,
    pub node: Option<String>,
    pub pilot: Option<String>,
    pub placed_ms: Option<u64>,
    pub started_ms: Option<u64>,
    pub ended_ms: u64,
    /// By the pilot's steady clock; unknown in homes of earlier versions.
    pub ran_ms: Option<u64>,
    /// A JSON object.
    pub advice: Option<String>,
    pub usage: Option<Box<Usage>>,
}

/// What a resuming view gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventsPage {
    /// The next events in order; empty when the view is up to date.
    Events(Vec<(EventSeq, Vec<u8>)>),
    /// Some events after the asked one are gone: the view must start afresh. `first_kept` is the
    /// oldest that can be asked for.
    Pruned { first_kept: EventSeq },
}
