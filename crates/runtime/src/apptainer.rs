//! Apptainer: for sites that allow nothing else.
//!
//! Everything is said by arguments, except the environment, which goes by variables: arguments can
//! be read by everybody. Its exit code is the task's, or 128 and a signal.

use crate::bundle::{Bundle, Bundles, LAYER};
use crate::foreign::{
    Missing, check_places, check_program, launch, looking_at_tree, refuse_what_none_can, seen,
};
use crate::mount_table::{TABLE, unescaped};
use crate::native::{Helper, Start};
use crate::plan::{Bind, Container, Network, Root, Shown, WritableSpace};
use crate::runtime::{After, Finding, Launch, LaunchError, Runtime};
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const NAME: &str = "apptainer";

/// Exit codes above it are signals.
const SIGNAL_BASE: i32 = 128;

/// Variables with this before their name are the task's, without it.
const VARIABLE_PREFIX: &str = "APPTAINERENV_";

/// Places it mounts on and cannot make.
const OWN_PLACES: [&str; 5] = ["dev", "proc", "sys", "tmp", "etc"];

#[derive(Debug)]
pub struct Apptainer {
    program: PathBuf,
    bundles: Bundles,
    helper: Arc<Helper>,
}

impl Apptainer {
    /// `directory` must be on a local file system and belong to whoever starts containers.
    pub fn new(
        program: impl Into<PathBuf>,
        directory: impl Into<PathBuf>,
        helper: Arc<Helper>,
    ) -> Self {
        Self { program: program.into(), bundles: Bundles::new(directory.into()), helper }
    }

    /// Where it finds the image, and a layer for images that lack what every container needs, as
    /// those with one program do.
    fn prepare(&self, container: &Container) -> Result<Prepared, LaunchError> {
        let without = |feature| Err(LaunchError::Unsupported { runtime: NAME, feature });
        let Root::Tree(tree) = &container.root else {
            return without("the node's own tree as root");
        };
        let bundle = self.bundles.make()?;
        let (tree_seen, shown) = seen(tree, container, &bundle)?;
        let has = |name: &&str| tree.join(name).is_dir();
        let is_complete = looking_at_tree(container, || OWN_PLACES.iter().all(has))?;
        if is_complete || !matches!(container.scratch, Some(WritableSpace::Memory(_))) {
            bundle.give_to(container.user.as_ref())?;
            return Ok(Prepared { bundle, tree: tree_seen, shown, has_layer: false });
        }
        // Apart from what is mounted in the bundle.
        let layer = bundle.path().join(LAYER);
        let made = OWN_PLACES
            .iter()
            .try_for_each(|name| std::fs::create_dir_all(layer.join("upper").join(name)));
        let made = made.and_then(|()| std::fs::create_dir(layer.join("work")));
        made.map_err(|source| LaunchError::Bundle { dir: bundle.path().to_owned(), source })?;
        bundle.give_to(container.user.as_ref())?;
        Ok(Prepared { bundle, tree: tree_seen, shown, has_layer: true })
    }
}

/// What lies beside the arguments.
struct Prepared {
    bundle: Bundle,
    tree: PathBuf,
    shown: Option<Shown>,
    has_layer: bool,
}

impl Runtime for Apptainer {
    fn name(&self) -> &'static str {
        NAME
    }

    fn check(&self) -> Vec<Finding> {
        vec![check_program(NAME, &self.program, "install apptainer, or use another runtime")]
    }

    fn launch(&self, container: &Container, stdin: Option<OwnedFd>) -> Result<Launch, LaunchError> {
        container.validate()?;
        let mut argv = vec![self.program.clone().into_os_string()];
        refuse_what_it_cannot(container)?;
        let prepared = self.prepare(container)?;
        argv.extend(arguments(container, &prepared)?);
        let start = Start { argv, env: environment(container), stdin };
        let launch = launch(&self.helper, container, prepared.shown, start)?;
        let after =
            After { bundle: Some(prepared.bundle), signal_base: Some(SIGNAL_BASE), ..launch.after };
        Ok(Launch { after, ..launch })
    }
}

fn environment(container: &Container) -> Vec<(OsString, OsString)> {
    let own = [("PATH".into(), "/usr/sbin:/usr/bin:/sbin:/bin".into())];
    let tasks = container.env.iter();
    let tasks =
        tasks.map(|(name, value)| (format!("{VARIABLE_PREFIX}{name}").into(), value.into()));
    own.into_iter().chain(tasks).collect()
}

fn refuse_what_it_cannot(container: &Container) -> Result<(), LaunchError> {
    let without = |feature| Err(LaunchError::Unsupported { runtime: NAME, feature });
    let Root::Tree(tree) = &container.root else { return without("the node's own tree as root") };
    if !container.hidden.is_empty() {
        return without("hidden paths");
    }
    refuse_what_none_can(NAME, container)?;
    looking_at_tree(container, || check_places(tree, container, Missing::Fine))?
}

fn arguments(container: &Container, prepared: &Prepared) -> Result<Vec<OsString>, LaunchError> {
    let layer = prepared.has_layer.then(|| prepared.bundle.path().join(LAYER));
    let mut words: Vec<OsString> = ["--silent", "exec", "--userns", "--containall", "--cleanenv"]
        .into_iter()
        .chain(["--no-eval", "--no-privs", "--no-home", "--no-umask"])
        .map(OsString::from)
        .collect();
    let mut say = |switch: &str, value: &Path| words.extend([switch.into(), value.into()]);
    say("--pwd", &container.cwd);
    if let Some(name) = &container.hostname {
        say("--hostname", Path::new(name));
    }
    match (&container.scratch, &layer) {
        (_, Some(layer)) => say("--overlay", layer),
        (Some(WritableSpace::Directory(path)), None) => say("--overlay", path),
        (Some(WritableSpace::Memory(_)), None) => words.push("--writable-tmpfs".into()),
        (None, None) => {}
    }
    if container.network != Network::Host {
        words.extend(["--net".into(), "--network".into(), "none".into()]);
    }
    let tmp = match &container.tmp {
        WritableSpace::Directory(path) => Some(Bind::writable(path, "/tmp")),
        WritableSpace::Memory(_) => None,
    };
    // Not knowing them, it might be writable what must not be.
    let mounts = std::fs::read(TABLE).map_err(|source| LaunchError::Mounts { source })?;
    for bind in tmp.iter().chain(&container.binds) {
        words.extend(["--bind".into(), bind_word(bind)?]);
        // It makes the topmost mount of a bind read-only, and leaves those below it as they are.
        for below in mounted_below(bind, &mounts).filter(|_| !bind.writable) {
            words.extend(["--bind".into(), bind_word(&below)?]);
        }
    }
    for device in &container.devices {
        words.extend(["--bind".into(), device.into()]);
    }
    words.push(prepared.tree.clone().into());
    words.extend(container.argv.iter().map(OsString::from));
    Ok(words)
}

/// What is mounted below the source of a bind, as binds of their own.
fn mounted_below<'a>(bind: &'a Bind, mounts: &'a [u8]) -> impl Iterator<Item = Bind> + 'a {
    /// Where a line of the kernel's table of mounts says where.
    const PLACE: usize = 4;
    let lines = mounts.split(|byte| *byte == b'\n');
    let places = lines.filter_map(|line| line.split(|byte| *byte == b' ').nth(PLACE));
    places.filter_map(|place| {
        let place = unescaped(place);
        let below = place.strip_prefix(&bind.source).ok()?;
        let is_below = !below.as_os_str().is_empty();
        is_below.then(|| Bind::read_only(&place, bind.target.join(below)))
    })
}

/// Source, place and access in one word; what separates them may not be part of them.
fn bind_word(bind: &Bind) -> Result<OsString, LaunchError> {
    let separates =
        |path: &Path| path.as_os_str().as_encoded_bytes().iter().any(|b| b":,\\".contains(b));
    if separates(&bind.source) || separates(&bind.target) {
        let feature = "paths with a colon, a comma or a backslash";
        return Err(LaunchError::Unsupported { runtime: NAME, feature });
    }
    let mut word = OsString::from(&bind.source);
    word.push(":");
    word.push(&bind.target);
    word.push(if bind.writable { ":rw" } else { ":ro" });
    Ok(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_be_read_as_something_else_is_refused() {
        let word = bind_word(&Bind::read_only("/a b", "/c")).unwrap();
        assert_eq!(word, "/a b:/c:ro");
        for path in ["/a:b", "/a,b", "/a\\b"] {
            assert!(bind_word(&Bind::writable(path, "/c")).is_err(), "{path}");
            assert!(bind_word(&Bind::writable("/c", path)).is_err(), "{path}");
        }
    }

    #[test]
    fn what_is_mounted_below_is_bound_too() {
        let mounts = br"1 0 8:1 / / rw - ext4 x rw
2 1 0:5 / /dev rw - devtmpfs x rw
3 2 0:6 / /dev/shm rw - tmpfs x rw
4 1 0:7 / /device rw - tmpfs x rw
5 1 0:8 / /my\040data/of\040it rw - tmpfs x rw
";
        let rows =
            [("/dev", "/dev/shm", "/var/in/shm"), ("/my data", "/my data/of it", "/var/in/of it")];
        for (source, mount, place) in rows {
            let bind = Bind::read_only(source, "/var/in");
            let below: Vec<Bind> = mounted_below(&bind, mounts).collect();
            assert_eq!(below, [Bind::read_only(mount, place)]);
        }
    }

    #[test]
    fn secrets_are_no_arguments() {
        let mut container = Container::new(Root::Tree("/x".into()), vec!["true".into()]);
        container.env.push(("TOKEN".into(), "secret".into()));
        let env = environment(&container);
        assert!(env.contains(&("APPTAINERENV_TOKEN".into(), "secret".into())));
    }
}
