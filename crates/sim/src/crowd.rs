//! Many pilots of one server, over its real protocol and real connections: the real machine of each
//! in one process, and tasks that end as soon as they begin. For measuring what the server takes.
//!
//! No containers, no output, no proof of the node: those are the real pilot's. Each opens both of
//! its calls, beats, reports and dials again as that one does.

use crate::scale::cluster::{KINDS, ad};
use anyhow::{Context as _, Result};
use futures_util::stream;
use shipway_api::link::{
    CALL_WINDOW, CONNECTION_NUMBER, FRAME_BYTES, FromPilot, FromServer, LogChunk, MAX_MESSAGE_BYTES,
};
use shipway_api::wire::{ToServer, link_client::LinkClient, logs_client::LogsClient};
use shipway_api::{bearer, local};
use shipway_model::{AttemptId, Millis, PilotCredentials, Timestamp};
use shipway_pilot::machine::{HowEnded, Identity, Input, Machine, Now, Output};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::sync::mpsc;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Streaming};

const FIRST_WAIT: Duration = Duration::from_millis(50);
const LONGEST_WAIT: Duration = Duration::from_secs(2);
const KEEP_ALIVE_EVERY: Duration = Duration::from_secs(5);
const KEEP_ALIVE_ANSWER: Duration = Duration::from_secs(10);
const LEASE: Millis = Millis(600_000);

/// How many are welcome now.
#[derive(Debug, Default)]
pub struct Welcome(AtomicU64);

impl Welcome {
    pub fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Starts one that stays until the process ends. `home` is the server's, where its address is.
pub fn start(home: &Path, number: u32, credentials: PilotCredentials, welcome: &Arc<Welcome>) {
    let pilot = Pilot::new(home.to_path_buf(), number, credentials, Arc::clone(welcome));
    tokio::spawn(pilot.live());
}

struct Pilot {
    home: PathBuf,
    token: String,
    machine: Machine,
    began: Instant,
    welcome: Arc<Welcome>,
    is_welcome: bool,
}

impl Pilot {
    fn new(home: PathBuf, number: u32, of: PilotCredentials, welcome: Arc<Welcome>) -> Pilot {
        let machine = Machine::new(Identity {
            pilot: of.pilot,
            version: "crowd".into(),
            ad: ad(number, KINDS[0]),
            lease: Some(LEASE),
            folder_key: format!("{number:032x}"),
        });
        let (token, began) = (of.token, Instant::now());
        Pilot { home, token, machine, began, welcome, is_welcome: false }
    }

    async fn live(mut self) {
        let mut wait = FIRST_WAIT;
        loop {
            if self.once().await.is_ok() {
                wait = FIRST_WAIT;
            }
            self.see(false);
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(LONGEST_WAIT);
        }
    }

    fn now(&self) -> Now {
        let steady = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let wall = u64::try_from(wall.as_millis()).unwrap_or(u64::MAX);
        Now { steady: Millis(steady), wall: Timestamp(wall) }
    }

    fn see(&mut self, is_welcome: bool) {
        if is_welcome && !self.is_welcome {
            self.welcome.0.fetch_add(1, Ordering::Relaxed);
        } else if !is_welcome && self.is_welcome {
            self.welcome.0.fetch_sub(1, Ordering::Relaxed);
        }
        self.is_welcome = is_welcome;
    }

    /// One connection, from its opening to its end. An error: there was none.
    async fn once(&mut self) -> Result<()> {
        let url = local::read(&self.home).context("no server yet")?.url;
        let endpoint = Endpoint::from_shared(url)?
            .initial_stream_window_size(CALL_WINDOW)
            .max_frame_size(FRAME_BYTES)
            .http2_keep_alive_interval(KEEP_ALIVE_EVERY)
            .keep_alive_timeout(KEEP_ALIVE_ANSWER);
        let channel = endpoint.connect().await?;
        let (say, said) = mpsc::unbounded_channel();
        self.tell(Input::LinkUp, &say);
        let number = self.machine.connection_number();
        let mut control = LinkClient::new(channel.clone())
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES);
        let mut request = Request::new(taken_from(said));
        request.metadata_mut().insert("authorization", bearer::header(&self.token).parse()?);
        let heard = control.attach(request).await?.into_inner();
        let logs = show_nothing(channel, self.token.clone(), number.0);
        let showing = tokio::spawn(logs);
        self.talk(heard, &say).await;
        showing.abort();
        let down = Input::LinkDown { connection: number, parted: false };
        self.tell(down, &say);
        Ok(())
    }

    async fn talk(
        &mut self,
        mut heard: Streaming<shipway_api::wire::ToPilot>,
        say: &mpsc::UnboundedSender<FromPilot>,
    ) {
        let connection = self.machine.connection_number();
        loop {
            let due = self.machine.next_deadline();
            let now = self.now().steady;
            let wait = due.map(|due| Duration::from_millis(due.0.saturating_sub(now.0)));
            let tick = async {
                match wait {
                    Some(wait) => tokio::time::sleep(wait).await,
                    None => std::future::pending().await,
                }
            };
            let input = tokio::select! {
                message = heard.message() => match message {
                    Ok(Some(message)) => match FromServer::read(message) {
                        Ok(Some(message)) => Input::Message { connection, message },
                        Ok(None) => continue,
                        Err(_) => return,
                    },
                    Ok(None) | Err(_) => return,
                },
                () = tick => Input::Tick,
            };
            if !self.tell(input, say) {
                return;
            }
            self.see(self.machine.is_welcome());
        }
    }

    /// Whether the connection is good for anything still.
    fn tell(&mut self, input: Input, say: &mpsc::UnboundedSender<FromPilot>) -> bool {
        let (mut inputs, mut is_good) = (vec![input], true);
        while let Some(input) = inputs.pop() {
            let now = self.now();
            let mut outputs = self.machine.handle(now, input);
            if inputs.is_empty() {
                outputs.extend(self.machine.flush(now));
            }
            for output in outputs {
                match output {
                    // Once the connection has ended nobody takes it.
                    Output::Send(message) => drop(say.send(message)),
                    Output::Start(start) => inputs.extend(at_once(start.id)),
                    Output::Collect { id, .. } => {
                        inputs.push(Input::Collected { id, problem: None });
                    }
                    Output::Reconnect | Output::Finished => is_good = false,
                    Output::Signal { .. }
                    | Output::ReadLog(_)
                    | Output::CloseLog { .. }
                    | Output::CloseLogs
                    | Output::Keep { .. } => {}
                }
            }
        }
        is_good
    }
}

/// It begins and ends, the last first.
fn at_once(id: AttemptId) -> [Input; 2] {
    let ended =
        Input::ProcessEnded { id, how: HowEnded::Exit(0), out_of_memory: None, usage: None };
    [ended, Input::ProcessStarted { id }]
}

fn taken_from(
    said: mpsc::UnboundedReceiver<FromPilot>,
) -> impl futures_util::Stream<Item = ToServer> {
    stream::unfold(said, |mut said| async move { Some((said.recv().await?.into(), said)) })
}

/// The call for output, on which nothing is said.
async fn show_nothing(channel: Channel, token: String, connection: u64) -> Result<()> {
    let mut request = Request::new(stream::pending::<LogChunk>());
    request.metadata_mut().insert("authorization", bearer::header(&token).parse()?);
    request.metadata_mut().insert(CONNECTION_NUMBER, connection.into());
    LogsClient::new(channel).show(request).await?;
    Ok(())
}
