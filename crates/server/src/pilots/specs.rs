//! The specifications of jobs that are being placed: recent ones from memory, others from history.

use crate::journal::{HistoryReader, JournalError};
use crate::locks::Locked;
use crate::off_requests::off_requests;
use shipway_model::limits::MAX_SPEC_BYTES;
use shipway_model::{JobId, JobSpec};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};

/// Specifications kept in memory. A job's tasks are placed together, so few are needed at a time.
const KEPT: usize = 256;
/// Bytes of all that are kept, as they are stored: five of the largest, or one that is larger.
const KEPT_BYTES: usize = 5 * MAX_SPEC_BYTES;

#[derive(Debug)]
pub struct Specs {
    recent: Mutex<Recent>,
    history: Mutex<HistoryReader>,
}

#[derive(Debug, Default)]
struct Recent {
    specs: HashMap<JobId, Described>,
    /// Oldest first, with their sizes.
    order: VecDeque<(JobId, usize)>,
    bytes: usize,
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

    /// `bytes` is how large it is as JSON.
    pub fn keep(&self, job: JobId, owner: String, spec: JobSpec, bytes: usize) -> Described {
        let described = Described { owner, spec: Arc::new(spec) };
        self.recent.locked().keep(job, described.clone(), bytes);
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
        Ok(self.keep(job, owner, spec, text.len()))
    }
}

impl Recent {
    fn keep(&mut self, job: JobId, described: Described, bytes: usize) {
        if self.specs.insert(job, described).is_none() {
            self.order.push_back((job, bytes));
            self.bytes += bytes;
        }
        while self.order.len() > KEPT || self.order.len() > 1 && self.bytes > KEPT_BYTES {
            let Some((oldest, bytes)) = self.order.pop_front() else { break };
            self.specs.remove(&oldest);
            self.bytes -= bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_specifications_do_not_pile_up() {
        let mut recent = Recent::default();
        let described = || Described { owner: String::new(), spec: Arc::default() };
        for job in 0..1_000 {
            recent.keep(JobId(job), described(), 100);
        }
        assert_eq!((recent.specs.len(), recent.bytes), (KEPT, KEPT * 100));
        for job in 1_000..1_010 {
            recent.keep(JobId(job), described(), MAX_SPEC_BYTES);
        }
        assert_eq!(recent.specs.len(), 5, "the newest of them");
        assert!(recent.specs.contains_key(&JobId(1_009)));
        recent.keep(JobId(2_000), described(), 2 * KEPT_BYTES);
        assert_eq!(recent.specs.len(), 1, "one that is larger is kept alone");
    }
}
