//! What is told once it is on disk, and to whom. The order is the shell's (`keeper.rs`).

use crate::{Done, EventSeq, Lines, Panicked};
use shipway_core::event::Recorded;
use shipway_core::{Effect, Rejection, State};
use shipway_model::Timestamp;

#[derive(Debug, Clone, thiserror::Error)]
pub enum WriteError {
    #[error(transparent)]
    Rejected(#[from] Rejection),
    /// Nothing was acknowledged and nothing happened.
    #[error("the server cannot write its journal: {0}")]
    NotDurable(String),
    #[error("the server is stopping")]
    Stopping,
    #[error("the server has too much to do")]
    Busy,
    /// A mistake in the server, over this alone. Nothing happened.
    #[error("the server failed over this; its log says where")]
    Failed,
}

impl From<Panicked> for WriteError {
    fn from(_: Panicked) -> WriteError {
        WriteError::Failed
    }
}

/// Somebody's question about the state.
pub trait Question {
    /// Finds the answer, which does not go out before all that the state shows is on disk.
    fn look(&mut self, state: &State);
    /// Sends what was found, or why there is no answer. Everybody who asked hears one of both.
    fn answer(self, found: Result<(), WriteError>);
}

/// Those who are told. None of it may wait for anything.
pub trait Outside {
    /// Who waits for the end of a wish.
    type Reply;
    type Question: Question;
    /// What a batch changes of what people see without asking the desk, and of who may come in.
    type Publication;

    /// One command was decided.
    fn decided(&self, accepted: bool);
    /// When the state wants to be told the time next.
    fn wake_at(&self, at: Option<Timestamp>);
    /// What is to be seen once these events are on disk. The state is the one that they lead to.
    fn publication(&self, state: &State, events: &[Recorded]) -> Self::Publication;

    /// These events are on disk. Comes before all that rests on them: what effects are made from,
    /// what whoever hears a reply may look at, and who may come in. No publication: the state is
    /// broken, and `restored` follows if there are events.
    fn written(
        &self,
        publication: Option<Self::Publication>,
        events: &mut [Recorded],
        encoded: &Lines,
    );
    /// Carries out what the core asks for.
    fn effect(&self, effect: Effect);
    fn reply(&self, reply: Self::Reply, answer: Result<Done, WriteError>);
    /// The last to be told are those who only watch. `first` is the number of the first event.
    fn happened(&self, first: EventSeq, events: Vec<Recorded>);

    /// Effects that were told since the last one may be wrong: pilots have to greet anew.
    fn reset(&self);
    /// The state was read from the disk anew.
    fn restored(&self, state: &State);
    /// What is wrong with the journal, if something is.
    fn health(&self, problem: Option<&str>);

    /// A mistake that tests of this order make on purpose, to see that they would find it: replies
    /// leave before what they tell of is written.
    fn replies_too_early(&self) -> bool {
        false
    }
}
