//! Where wishes are decided: the state, the batch in the making, and the journal when it is here.
//!
//! Whoever holds the desk decides. While the journal is away with one batch the next one grows, so
//! the state runs ahead of the disk by what is in those two; nothing of them is told before it is
//! written. If the disk does not take one, both are taken back.
//!
//! A mistake of the core over one command costs that command: what `decide` says changes nothing,
//! and after one in `apply` the state is not used again before it is restored from the disk.

use crate::keeper::MISTAKE;
use crate::prepare::prepare;
use crate::{
    Batch, Core, Done, Failed, Journal, Keeper, Limits, Outside, Panicked, Question, Wish,
    WriteError, WriteResult, guarded, restore,
};
use shipway_core::command::Command;
use shipway_core::schedule::schedule;
use shipway_core::{Decided, State, snapshot};
use shipway_model::Timestamp;
use std::sync::Arc;

pub struct Desk<J: Journal, O: Outside> {
    state: State,
    /// Decided, and not on its way to the disk yet.
    batch: Batch<O>,
    /// None: away with the batch before.
    keeper: Option<Keeper<J, O>>,
    history: J::History,
    outside: Arc<O>,
    core: Core,
    limits: Limits,
    /// What could not be written.
    failed: Option<Box<Failed<O>>>,
    /// Nobody may look at the state until it is restored: a command stopped half-way through it, or
    /// it has what will never be on disk.
    is_broken: bool,
}

impl<J: Journal, O: Outside> std::fmt::Debug for Desk<J, O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Desk")
    }
}

impl<J: Journal, O: Outside> Desk<J, O> {
    /// Around what `restore` found in the journal.
    pub fn new(
        (state, since_snapshot): (State, u64),
        journal: J,
        history: J::History,
        outside: Arc<O>,
        core: Core,
        limits: Limits,
    ) -> Self {
        let keeper = Keeper { journal, outside: Arc::clone(&outside), since_snapshot };
        let (batch, keeper, failed) = (Batch::default(), Some(keeper), None);
        Desk { state, batch, keeper, history, outside, core, limits, failed, is_broken: false }
    }

    /// The state, which runs ahead of the disk. What is shown of it goes through `ask` or `look`.
    pub fn state(&self) -> &State {
        &self.state
    }

    pub fn outside(&self) -> &O {
        &self.outside
    }

    /// Whether everything decided is on disk, and the disk takes more.
    pub fn is_settled(&self) -> bool {
        self.keeper.is_some() && self.batch.is_empty() && !self.is_in_trouble()
    }

    /// Whether something has to be done before more is decided: `settle`, then `take_back`.
    pub fn is_in_trouble(&self) -> bool {
        self.failed.is_some() || self.is_broken
    }

    /// Whoever had the desk did not come to an end with it: nobody knows how far that was.
    pub fn distrust(&mut self) {
        self.is_broken = true;
    }

    /// Whether a batch takes nothing more.
    pub fn is_full(&self) -> bool {
        self.batch.is_full(self.limits.full_events) || self.is_broken
    }

    /// Whether the journal is with whoever was handed it.
    pub fn is_journal_away(&self) -> bool {
        self.keeper.is_none()
    }

    /// Whether another server writes this journal now: what could not be written never will be.
    pub fn is_taken_over(&self) -> bool {
        self.keeper.as_ref().is_some_and(|keeper| keeper.journal.is_taken_over())
    }

    /// From a wish to events in the batch, and an answer that waits for them.
    pub fn wish(&mut self, now: Timestamp, wish: Wish, reply: Option<O::Reply>) {
        if let Wish::Submit(submission) = &wish {
            self.batch.encoded.expect(submission.size);
        }
        let prepared = guarded(|| prepare(wish, &self.state, &self.history));
        match prepared.unwrap_or_else(|panicked| Err(panicked.into())) {
            Ok(command) => self.command(now, &command, reply),
            Err(refused) => self.batch.answer(reply, Err(refused)),
        }
    }

    pub fn command(&mut self, now: Timestamp, command: &Command, reply: Option<O::Reply>) {
        let answer = self.decide(now, command);
        self.outside.decided(answer.is_ok());
        self.batch.answer(reply, answer);
    }

    /// Answered with the batch: by then all that the state shows is on disk.
    pub fn ask(&mut self, mut question: O::Question) {
        question.look(&self.state);
        self.batch.questions.push(question);
    }

    fn decide(&mut self, now: Timestamp, command: &Command) -> Result<Done, WriteError> {
        let at = now.max(self.state.at());
        let Desk { state, batch, core, is_broken, .. } = self;
        let Decided { events, done } = guarded(|| (core.decide)(state, at, command))??;
        let mark = batch.mark();
        let applied = guarded(|| {
            let mut put = |state: &State, recorded| batch.add(recorded, state);
            let effects = (core.apply)(state, at, events, &mut put);
            batch.effects.extend(effects);
        });
        applied.inspect_err(|_| {
            batch.back_to(mark);
            *is_broken = true;
        })?;
        Ok(done)
    }

    /// Plans for what is waiting.
    pub fn plan(&mut self, now: Timestamp) {
        while !self.is_full() {
            let plan = schedule(&mut self.state, now);
            if plan.is_empty() {
                return;
            }
            let more = plan.more;
            // A plan made from this very state fits it; what does not is left for the next one.
            if self.decide(now, &Command::ApplyPlan(plan)).is_err() || !more {
                return;
            }
        }
    }

    /// The batch as it goes to the disk, and the next deadline after it.
    fn close_batch(&mut self, now: Timestamp) -> Batch<O> {
        let (ended, limits) = (self.state.ended(), self.limits);
        let are_many = ended.jobs() >= limits.keep_ended + limits.archive_step
            || ended.tasks() >= limits.keep_ended_tasks + limits.archive_step_tasks;
        if !self.is_broken && are_many {
            let jobs = self.state.archivable(limits.keep_ended, limits.keep_ended_tasks);
            let _ = self.decide(now, &Command::Archive { jobs });
        }
        let mut batch = std::mem::take(&mut self.batch);
        batch.at = self.state.at();
        // Otherwise whoever mends it says what is to be seen, and when to wake.
        if !self.is_broken {
            let found = guarded(|| self.outside.publication(&self.state, &batch.events));
            self.is_broken = found.is_err();
            batch.publication = found.ok();
            self.outside.wake_at(self.state.next_deadline());
        }
        batch
    }

    /// Lends the journal for the batch, if that is worth it, while the next one is decided.
    pub fn hand_over(&mut self, now: Timestamp) -> Option<(Keeper<J, O>, Batch<O>)> {
        if self.is_in_trouble() || self.is_snapshot_due() {
            return None;
        }
        let keeper = self.keeper.take_if(|keeper| keeper.is_worth_handing_over(&self.batch))?;
        Some((keeper, self.close_batch(now)))
    }

    pub fn put_back(&mut self, keeper: Keeper<J, O>, written: WriteResult<O>) {
        self.keeper = Some(keeper);
        self.failed = written.err();
    }

    /// Writes what is decided, here and now, and tells.
    pub fn write(&mut self, now: Timestamp) {
        if self.failed.is_some() {
            return;
        }
        let batch = self.close_batch(now);
        self.failed = match &mut self.keeper {
            Some(keeper) => keeper.write(batch).err(),
            // Asked for only while it is here; and if not, nothing was written.
            None => Some(Box::new(Failed { batch, problem: MISTAKE.to_string() })),
        };
    }

    /// The same, and puts the state in order if a command stopped half-way through it: all that was
    /// decided before is on disk then, so nothing is lost but that command.
    pub fn settle(&mut self, now: Timestamp) {
        self.write(now);
        if self.is_broken && self.failed.is_none() {
            match self.restore() {
                Ok(()) => {
                    self.outside.restored(&self.state);
                    self.plan(now);
                    self.write(now);
                }
                Err(problem) => {
                    self.failed = Some(Box::new(Failed { batch: Batch::default(), problem }));
                }
            }
        }
        if self.is_snapshot_due() {
            self.save_snapshot();
        }
    }

    fn restore(&mut self) -> Result<(), String> {
        let keeper = self.keeper.as_mut().ok_or(MISTAKE)?;
        let restored = restore(&mut keeper.journal).map_err(|error| J::words(&error))?;
        (self.state, keeper.since_snapshot) = restored;
        self.is_broken = false;
        Ok(())
    }

    /// If a batch could not be written: nothing of it was acknowledged, nor of what was decided
    /// since. Everybody who waited is told, and pilots have to greet anew. Until `go_on` the state
    /// has what is not on disk. Returns what is wrong.
    pub fn take_back(&mut self) -> Option<String> {
        let Failed { batch, problem } = *self.failed.take()?;
        self.is_broken = true;
        self.outside.health(Some(&problem));
        self.outside.reset();
        batch.refuse(&self.outside, &problem);
        std::mem::take(&mut self.batch).refuse(&self.outside, &problem);
        Some(problem)
    }

    /// Puts the state back to what is on disk and starts anew from there, as after a restart. Not
    /// at once: a disk that is nearly full takes a small write and refuses the next.
    pub fn go_on(&mut self, now: Timestamp) -> Result<(), String> {
        let gone_on = self.try_to_go_on(now);
        if let Err(problem) = &gone_on {
            self.outside.health(Some(problem));
        }
        gone_on
    }

    fn try_to_go_on(&mut self, now: Timestamp) -> Result<(), String> {
        let keeper = self.keeper.as_mut().ok_or(MISTAKE)?;
        keeper.journal.reopen().map_err(|error| J::words(&error))?;
        self.restore()?;
        // While it is what is on disk, and nothing more.
        self.outside.restored(&self.state);
        self.command(now, &Command::ServerStarted, None);
        // Told before the first of it goes out: whoever hears of it may ask again at once.
        self.outside.health(None);
        self.write(now);
        self.take_back().map_or(Ok(()), Err)
    }

    pub fn is_snapshot_due(&self) -> bool {
        let jobs = self.state.jobs().len() as u64;
        let most = self.limits.snapshot_every.max(jobs / self.limits.snapshot_jobs_per_event);
        self.keeper.as_ref().is_some_and(|keeper| keeper.since_snapshot >= most)
    }

    /// Only while all that is decided is on disk.
    pub fn save_snapshot(&mut self) {
        if !self.is_settled() {
            return;
        }
        if let Some(keeper) = &mut self.keeper {
            match guarded(|| snapshot::write(&self.state)) {
                Ok(body) => keeper.save_snapshot(&body),
                Err(Panicked) => keeper.since_snapshot = 0,
            }
        }
    }
}
