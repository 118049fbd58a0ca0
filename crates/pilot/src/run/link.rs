//! The connection to the server: opened, used, lost, opened again, for as long as the pilot lives.
//! Control and output go by a call each; see `api/proto/pilot.proto`.
//!
//! Says nothing of its own accord; what goes over it is the machine's business.

use super::dial::{Failure, Server};
use super::log_turns::Turn;
use futures_util::{Stream, stream};
use shipway_api::bearer;
use shipway_api::causes::causes;
use shipway_api::link::{CONNECTION_NUMBER, FromPilot, FromServer, LogChunk, MAX_MESSAGE_BYTES};
use shipway_api::wire::{ToServer, link_client::LinkClient, logs_client::LogsClient};
use shipway_model::ConnectionNumber;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};
use tonic::transport::Channel;
use tonic::{Request, Status};

/// Waits between tries: short at first, for a server that is just restarting.
const FIRST_WAIT: Duration = Duration::from_millis(50);
const LONGEST_WAIT: Duration = Duration::from_secs(2);
/// Messages from the server on their way to the machine.
const INBOX: usize = 64;

#[derive(Debug)]
pub(super) enum ToLink {
    Say(FromPilot),
    /// A piece of output. It is the reader's turn until the connection takes it.
    Show(LogChunk, Turn),
    Reconnect,
}

#[derive(Debug)]
pub(super) enum FromLink {
    /// A connection is open; its number is wanted for what comes over it.
    Up {
        connection: oneshot::Sender<ConnectionNumber>,
    },
    Message {
        connection: ConnectionNumber,
        message: FromServer,
    },
    Down {
        connection: ConnectionNumber,
        /// The server ended it in order.
        parted: bool,
    },
    /// The server does not know the token, or no longer.
    Refused,
}

pub(super) fn run(
    server: Server,
    token: String,
    open: watch::Sender<Option<Channel>>,
) -> (mpsc::UnboundedSender<ToLink>, mpsc::Receiver<FromLink>) {
    let (to_link, orders) = mpsc::unbounded_channel();
    let (send, from_link) = mpsc::channel(INBOX);
    tokio::spawn(async move {
        let mut link = Link { server, token, orders, send, open };
        let mut wait = FIRST_WAIT;
        let mut last = String::new();
        loop {
            match link.once().await {
                Ok(Ended::Stopped) => return,
                Ok(Ended::WasUp | Ended::Parted) => {
                    wait = FIRST_WAIT;
                    last.clear();
                }
                Err(error) if is_refusal(error.as_ref()) => {
                    let _ = link.send.send(FromLink::Refused).await;
                    return;
                }
                Err(error) => {
                    // Once for each different trouble, however often it is tried.
                    let text = causes(error.as_ref());
                    if text != last {
                        tracing::warn!("no connection to the server: {text}");
                        last = text;
                    }
                }
            }
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(LONGEST_WAIT);
        }
    });
    (to_link, from_link)
}

struct Link {
    server: Server,
    token: String,
    orders: mpsc::UnboundedReceiver<ToLink>,
    send: mpsc::Sender<FromLink>,
    /// For calls that others make by themselves, from the welcome on.
    open: watch::Sender<Option<Channel>>,
}

enum Ended {
    WasUp,
    /// The server wants to hear no more.
    Parted,
    /// The pilot itself has ended.
    Stopped,
}

impl Link {
    /// One connection, from its opening to its end.
    async fn once(&mut self) -> Result<Ended, Failure> {
        let channel = self.server.connect(&self.token).await?;
        // What was said to a connection that is gone is not for this one.
        while self.orders.try_recv().is_ok() {}
        let (connection, named) = oneshot::channel();
        if self.send.send(FromLink::Up { connection }).await.is_err() {
            return Ok(Ended::Stopped);
        }
        let connection = named.await?;
        let ended = self.talk(channel, connection).await;
        self.open.send_replace(None);
        let parted = matches!(ended, Ok(Ended::Parted));
        if self.send.send(FromLink::Down { connection, parted }).await.is_err() {
            return Ok(Ended::Stopped);
        }
        ended
    }

    async fn talk(
        &mut self,
        channel: Channel,
        connection: ConnectionNumber,
    ) -> Result<Ended, Failure> {
        // The greeting comes first: the server answers nothing before it. What stands before it
        // in line was said to the connection before this one.
        let hello = loop {
            match self.orders.recv().await {
                Some(ToLink::Say(message)) if matches!(message, FromPilot::Hello(_)) => {
                    break message;
                }
                Some(ToLink::Say(_) | ToLink::Show(..)) => {}
                Some(ToLink::Reconnect) => return Ok(Ended::WasUp),
                None => return Ok(Ended::Stopped),
            }
        };
        // Neither line is bounded itself: a pilot reports no more than it has tasks, and output
        // waits for its turn before it is read.
        let (say, said) = mpsc::unbounded_channel();
        let (show, shown) = mpsc::unbounded_channel();
        let _ = say.send(hello);
        let mut control = LinkClient::new(channel.clone())
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES);
        let heard = control.attach(self.request(taken_from(said), None)?);
        let mut heard = heard.await?.into_inner();
        let shown = self.request(pieces_from(shown), Some(connection))?;
        let mut logs = LogsClient::new(channel.clone());
        let mut showing = std::pin::pin!(logs.show(shown));
        let (mut show, mut goodbye) = (Some(show), None);
        loop {
            tokio::select! {
                order = self.orders.recv() => match order {
                    // After this one the server hangs up: output that is on its way goes before.
                    Some(ToLink::Say(message)) if message == FromPilot::Goodbye => {
                        goodbye = Some(message);
                        show = None;
                    }
                    // Once the connection has ended nobody takes it, which is noticed below.
                    Some(ToLink::Say(message)) => drop(say.send(message)),
                    Some(ToLink::Show(piece, turn)) => {
                        drop(show.as_ref().map(|show| show.send((piece, turn))));
                    }
                    Some(ToLink::Reconnect) => return Ok(Ended::WasUp),
                    None => return Ok(Ended::Stopped),
                },
                ended = &mut showing, if goodbye.is_some() || show.is_some() => {
                    // The two end together: whichever breaks, another connection has both.
                    let Some(last) = goodbye.take().filter(|_| ended.is_ok()) else {
                        return Ok(Ended::WasUp);
                    };
                    let _ = say.send(last);
                }
                message = heard.message() => match message {
                    // What only newer servers say need not be done.
                    Ok(Some(message)) => if let Some(message) = FromServer::read(message)? {
                        if matches!(message, FromServer::Welcome { .. }) {
                            self.open.send_replace(Some(channel.clone()));
                        }
                        self.send.send(FromLink::Message { connection, message }).await?;
                    },
                    Ok(None) => return Ok(Ended::Parted),
                    Err(_) => return Ok(Ended::WasUp),
                },
            }
        }
    }

    /// A call of this pilot. All but the first name the connection that they belong to.
    fn request<S>(
        &self,
        said: S,
        connection: Option<ConnectionNumber>,
    ) -> Result<Request<S>, Failure> {
        let mut request = Request::new(said);
        request.metadata_mut().insert("authorization", bearer::header(&self.token).parse()?);
        if let Some(connection) = connection {
            request.metadata_mut().insert(CONNECTION_NUMBER, connection.0.into());
        }
        Ok(request)
    }
}

fn taken_from(said: mpsc::UnboundedReceiver<FromPilot>) -> impl Stream<Item = ToServer> {
    stream::unfold(said, |mut said| async move { Some((said.recv().await?.into(), said)) })
}

fn pieces_from(shown: mpsc::UnboundedReceiver<(LogChunk, Turn)>) -> impl Stream<Item = LogChunk> {
    stream::unfold(shown, |mut shown| async move {
        // Taken: the next piece may be read.
        let (piece, _turn) = shown.recv().await?;
        Some((piece, shown))
    })
}

/// Trying again would not help: a token that has ended does not come back.
fn is_refusal(error: &(dyn std::error::Error + Send + Sync + 'static)) -> bool {
    let status = error.downcast_ref::<Status>();
    status.is_some_and(|status| status.code() == tonic::Code::Unauthenticated)
}
