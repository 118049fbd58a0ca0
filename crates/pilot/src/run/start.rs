//! Everything before the first connection: the lock, the leftovers, who we are, what the node has.

use super::dial::Server;
use super::groups::Groups;
use super::images::ImageKeep;
use super::mps::MpsError;
use super::proving::Unproven;
use super::wall_millis;
use crate::accounts::Mapping;
use crate::closed::usual_homes;
use crate::ends::{self, Ends, Left, Slots};
use crate::given::{self, Asked, Facts};
use crate::machine::{Identity, Lent};
use crate::probe::{Declared, DeclaredError};
use crate::probe::{Places, Probe, probe};
use crate::runtimes::{MissingRuntime, RuntimeChoice};
use crate::usual::{DefaultImage, Usual};
use crate::{folder, guard, helper, left_files, leftovers, people};
use shipway_model::node::ALLOCATION_ENDS;
use shipway_model::{
    Bytes, GpuVendor, Millis, NodeAd, NodeName, PilotCredentials, PilotId, Timestamp,
};
use shipway_runtime::Runtime;
use shipway_runtime::binds::AllowList;
use shipway_runtime::native::{Helper, Keeper};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Instant, SystemTime};

#[derive(Debug, Clone)]
pub struct Settings {
    /// The pilot's own folder: lock, output of tasks, private work directories.
    pub dir: PathBuf,
    pub server: Server,
    /// `{"pilot": …, "token": …}`, readable by its owner only.
    pub token_file: PathBuf,
    pub lease: Option<Millis>,
    pub declared: Option<PathBuf>,
    /// Where extracted images are kept; several pilots may share it.
    pub images: PathBuf,
    /// What tasks run on that name no image.
    pub default_image: DefaultImage,
    /// What containers are made with.
    pub runtime: RuntimeChoice,
    /// What containers may bind of the node; everything unless given.
    pub binds: Option<AllowList>,
    /// Whom tasks run as, where the pilot is root.
    pub accounts: Mapping,
    /// How long output is kept after the last of it was written; `None` for ever.
    pub keep_output: Option<Millis>,
    /// Which images are kept while nobody runs them.
    pub keep_images: ImageKeep,
    /// How much of the files that came with jobs is kept for the next ones.
    pub files_size: Option<Bytes>,
    /// Serve tasks that share an NVIDIA GPU by its Multi-Process Service.
    pub gpu_mps: bool,
    pub lent: LentSettings,
}

/// What a site says that starts pilots in its allocations.
#[derive(Debug, Clone, Default)]
pub struct LentSettings {
    pub asked: Asked,
    /// It leaves when it has held nothing for so long.
    pub idle: Option<Millis>,
    /// When the allocation ends: by the wall clock, or so long after the start.
    pub until: Option<Timestamp>,
    pub wall: Option<Millis>,
    /// What its tasks have to end when the site wants the node back; without it nothing.
    pub grace: Option<Millis>,
    /// Its account is that of whoever started the server.
    pub of_owner: bool,
}

impl LentSettings {
    /// When it ends, if that is known: the earlier of the two.
    fn ends(&self, now: Timestamp) -> Option<Timestamp> {
        let after = self.wall.map(|span| Timestamp(now.0.saturating_add(span.0)));
        self.until.into_iter().chain(after).min()
    }
}

impl Settings {
    /// What the server and the pilot keep, as far as it is on this node.
    pub(super) fn kept(&self) -> Vec<PathBuf> {
        let home = match &self.server {
            Server::Home(home) => Some(home.clone()),
            Server::Url { .. } => None,
        };
        let own = [&self.dir, &self.images, &self.token_file].map(Clone::clone);
        own.into_iter().chain(home).chain(usual_homes()).collect()
    }
}

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("the pilot was not started by its guard")]
    Lock(#[source] io::Error),
    #[error("cannot adopt processes that tasks leave behind")]
    Subreaper(#[source] io::Error),
    #[error("cannot end what an earlier pilot left")]
    Leftovers(#[from] leftovers::LeftoversError),
    #[error("cannot read the token file {}", .path.display())]
    TokenFile {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot write {}", .path.display())]
    Write {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot use the declared devices")]
    Declared(#[from] DeclaredError),
    #[error("cannot make containers as this site wants them")]
    Runtime(#[from] MissingRuntime),
    #[error("cannot copy this program for the helpers of containers")]
    Helper(#[source] io::Error),
    #[error("cannot use the Multi-Process Service")]
    Mps(#[from] MpsError),
    #[error("cannot start the threads that run tasks")]
    Threads(#[source] io::Error),
    #[error("the server does not let this pilot in any more: its token has ended or was revoked")]
    TokenEnded,
}

pub(super) struct Started {
    pub(super) identity: Identity,
    pub(super) lent: Lent,
    /// From when the pilot counts its time.
    pub(super) steady: Instant,
    /// Tells this process from others in the same folder.
    pub(super) process: u64,
    /// What earlier pilots of the folder left word of.
    pub(super) left: Left,
    pub(super) ends: Ends,
    pub(super) slots: Slots,
    pub(super) token: String,
    pub(super) node_key: String,
    pub(super) lock: OwnedFd,
    pub(super) has_nvidia: bool,
    pub(super) has_amd: bool,
    pub(super) unproven: Unproven,
    pub(super) runtime: Arc<dyn Runtime>,
    pub(super) usual: Arc<Usual>,
    pub(super) helper: Arc<Helper>,
    /// By what people are kept apart, where it is by subordinate ids.
    pub(super) keeper: Option<Arc<Keeper>>,
    pub(super) groups: Groups,
}

impl StartError {
    pub fn hint(&self) -> Option<String> {
        match self {
            StartError::Runtime(missing) => Some(missing.hint()),
            StartError::TokenEnded => {
                Some("`shipway token pilot` makes a new one, for --token-file".into())
            }
            _ => None,
        }
    }
}

pub(super) fn start(settings: &Settings) -> Result<Started, StartError> {
    let lock = guard::adopt_lock().map_err(StartError::Lock)?;
    guard::become_subreaper().map_err(StartError::Subreaper)?;
    let node_key = leftovers::node_key(&settings.dir)?;
    let ended = leftovers::end_all(&settings.dir, &node_key)?;
    if ended > 0 {
        tracing::warn!(ended, "processes that an earlier pilot left are ended");
    }
    // Now, when no task can leave it without a thread.
    shipway_trees::get_ready();
    if rustix::process::geteuid().is_root() {
        open_to_accounts(&settings.dir)?;
    }
    let (runtime, helper, people) = runtime(settings)?;
    let usual =
        Usual::new(settings.default_image.clone(), settings.runtime.clone(), Arc::clone(&runtime));
    let usual = Arc::new(usual);
    let (groups, note) = Groups::find(&node_key);
    let credentials = credentials(&settings.token_file)?;
    let (left, ends, slots) = take_word(&settings.dir, &credentials.pilot)?;
    let (folder_key, process) = know_folder(&settings.dir)?;
    let Looked { found, unfit, has_nvidia, has_amd, lent, steady } = look(settings)?;
    let ad = NodeAd {
        node: node_name(),
        capacity: found.capacity.clone(),
        gpus: found.gpus.clone(),
        notes: found.notes.iter().cloned().chain(note).collect(),
        unfit,
        withheld: Vec::new(),
        people: Some(people.people),
        attributes: found.attributes.clone(),
    };
    let unproven = Unproven {
        ad: ad.clone(),
        probe: found,
        dir: settings.dir.clone(),
        images: settings.images.clone(),
        usual: Arc::clone(&usual),
    };
    let ad = unproven.first_ad();
    let identity = Identity {
        pilot: credentials.pilot,
        version: env!("CARGO_PKG_VERSION").into(),
        ad,
        lease: settings.lease,
        folder_key,
    };
    let token = credentials.token;
    Ok(Started {
        identity,
        lent,
        steady,
        process,
        left,
        ends,
        slots,
        token,
        node_key,
        lock,
        has_nvidia,
        has_amd,
        unproven,
        runtime,
        usual,
        helper,
        keeper: people.keeper,
        groups,
    })
}

/// What the node has, as far as it is this pilot's, and for how long.
struct Looked {
    found: Probe,
    /// Why nothing may run here.
    unfit: Vec<String>,
    has_nvidia: bool,
    has_amd: bool,
    lent: Lent,
    steady: Instant,
}

fn look(settings: &Settings) -> Result<Looked, StartError> {
    let declared = settings.declared.as_deref().map(Declared::read).transpose()?;
    let has_declared = declared.as_ref().map(|it| (it.cpus_milli.is_some(), it.memory.is_some()));
    let places = Places::of_this_node(&settings.dir);
    let mut found = probe(&places, declared);
    // Before it is narrowed: from those of others too, tasks are kept by hiding all of that kind.
    let vendor = |wanted| found.gpus.iter().any(|gpu| gpu.vendor == wanted);
    let (has_nvidia, has_amd) = (vendor(GpuVendor::Nvidia), vendor(GpuVendor::Amd));
    let unfit = narrow(&settings.lent.asked, &places, has_declared, &mut found);
    let (steady, wall) = (Instant::now(), Timestamp(wall_millis(SystemTime::now())));
    let until = settings.lent.ends(wall);
    if let Some(until) = until {
        found.attributes.insert(ALLOCATION_ENDS.into(), (until.0 / 1_000).to_string());
    }
    let lent = Lent { idle: settings.lent.idle, ends: until.map(|until| until.since(wall)) };
    Ok(Looked { found, unfit, has_nvidia, has_amd, lent, steady })
}

/// Leaves in the probe what was given, where the site says that it is not everything; why nothing
/// may run, if so. `declared`: whether cores and memory are.
fn narrow(
    asked: &Asked,
    places: &Places,
    declared: Option<(bool, bool)>,
    found: &mut Probe,
) -> Vec<String> {
    if !asked.is_anything() {
        return Vec::new();
    }
    let (cpus, memory) = declared.unwrap_or_default();
    let given = given::decide(asked, &Facts::gather(places), &given::found(found, cpus, memory));
    given.log();
    given.narrow(found);
    given.unfit
}

/// The key of the folder, and the number of this start in it.
fn know_folder(dir: &Path) -> Result<(String, u64), StartError> {
    // Kept by earlier versions, which named their predecessors to the server.
    let _ = std::fs::remove_file(dir.join("pilots"));
    let failed = |source| StartError::Write { path: dir.to_owned(), source };
    Ok((folder::key(dir).map_err(failed)?, folder::next_start(dir).map_err(failed)?))
}

/// What earlier pilots left word of. Read when nothing of them runs any more; from here on all of
/// it is where this pilot keeps its own.
fn take_word(dir: &Path, pilot: &PilotId) -> Result<(Left, Ends, Slots), StartError> {
    let failed = |source| StartError::Write { path: dir.to_owned(), source };
    let left = ends::take(dir).map_err(failed)?;
    if !left.ends.is_empty() {
        tracing::info!(ends = left.ends.len(), "an earlier pilot left word of ends");
    }
    let kept = Ends::begin(dir, pilot, &left.ends).map_err(failed)?;
    Left::settle(dir);
    let told = dir.join(ends::TOLD);
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&told).map_err(failed)?;
    Ok((left, kept, Slots::begin(dir).map_err(failed)?))
}

/// The mode of folders that hold those of tasks: accounts may pass through, and see nothing.
pub(super) fn own_mode() -> u32 {
    if rustix::process::geteuid().is_root() { 0o711 } else { 0o700 }
}

/// Lets accounts pass through the pilot's folder, to those of their tasks. The output of tasks, all
/// of it, stays closed.
fn open_to_accounts(dir: &Path) -> Result<(), StartError> {
    let logs = dir.join("logs");
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| StartError::Write { path, source }
    };
    let set = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).map_err(failed(path))
    };
    std::fs::create_dir_all(&logs).map_err(failed(&logs))?;
    set(&logs, 0o700)?;
    set(dir, own_mode())
}

type Made = (Arc<dyn Runtime>, Arc<Helper>, people::Found);

fn runtime(settings: &Settings) -> Result<Made, StartError> {
    let program = settings.runtime.find(std::env::var_os("PATH"))?;
    let helper = Arc::new(helper::of_tasks().map_err(StartError::Helper)?);
    let dir = settings.dir.join("containers");
    // Whatever an earlier pilot left there belongs to nobody.
    left_files::clear(&settings.dir, "containers");
    let made = std::fs::DirBuilder::new().mode(own_mode()).create(&dir);
    made.map_err(|source| StartError::Write { path: dir.clone(), source })?;
    let people =
        people::find(&settings.runtime, &helper, settings.accounts.shared(), &settings.dir);
    people.leave_word(&settings.dir);
    let runtime = settings.runtime.make(program, &helper, &dir, people.keeper.as_ref());
    Ok((runtime, helper, people))
}

fn credentials(path: &Path) -> Result<PilotCredentials, StartError> {
    let failed = |source| StartError::TokenFile { path: path.into(), source };
    let text = std::fs::read_to_string(path).map_err(failed)?;
    serde_json::from_str(&text).map_err(|source| failed(io::Error::other(source)))
}

/// What the node calls itself.
pub fn node_name() -> NodeName {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    NodeName::new(name.trim()).unwrap_or_else(|_| NodeName::new("localhost").expect("a good name"))
}
