//! The first process inside: makes the container around itself, starts the task, and buries the
//! dead until the task is one of them.
//!
//! It cannot die of a signal that the task sends, and when it ends the kernel ends everything
//! else inside. How the task ended goes into the letter.

use super::error::{Doing, SetupError};
use super::identity::{Identity, hide};
use super::mounts::{
    Inside, Kind, copy_of, copy_of_last, copy_opened, kind_of, put_below, restrict,
};
use super::room;
use super::root::{self, MountPoint};
use super::sys::{
    Attributes, keep_descriptors_to_ourselves, stop_tracing, unblock_signals, wish_to_end,
};
use super::{confine, cover, dev, kernel_files, network, person, program};
use crate::plan::{Bind, Container, Network, Root, User, WritableSpace};
use crate::reach::{self, Reach, Use};
use crate::report::{Ending, Letter};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, openat2};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, fchdir, pivot_root, set_parent_process_death_signal,
    umask, wait,
};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

pub(super) struct Init {
    pub(super) container: Container,
    pub(super) letter: Letter,
    pub(super) identity: Who,
    /// Hangs up when the helper is dead.
    pub(super) helper: OwnedFd,
    /// The tree, where the helper has opened it; the plan names this descriptor.
    pub(super) tree: Option<OwnedFd>,
    /// Sources of binds that are open already, one place for each bind.
    pub(super) opened: Vec<Option<Opened>>,
}

/// As whom it builds.
pub(super) enum Who {
    /// The task's own user, the only one inside.
    Own(Identity),
    /// The caller, with every right inside, until the task's person is become. A byte from the
    /// helper says that both are known.
    Person(OwnedFd),
}

/// What a bind shows, mounted nowhere yet, and what in it is to be covered.
#[derive(Debug)]
pub(super) struct Opened {
    mount: OwnedFd,
    kind: Kind,
    covered: Vec<PathBuf>,
}

impl Init {
    /// The body of the process: its exit code means nothing, the letter says it all.
    pub(super) fn run(mut self) {
        let ending = match self.start() {
            Ok(Begun::Task(task)) => bury_until_gone(task),
            Ok(Begun::AskedToEnd(signal)) => {
                Ending::Signal { number: signal.as_raw(), core_dumped: false }
            }
            Err(error) => Ending::NotStarted(error.told()),
        };
        // Nobody to tell if it fails; the helper says that there was no word.
        let _silent = self.letter.report(&ending);
    }

    fn start(&mut self) -> Result<Begun, SetupError> {
        match &self.identity {
            Who::Own(identity) => become_known(*identity, &self.helper)?,
            Who::Person(named) => {
                wait_for_name(named)?;
                person::leave_groups()?;
            }
        }
        // After that: a change of user makes the kernel forget it.
        die_with_helper(&self.helper)?;
        build(&self.container, self.tree.as_ref(), std::mem::take(&mut self.opened))?;
        drop(self.tree.take());
        confine::empty_bounding_set()?;
        if let Who::Person(_) = self.identity {
            person::give_pipes()?;
            person::turn_into_person()?;
            // The kernel forgets it with every change of user.
            die_with_helper(&self.helper)?;
        }
        // The task has the same user: it must not look into this process, or write to it.
        hide()?;
        confine::confine()?;
        if self.container.reach.guest {
            confine::leave_others_sockets()?;
        }
        stand_in(&self.container)?;
        keep_descriptors_to_ourselves().doing("keep", "descriptors")?;
        // Whoever asked the group to end meanwhile meant the task.
        if let Some(signal) = wish_to_end() {
            return Ok(Begun::AskedToEnd(signal));
        }
        unblock_signals().map_err(|source| SetupError::Act { act: "unblock signals", source })?;
        program::start(&self.container).map(Begun::Task)
    }
}

/// Made by root, this process is root until the helper has named the task's user; otherwise it can
/// do that itself.
fn become_known(identity: Identity, helper: &OwnedFd) -> Result<(), SetupError> {
    if !identity.by_root {
        return identity.map("self");
    }
    wait_for_name(helper)?;
    identity.become_it()
}

fn wait_for_name(named: &OwnedFd) -> Result<(), SetupError> {
    match rustix::io::read(named, &mut [0; 1]) {
        Ok(1) => Ok(()),
        _ => Err(SetupError::Abandoned),
    }
}

enum Begun {
    Task(u32),
    AskedToEnd(Signal),
}

/// The kernel kills this process when the helper dies; unless it was dead before it was asked.
fn die_with_helper(helper: &OwnedFd) -> Result<(), SetupError> {
    set_parent_process_death_signal(Some(Signal::KILL)).doing("die with", "the helper")?;
    let mut helper = [PollFd::new(helper, PollFlags::IN)];
    let at_once = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    match poll(&mut helper, Some(&at_once)).doing("look at", "the helper")? {
        0 => Ok(()),
        _ => Err(SetupError::Abandoned),
    }
}

fn build(
    container: &Container,
    tree: Option<&OwnedFd>,
    opened: Vec<Option<Opened>>,
) -> Result<(), SetupError> {
    match container.network {
        Network::Loopback => network::loopback_up()?,
        Network::Host | Network::None => {}
    }
    if let Some(name) = &container.hostname {
        rustix::system::sethostname(name.as_bytes()).doing("set the host name", name)?;
    }
    let mask = umask(Mode::empty());
    // Sources are opened while the node's tree is still there, before anything can cover it.
    let binds = container.binds.iter().zip(opened);
    let binds =
        binds.map(|(bind, opened)| opened.map_or_else(|| open_bind_for(container, bind), Ok));
    let binds = binds.collect::<Result<Vec<_>, _>>()?;
    if let Some(file) = &container.reads {
        person::with_rights_of(container, || person::open_input(file, &container.reach))?;
    }
    let tmp = room::tmp(container)?;
    if let Some(tree) = tree {
        // An overlay takes only what is mounted here. It goes with the node's tree.
        put_below(tree, CWD, "/").doing("mount on", "/")?;
    }
    let (inside, covered) = root::make(container, &places(container, &binds))?;
    let dev = dev::make(container, &inside)?;
    kernel_files::make(container, &inside, &dev)?;
    cover::below(&inside, &dev, Path::new("/"), &covered)?;
    if container.root == Root::Host {
        cover::services(container, &inside, &dev)?;
    }
    put_tmp(&inside, &tmp)?;
    for (bind, opened) in container.binds.iter().zip(binds) {
        if is_in_memory(container, &bind.target) {
            inside.make(&bind.target, opened.kind)?;
        }
        inside.put(&opened.mount, &bind.target)?;
        cover::below(&Inside(opened.mount), &dev, &bind.target, &opened.covered)?;
    }
    enter(&inside)?;
    umask(mask);
    Ok(())
}

/// What was made for the task is given to its person; what they have named is opened with their
/// rights, and not with those of the caller.
fn open_bind_for(container: &Container, bind: &Bind) -> Result<Opened, SetupError> {
    if bind.ours {
        person::give(container, &bind.source)?;
        return open_bind(bind, &container.reach);
    }
    person::with_rights_of(container, || open_bind(bind, &container.reach))
}

/// A folder or a file that was made for the task, opened with root's rights. It must be what the
/// caller made: the task's own, and no link.
pub(super) fn open_own_bind(bind: &Bind, user: &User) -> Result<Opened, SetupError> {
    let mount = copy_of_last(&bind.source)?;
    let found = fstat(&mount).doing("look at", &bind.source)?;
    let kind = match FileType::from_raw_mode(found.st_mode) {
        FileType::Directory => Kind::Directory,
        FileType::RegularFile => Kind::File,
        _ => return Err(SetupError::NotOwn { path: bind.source.clone(), user: user.uid }),
    };
    if found.st_uid != user.uid {
        return Err(SetupError::NotOwn { path: bind.source.clone(), user: user.uid });
    }
    restrict_bind(&mount, bind)?;
    Ok(Opened { mount, kind, covered: Vec::new() })
}

/// Judged by what was really opened, and that is what is mounted.
pub(super) fn open_bind(bind: &Bind, may: &Reach) -> Result<Opened, SetupError> {
    let path = &bind.source;
    let no_entry = |error| match error {
        SetupError::Step { source: Errno::ACCESS, object, .. } => closed(object),
        other => other,
    };
    let (mount, covered) = if bind.asked {
        let file = reach::open(CWD, path, OFlags::PATH).doing("open", path);
        let file = file.map_err(no_entry)?;
        let how = if bind.writable { Use::Write } else { Use::Read };
        let within = may.judge(&file, path, how)?;
        (copy_opened(&file).doing("open", path)?, within.covered)
    } else {
        (copy_of(path).map_err(no_entry)?, Vec::new())
    };
    let kind = kind_of(&mount, &bind.source)?;
    restrict_bind(&mount, bind)?;
    Ok(Opened { mount, kind, covered })
}

fn restrict_bind(mount: &OwnedFd, bind: &Bind) -> Result<(), SetupError> {
    let mut attributes = Attributes::NO_SUID.and(Attributes::NO_DEV);
    if !bind.writable {
        attributes = attributes.and(Attributes::READ_ONLY);
    }
    restrict(mount, attributes)
}

/// Everything that will be mounted on the root itself. Places below another bind must be there.
fn places(container: &Container, binds: &[Opened]) -> Vec<MountPoint> {
    let own = ["/dev", "/proc", "/sys", "/tmp"];
    let mut places: Vec<MountPoint> =
        own.iter().map(|path| (PathBuf::from(path), Kind::Directory)).collect();
    for (index, (bind, opened)) in container.binds.iter().zip(binds).enumerate() {
        let earlier = container.binds[..index].iter().map(|bind| bind.target.as_path());
        let services = (container.root == Root::Host).then_some(Path::new(cover::SERVICES));
        let mut covered = own.iter().map(Path::new).chain(services).chain(earlier);
        if !covered.any(|above| bind.target.starts_with(above)) {
            places.push((bind.target.clone(), opened.kind));
        }
    }
    places
}

/// Whether a place lies in the container's own memory, where it may be made.
fn is_in_memory(container: &Container, target: &Path) -> bool {
    let tmp = matches!(container.tmp, WritableSpace::Memory(_)).then_some("/tmp");
    let covered = |above: &Bind| target != above.target && target.starts_with(&above.target);
    let services = (container.root == Root::Host).then_some(cover::SERVICES);
    let own = ["/dev"].into_iter().chain(tmp).chain(services);
    let own = own.into_iter().any(|own| target.starts_with(own));
    own && !container.binds.iter().any(covered)
}

fn put_tmp(inside: &Inside, tmp: &OwnedFd) -> Result<(), SetupError> {
    inside.put(tmp, Path::new("/tmp"))?;
    // The same directory a second time, where the image has a place for it.
    match inside.place(Path::new("/var/tmp")) {
        Ok(place) => {
            let copy = super::mounts::copy_below(tmp, ".").doing("open", "/tmp")?;
            super::mounts::put_on(&copy, &place).doing("mount on", "/var/tmp")
        }
        // Absent, or a link to `/tmp` itself.
        Err(SetupError::MissingTarget { .. } | SetupError::LinkedTarget { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Makes the new root the root, and lets go of the node's.
fn enter(inside: &Inside) -> Result<(), SetupError> {
    fchdir(&inside.0).doing("enter", "the new root")?;
    pivot_root(".", ".").doing("change the root to", "the new root")?;
    // The old root lies over the new one now.
    unmount(".", UnmountFlags::DETACH).doing("let go of", "the old root")?;
    rustix::process::chdir("/").doing("enter", "/")
}

fn closed(path: PathBuf) -> SetupError {
    SetupError::Closed { path, user: rustix::process::getuid().as_raw() }
}

/// No link of the kernel's is followed: a descriptor of ours is no directory of the task's.
fn stand_in(container: &Container) -> Result<(), SetupError> {
    let cwd = container.cwd.as_path();
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::NO_MAGICLINKS;
    let no_directory = |errno| match errno {
        Errno::ACCESS => closed(cwd.to_owned()),
        _ => SetupError::NoDirectory { cwd: cwd.to_owned() },
    };
    let directory = openat2(rustix::fs::CWD, cwd, flags, Mode::empty(), resolve);
    let directory = directory.map_err(no_directory)?;
    let is_theirs = |bind: &Bind| bind.writable && cwd.starts_with(&bind.target);
    if container.person.is_some() && container.binds.iter().any(is_theirs) {
        person::may_write(&directory, cwd)?;
    }
    fchdir(directory).map_err(no_directory)
}

/// Waits for whatever dies inside, until it is the task.
fn bury_until_gone(task: u32) -> Ending {
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((child, status))) => match ending(status) {
                None => go_on(child, status),
                Some(ending) if child.as_raw_nonzero().get().unsigned_abs() == task => {
                    return ending;
                }
                Some(_) => {}
            },
            Ok(None) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => unreachable!("the task is a child until it is buried: {errno}"),
        }
    }
}

/// A process that asked its parent to trace it stands still at its next signal, or when it is
/// another program. Nobody traces here: so it is let go, with the signal that it would have got.
fn go_on(child: Pid, status: WaitStatus) {
    let own = Some(Signal::TRAP.as_raw());
    let signal = status.stopping_signal().filter(|signal| Some(*signal) != own);
    stop_tracing(child, signal.unwrap_or(0));
}

/// `None` for one that only stands still.
pub(super) fn ending(status: WaitStatus) -> Option<Ending> {
    /// Set in a status when a core was written.
    const CORE: i32 = 0x80;
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Some(Ending::Exit(code)),
        (None, Some(number)) => {
            Some(Ending::Signal { number, core_dumped: status.as_raw() & CORE != 0 })
        }
        (None, None) => None,
    }
}
