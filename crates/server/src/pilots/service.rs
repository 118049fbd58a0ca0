//! The control call of a pilot.
//!
//! What a pilot says becomes commands; it is acknowledged when it is on disk. The connection's end
//! is reported too: whether the pilot is lost is for the core to say.

use super::files::Lists;
use super::orders::Describe;
use super::saying::{Outbound, outbound};
use super::{Connected, End, PilotOrder, Pilots, logs, over};
use crate::auth::{Auth, LetIn};
use crate::clock::Clock;
use crate::files::FileStore;
use crate::http::Site;
use crate::http::places::{Guest, NoPlace};
use crate::panics::guarded_task;
use crate::secrets;
use crate::series::SeriesStore;
use crate::writer::Writer;
use shipway_api::bearer;
use shipway_api::link::{BadMessage, FromPilot, FromServer, Hello, Report, SeriesOf};
use shipway_api::wire;
use shipway_api::wire::link_server::Link;
use shipway_core::State;
use shipway_core::command::{self, Command};
use shipway_core::site::{KeptIn, SiteKind};
use shipway_model::{ConnectionNumber, NodeName, PilotId};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::time::Instant;
use tonic::{Request, Response, Status, Streaming};

#[derive(Debug, Clone)]
pub struct PilotService {
    pub auth: Arc<Auth>,
    pub pilots: Arc<Pilots>,
    pub describe: Describe,
    pub series: Arc<SeriesStore>,
    pub writer: Writer,
    pub clock: Clock,
    pub files: Arc<FileStore>,
    pub(super) lists: Arc<Lists>,
}

/// Reports that wait for the disk. A pilot makes no more than it has tasks to report of.
const REPORTS_WAITING: usize = 1_024;
/// Answers that one pilot has not taken. One that works has a few at a time.
const ANSWERS_WAITING: usize = 1_024;
/// A mistake for tests: over a ping of this number.
#[cfg(test)]
pub(super) const STRUCK: u64 = u64::MAX;
/// From the token to the greeting, which a pilot sends at once.
const GREETS_WITHIN: Duration = Duration::from_secs(10);

#[tonic::async_trait]
impl Link for PilotService {
    type AttachStream = Outbound;

    async fn attach(
        &self,
        request: Request<Streaming<wire::ToServer>>,
    ) -> Result<Response<Outbound>, Status> {
        let let_in = self.authenticate(&request)?;
        let pilot = let_in.pilot.clone();
        // Before anything of the call is read, and until the greeting is on disk.
        let greeting_now = || Status::resource_exhausted("this pilot is greeting already");
        let _greeting = self.pilots.greeting.begin(pilot.clone()).ok_or_else(greeting_now)?;
        let mut inbound = request.into_inner();
        let first = tokio::time::timeout(GREETS_WITHIN, inbound.message()).await;
        let first = first.map_err(|_| Status::deadline_exceeded("no greeting has come"))?;
        let first = first?.map(FromPilot::read).transpose().map_err(unreadable)?.flatten();
        let Some(FromPilot::Hello(hello)) = first else {
            return Err(Status::invalid_argument("the first message must be a greeting"));
        };
        let joined = greeting(&let_in, *hello)?;
        let wait = self.pilots.paces.wait(&pilot, Instant::now());
        if wait > GREETS_WITHIN {
            return Err(Status::resource_exhausted("this pilot greets too often"));
        }
        tokio::time::sleep(wait).await;
        self.may_join(&joined).await?;
        let number = joined.connection;
        let (orders, ordered) = mpsc::unbounded_channel();
        let (here, still_here) = watch::channel(());
        let comes = Connected {
            number,
            node: None,
            keeps: keeps(&let_in, &joined),
            orders: orders.clone(),
            reads: logs::places(),
            here,
        };
        self.pilots.connect(&pilot, comes);
        let answers = Arc::new(Semaphore::new(ANSWERS_WAITING));
        let connection = Connection { service: self.clone(), pilot, number, orders, answers };
        connection.greet(joined).await?;
        tokio::spawn(connection.listen(inbound, still_here));
        Ok(Response::new(outbound(ordered, self.describe.clone())))
    }
}

impl PilotService {
    pub(crate) fn of(site: &Site) -> PilotService {
        PilotService {
            auth: Arc::clone(&site.auth),
            pilots: Arc::clone(&site.pilots),
            describe: Describe {
                specs: Arc::clone(&site.specs),
                logins: Arc::clone(&site.logins),
                auth: Arc::clone(&site.auth),
            },
            series: Arc::clone(&site.series),
            writer: site.writer.clone(),
            clock: site.clock.clone(),
            files: Arc::clone(&site.files),
            lists: Arc::default(),
        }
    }

    pub(super) fn authenticate<T>(&self, request: &Request<T>) -> Result<LetIn, Status> {
        if self.writer.problem().is_some() {
            return Err(Status::unavailable("the server cannot write its journal"));
        }
        let header = request.metadata().get("authorization").and_then(|value| value.to_str().ok());
        let token = header.and_then(bearer::token);
        let let_in = token.and_then(|token| self.auth.pilot(token, self.clock.now()));
        let unknown = "this token is no pilot's, or has ended";
        let let_in = let_in.ok_or_else(|| Status::unauthenticated(unknown))?;
        let guest = request.extensions().get::<Guest>();
        let seated = guest.map_or(Ok(()), |guest| guest.is_pilot(&let_in.pilot));
        seated.map_err(no_place)?;
        Ok(let_in)
    }

    /// Asked before an earlier connection is given up for this one.
    async fn may_join(&self, joined: &command::PilotJoined) -> Result<(), Status> {
        let asked = joined.clone();
        let answer = self.writer.glance(move |state| shipway_core::decide::may_join(state, &asked));
        let answer = answer.await.map_err(|error| Status::unavailable(error.to_string()))?;
        answer.map_err(|refused| {
            let (pilot, connection) = (&joined.pilot, joined.connection);
            tracing::warn!(%pilot, %connection, %refused, "a pilot's greeting is refused");
            Status::failed_precondition(refused.to_string())
        })
    }
}

/// Whose output a pilot can read beside its own.
fn keeps(let_in: &LetIn, joined: &command::PilotJoined) -> Option<KeptIn> {
    match let_in.site {
        SiteKind::ThisMachine => Some(KeptIn::ThisMachine),
        SiteKind::ByHand | SiteKind::Batch => joined.folder.clone().map(KeptIn::Folder),
    }
}

#[derive(Clone)]
struct Connection {
    service: PilotService,
    pilot: PilotId,
    number: ConnectionNumber,
    orders: mpsc::UnboundedSender<PilotOrder>,
    /// Places for answers that the pilot has not taken yet.
    answers: Arc<Semaphore>,
}

impl Connection {
    async fn greet(&self, joined: command::PilotJoined) -> Result<(), Status> {
        let host = joined.ad.node.clone();
        let command = Command::PilotJoined(Box::new(joined));
        if let Err(error) = self.service.writer.report(command).await {
            self.service.pilots.disconnect(&self.pilot, self.number);
            return Err(Status::unavailable(error.to_string()));
        }
        let node = self.node().await.unwrap_or(host);
        let (pilot, connection) = (&self.pilot, self.number);
        self.service.pilots.name(pilot, connection, &node);
        tracing::info!(%pilot, %node, %connection, "a pilot is connected");
        Ok(())
    }

    /// What its node goes by.
    async fn node(&self) -> Option<NodeName> {
        let pilot = self.pilot.clone();
        let name = move |state: &State| Some(state.pilots().get(&pilot)?.name().clone());
        self.service.writer.glance(name).await.ok().flatten()
    }

    /// Hears what the pilot says until it is gone. What is to be written down goes on to a task of
    /// its own, in order, so that heartbeats are answered while the disk takes its time.
    async fn listen(self, mut inbound: Streaming<wire::ToServer>, still_here: watch::Receiver<()>) {
        let connection_over = over(still_here);
        tokio::pin!(connection_over);
        let (to_write, writing) = mpsc::channel(REPORTS_WAITING);
        tokio::spawn(self.clone().write_down(writing));
        loop {
            // A connection that was replaced or reset ends from this side too.
            let message = tokio::select! {
                message = inbound.message() => message,
                () = self.orders.closed() => break,
                () = &mut connection_over => break,
            };
            match message {
                Ok(Some(message)) => {
                    // A mistake over one message costs this connection, and no other.
                    let heard = guarded_task(self.hear(message, &to_write)).await;
                    let Ok(heard) = heard else { break };
                    if let Err(error) = heard {
                        tracing::warn!(pilot = %self.pilot, ?error, "a pilot's message is refused");
                        break;
                    }
                }
                Ok(None) | Err(_) => break,
            }
        }
        self.service.pilots.disconnect(&self.pilot, self.number);
        tracing::info!(pilot = %self.pilot, connection = %self.number, "a pilot is out of touch");
        let (pilot, connection) = (self.pilot.clone(), self.number);
        let _ = to_write.send((Command::PilotAway { pilot, connection }, None)).await;
    }

    async fn hear(&self, message: wire::ToServer, to_write: &ToWrite) -> Result<(), BadMessage> {
        let (pilot, connection) = (self.pilot.clone(), self.number);
        // A newer pilot may say what this server need not know.
        let Some(message) = FromPilot::read(message)? else { return Ok(()) };
        #[cfg(test)]
        assert!(!matches!(message, FromPilot::Ping { number: STRUCK }));
        let (command, ack) = match message {
            FromPilot::Hello(_) => {
                return Err(BadMessage::Unknown("greeting behind the first"));
            }
            FromPilot::Ping { number } => {
                // Whoever takes no answers needs no more of them.
                if let Ok(place) = Arc::clone(&self.answers).try_acquire_owned() {
                    let _ =
                        self.orders.send(PilotOrder::Answer(FromServer::Pong { number }, place));
                }
                return Ok(());
            }
            FromPilot::Report(Report { number, held }) => {
                // Nothing more is heard of one that does not take its acknowledgements.
                let place = Arc::clone(&self.answers).acquire_owned().await.ok();
                let ack = place.map(|place| (number, place));
                (Command::PilotReported(command::PilotReported { pilot, held }), ack)
            }
            FromPilot::Ad(ad) => {
                let wait = self.service.pilots.paces.wait(&pilot, Instant::now());
                tokio::time::sleep(wait).await;
                (Command::PilotChanged { pilot, connection, ad }, None)
            }
            FromPilot::Series(series) => {
                self.keep(series).await;
                return Ok(());
            }
            FromPilot::Leaving => {
                tracing::info!(%pilot, "a pilot takes nothing more");
                (Command::PilotLeaving { pilot, connection }, None)
            }
            FromPilot::Goodbye => (Command::PilotEnded { pilot }, None),
        };
        // Nobody takes it only when the writer has stopped.
        let _ = to_write.send((command, ack)).await;
        Ok(())
    }

    /// How attempts go that run here; what it says of others is not heard.
    async fn keep(&self, mut series: Vec<SeriesOf>) {
        let are_its = self.service.writer.look(|board| {
            series.retain(|SeriesOf { id, .. }| {
                let active = board.active(id.task);
                active.is_some_and(|it| it.pilot == self.pilot && it.attempt == id.attempt)
            });
        });
        if are_its.await.is_ok() {
            self.service.series.put(self.service.clock.now(), series);
        }
    }

    /// Hands what was said to the writer, in order. Acknowledgements follow the commit.
    async fn write_down(self, mut said: mpsc::Receiver<(Command, Ack)>) {
        while let Some((command, ack)) = said.recv().await {
            let is_last = matches!(command, Command::PilotAway { .. });
            let Some(answer) = self.service.writer.hand_in(command).await else { break };
            let orders = self.orders.clone();
            if is_last {
                let _ = answer.await;
            } else if let Some((report, place)) = ack {
                tokio::spawn(async move {
                    if let Ok(Ok(_)) = answer.await {
                        let _ = orders.send(PilotOrder::Answer(FromServer::Ack { report }, place));
                    }
                });
            }
        }
        let _ = self.orders.send(PilotOrder::End(End::GivenUp));
    }
}

/// The number of the report to acknowledge, and the place of that answer.
type Ack = Option<(u64, OwnedSemaphorePermit)>;
/// What is to be written down.
type ToWrite = mpsc::Sender<(Command, Ack)>;

fn no_place(none: NoPlace) -> Status {
    match none {
        NoPlace::OfThisPilot => {
            Status::resource_exhausted("this pilot has as many connections open as one may")
        }
        NoPlace::OfThisUser | NoPlace::AtAll => {
            Status::unavailable("all places for connections are taken")
        }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "the signature map_err asks for")]
fn unreadable(error: BadMessage) -> Status {
    match error {
        BadMessage::Protocol(_) => Status::failed_precondition(error.to_string()),
        _ => Status::invalid_argument(error.to_string()),
    }
}

fn greeting(let_in: &LetIn, hello: Hello) -> Result<command::PilotJoined, Status> {
    if hello.pilot != let_in.pilot {
        return Err(Status::permission_denied("this token is another pilot's"));
    }
    // Whoever the server does not watch itself has to end its tasks by itself some day.
    if hello.lease.is_none() && !let_in.site.is_watched() {
        return Err(Status::invalid_argument("a pilot with this token needs a lease"));
    }
    let has_key = !hello.folder_key.is_empty();
    Ok(command::PilotJoined {
        pilot: hello.pilot,
        connection: hello.connection,
        ad: hello.ad,
        lease: hello.lease,
        held: hello.held,
        folder: has_key.then(|| secrets::hash(&hello.folder_key)),
    })
}

#[cfg(test)]
#[path = "service_tests.rs"]
mod tests;
