//! What pilots and the server say to each other, in our own nouns; its way to the wire and back.
//!
//! The wire is generated (`proto/pilot.proto`); this is the one place that fills it completely and
//! reads it strictly. Everybody else speaks in `FromPilot` and `FromServer`. What is missing, too
//! long or unknown in a message is a `BadMessage`; how large a message may become at all is looked
//! at before it is read, in `codec.rs`.
#![warn(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unreachable,
    clippy::unwrap_used
)]

mod attempt;
pub mod contents;
mod files;
mod node;
mod template;
#[cfg(test)]
mod tests;
mod usage;

pub use crate::wire::LogChunk;
pub use files::Files;
pub use template::{Assign, Assigning, Task, Template};
pub use usage::{MAX_SERIES_BYTES, SeriesOf};

use crate::wire;
use crate::wire::{to_pilot, to_server};
use shipway_model::bind::BadBind;
use shipway_model::ids::BadId;
use shipway_model::{AttemptId, BadImageRef, ConnectionNumber, Held, Millis, NodeAd, PilotId};

/// The protocol this binary speaks.
pub const PROTOCOL: u32 = 3;
/// Carries the number of the connection that a call beside the control call belongs to.
pub const CONNECTION_NUMBER: &str = "shipway-session";
/// One message to a pilot: a batch of assignments.
pub const MAX_MESSAGE_BYTES: usize = 96 << 20;
/// One message from a pilot: a greeting or a report of as many attempts as it may name.
pub const MAX_FROM_PILOT: usize = 16 << 20;
/// Attempts that a pilot names in one message, with what else is in it: many times what a node
/// runs at once.
pub const MAX_ENTRIES: usize = 32_768;
/// Attempts of which one message says what they have used.
pub const MAX_USAGES: usize = 4_096;
/// A piece of a log, and the message it is in.
pub const MAX_LOG_CHUNK: usize = 256 << 10;
pub const MAX_LOG_MESSAGE: usize = MAX_LOG_CHUNK + (16 << 10);
/// What of a file is in one message, and that message.
pub const MAX_FILE_PIECE: usize = 256 << 10;
pub const MAX_FILE_MESSAGE: usize = MAX_FILE_PIECE + (16 << 10);
/// Contents that one call fetches: so few that their names fit into a message.
pub const MAX_FETCHED: usize = 1_024;
/// What is wanted of an offer, as a pilot reads it: more than the longest list of files takes.
pub const MAX_WANTED_MESSAGE: usize = 8 << 20;
/// Calls for files of one pilot at the same time, each of which has its own window.
pub const FILE_CALLS: usize = 4;
/// What of one call is on its way at most: as much is held where nobody reads it, and as much of a
/// bulk call may be before a message of another one.
pub const CALL_WINDOW: u32 = 256 << 10;
/// Of data that is handed over at once: others may be in between.
pub const FRAME_BYTES: u32 = 64 << 10;
/// A folder's key is 128 bits in hexadecimal; one that is much longer is none.
const MAX_KEY_BYTES: usize = 128;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadMessage {
    #[error("this server speaks protocol {PROTOCOL}, not {0}")]
    Protocol(u32),
    #[error("a message of the pilot protocol lacks its {0}")]
    Missing(&'static str),
    #[error("a message of the pilot protocol has a {0} that is not known here")]
    Unknown(&'static str),
    #[error("a message of the pilot protocol has too long a {0}")]
    TooLong(&'static str),
    #[error("a message of the pilot protocol names something impossible: {0}")]
    Id(#[from] BadId),
    #[error("the image cannot be read: {0}")]
    Image(#[from] BadImageRef),
    #[error("a bind cannot be read: {0}")]
    Bind(#[from] BadBind),
}

/// What a pilot says on the control call.
#[derive(Debug, Clone, PartialEq)]
pub enum FromPilot {
    Hello(Box<Hello>),
    Report(Report),
    Ping {
        number: u64,
    },
    /// Its node is another than it said before.
    Ad(Box<NodeAd>),
    /// How attempts go over time.
    Series(Vec<SeriesOf>),
    Leaving,
    Goodbye,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Hello {
    pub pilot: PilotId,
    pub connection: ConnectionNumber,
    pub version: String,
    pub ad: NodeAd,
    /// `None`: it is supervised.
    pub lease: Option<Millis>,
    pub held: Vec<Held>,
    /// Of its folder; empty if it has none.
    pub folder_key: String,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    pub number: u64,
    pub held: Vec<Held>,
}

/// What the server says on the control call.
#[derive(Debug, Clone)]
pub enum FromServer {
    Welcome { server_version: String },
    Assign(Assign),
    Stop { ids: Vec<AttemptId>, grace: Millis },
    Ack { report: u64 },
    Pong { number: u64 },
    Log(LogRequest),
    LogClose { id: u64 },
}

/// The next piece of an attempt's output is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogRequest {
    pub id: u64,
    pub attempt: AttemptId,
    pub stderr: bool,
    pub offset: u64,
    pub follow: bool,
    /// For whom it is read.
    pub reader: String,
}

impl FromPilot {
    /// `None`: something that only newer pilots say.
    pub fn read(message: wire::ToServer) -> Result<Option<Self>, BadMessage> {
        use to_server::Body;
        let Some(body) = message.body else { return Ok(None) };
        Ok(Some(match body {
            Body::Hello(hello) => FromPilot::Hello(Box::new(Hello::read(hello)?)),
            Body::Report(wire::Report { number, held }) => {
                FromPilot::Report(Report { number, held: attempt::read_all(held)? })
            }
            Body::Ping(ping) => FromPilot::Ping { number: ping.number },
            Body::Ad(ad) => FromPilot::Ad(Box::new(node::read(ad)?)),
            Body::Series(wire::SeriesReport { series }) => {
                let series = series.into_iter().map(usage::read_series);
                FromPilot::Series(series.collect::<Result<_, _>>()?)
            }
            Body::Leaving(_) => FromPilot::Leaving,
            Body::Goodbye(_) => FromPilot::Goodbye,
        }))
    }
}

impl From<FromPilot> for wire::ToServer {
    fn from(message: FromPilot) -> Self {
        use to_server::Body;
        let body = match message {
            FromPilot::Hello(hello) => Body::Hello((*hello).into()),
            FromPilot::Report(Report { number, held }) => {
                let held = held.into_iter().map(Into::into).collect();
                Body::Report(wire::Report { number, held })
            }
            FromPilot::Ping { number } => Body::Ping(wire::Ping { number }),
            FromPilot::Ad(ad) => Body::Ad((*ad).into()),
            FromPilot::Series(series) => {
                let series = series.into_iter().map(Into::into).collect();
                Body::Series(wire::SeriesReport { series })
            }
            FromPilot::Leaving => Body::Leaving(wire::Leaving {}),
            FromPilot::Goodbye => Body::Goodbye(wire::Goodbye {}),
        };
        wire::ToServer { body: Some(body) }
    }
}

impl Hello {
    fn read(hello: wire::Hello) -> Result<Self, BadMessage> {
        // First: of another protocol nothing else need be as it is here.
        if hello.protocol != PROTOCOL {
            return Err(BadMessage::Protocol(hello.protocol));
        }
        if hello.folder_key.len() > MAX_KEY_BYTES {
            return Err(BadMessage::TooLong("key of a folder"));
        }
        Ok(Hello {
            pilot: PilotId::new(&hello.pilot)?,
            connection: ConnectionNumber(hello.session),
            version: hello.version,
            ad: node::read(hello.ad.ok_or(BadMessage::Missing("ad"))?)?,
            lease: (hello.lease_ms > 0).then_some(Millis(hello.lease_ms)),
            held: attempt::read_all(hello.held)?,
            folder_key: hello.folder_key,
        })
    }
}

impl From<Hello> for wire::Hello {
    fn from(hello: Hello) -> Self {
        wire::Hello {
            protocol: PROTOCOL,
            pilot: hello.pilot.to_string(),
            session: hello.connection.0,
            version: hello.version,
            ad: Some(hello.ad.into()),
            lease_ms: hello.lease.map_or(0, |lease| lease.0),
            held: hello.held.into_iter().map(Into::into).collect(),
            folder_key: hello.folder_key,
        }
    }
}

impl FromServer {
    /// `None`: something that only newer servers say, and need not be done.
    pub fn read(message: wire::ToPilot) -> Result<Option<Self>, BadMessage> {
        use to_pilot::Body;
        let Some(body) = message.body else { return Ok(None) };
        Ok(Some(match body {
            Body::Welcome(welcome) => {
                FromServer::Welcome { server_version: welcome.server_version }
            }
            Body::Assign(assign) => FromServer::Assign(Assign::read(assign)?),
            Body::Stop(wire::Stop { ids, grace_ms }) => FromServer::Stop {
                ids: ids.into_iter().map(Into::into).collect(),
                grace: Millis(grace_ms),
            },
            Body::Ack(ack) => FromServer::Ack { report: ack.report },
            Body::Pong(pong) => FromServer::Pong { number: pong.number },
            Body::Log(request) => FromServer::Log(LogRequest::read(request)?),
            Body::LogClose(close) => FromServer::LogClose { id: close.id },
        }))
    }
}

impl From<FromServer> for wire::ToPilot {
    fn from(message: FromServer) -> Self {
        use to_pilot::Body;
        let body = match message {
            FromServer::Welcome { server_version } => {
                Body::Welcome(wire::Welcome { server_version })
            }
            FromServer::Assign(assign) => Body::Assign(assign.into()),
            FromServer::Stop { ids, grace } => {
                let ids = ids.into_iter().map(Into::into).collect();
                Body::Stop(wire::Stop { ids, grace_ms: grace.0 })
            }
            FromServer::Ack { report } => Body::Ack(wire::Ack { report }),
            FromServer::Pong { number } => Body::Pong(wire::Pong { number }),
            FromServer::Log(request) => Body::Log(request.into()),
            FromServer::LogClose { id } => Body::LogClose(wire::LogClose { id }),
        };
        wire::ToPilot { body: Some(body) }
    }
}

impl LogRequest {
    fn read(request: wire::LogRequest) -> Result<Self, BadMessage> {
        let wire::LogRequest { id, attempt, stderr, offset, follow, reader } = request;
        let attempt = attempt.ok_or(BadMessage::Missing("attempt"))?.into();
        Ok(LogRequest { id, attempt, stderr, offset, follow, reader })
    }
}

impl From<LogRequest> for wire::LogRequest {
    fn from(request: LogRequest) -> Self {
        let LogRequest { id, attempt, stderr, offset, follow, reader } = request;
        wire::LogRequest { id, attempt: Some(attempt.into()), stderr, offset, follow, reader }
    }
}
