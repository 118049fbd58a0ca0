//! What is to go over a connection to the server, in two lines: what is said of tasks comes first,
//! output after it. So the end of a task is never behind megabytes of another one's output.

use super::log_turns::Turn;
use futures_util::{Stream, stream};
use shipway_api::wire::{ToServer, to_server::Body};
use tokio::sync::mpsc;

/// Where messages are put.
#[derive(Debug)]
pub(super) struct Saying {
    first: mpsc::UnboundedSender<ToServer>,
    then: mpsc::UnboundedSender<(ToServer, Option<Turn>)>,
}

/// Where the connection takes them from.
#[derive(Debug)]
pub(super) struct Said {
    first: mpsc::UnboundedReceiver<ToServer>,
    then: mpsc::UnboundedReceiver<(ToServer, Option<Turn>)>,
}

/// Neither line is bounded itself: a pilot reports no more than it has tasks, and output waits for
/// its turn before it is read.
pub(super) fn lines() -> (Saying, Said) {
    let (say_first, first) = mpsc::unbounded_channel();
    let (say_then, then) = mpsc::unbounded_channel();
    (Saying { first: say_first, then: say_then }, Said { first, then })
}

impl Saying {
    // When the connection has ended nobody takes it; its end is noticed where it is read.
    pub(super) fn say(&self, message: ToServer) {
        // After this one the server hangs up: output that is on its way goes before.
        if matches!(message.body, Some(Body::Goodbye(_))) {
            let _ = self.then.send((message, None));
        } else {
            let _ = self.first.send(message);
        }
    }

    pub(super) fn show(&self, piece: ToServer, turn: Turn) {
        let _ = self.then.send((piece, Some(turn)));
    }
}

impl Said {
    async fn next(&mut self) -> Option<ToServer> {
        tokio::select! {
            biased;
            Some(message) = self.first.recv() => Some(message),
            // Taken: the next piece may be read.
            Some((message, _turn)) = self.then.recv() => Some(message),
            else => None,
        }
    }

    pub(super) fn stream(self) -> impl Stream<Item = ToServer> {
        stream::unfold(self, |mut said| async move {
            let message = said.next().await?;
            Some((message, said))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::log_turns::LogTurns;
    use super::*;
    use shipway_api::wire::{Goodbye, LogChunk, Ping};

    fn message(body: Body) -> ToServer {
        ToServer { body: Some(body) }
    }

    #[tokio::test]
    async fn output_waits_for_what_is_said_of_tasks() {
        let (saying, mut said) = lines();
        let turns = LogTurns::default();
        saying.say(message(Body::Goodbye(Goodbye::default())));
        let turn = turns.of("ada").await.expect("her turn");
        saying.show(message(Body::Log(LogChunk::default())), turn);
        saying.say(message(Body::Ping(Ping { number: 1 })));
        drop(saying);
        let mut order = Vec::new();
        while let Some(ToServer { body }) = said.next().await {
            order.push(match body {
                Some(Body::Ping(_)) => "ping",
                Some(Body::Goodbye(_)) => "goodbye",
                Some(Body::Log(_)) => "output",
                _ => "something else",
            });
        }
        // The last word is in line with the output, so that it overtakes none.
        assert_eq!(order, ["ping", "goodbye", "output"]);
    }
}
