//! What is looked at before a plan is given to a runtime that is not ours: those are less strict.

use crate::bundle::Bundle;
use crate::native::{Helper, Looked, Start, look};
use crate::plan::{Container, PlanError, Process, Root, Shown, WritableSpace};
use crate::reach::{self, Reach, Use};
use crate::rights::with_rights_of;
use crate::runtime::{Finding, Launch, LaunchError};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::geteuid;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Starts another runtime's program by a helper, which first takes from itself what a task must not
/// have, joins the container's cgroups and becomes its user. `seen` is where that user finds a
/// tree of root's.
pub(crate) fn launch(
    helper: &Helper,
    container: &Container,
    seen: Option<Shown>,
    start: Start,
) -> Result<Launch, LaunchError> {
    let (cgroups, user) = (container.cgroups.clone(), container.user.clone());
    let (guest, cwd) = (container.reach.guest, "/".into());
    let process = Process { cwd, cgroups, user, shown: seen, guest, ..Process::default() };
    helper.before(start, &process)
}

/// Where the user of the container finds its tree: for one of root's a place beside the bundle,
/// where the user cannot put anything, and what has to be shown there.
pub(crate) fn seen(
    tree: &Path,
    container: &Container,
    bundle: &Bundle,
) -> Result<(PathBuf, Option<Shown>), LaunchError> {
    if !container.tree_is_ours || container.user.is_none() {
        return Ok((tree.to_owned(), None));
    }
    let place = bundle.make_beside("tree")?;
    Ok((place.clone(), Some(Shown { tree: tree.to_owned(), place })))
}

/// Looks at the container's tree with the rights of whoever may use it: root's own for a tree of
/// root's, and those of the account for any other, which may be one it could not even list.
pub(crate) fn looking_at_tree<T>(
    container: &Container,
    look: impl FnOnce() -> T,
) -> Result<T, LaunchError> {
    let user = container.user.as_ref().filter(|_| !container.tree_is_ours);
    with_rights_of(user, look).map_err(LaunchError::Rights)
}

/// Whether places that an image lacks are made elsewhere, or in the image itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missing {
    Fine,
    Refused,
}

/// Better no container than one that differs from the plan.
pub(crate) fn refuse_what_none_can(
    runtime: &'static str,
    container: &Container,
) -> Result<(), LaunchError> {
    let without = |feature| Err(LaunchError::Unsupported { runtime, feature });
    if container.person.is_some() || container.reads.is_some() {
        return without("an id of its person's own");
    }
    match (&container.user, geteuid().is_root()) {
        (None, true) => return Err(PlanError::AsRoot.into()),
        (Some(_), false) => return without("another user's account"),
        (Some(_), true) | (None, false) => {}
    }
    let judged = with_rights_of(container.user.as_ref(), || judge_all(runtime, container));
    judged.map_err(LaunchError::Rights)??;
    let strange = |path: &&PathBuf| !path.starts_with("/dev") || !is_device(path);
    match container.devices.iter().find(strange) {
        Some(path) => Err(LaunchError::NotADevice { path: path.clone() }),
        None => Ok(()),
    }
}

/// What somebody named, with the rights of the task's account.
fn judge_all(runtime: &'static str, container: &Container) -> Result<(), LaunchError> {
    for bind in container.binds.iter().filter(|bind| bind.asked) {
        let how = if bind.writable { Use::Write } else { Use::Read };
        judge(runtime, &bind.source, &container.reach, how)?;
    }
    check_nested(container)?;
    let Root::Tree(tree) = &container.root else { return Ok(()) };
    if container.tree_is_ours {
        return Ok(());
    }
    judge(runtime, tree, &container.reach.for_trees(), Use::Read)
}

/// They open sources by their names, and follow links: so a name must be where it leads, and
/// nothing in it can be covered.
fn judge(runtime: &'static str, path: &Path, may: &Reach, how: Use) -> Result<(), LaunchError> {
    let without = |feature| Err(LaunchError::Unsupported { runtime, feature });
    let failed = |source: Errno| LaunchError::Source { path: path.to_owned(), source };
    let file = reach::open(rustix::fs::CWD, path, OFlags::PATH).map_err(failed)?;
    let within = may.judge(&file, path, how)?;
    if within.place != path {
        return without("a source that is, or lies behind, a symbolic link");
    }
    // By the time it is opened a guest's task could have put a link there, with rights that are
    // not the guest's.
    if may.may_be_exchanged(path) {
        return without(
            "a guest's source in a folder that is offered for writing, but that itself",
        );
    }
    if within.covered.iter().any(|covered| path.join(covered).exists()) {
        return without(
            "a folder around files of the server, or of the node's kernel and services",
        );
    }
    Ok(())
}

fn is_device(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    let kind = path.metadata().map(|found| found.file_type());
    kind.is_ok_and(|kind| kind.is_char_device() || kind.is_block_device())
}

/// No place of a mount may be behind a link.
pub(crate) fn check_places(
    tree: &Path,
    container: &Container,
    missing: Missing,
) -> Result<(), LaunchError> {
    let own = ["/dev", "/proc", "/sys", "/tmp"].map(Path::new);
    let binds = container.binds.iter().map(|bind| bind.target.as_path());
    for place in own.into_iter().chain(binds) {
        let target = || place.to_owned();
        match look(tree, place) {
            Looked::Link => return Err(LaunchError::LinkedTarget { target: target() }),
            Looked::Missing if missing == Missing::Refused && !is_in_memory(container, place) => {
                return Err(LaunchError::MissingTarget { target: target() });
            }
            Looked::There | Looked::Missing => {}
        }
    }
    check_directory(tree, container, missing)
}

/// A working directory that is not there would be made, too.
fn check_directory(
    tree: &Path,
    container: &Container,
    missing: Missing,
) -> Result<(), LaunchError> {
    let cwd = &container.cwd;
    let bound = container.binds.iter().any(|bind| cwd.starts_with(&bind.target));
    let is_made = missing == Missing::Refused && !bound && !is_in_memory(container, cwd);
    if is_made && look(tree, cwd) == Looked::Missing {
        return Err(LaunchError::NoDirectory { cwd: cwd.clone() });
    }
    Ok(())
}

/// Whether a place lies in the container's own memory, where it may be made.
fn is_in_memory(container: &Container, place: &Path) -> bool {
    let own_tmp = matches!(container.tmp, WritableSpace::Memory(_));
    place.starts_with("/dev") || (own_tmp && place.starts_with("/tmp"))
}

/// A place below an earlier bind must be there: it would be made on the node.
fn check_nested(container: &Container) -> Result<(), LaunchError> {
    for (index, bind) in container.binds.iter().enumerate() {
        for above in &container.binds[..index] {
            let Ok(below) = bind.target.strip_prefix(&above.target) else { continue };
            if look(&above.source, &Path::new("/").join(below)) != Looked::There {
                return Err(LaunchError::MissingTarget { target: bind.target.clone() });
            }
        }
    }
    Ok(())
}

/// Is the program there? Says its version, or how to get it.
pub(crate) fn check_program(what: &'static str, program: &Path, fix: &str) -> Finding {
    let found = Command::new(program).arg("--version").output();
    let version = found.ok().filter(|output| output.status.success());
    let version = version.and_then(|output| String::from_utf8(output.stdout).ok());
    match version.as_deref().and_then(|text| text.lines().next()) {
        Some(line) => Finding::good(what, line),
        None => Finding::bad(what, format!("{} does not run", program.display()), what, fix),
    }
}
