//! `shipway up`: the whole product on this machine, from the home's lock to the last goodbye.
//!
//! Opens the journal, restores the state, starts the writer, the listener and the local pilot, and
//! says where it is by `server.json`. Ends in order when told to.
#![warn(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unreachable,
    clippy::unwrap_used
)]

mod owner;
mod this_machine;

use crate::auth::Auth;
use crate::clock::{Clock, wall};
use crate::documents::{DocumentError, Documents, HomeFiles};
use crate::event_logs::{self, EventLogs, Places};
use crate::files::{self, FileStore};
use crate::http::{self, Readers, Site};
use crate::journal::{HistoryReader, HomeJournal, JournalError, Tenure};
use crate::live::Live;
use crate::logins::{LoginError, Logins};
use crate::metrics::Metrics;
use crate::off_requests::off_requests;
use crate::panics::{self, vital};
use crate::pilots::{PilotService, Pilots, Specs};
use crate::secrets::PilotKey;
use crate::series::SeriesStore;
use crate::sites::keeper::Keeper;
use crate::sites::{Outside, Sites};
use crate::tls::{self, Tls, TlsError};
use crate::writer::{self, Edges, Wish, WriteError};
use shipway_api::link::{
    MAX_FILE_MESSAGE, MAX_FROM_PILOT, MAX_LOG_MESSAGE, MAX_MESSAGE_BYTES, MAX_WANTED_MESSAGE,
};
use shipway_api::local::{self, LocalServer};
use shipway_api::wire::contents_server::ContentsServer;
use shipway_api::wire::link_server::LinkServer;
use shipway_api::wire::logs_server::LogsServer;
use shipway_core::{Command, State};
use shipway_model::{Actor, Millis, Role, UserName};
use shipway_sites::SiteError;
pub use shipway_sites::local::NodeOptions;
use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Instant;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

#[derive(Debug, Clone)]
pub struct Settings {
    pub home: PathBuf,
    pub listen: SocketAddr,
    pub tls: Tls,
    /// Serve an address that others can reach without encryption.
    pub allow_plain_text: bool,
    pub no_pilot: bool,
    /// How the local pilot is started.
    pub node: NodeOptions,
    /// How fast past usage fades; `None` leaves it as it was.
    pub half_life: Option<Millis>,
    /// The shipway binary, to start the pilot with.
    pub program: PathBuf,
    /// Folders that event logs may be in, where the site says which.
    pub offered: Option<Vec<PathBuf>>,
    /// Of files that users upload and tasks send back.
    pub files: files::Limits,
}

#[derive(Debug, thiserror::Error)]
pub enum UpError {
    #[error("cannot use the home {}", .home.display())]
    Journal {
        home: PathBuf,
        #[source]
        source: JournalError,
    },
    #[error("cannot read the history")]
    History(#[from] JournalError),
    #[error("cannot use the home {}: it is, or contains, {holds}", .home.display())]
    SharedHome { home: PathBuf, holds: &'static str },
    #[error("cannot go on with the home {}: {problem}", .home.display())]
    TakenOver { home: PathBuf, problem: String },
    #[error("cannot restore the state from {}", .home.display())]
    Restore {
        home: PathBuf,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error("{0} can be reached by others, and the connection would not be encrypted")]
    PlainText(SocketAddr),
    #[error("cannot listen at {address}")]
    Listen {
        address: SocketAddr,
        #[source]
        source: io::Error,
    },
    #[error("cannot set up encryption")]
    Tls(#[from] TlsError),
    #[error("cannot write {}", .path.display())]
    Write {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot start the local pilot")]
    Pilot(#[from] SiteError),
    #[error("cannot use the key of the local pilots")]
    PilotKey(#[from] DocumentError),
    #[error("cannot start")]
    Start(#[from] WriteError),
    #[error("cannot use what users have given for registries")]
    Logins(#[from] LoginError),
    #[error("cannot go on with event logs")]
    EventLogs(#[from] event_logs::NotBegun),
    #[error("cannot start a thread")]
    Thread(#[source] io::Error),
}

impl UpError {
    pub fn hint(&self) -> Option<String> {
        match self {
            UpError::Journal { source, .. } => source.hint(),
            UpError::PlainText(_) => Some(
                "say --tls (the certificate is made for you), name one with --cert and --key, \
                     or say --allow-plain-text"
                    .into(),
            ),
            UpError::SharedHome { .. } => Some(
                "the home is hidden from tasks with all that is in it: name a folder that is for \
                     nothing else in SHIPWAY_HOME"
                    .into(),
            ),
            UpError::TakenOver { .. } => Some(
                "one server uses a home at a time; its lock does not hold where the file was \
                     removed or the file system has no locks"
                    .into(),
            ),
            UpError::PilotKey(error) if error.act == "use" => Some(
                "restore the file from a backup; or remove it, and a new one is made: only a pilot \
                     that is being started just now is not let in then"
                    .into(),
            ),
            UpError::Listen { .. } => Some("choose another address with --listen".into()),
            _ => None,
        }
    }
}

/// A server that is ready.
#[derive(Debug)]
pub struct Up {
    pub url: String,
    stop: watch::Sender<bool>,
    served: tokio::task::JoinHandle<()>,
    writer: writer::Running,
    pilot: Option<this_machine::Supervised>,
    event_logs: Arc<EventLogs>,
    home: PathBuf,
    tenure: Arc<Tenure>,
}

/// Starts everything; returns when it is ready to be used.
pub async fn start(settings: Settings) -> Result<Up, UpError> {
    let home = settings.home.clone();
    let secure = settings.tls != Tls::None;
    if !secure && !settings.listen.ip().is_loopback() && !settings.allow_plain_text {
        return Err(UpError::PlainText(settings.listen));
    }
    refuse_shared(&home)?;
    let opened = open_home(&home)?;
    let tenure = Arc::clone(&opened.tenure);
    let key = Arc::new(PilotKey::open(&*opened.documents)?);
    let (listener, address) = listen(settings.listen).await?;
    let prepared = tls::prepare(&settings.tls, &home, &names(address))?;
    let secret = owner::secret(&home);
    let owner = owner::name();
    let places = Places { closed: vec![resolved(&home)], offered: settings.offered.clone() };
    let owned = (owner.clone(), reachable(address).to_string(), places);
    let auth = Auth::new(&secret, owner.clone());
    let sites = Arc::new(Sites::default());
    let asks = sites.runner_of_this_machine();
    let files = Arc::new(FileStore::new(home.join("files"), settings.files));
    let (site, writer) = assemble(opened, (auth, sites, files), owned)?;
    let by = Actor::new(owner.clone(), Role::Admin);
    let add = Command::AddUser { by, user: owner, role: Role::Admin };
    site.writer.wish(Wish::Core(add)).await?;
    tokio::spawn(Arc::clone(&site.auth).watch_the_clock(site.clock.clone()));
    tokio::spawn(http::files::sweep(site.clone(), Arc::clone(&tenure)));
    if let Some(half_life) = settings.half_life {
        site.writer.wish(Wish::Core(Command::SetHalfLife { half_life })).await?;
    }

    let (config, certificate) = prepared.map_or((None, None), |(c, file)| (Some(c), file));
    let (stop, stopped) = watch::channel(false);
    if !settings.no_pilot {
        this_machine::renew_if_idle(&settings, &site.writer).await?;
    }
    let told = (Arc::clone(&site.metrics), http::serve::connection_limit());
    let serving = http::serve::serve(listener, config, router(&site), told, stopped);
    let served = tokio::spawn(vital("the listener", serving));
    let scheme = if secure { "https" } else { "http" };
    let url = format!("{scheme}://{}", reachable(address));
    let server =
        LocalServer { url: url.clone(), token: secret, pid: std::process::id(), certificate };
    let written = tenure.hold(|| write_server_file(&home, &server));
    written.map_err(|source| UpError::Journal { home: home.clone(), source })??;
    Keeper {
        sites: Arc::clone(&site.sites),
        writer: site.writer.clone(),
        clock: site.clock.clone(),
        server: key.name(),
        key: Arc::clone(&key),
        folder: home.join("sites"),
    }
    .start();
    let pilot = if settings.no_pilot {
        None
    } else {
        Some(this_machine::supervise(&settings, site.writer.clone(), asks, key).await?)
    };
    let event_logs = site.event_logs;
    Ok(Up { url, stop, served, writer, pilot, event_logs, home, tenure })
}

/// What no home may be, or be around: it is hidden from tasks, with all that is in it.
const EVERYBODYS: [&str; 11] =
    ["/bin", "/dev", "/etc", "/home", "/lib", "/proc", "/run", "/sys", "/tmp", "/usr", "/var/tmp"];

fn refuse_shared(home: &Path) -> Result<(), UpError> {
    let place = resolved(home);
    match EVERYBODYS.iter().find(|path| Path::new(path).starts_with(&place)) {
        Some(holds) => Err(UpError::SharedHome { home: home.into(), holds }),
        None => Ok(()),
    }
}

/// Without links, where it is there already.
fn resolved(home: &Path) -> PathBuf {
    home.canonicalize().or_else(|_| std::path::absolute(home)).unwrap_or_else(|_| home.to_owned())
}

/// All that is kept in a home. What it is kept in is said here and nowhere else.
struct Opened {
    journal: HomeJournal,
    history: Box<dyn HistoryReader>,
    documents: Arc<dyn Documents>,
    tenure: Arc<Tenure>,
    series: SeriesStore,
    /// The state that the journal leads to, and how many events were read for it.
    restored: (State, u64),
}

fn open_home(home: &Path) -> Result<Opened, UpError> {
    let began = Instant::now();
    let in_home = |source| UpError::Journal { home: home.into(), source };
    let mut journal = HomeJournal::open(home, wall().0).map_err(in_home)?;
    for note in journal.notes() {
        if note.may_be_loss() {
            tracing::warn!("the journal was repaired: {note}");
        } else {
            tracing::info!("the journal was tidied: {note}");
        }
    }
    let restored = writer::restore(&mut journal)
        .map_err(|source| UpError::Restore { home: home.into(), source: Box::new(source) })?;
    let (jobs, replayed) = (restored.0.jobs().len(), restored.1);
    let millis = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    tracing::info!(jobs, replayed, millis, "the state is restored");
    let (history, tenure) = (journal.history()?, Arc::new(journal.tenure()?));
    let documents = Arc::new(HomeFiles { home: home.into(), tenure: Arc::clone(&tenure) });
    let series = SeriesStore::open(home);
    Ok(Opened { journal, history, documents, tenure, series, restored })
}

async fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr), UpError> {
    let failed = |source| UpError::Listen { address, source };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    Ok((listener, bound))
}

/// People's requests and pilots' connections, on one port.
fn router(site: &Site) -> axum::Router {
    let service = PilotService::of(site);
    let logs = LogsServer::new(service.clone()).max_decoding_message_size(MAX_LOG_MESSAGE);
    let files = ContentsServer::new(service.clone())
        .max_decoding_message_size(MAX_FILE_MESSAGE)
        .max_encoding_message_size(MAX_WANTED_MESSAGE);
    let link = LinkServer::new(service)
        .max_decoding_message_size(MAX_FROM_PILOT)
        .max_encoding_message_size(MAX_MESSAGE_BYTES);
    http::router(site.clone())
        .route_service("/shipway.pilot.v1.Link/{*method}", link)
        .route_service("/shipway.pilot.v1.Logs/{*method}", logs)
        .route_service("/shipway.pilot.v1.Contents/{*method}", files)
}

/// Starts, tells when it is ready, and ends in order at the first SIGINT or SIGTERM.
pub async fn run(settings: Settings, ready: impl FnOnce(&Up)) -> Result<(), UpError> {
    let mut interrupt = signal(SignalKind::interrupt()).map_err(UpError::Thread)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(UpError::Thread)?;
    panics::watch();
    let mut up = start(settings).await?;
    ready(&up);
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        // By itself: the home is another server's now, with all that is in it. The pilot goes on.
        _ = &mut up.writer.ended => {
            let problem = up.writer.writer.problem().unwrap_or_default();
            return Err(UpError::TakenOver { home: up.home, problem });
        }
    }
    tracing::info!("stopping");
    up.stop().await
}

/// A server that nobody can reach but by calling its router: for tests that ask it a great many
/// things.
#[derive(Debug)]
pub struct Inside {
    pub router: axum::Router,
    /// The owner's.
    pub token: String,
    #[cfg(test)]
    pub(crate) site: Site,
    writer: writer::Running,
    event_logs: Arc<EventLogs>,
}

/// Everything behind the listener, without a pilot, and with pilots heard at any pace: for whoever
/// measures what each thing they say costs.
pub async fn inside(home: &Path) -> Result<Inside, UpError> {
    let opened = open_home(home)?;
    let (token, owner) = (owner::secret(home), owner::name());
    let auth = Auth::new(&token, owner.clone());
    let owned = (owner.clone(), "127.0.0.1".to_string(), Places::default());
    let files = Arc::new(FileStore::new(home.join("files"), files::Limits::default()));
    let (site, writer) = assemble(opened, (auth, Arc::default(), files), owned)?;
    site.pilots.hear_at_any_pace();
    let by = Actor::new(owner.clone(), Role::Admin);
    let add = Command::AddUser { by, user: owner, role: Role::Admin };
    site.writer.wish(Wish::Core(add)).await?;
    Ok(Inside {
        router: router(&site),
        token,
        writer,
        event_logs: Arc::clone(&site.event_logs),
        #[cfg(test)]
        site,
    })
}

impl Inside {
    pub async fn stop(self) {
        end_writer(self.writer, self.event_logs).await;
    }
}

/// After the last commit, and a snapshot.
async fn end_writer(writer: writer::Running, event_logs: Arc<EventLogs>) {
    writer.writer.stop().await;
    let thread = writer.thread;
    let ended = tokio::task::spawn_blocking(move || {
        let _ = thread.join();
        // After the last event.
        event_logs.stop();
    });
    let _ = ended.await;
}

/// Starts the writer and joins it with everything that speaks to it.
fn assemble(
    Opened { journal, history: reader, documents, restored, series, .. }: Opened,
    (auth, sites, files): (Auth, Arc<Sites>, Arc<FileStore>),
    (owner, address, places): (UserName, String, Places),
) -> Result<(Site, writer::Running), UpError> {
    let clock = Clock::start(restored.0.at());
    let users = restored.0.users().iter().map(|(name, _)| name.clone());
    let known: BTreeSet<UserName> = users.chain([owner.clone()]).collect();
    let auth = Arc::new(auth);
    let live = Arc::new(Live::default());
    let metrics = Arc::new(Metrics::default());
    let pilots = Arc::new(Pilots::default());
    let specs = Arc::new(Specs::new(reader.try_clone()?));
    let event_logs = Arc::new(EventLogs::start(event_logs::Sources {
        documents: Arc::clone(&documents),
        history: Mutex::new(reader.try_clone()?),
        places,
        owner,
        address,
        specs: Arc::clone(&specs),
        pilots: Arc::clone(&pilots),
    })?);
    let edges = Edges {
        auth: Arc::clone(&auth),
        live: Arc::clone(&live),
        specs: Arc::clone(&specs),
        effects: Box::new(Outside { pilots: Arc::clone(&pilots), sites: Arc::clone(&sites) }),
        event_logs: Some(Arc::clone(&event_logs)),
        clock: clock.clone(),
        metrics: Arc::clone(&metrics),
        core: writer::Core::default(),
    };
    let history = reader.try_clone()?;
    let running = writer::start(restored, journal, history, edges).map_err(UpError::Thread)?;
    let writer = running.writer.clone();
    let readers = Arc::new(Readers::new(reader));
    let logins = Logins::open(documents)?;
    logins.keep_only(|user| known.contains(user))?;
    let logins = Arc::new(logins);
    let intake = Arc::default();
    let site = Site {
        writer,
        auth,
        live,
        pilots,
        specs,
        readers,
        logins,
        event_logs,
        files,
        explained: Arc::default(),
        budgets: Arc::default(),
        clock,
        metrics,
        intake,
        series: Arc::new(series),
        sites,
    };
    Ok((site, running))
}

impl Up {
    /// Ends in order: no more requests, the last commit, a snapshot, then the pilot. What runs is
    /// ended with the pilot and runs again as a new attempt after the next start. Where another
    /// server has taken over, all of it is left to that one.
    pub async fn stop(self) -> Result<(), UpError> {
        let remove = || std::fs::remove_file(local::path(&self.home));
        match off_requests(|| self.tenure.hold(remove)) {
            Err(taken @ JournalError::TakenOver { .. }) => {
                return Err(UpError::TakenOver { home: self.home, problem: taken.to_string() });
            }
            // A disk that does not answer says nothing of another server.
            Err(_) => drop(remove()),
            Ok(_) => {}
        }
        let _ = self.stop.send(true);
        let _ = self.served.await;
        if let Some(pilot) = &self.pilot {
            pilot.stand_down();
        }
        end_writer(self.writer, self.event_logs).await;
        if let Some(pilot) = self.pilot {
            pilot.end().await;
        }
        Ok(())
    }
}

/// Names for a self-made certificate.
fn names(address: SocketAddr) -> Vec<String> {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let mut names = vec!["localhost".to_string(), "127.0.0.1".into(), address.ip().to_string()];
    names.extend(Some(host.trim().to_string()).filter(|host| !host.is_empty()));
    names.dedup();
    names
}

/// An address that a client on this machine can use.
fn reachable(address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        SocketAddr::from(([127, 0, 0, 1], address.port()))
    } else {
        address
    }
}

fn write_server_file(home: &Path, server: &LocalServer) -> Result<(), UpError> {
    let path = local::path(home);
    let text = serde_json::to_string_pretty(server).map_err(io::Error::from);
    let written = text.and_then(|text| shipway_trees::write_whole(&path, text.as_bytes()));
    written.map_err(|source| UpError::Write { path, source })
}
