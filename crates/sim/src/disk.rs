//! What survives a crash: batches of encoded events, a snapshot, and the history of ended jobs.
//!
//! Everything is kept as text and read back through the same decoding as the real journal's.

use shipway_core::event::{Event, Recorded};
use shipway_core::evolve::evolve;
use shipway_core::job::JobRecord;
use shipway_core::{State, snapshot};
use shipway_model::{JobId, JobSpec};
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub struct Disk {
    batches: Vec<Vec<String>>,
    /// The state after this many batches.
    snapshot: Option<(usize, Vec<u8>)>,
    history: BTreeMap<JobId, String>,
    specs: BTreeMap<JobId, JobSpec>,
}

impl Disk {
    pub fn commit(&mut self, events: &[Recorded], state: &State) {
        let encode = |event| serde_json::to_string(event).expect("an event is plain data");
        self.batches.push(events.iter().map(encode).collect());
        for recorded in events {
            if let Event::JobSubmitted(submitted) = &recorded.event {
                self.specs.insert(submitted.job, submitted.spec.clone());
            }
            // A job may have been retried later in the same batch; then it ends again later.
            if let Event::JobEnded { job, .. } = &recorded.event
                && let Some(record) = state.record(*job).filter(|record| record.job.ended.is_some())
            {
                let text = serde_json::to_string(&record).expect("a record is plain data");
                self.history.insert(*job, text);
            }
        }
    }

    pub fn batches(&self) -> usize {
        self.batches.len()
    }

    pub fn lines(&self) -> impl Iterator<Item = &String> {
        self.batches.iter().flatten()
    }

    pub fn take_snapshot(&mut self, state: &State) {
        let text = snapshot::write(state);
        self.snapshot = Some((self.batches.len(), text));
    }

    /// The state as a restart finds it, or what is wrong with the disk.
    pub fn recover(&self) -> Result<State, String> {
        let mut state = State::default();
        let mut from = 0;
        if let Some((batches, text)) = &self.snapshot {
            state = snapshot::read(text).map_err(|error| format!("snapshot: {error}"))?;
            from = *batches;
        }
        self.fold(&mut state, from)?;
        Ok(state)
    }

    /// The state from the very first event on.
    pub fn replay(&self) -> Result<State, String> {
        let mut state = State::default();
        self.fold(&mut state, 0)?;
        Ok(state)
    }

    fn fold(&self, state: &mut State, from: usize) -> Result<(), String> {
        for line in self.batches.iter().skip(from).flatten() {
            let recorded = Recorded::read(line.as_bytes());
            let recorded = recorded.map_err(|error| format!("{line}: {error}"))?;
            evolve(state, recorded.at, &recorded.event);
        }
        Ok(())
    }

    pub fn spec(&self, job: JobId) -> Option<&JobSpec> {
        self.specs.get(&job)
    }

    pub fn specs(&self) -> &BTreeMap<JobId, JobSpec> {
        &self.specs
    }

    pub fn record(&self, job: JobId) -> Option<JobRecord> {
        let text = self.history.get(&job)?;
        Some(serde_json::from_str(text).expect("history reads what it wrote"))
    }
}
