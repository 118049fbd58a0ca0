//! A pilot played by hand: it says whatever a test wants, with a token that is good.

use super::common::World;
use shipway_api::link::{CONNECTION_NUMBER, FromPilot, FromServer, Hello, LogChunk, Report};
use shipway_api::wire::{self, link_client::LinkClient, logs_client::LogsClient};
use shipway_model::{
    Attempt, Bytes, Capacity, ConnectionNumber, Cores, Ended, Held, HeldPhase, JobId, Millis,
    NodeAd, NodeName, Outcome, PilotId, TaskIndex, Timestamp,
};
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status, Streaming};

/// Far beyond what any answer takes; only a hang reaches it.
const PATIENCE: Duration = Duration::from_mins(1);

/// What `shipway token pilot` prints.
pub(crate) struct Credentials {
    pub(crate) pilot: String,
    pub(crate) token: String,
}

impl Credentials {
    pub(crate) fn new(world: &World, words: &[&str]) -> Self {
        let issued = world.json(&[&["token", "pilot"], words].concat());
        let text = |name: &str| issued[name].as_str().expect("text").to_owned();
        Credentials { pilot: text("pilot"), token: text("token") }
    }

    /// A greeting as a good pilot would say it, from a folder of its own.
    pub(crate) fn hello(&self, node: &str, connection: ConnectionNumber) -> Hello {
        let (memory, disk) = (Bytes(1 << 30), Bytes(1 << 30));
        let ad = NodeAd {
            node: NodeName::new(node).expect("good"),
            capacity: Capacity { cpus: Cores::whole(4), memory, disk, ..Capacity::default() },
            gpus: Vec::new(),
            notes: Vec::new(),
            unfit: Vec::new(),
            withheld: Vec::new(),
            attributes: std::collections::BTreeMap::default(),
            people: None,
        };
        Hello {
            pilot: PilotId::new(&self.pilot).expect("good"),
            connection,
            version: "by hand".into(),
            ad,
            lease: Some(Millis(600_000)),
            held: Vec::new(),
            folder_key: format!("key of {}", self.pilot),
        }
    }
}

pub(crate) struct Hand {
    runtime: Runtime,
    say: mpsc::UnboundedSender<wire::ToServer>,
    heard: Streaming<wire::ToPilot>,
    channel: Channel,
}

impl Hand {
    pub(crate) fn attach(world: &World, token: &str, hello: Hello) -> Result<Self, Status> {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(1).enable_all().build().expect("a runtime");
        let (say, said) = mpsc::unbounded_channel();
        let hello = FromPilot::Hello(Box::new(hello));
        say.send(hello.into()).expect("somebody listens");
        let mut request = Request::new(UnboundedReceiverStream::new(said));
        let bearer = format!("Bearer {token}").parse().expect("plain text");
        request.metadata_mut().insert("authorization", bearer);
        let endpoint = Endpoint::from_shared(world.url()).expect("an address");
        let answer = runtime.block_on(async {
            let channel = endpoint.connect().await.expect("a server");
            let mut client = LinkClient::new(channel.clone());
            let attached = tokio::time::timeout(PATIENCE, client.attach(request)).await;
            attached.expect("an answer in time").map(|answer| (answer.into_inner(), channel))
        });
        let (heard, channel) = answer?;
        let mut hand = Hand { runtime, say, heard, channel };
        let first = hand.hear();
        assert!(matches!(first, Some(FromServer::Welcome { .. })), "{first:?}");
        Ok(hand)
    }

    /// Makes a logs call with these pieces, as of any pilot and any connection.
    pub(crate) fn show(
        &self,
        token: &str,
        connection: ConnectionNumber,
        pieces: Vec<LogChunk>,
    ) -> Result<(), Status> {
        let mut request = Request::new(tokio_stream::iter(pieces));
        let bearer = format!("Bearer {token}").parse().expect("plain text");
        request.metadata_mut().insert("authorization", bearer);
        request.metadata_mut().insert(CONNECTION_NUMBER, connection.0.into());
        let mut client = LogsClient::new(self.channel.clone());
        let shown = async { tokio::time::timeout(PATIENCE, client.show(request)).await };
        self.runtime.block_on(shown).expect("an answer in time").map(drop)
    }

    pub(crate) fn say(&self, message: FromPilot) {
        // Where the server has hung up, nobody hears it.
        let _ = self.say.send(message.into());
    }

    /// The next message; `None` when the server has closed the connection.
    pub(crate) fn hear(&mut self) -> Option<FromServer> {
        let heard = &mut self.heard;
        let next = async { tokio::time::timeout(PATIENCE, heard.message()).await };
        let next = self.runtime.block_on(next).expect("the server says something in time");
        FromServer::read(next.ok()??).expect("it can be read")
    }

    /// All that was said before the answer to a ping; `None`: the connection is closed.
    pub(crate) fn hear_all(&mut self) -> Option<Vec<FromServer>> {
        self.say(FromPilot::Ping { number: 7 });
        let mut said = Vec::new();
        loop {
            match self.hear()? {
                FromServer::Pong { .. } => return Some(said),
                other => said.push(other),
            }
        }
    }

    pub(crate) fn is_connected(&mut self) -> bool {
        self.hear_all().is_some()
    }
}

/// An attempt's end, as its pilot would tell it.
pub(crate) fn ended(job: u64, index: u64, outcome: Outcome) -> Held {
    let (started, ended) = (Some(Timestamp(1)), Timestamp(2));
    let end = Ended { outcome, started, ended, ran: Millis(1) };
    let id = JobId(job).task(TaskIndex(index)).attempt(Attempt(1));
    Held::own(id, HeldPhase::Ended(end))
}

/// The first report of a connection, of this alone.
pub(crate) fn report(held: Held) -> FromPilot {
    FromPilot::Report(Report { number: 1, held: vec![held] })
}
