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
/// What is larger than this, as it is stored, takes a moment to be read.
const LARGE: usize = 256 << 10;
/// Bytes of all large ones that are kept, as they are stored: two of the largest, or one that is
/// larger. In memory they are several times that.
const KEPT_BYTES: usize = 2 * MAX_SPEC_BYTES;

#[derive(Debug)]
pub struct Specs {
    recent: Mutex<Recent>,
    history: Mutex<Box<dyn HistoryReader>>,
}

/// Large ones make room for large ones alone: whoever has many of them keeps nobody else waiting.
#[derive(Debug, Default)]
struct Recent {
    small: Kept,
    large: Kept,
}

#[derive(Debug, Default)]
struct Kept {
    specs: HashMap<JobId, Described>,
    /// Oldest first.
    order: VecDeque<JobId>,
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
    /// How large it is as JSON.
    pub bytes: usize,
}

/// What can be said of a job at once.
#[derive(Debug)]
pub enum AtHand {
    Here(Described),
    /// It has to be read, which takes a while.
    Large {
        owner: String,
    },
}

impl Specs {
    pub fn new(history: Box<dyn HistoryReader>) -> Self {
        Specs { recent: Mutex::default(), history: Mutex::new(history) }
    }

    /// `bytes` is how large it is as JSON.
    pub fn keep(&self, job: JobId, owner: String, spec: JobSpec, bytes: usize) -> Described {
        let described = Described { owner, spec: Arc::new(spec), bytes };
        self.recent.locked().keep(job, described.clone());
        described
    }

    /// Some have other owners now; history knows.
    pub fn forget(&self) {
        *self.recent.locked() = Recent::default();
    }

    /// If it is in memory.
    pub fn recent(&self, job: JobId) -> Option<Described> {
        self.recent.locked().get(job)
    }

    /// May read the disk.
    pub fn get(&self, job: JobId) -> Result<Described, NoSpec> {
        if let Some(described) = self.recent(job) {
            return Ok(described);
        }
        let (owner, spec, bytes) = off_requests(|| self.read(job))?;
        Ok(self.keep(job, owner, spec, bytes))
    }

    /// The same, but for one that is large and not in memory.
    pub fn at_hand(&self, job: JobId) -> Result<AtHand, NoSpec> {
        if let Some(described) = self.recent(job) {
            return Ok(AtHand::Here(described));
        }
        let found = off_requests(|| self.history.locked().job(job.0))?;
        let row = found.ok_or(NoSpec::Unknown(job))?;
        if row.spec_bytes > LARGE as u64 {
            return Ok(AtHand::Large { owner: row.owner });
        }
        self.get(job).map(AtHand::Here)
    }

    fn read(&self, job: JobId) -> Result<(String, JobSpec, usize), NoSpec> {
        let found = self.history.locked().spec(job.0)?;
        let (owner, text) = found.ok_or(NoSpec::Unknown(job))?;
        let spec = serde_json::from_str(&text);
        let spec = spec.map_err(|source| NoSpec::Unreadable { job, source })?;
        Ok((owner, spec, text.len()))
    }
}

impl Recent {
    fn get(&self, job: JobId) -> Option<Described> {
        self.small.specs.get(&job).or_else(|| self.large.specs.get(&job)).cloned()
    }

    fn keep(&mut self, job: JobId, described: Described) {
        if described.bytes > LARGE {
            self.large.keep(job, described);
            self.large.drop_old(KEPT, KEPT_BYTES);
        } else {
            self.small.keep(job, described);
            self.small.drop_old(KEPT, usize::MAX);
        }
    }
}

impl Kept {
    fn keep(&mut self, job: JobId, described: Described) {
        let bytes = described.bytes;
        if self.specs.insert(job, described).is_none() {
            self.order.push_back(job);
            self.bytes += bytes;
        }
    }

    fn drop_old(&mut self, most: usize, most_bytes: usize) {
        while self.order.len() > most || self.order.len() > 1 && self.bytes > most_bytes {
            let Some(oldest) = self.order.pop_front() else { break };
            let dropped = self.specs.remove(&oldest);
            self.bytes -= dropped.map_or(0, |it| it.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_specifications_do_not_pile_up_and_leave_small_ones_alone() {
        let mut recent = Recent::default();
        let described = |bytes| Described { owner: String::new(), spec: Arc::default(), bytes };
        for job in 0..1_000 {
            recent.keep(JobId(job), described(100));
        }
        assert_eq!((recent.small.specs.len(), recent.small.bytes), (KEPT, KEPT * 100));
        for job in 1_000..1_010 {
            recent.keep(JobId(job), described(MAX_SPEC_BYTES));
        }
        assert_eq!(recent.large.specs.len(), 2, "the newest of them");
        assert!(recent.get(JobId(1_009)).is_some());
        recent.keep(JobId(2_000), described(2 * KEPT_BYTES));
        assert_eq!(recent.large.specs.len(), 1, "one that is larger is kept alone");
        assert!(recent.get(JobId(999)).is_some(), "small ones stay");
    }
}
