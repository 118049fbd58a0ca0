//! What goes out on one control call, and in which order: the welcome, then orders as they come,
//! but for those that take long to be said (`later.rs`).

use super::later::Later;
use super::orders::{Describe, message, put_off};
use super::{End, PilotOrder};
use crate::panics::guarded;
use futures_util::{Stream, stream};
use shipway_api::link::FromServer;
use shipway_api::wire::ToPilot;
use std::pin::Pin;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TryRecvError;
use tonic::Status;

pub(super) type Outbound = Pin<Box<dyn Stream<Item = Result<ToPilot, Status>> + Send>>;

struct Saying {
    ordered: mpsc::UnboundedReceiver<PilotOrder>,
    /// What comes before all else: the rest of an order that took more than a message.
    rest: Option<PilotOrder>,
    later: Later,
    /// Messages since something was said that was put off.
    since_later: u32,
    describe: Describe,
}

/// However much there is to say, something that was put off is said after this many messages.
const MOST_BEFORE_LATER: u32 = 64;

impl Saying {
    /// The next message, or how the call ends.
    async fn next(&mut self) -> Result<ToPilot, End> {
        loop {
            let Some(order) = self.next_order().await? else { continue };
            // Of orders that cannot be said the others still go out.
            let Ok(said) = guarded(|| message(order, &self.describe)) else { continue };
            let (message, rest) = said?;
            self.rest = rest;
            return Ok(message);
        }
    }

    /// `None`: what came was put off.
    async fn next_order(&mut self) -> Result<Option<PilotOrder>, End> {
        if let Some(rest) = self.rest.take() {
            return Ok(Some(rest));
        }
        let order = if self.later.is_empty() {
            self.ordered.recv().await.ok_or(End::GivenUp)?
        } else {
            let waited_long = self.since_later >= MOST_BEFORE_LATER;
            match if waited_long { Err(TryRecvError::Empty) } else { self.ordered.try_recv() } {
                Ok(order) => order,
                Err(TryRecvError::Empty) => {
                    self.since_later = 0;
                    return Ok(self.later.next());
                }
                Err(TryRecvError::Disconnected) => return Err(End::GivenUp),
            }
        };
        self.since_later = self.since_later.saturating_add(1);
        Ok(guarded(|| put_off(order, &mut self.later, &self.describe)).ok().flatten())
    }
}

/// Begins with the welcome, whatever was ordered before: the pilot is told that its greeting is on
/// disk before it gets work.
pub(super) fn outbound(
    ordered: mpsc::UnboundedReceiver<PilotOrder>,
    describe: Describe,
) -> Outbound {
    let server_version = env!("CARGO_PKG_VERSION").to_string();
    let welcome = FromServer::Welcome { server_version };
    let (rest, later) = (Some(PilotOrder::Say(welcome)), Later::default());
    let saying = Saying { ordered, rest, later, since_later: 0, describe };
    Box::pin(stream::unfold(Some(saying), |saying| async move {
        let mut saying = saying?;
        match saying.next().await {
            Ok(said) => Some((Ok(said), Some(saying))),
            Err(End::Parted) => None,
            Err(End::GivenUp) => Some((Err(Status::unavailable("greet again")), None)),
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::super::Specs;
    use super::super::orders::{STRUCK_WHEN_PUT_OFF, STRUCK_WHEN_SAID};
    use super::*;
    use crate::auth::Auth;
    use crate::documents::HomeFiles;
    use crate::journal::HomeJournal;
    use crate::logins::Logins;
    use futures_util::StreamExt as _;
    use shipway_core::event::Placement;
    use shipway_model::{Attempt, TaskIndex, UserName};
    use std::sync::Arc;

    fn describe(home: &std::path::Path) -> Describe {
        let journal = HomeJournal::open(home, 0).expect("a new home");
        let tenure = Arc::new(journal.tenure().expect("ours"));
        let documents = Arc::new(HomeFiles { home: home.into(), tenure });
        Describe {
            specs: Arc::new(Specs::new(journal.history().expect("its history"))),
            logins: Arc::new(Logins::open(documents).expect("none")),
            auth: Arc::new(Auth::new("secret", UserName::new("owner").expect("good"))),
        }
    }

    /// The pilot hears of the others.
    #[tokio::test]
    async fn an_order_that_cannot_be_said_costs_that_order() {
        let home = tempfile::tempdir().expect("a folder");
        let (orders, ordered) = mpsc::unbounded_channel();
        for (number, struck) in [(7, STRUCK_WHEN_PUT_OFF), (8, STRUCK_WHEN_SAID)] {
            let (task, attempt) = (struck.task(TaskIndex(0)), Attempt::FIRST);
            let placement = Placement { task, attempt, devices: Vec::new() };
            orders.send(PilotOrder::Assign(vec![placement])).expect("it is heard");
            orders.send(PilotOrder::Say(FromServer::Pong { number })).expect("it is heard");
        }
        drop(orders);
        let said: Vec<_> = outbound(ordered, describe(home.path())).collect().await;
        let (last, said) = said.split_last().expect("something is said");
        assert!(last.as_ref().is_err_and(|last| last.code() == tonic::Code::Unavailable));
        let said: Vec<&ToPilot> = said.iter().flatten().collect();
        let pong = |number| ToPilot::from(FromServer::Pong { number });
        assert_eq!(said[1..], [&pong(7), &pong(8)], "after the welcome");
    }
}
