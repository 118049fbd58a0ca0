//! What survives a crash: commits of encoded events, a snapshot, and the history of jobs. It fails
//! when it is told to, and then nobody knows whether the last commit is there.
//!
//! Everything is kept as text and read back through the same decoding as the real journal's.

use shipway_core::State;
use shipway_core::event::Recorded;
use shipway_core::evolve::evolve;
use shipway_core::job::JobRecord;
use shipway_model::{JobId, JobSpec, UserName};
use shipway_shell::{
    Commit, Committed, EventSeq, History, HistoryRow, Journal, Snapshot, Stored, restore,
};
use std::cell::{RefCell, RefMut};
use std::collections::BTreeMap;
use std::io::Error;
use std::ops::ControlFlow;
use std::rc::Rc;

/// The same disk in several hands: the writer's, a reader's, the world's.
#[derive(Debug, Clone, Default)]
pub struct Disk {
    inside: Rc<RefCell<Inside>>,
    /// Whose hands these are: only the writer that came last may write.
    epoch: u64,
}

#[derive(Debug, Default)]
struct Inside {
    commits: Vec<Kept>,
    snapshot: Option<Snapshot>,
    history: BTreeMap<JobId, Known>,
    fault: Option<Fault>,
    /// A commit that failed, until it is known whether it is there.
    torn: Option<(Kept, Vec<HistoryRow>)>,
    /// How often a look at the failed journal fails still.
    stays_bad: u64,
    is_slow: bool,
    /// Of the writer that came last.
    epoch: u64,
}

/// What happens to the next commit. Whether it is on disk is found out by whoever looks later.
#[derive(Debug, Clone, Copy)]
pub struct Fault {
    /// How often the journal is reopened in vain.
    pub stays_bad: u64,
}

#[derive(Debug)]
struct Kept {
    first: u64,
    text: String,
}

#[derive(Debug)]
struct Known {
    owner: UserName,
    spec: Rc<JobSpec>,
    end: Option<(String, String)>,
}

impl Kept {
    fn lines(&self) -> impl Iterator<Item = (EventSeq, &str)> {
        (self.first..).map(EventSeq).zip(self.text.lines())
    }
}

impl Inside {
    fn tip(&self) -> u64 {
        let last = |kept: &Kept| kept.first - 1 + kept.text.lines().count() as u64;
        self.commits.last().map_or(0, last)
    }

    fn keep(&mut self, kept: Kept, rows: Vec<HistoryRow>) {
        for row in rows {
            match row {
                HistoryRow::JobSubmitted { job, owner, spec, .. } => {
                    let owner = UserName::new(&owner).expect("written from one");
                    let spec = spec.in_full(kept.text.as_bytes());
                    let spec = Rc::new(serde_json::from_slice(spec).expect("written from one"));
                    self.history.insert(JobId(job), Known { owner, spec, end: None });
                }
                HistoryRow::JobEnded { job, state, record, .. } => {
                    let known = self.history.get_mut(&JobId(job)).expect("submitted before");
                    known.end = Some((state, record));
                }
                HistoryRow::JobGiven { .. } | HistoryRow::AttemptEnded { .. } => {}
            }
        }
        self.commits.push(kept);
    }
}

impl Disk {
    /// For a writer; those before it write nothing any more.
    #[must_use]
    pub fn for_writing(&self) -> Disk {
        let mut inside = self.inside.borrow_mut();
        inside.epoch += 1;
        Disk { inside: Rc::clone(&self.inside), epoch: inside.epoch }
    }

    fn writable(&self) -> Result<RefMut<'_, Inside>, Error> {
        if self.is_taken_over() {
            return Err(Error::other("another server has taken over"));
        }
        Ok(self.inside.borrow_mut())
    }

    /// The next commit fails.
    pub fn fail(&self, fault: Fault) {
        self.inside.borrow_mut().fault = Some(fault);
    }

    pub fn set_slow(&self, is_slow: bool) {
        self.inside.borrow_mut().is_slow = is_slow;
    }

    /// The process is gone. What it had not seen confirmed may be there or not.
    pub fn crashed(&self, is_there: bool) {
        let mut inside = self.inside.borrow_mut();
        (inside.fault, inside.stays_bad) = (None, 0);
        if let Some((kept, rows)) = inside.torn.take().filter(|_| is_there) {
            inside.keep(kept, rows);
        }
    }

    pub fn commits(&self) -> usize {
        self.inside.borrow().commits.len()
    }

    /// Shows the events of all commits but the first so many.
    pub fn show(&self, skip: usize, mut visit: impl FnMut(&str)) {
        let inside = self.inside.borrow();
        inside.commits.iter().skip(skip).flat_map(Kept::lines).for_each(|(_, line)| visit(line));
    }

    /// The state as a restart finds it and how many events that took, or what is wrong.
    pub fn recover(&self) -> Result<(State, u64), String> {
        restore(&mut self.clone()).map_err(|error| format!("{error:?}"))
    }

    /// The state from the very first event on.
    pub fn replay_all(&self) -> Result<State, String> {
        let (mut state, mut failed) = (State::default(), None);
        self.show(0, |line| match Recorded::read(line.as_bytes()) {
            Ok(recorded) => evolve(&mut state, recorded.at, &recorded.event),
            Err(error) => failed = Some(format!("{line}: {error}")),
        });
        failed.map_or(Ok(state), Err)
    }

    pub fn spec(&self, job: JobId) -> Option<Rc<JobSpec>> {
        self.inside.borrow().history.get(&job).map(|known| Rc::clone(&known.spec))
    }

    pub fn jobs(&self) -> Vec<JobId> {
        self.inside.borrow().history.keys().copied().collect()
    }

    pub fn record(&self, job: JobId) -> Option<JobRecord> {
        let inside = self.inside.borrow();
        let (_, text) = inside.history.get(&job)?.end.as_ref()?;
        Some(serde_json::from_str(text).expect("history reads what it wrote"))
    }
}

impl Journal for Disk {
    type Error = Error;
    type History = Disk;

    fn append(&mut self, commit: &Commit<'_>) -> Result<Committed, Error> {
        let mut inside = self.writable()?;
        if inside.torn.is_some() {
            return Err(Error::other("not reopened"));
        }
        let first = inside.tip() + 1;
        let text = std::str::from_utf8(commit.events.text()).map_err(Error::other)?;
        let (kept, rows) = (Kept { first, text: text.to_string() }, commit.rows.to_vec());
        if let Some(fault) = inside.fault.take() {
            inside.stays_bad = fault.stays_bad;
            inside.torn = Some((kept, rows));
            return Err(Error::other("the disk has failed"));
        }
        inside.keep(kept, rows);
        Ok(Committed { first: EventSeq(first), last: EventSeq(inside.tip()) })
    }

    fn save_snapshot(&mut self, seq: EventSeq, body: &[u8]) -> Result<(), Error> {
        self.writable()?.snapshot = Some(Snapshot { seq, body: body.to_vec() });
        Ok(())
    }

    fn load_snapshot(&mut self) -> Result<Option<Snapshot>, Error> {
        Ok(self.inside.borrow().snapshot.clone())
    }

    fn replay(
        &mut self,
        after: EventSeq,
        visit: &mut dyn FnMut(Stored<'_>) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let inside = self.inside.borrow();
        let from = inside.commits.partition_point(|kept| kept.first <= after.0).saturating_sub(1);
        let lines = inside.commits.iter().skip(from).flat_map(Kept::lines);
        for (seq, line) in lines.filter(|(seq, _)| *seq > after) {
            if visit(Stored { seq, at_ms: 0, body: line.as_bytes() }).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// All is kept, to be replayed as a whole.
    fn prune(&mut self) -> Result<u64, Error> {
        Ok(0)
    }

    fn reopen(&mut self) -> Result<(), Error> {
        let mut inside = self.writable()?;
        if inside.stays_bad > 0 {
            inside.stays_bad -= 1;
            return Err(Error::other("the disk is bad still"));
        }
        inside.torn = None;
        Ok(())
    }

    fn tip(&self) -> EventSeq {
        EventSeq(self.inside.borrow().tip())
    }

    fn is_slow(&self) -> bool {
        self.inside.borrow().is_slow
    }

    fn is_taken_over(&self) -> bool {
        self.epoch != self.inside.borrow().epoch
    }
}

impl History for Disk {
    type Error = Error;

    fn owner(&self, job: JobId) -> Result<Option<(UserName, JobId)>, Error> {
        let inside = self.inside.borrow();
        Ok(inside.history.get(&job).map(|known| (known.owner.clone(), JobId(0))))
    }

    fn last_state(&self, job: JobId) -> Result<Option<String>, Error> {
        let inside = self.inside.borrow();
        Ok(inside.history.get(&job).and_then(|known| known.end.as_ref()).map(|end| end.0.clone()))
    }

    fn last_record(&self, job: JobId) -> Result<Option<String>, Error> {
        let inside = self.inside.borrow();
        Ok(inside.history.get(&job).and_then(|known| known.end.as_ref()).map(|end| end.1.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_writer_that_came_last_writes() {
        let disk = Disk::default();
        let (mut first, mut second) = (disk.for_writing(), disk.for_writing());
        let events = [b"{}".to_vec()].into_iter().collect();
        let commit = Commit { at_ms: 1, events: &events, rows: &[] };
        assert!(first.append(&commit).is_err() && first.reopen().is_err());
        assert!(first.save_snapshot(EventSeq(0), b"").is_err() && first.is_taken_over());
        assert_eq!((disk.commits(), second.append(&commit).is_ok()), (0, true));
        assert!(!second.is_taken_over());
    }
}
