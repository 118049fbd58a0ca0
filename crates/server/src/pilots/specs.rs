//! The specifications of jobs that are being placed: recent ones from memory, others from history.

use crate::journal::{HistoryReader, JournalError};
use crate::locks::Locked;
use crate::off_requests::off_requests;
use shipway_model::{JobId, JobSpec};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};

/// Specifications kept in memory. A job's tasks are placed together, so few are needed at a time.
const KEPT: usize = 256;

#[derive(Debug)]
pub struct Specs {
    recent: Mutex<Recent>,
    history: Mutex<HistoryReader>,
}

#[derive(Debug, Default)]
struct Recent {
    specs: HashMap<JobId, Described>,
    order: VecDeque<JobId>,
}

#[derive(Debug, thiserror::Error)]
pub enum NoSpec {
    #[error("history cannot be read")]
    Journal(#[from] JournalError),
    #[error("history has no job {0}")]
    Unknown(JobId),
    #[error("the specification of job {job} cannot be understood")]
    Unreadable {
        job: JobId,
        #[source]
        source: serde_json::Error,
    },
}

/// A job, and whose it is.
#[derive(Debug, Clone)]
pub struct Described {
    pub owner: String,
    pub spec: Arc<JobSpec>,
}

impl Specs {
    pub fn new(history: HistoryReader) -> Self {
        Specs { recent: Mutex::default(), history: Mutex::new(history) }
    }

    pub fn keep(&self, job: JobId, owner: String, spec: JobSpec) -> Described {
        let described = Described { owner, spec: Arc::new(spec) };
        let mut recent = self.recent.locked();
        if recent.specs.insert(job, described.clone()).is_none() {
            recent.order.push_back(job);
        }
        if recent.order.len() > KEPT
            && let Some(oldest) = recent.order.pop_front()
        {
            recent.specs.remove(&oldest);
        }
        described
    }

    /// Some have other owners now; history knows.
    pub fn forget(&self) {
        *self.recent.locked() = Recent::default();
    }

    /// May read the disk.
    pub fn get(&self, job: JobId) -> Result<Described, NoSpec> {
        let recent = self.recent.locked().specs.get(&job).cloned();
        if let Some(described) = recent {
            return Ok(described);
        }
        let read = || self.history.locked().spec(job.0);
        let found = off_requests(read)?;
        let (owner, text) = found.ok_or(NoSpec::Unknown(job))?;
        let spec = serde_json::from_str(&text);
        let spec = spec.map_err(|source| NoSpec::Unreadable { job, source })?;
        Ok(self.keep(job, owner, spec))
    }
}
