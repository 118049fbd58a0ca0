//! The way of a request to the desk: at once, on the thread it came in on, where nobody else is
//! there; otherwise through the queue to the writer's thread. Everybody who asked hears something.

use super::at_once::{AtOnce, Present, Then};
use super::queue::{QueueSlot, Sender};
use crate::off_requests::off_requests;
use crate::on_behalf::asker;
use crate::panics::{Panicked, guarded};
use shipway_core::State;
use shipway_core::command::Command;
use shipway_model::UserName;
use shipway_shell::{Done, Question, Wish, WriteError};
use std::sync::Arc;
use tokio::sync::oneshot;

/// Comes when it is on disk, or will never be.
pub type Answer = oneshot::Receiver<Result<Done, WriteError>>;
pub(super) type Reply = oneshot::Sender<Result<Done, WriteError>>;

pub(super) enum Request {
    Wish {
        wish: Wish,
        reply: Option<Reply>,
    },
    Ask(Asked),
    /// The time that the writer asked to be woken at has come.
    Wake,
    /// The writer's own thread is needed: a write failed, or a snapshot is due.
    Attend,
    Stop,
}

impl Request {
    /// In whose turn it is decided. Asked by whoever sends it: a question is that person's.
    fn by(&self) -> Option<UserName> {
        match self {
            Request::Wish { wish, .. } => wish.by().cloned(),
            Request::Ask(_) => asker(),
            Request::Wake | Request::Attend | Request::Stop => None,
        }
    }
}

impl std::fmt::Debug for Request {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Request::Wish { .. } => "Wish",
            Request::Ask(_) => "Ask",
            Request::Wake => "Wake",
            Request::Attend => "Attend",
            Request::Stop => "Stop",
        })
    }
}

/// A question of whatever kind.
pub(super) type Asked = Box<dyn Ask>;

pub(super) trait Ask: Send {
    fn look(&mut self, state: &State);
    fn answer(self: Box<Self>, found: Result<(), WriteError>);
}

impl Question for Asked {
    fn look(&mut self, state: &State) {
        (**self).look(state);
    }
    fn answer(self, found: Result<(), WriteError>) {
        Ask::answer(self, found);
    }
}

struct Asking<Q, A> {
    question: Arc<Q>,
    found: Option<Result<A, Panicked>>,
    reply: oneshot::Sender<Result<A, WriteError>>,
}

impl<A: Send, Q: Fn(&State) -> A + Send + Sync> Ask for Asking<Q, A> {
    fn look(&mut self, state: &State) {
        // Whoever asked may have gone.
        if self.reply.is_closed() {
            return;
        }
        self.found = Some(guarded(|| (self.question)(state)));
    }

    fn answer(self: Box<Self>, found: Result<(), WriteError>) {
        let Asking { found: own, reply, .. } = *self;
        let own = own.unwrap_or(Err(Panicked)).map_err(WriteError::from);
        // Whoever asked may have gone.
        let _ = reply.send(found.and(own));
    }
}

#[derive(Debug, Clone)]
pub(super) struct Way {
    pub(super) queue: Arc<Sender<Request>>,
    pub(super) desk: Arc<dyn AtOnce>,
}

impl Way {
    /// Answers when it is on disk.
    pub(super) async fn wish(&self, wish: Wish) -> Result<Done, WriteError> {
        let (reply, answer) = oneshot::channel();
        let request = Request::Wish { wish, reply: Some(reply) };
        let present = self.desk.come_in();
        if let Some(request) = self.try_at_once(request, &present).await {
            self.try_send(request)?;
        }
        answer.await.unwrap_or(Err(WriteError::Stopping))
    }

    /// Waits for room rather than being refused, and not for the commit. `None`: the writer has
    /// stopped.
    pub(super) async fn hand_in(&self, command: Command) -> Option<Answer> {
        let (reply, answer) = oneshot::channel();
        let request = Request::Wish { wish: Wish::Core(command), reply: Some(reply) };
        let present = self.desk.come_in();
        match self.try_at_once(request, &present).await {
            Some(request) => self.send(request).await.ok().map(|()| answer),
            None => Some(answer),
        }
    }

    /// Asks the writer's thread.
    pub(super) async fn ask<A: Send + 'static>(
        &self,
        question: Arc<impl Fn(&State) -> A + Send + Sync + 'static>,
    ) -> Result<A, WriteError> {
        let (reply, answer) = oneshot::channel();
        self.send(Request::Ask(Box::new(Asking { question, found: None, reply }))).await?;
        answer.await.unwrap_or(Err(WriteError::Stopping))
    }

    /// Looks on this thread. `None`: somebody is before.
    pub(super) fn glance<A>(
        &self,
        question: &impl Fn(&State) -> A,
    ) -> Option<Result<A, WriteError>> {
        let mut found = None;
        self.desk.look(&mut |state| found = Some(guarded(|| question(state))));
        found.map(|found| found.map_err(WriteError::from))
    }

    /// Returns the request unless it is done.
    async fn try_at_once(&self, request: Request, present: &Present) -> Option<Request> {
        let mut request = Some(request);
        if self.desk.is_quiet() {
            // Whoever else has a request here now comes first: together they are one write.
            tokio::task::yield_now().await;
            let then = off_requests(|| self.desk.at_once(&mut request, present));
            if then == Then::CallTheWriter {
                // Busy is as good: then it is awake, and looks by itself.
                let _ = self.try_send(Request::Attend);
            }
        }
        request
    }

    /// Waits for room.
    pub(super) async fn send(&self, request: Request) -> Result<(), WriteError> {
        let room = self.queue.room(request.by()).await?;
        self.put(room, request)
    }

    pub(super) fn try_send(&self, request: Request) -> Result<(), WriteError> {
        let room = self.queue.room_now(request.by())?;
        self.put(room, request)
    }

    /// Counted only with room in hand: whoever gives up waiting for it must not be expected. And
    /// before it is put there, for the writer's thread may have it the next moment.
    fn put(&self, room: QueueSlot<'_, Request>, request: Request) -> Result<(), WriteError> {
        self.desk.expect_one();
        room.put(request).inspect_err(|_| self.desk.expect_one_less())
    }
}
