//! Files of people who are kept apart by ids: the pilot itself can neither enter nor remove them.
//! A process that joined their keeper does it, with the rights over all of them or with those of
//! one person. What it does there is in `stage.rs`.

use crate::accounts::Whom;
use crate::helper::of_this_program;
use crate::left_files;
use crate::leftovers::NODE_KEY_VARIABLE;
use crate::stage::{COMMAND, Plan};
use rustix::fs::{MemfdFlags, memfd_create};
use shipway_runtime::again::{self, patiently};
use shipway_runtime::native::{Helper, Keeper, Start};
use shipway_runtime::plan::{Process, User, Within};
use shipway_runtime::runtime::{Launch, LaunchError};
use std::fs::File;
use std::io::{self, Seek, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, mpsc};

/// With whose rights files are copied.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum As {
    #[default]
    Pilot,
    User(User),
    /// Somebody in the keeper's user namespace.
    Within(Within),
}

/// Starts this program once more, to do something with files.
pub(super) struct Hands {
    helper: Helper,
    node_key: String,
    keeper: Option<Arc<Keeper>>,
}

impl As {
    pub(super) fn of(whom: &Whom) -> Self {
        match whom {
            Whom::Pilot | Whom::Guest => Self::Pilot,
            Whom::Account(account) => Self::User(account.user.clone()),
            Whom::Person(somebody) => Self::Within(Within::Person(somebody.person)),
        }
    }

    /// The account, where it is one.
    pub(super) const fn user(&self) -> Option<&User> {
        match self {
            Self::User(user) => Some(user),
            Self::Pilot | Self::Within(_) => None,
        }
    }
}

impl std::fmt::Debug for Hands {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hands").field("keeper", &self.keeper).finish_non_exhaustive()
    }
}

impl Hands {
    pub(super) fn new(node_key: String, keeper: Option<Arc<Keeper>>) -> Self {
        Self { helper: of_this_program(COMMAND), node_key, keeper }
    }

    /// Whether there are people whose files the pilot itself cannot reach.
    pub(super) const fn reach_further(&self) -> bool {
        self.keeper.is_some()
    }

    /// Folders of people that an earlier pilot left, and that this one cannot remove by itself.
    pub(super) fn left(&self, dir: &Path) -> Vec<PathBuf> {
        if !self.reach_further() {
            return Vec::new();
        }
        left_files::aside(dir)
    }

    /// What to start for a plan.
    pub(super) fn launch(&self, plan: Plan, by: &As) -> Result<Launch, LaunchError> {
        let (plan, handed) = match by {
            As::Within(Within::Person(_)) => plan.handed(),
            As::Pilot | As::User(_) | As::Within(Within::Keeper) => (plan, Vec::new()),
        };
        let start = Start {
            argv: Vec::new(),
            env: Vec::new(),
            stdin: Some(written(&plan).map_err(LaunchError::Letter)?.into()),
        };
        let process = Process { cwd: "/".into(), ..Process::default() };
        let mut launch = match by {
            As::Pilot => self.helper.before(start, &process),
            As::User(user) => {
                self.helper.before(start, &Process { user: Some(user.clone()), ..process })
            }
            As::Within(within) => {
                let keeper = self.keeper.as_ref().ok_or(LaunchError::NoKeeper)?;
                let process = Process { within: Some(*within), handed, ..process };
                keeper.before(&self.helper, start, &process)
            }
        }?;
        launch.marks.push((NODE_KEY_VARIABLE.into(), (&self.node_key).into()));
        Ok(launch)
    }

    /// Removes folders, of whomever they are, and says what could not be done.
    fn remove(&self, folders: Vec<PathBuf>) -> Result<(), String> {
        let launch = self.launch(Plan::Remove(folders), &As::Within(Within::Keeper));
        let (mut command, after) = launch.map_err(|error| error.to_string())?.into_command();
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let status = patiently(|| command.status()).map_err(|error| error.to_string())?;
        match after.ending(status) {
            shipway_runtime::report::Ending::Exit(0) => Ok(()),
            ending => Err(format!("it ended with {ending:?}")),
        }
    }
}

/// Where a folder will be that cannot be removed with the rights of whose it is.
fn kept_as(folder: &Path) -> Option<PathBuf> {
    Some(folder.parent()?.parent()?.join(shipway_trees::KEPT).join(folder.file_name()?))
}

/// In memory, where the other side reads it from the start.
fn written(plan: &Plan) -> io::Result<File> {
    let mut file = File::from(memfd_create("plan", MemfdFlags::CLOEXEC)?);
    file.write_all(&serde_json::to_vec(plan).expect("plain data"))?;
    file.rewind()?;
    Ok(file)
}

/// A thread of its own removes folders of people, as many at once as are waiting.
pub(super) fn start_remover(hands: &Arc<Hands>) -> mpsc::Sender<PathBuf> {
    let hands = Arc::clone(hands);
    let (send, folders) = mpsc::channel::<PathBuf>();
    // Without it they are removed when the next pilot starts.
    let _ = again::thread("remover", move || {
        while let Ok(first) = folders.recv() {
            let all: Vec<PathBuf> = std::iter::once(first).chain(folders.try_iter()).collect();
            let kept: Vec<PathBuf> = all.iter().filter_map(|folder| kept_as(folder)).collect();
            if let Err(error) = hands.remove(all) {
                tracing::warn!(error, "folders of people are not removed");
            }
            for place in kept.iter().filter(|place| place.exists()) {
                let place = place.display();
                tracing::warn!(%place, "somebody's task left what was not theirs: it is kept");
            }
        }
    });
    send
}
