//! From an assignment and its image to a container: tree, environment, work directory, binds,
//! devices. It starts nothing.

use super::cuda::{Driver, TooNew};
use super::images::ReadyImage;
use crate::machine::Start;
use crate::probe::Probe;
use crate::spawn::Contained;
use shipway_api::link::Template;
use shipway_model::{DeviceId, GpuSource, Network};
use shipway_runtime::Runtime;
use shipway_runtime::binds::settle;
use shipway_runtime::gpu::{self, Assigned, GpuError};
use shipway_runtime::plan::{self, Bind, Container, DEFAULT_MEMORY_ROOM, Root, WritableSpace};
use shipway_runtime::reach::Reach;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where a task's own folders are seen inside: below the private `/tmp`, so that every tree has a
/// place for them.
const INSIDE: &str = "/tmp/shipway";
/// Where programs are looked for when the image does not say.
pub(super) const DEFAULT_PATH: &str =
    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// What programs read to find other machines by their names.
const NAME_SERVICE: [&str; 2] = ["/etc/resolv.conf", "/etc/hosts"];

#[derive(Debug, thiserror::Error)]
pub(super) enum ContainError {
    #[error("the node's devices have no file for {device} that a container could be given")]
    NoNode { device: DeviceId },
    #[error(transparent)]
    Gpu(#[from] GpuError),
    #[error(transparent)]
    Cuda(#[from] TooNew),
}

pub(super) struct Containers {
    runtime: Arc<dyn Runtime>,
    /// Device files by the ids under which devices are assigned.
    devices: BTreeMap<String, Assigned>,
    /// Devices that are only said to be there, for tests and for planning: they have no files.
    declared: BTreeSet<String>,
    driver: Option<Driver>,
}

/// What runs, before the container is built around it.
pub(super) struct Command {
    pub(super) argv: Vec<String>,
    pub(super) env: Vec<(String, String)>,
    pub(super) cwd: PathBuf,
    /// The task's own folders.
    pub(super) own: Vec<Bind>,
    /// Who it runs as, where the pilot is root.
    pub(super) user: Option<plan::User>,
    /// Whose it is, where people are kept apart by ids.
    pub(super) person: Option<plan::Person>,
    /// Which paths of the node it may name.
    pub(super) reach: Reach,
}

impl Containers {
    pub(super) fn new(runtime: Arc<dyn Runtime>, probe: &Probe) -> Self {
        let (devices, driver) = (probe.nodes.clone(), Driver::of(probe));
        let declared = probe.gpus.iter().filter(|gpu| gpu.source == GpuSource::Declared);
        let declared = declared.map(|gpu| gpu.id.to_string()).collect();
        Containers { runtime, devices, declared, driver }
    }

    /// Whether a task's own folders are opened for it, and need not be within its reach.
    pub(super) fn open_folders_first(&self) -> bool {
        self.runtime.opens_folders_first()
    }

    /// Whether something is looked at that whoever submitted the task has named, on whatever file
    /// system that is: their own tree, or what runtimes are given without links.
    pub(super) fn look_elsewhere(&self, image: &ReadyImage, template: &Template) -> bool {
        let own_tree = matches!(image.root, Root::Tree(_)) && !image.is_ours();
        let names_folders = template.workdir.is_some() || !template.binds.is_empty();
        own_tree || names_folders && !self.open_folders_first()
    }

    /// Where one of the task's own folders is seen inside.
    pub(super) fn inside(name: &str) -> PathBuf {
        Path::new(INSIDE).join(name)
    }

    pub(super) fn contain(
        &self,
        start: &Start,
        image: &Arc<ReadyImage>,
        command: Command,
    ) -> Result<Contained, ContainError> {
        let template = &start.template;
        let mut container = Container::new(image.root.clone(), command.argv);
        container.cwd.clone_from(&command.cwd);
        container.user = command.user;
        container.person = command.person;
        container.tree_is_ours = image.is_ours();
        container.reach = command.reach;
        container.env = environment(image, command.env);
        // Writes to the image's own files go to memory, and with the task.
        let room = match template.need.memory.0 {
            0 => DEFAULT_MEMORY_ROOM,
            limit => limit.min(DEFAULT_MEMORY_ROOM),
        };
        container.tmp = WritableSpace::Memory(room);
        if let Root::Tree(tree) = &image.root {
            container.scratch = Some(WritableSpace::Memory(room));
            container.binds = name_service(tree);
        }
        container.network = match template.network {
            Network::Host => plan::Network::Host,
            Network::None => plan::Network::None,
            Network::Private => plan::Network::Loopback,
        };
        container.binds.extend(command.own);
        // The top of the node's own tree is there already, to be read.
        let is_top = image.root == Root::Host && command.cwd == Path::new("/");
        if template.workdir.is_some() && !is_top {
            let dir = &command.cwd;
            container.binds.push(self.settled(Bind::writable(dir, dir), &image.root));
        }
        for bind in &template.binds {
            let bound = if bind.writable { Bind::writable } else { Bind::read_only };
            container.binds.push(self.settled(bound(&bind.source, &bind.target), &image.root));
        }
        if !self.runtime.opens_folders_first() {
            resolve_tree(&mut container.root);
        }
        if let Some(driver) = self.driver.as_ref().filter(|_| !start.devices.is_empty()) {
            driver.runs(image)?;
        }
        gpu::access(Path::new("/"), &self.assigned(&start.devices)?)?.add_to(&mut container);
        let (runtime, holds) = (Arc::clone(&self.runtime), Arc::clone(image));
        Ok(Contained { runtime, container: Box::new(container), holds })
    }

    /// What somebody asked for, at the place it leads to in the image. Whether they may have it is
    /// said when it is opened.
    fn settled(&self, bind: Bind, root: &Root) -> Bind {
        let mut bind = bind.asked_for();
        if let Root::Tree(tree) = root {
            bind.target = settle(tree, &bind.target);
        }
        // Runtimes that open sources by their names are given no links.
        if !self.runtime.opens_folders_first() {
            bind.source = bind.source.canonicalize().unwrap_or(bind.source);
        }
        bind
    }

    fn assigned(&self, devices: &[DeviceId]) -> Result<Vec<Assigned>, ContainError> {
        let find = |id: &DeviceId| self.devices.get(id.as_str()).cloned();
        let missing = |id: &DeviceId| ContainError::NoNode { device: id.clone() };
        let real = devices.iter().filter(|id| !self.declared.contains(id.as_str()));
        real.map(|id| find(id).ok_or_else(|| missing(id))).collect()
    }
}

/// The same for a tree.
fn resolve_tree(root: &mut Root) {
    if let Root::Tree(tree) = root
        && let Ok(leads_to) = tree.canonicalize()
    {
        *tree = leads_to;
    }
}

/// How the node finds other machines, where the image has a place for it: a link there may lead
/// anywhere, and is left alone.
fn name_service(tree: &Path) -> Vec<Bind> {
    let plain = |path: &Path| path.symlink_metadata().is_ok_and(|found| !found.is_symlink());
    let has_place = |file: &&&str| {
        let inside = tree.join(file.trim_start_matches('/'));
        let free = plain(&inside) || inside.symlink_metadata().is_err();
        free && plain(&tree.join("etc")) && Path::new(file).exists()
    };
    NAME_SERVICE.iter().filter(has_place).map(|file| Bind::read_only(*file, *file)).collect()
}

/// The image's variables, then the task's.
fn environment(image: &ReadyImage, own: Vec<(String, String)>) -> Vec<(String, String)> {
    let mut env = BTreeMap::new();
    if image.root != Root::Host {
        env.insert("PATH".to_owned(), DEFAULT_PATH.to_owned());
    }
    let pairs = image.config.env.iter().filter_map(|pair| pair.split_once('='));
    env.extend(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())));
    env.extend(own);
    env.into_iter().collect()
}
