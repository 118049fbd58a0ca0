//! Any OCI runtime, `crun` first: for sites that trust what their distribution brings.
//!
//! The plan becomes a bundle, a directory with `config.json` and, for a writable root, what it is
//! made of (`root.rs`). Where the root is read-only, every place that something is mounted on
//! must be in the image: the runtime would make it there.

mod root;

use crate::bundle::{Bundle, Bundles};
use crate::foreign::{
    Missing, check_places, check_program, launch, looking_at_tree, refuse_what_none_can, seen,
};
use crate::native::{Helper, KEEPS_PIPES, SENDS_FILES, Start, TERMINAL_INPUT, refused_calls};
use crate::plan::{Bind, Container, Network, Root, Shown, WritableSpace};
use crate::rights::with_rights_of;
use crate::runtime::{After, Finding, Launch, LaunchError, Runtime};
use rustix::fs::{FileType, stat};
use rustix::process::{getegid, geteuid};
use serde_json::{Value, json};
use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const NAME: &str = "crun";

/// Exit codes above it are signals.
const SIGNAL_BASE: i32 = 128;

/// Where in a bundle the runtime keeps its own state.
const STATE: &str = "state";

/// Paths nobody inside needs to see.
const MASKED: [&str; 12] = [
    "/proc/acpi",
    "/proc/asound",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/sys/devices/virtual/powercap",
    "/sys/firmware",
    "/sys/fs/selinux",
];

const READ_ONLY: [&str; 5] =
    ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

#[derive(Debug)]
pub struct Crun {
    program: PathBuf,
    /// Bundles and the runtime's own state.
    bundles: Bundles,
    helper: Arc<Helper>,
}

/// A bundle, and a tree that has to be shown in it.
type BundleWithTree = (Bundle, Option<Shown>);

impl Crun {
    /// `directory` must be on a local file system and belong to whoever starts containers.
    pub fn new(
        program: impl Into<PathBuf>,
        directory: impl Into<PathBuf>,
        helper: Arc<Helper>,
    ) -> Self {
        Self { program: program.into(), bundles: Bundles::new(directory.into()), helper }
    }

    fn write_bundle(&self, container: &Container) -> Result<BundleWithTree, LaunchError> {
        let bundle = self.bundles.make()?;
        let failed = |source| LaunchError::Bundle { dir: bundle.path().to_owned(), source };
        let tree = tree(container);
        let (lower, shown) = seen(tree, container, &bundle)?;
        let root = root::make(tree, &lower, container, bundle.path())?;
        std::fs::create_dir(bundle.path().join(STATE)).map_err(failed)?;
        let mut options = File::options();
        let file = options.write(true).create_new(true).mode(0o600);
        let mut file = file.open(bundle.path().join("config.json")).map_err(failed)?;
        file.write_all(config(container, &root)?.to_string().as_bytes()).map_err(failed)?;
        bundle.give_to(container.user.as_ref())?;
        Ok((bundle, shown))
    }
}

impl Runtime for Crun {
    fn name(&self) -> &'static str {
        NAME
    }

    fn check(&self) -> Vec<Finding> {
        let fix = "install the package crun, or name another OCI runtime";
        vec![check_program("OCI runtime", &self.program, fix)]
    }

    fn launch(&self, container: &Container, stdin: Option<OwnedFd>) -> Result<Launch, LaunchError> {
        container.validate()?;
        refuse_what_it_cannot(container)?;
        let (bundle, shown) = self.write_bundle(container)?;
        let root = bundle.path().join(STATE);
        let mut argv = vec![self.program.clone().into_os_string()];
        argv.extend(["--cgroup-manager=disabled".into(), "--root".into(), root.into()]);
        argv.extend(["run".into(), "--bundle".into(), bundle.path().into()]);
        argv.push(bundle.name().into());
        let env = vec![("PATH".into(), "/usr/bin:/bin".into())];
        let launch = launch(&self.helper, container, shown, Start { argv, env, stdin })?;
        let after = After { bundle: Some(bundle), signal_base: Some(SIGNAL_BASE), ..launch.after };
        Ok(Launch { after, ..launch })
    }
}

fn refuse_what_it_cannot(container: &Container) -> Result<(), LaunchError> {
    let without = |feature| Err(LaunchError::Unsupported { runtime: NAME, feature });
    let Root::Tree(tree) = &container.root else { return without("the node's own tree as root") };
    let missing = match container.scratch {
        // It would make them in the image.
        None => Missing::Refused,
        Some(WritableSpace::Memory(_)) if root::is_plain(tree) => Missing::Fine,
        Some(WritableSpace::Memory(_)) => {
            return without("an image in a path with a colon or a comma");
        }
        Some(WritableSpace::Directory(_)) => {
            return without("a directory for what is written to its root");
        }
    };
    refuse_what_none_can(NAME, container)?;
    looking_at_tree(container, || check_places(tree, container, missing))?
}

fn tree(container: &Container) -> &Path {
    let Root::Tree(tree) = &container.root else { unreachable!("refused before") };
    tree
}

fn config(container: &Container, root: &root::Root) -> Result<Value, LaunchError> {
    let own = || (geteuid().as_raw(), getegid().as_raw());
    let (uid, gid) = container.user.as_ref().map_or_else(own, |user| (user.uid, user.gid));
    let env: Vec<String> =
        container.env.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let mut namespaces = vec!["pid", "ipc", "uts", "mount", "user", "cgroup"];
    if container.network != Network::Host {
        namespaces.push("network");
    }
    let namespaces: Vec<Value> = namespaces.iter().map(|kind| json!({"type": kind})).collect();
    let mut masked: Vec<&Path> = MASKED.iter().map(Path::new).collect();
    masked.extend(container.hidden.iter().chain(&root.masked).map(PathBuf::as_path));
    let none: [&str; 0] = [];
    // The account finds them with its own rights, and so do we.
    let mounts = with_rights_of(container.user.as_ref(), || mounts(container));
    let mounts = mounts.map_err(LaunchError::Rights)??;
    Ok(json!({
        "ociVersion": "1.0.2",
        "hostname": container.hostname.as_deref().unwrap_or("shipway"),
        "root": {"path": root.path, "readonly": root.read_only},
        "process": {
            "terminal": false,
            "user": {"uid": uid, "gid": gid},
            "args": container.argv,
            "env": env,
            "cwd": container.cwd,
            "noNewPrivileges": true,
            "capabilities": {"bounding": none, "effective": none, "permitted": none,
                "inheritable": none, "ambient": none},
        },
        "mounts": root.mounts.iter().cloned().chain(mounts).collect::<Vec<_>>(),
        "linux": {
            "uidMappings": [{"containerID": uid, "hostID": uid, "size": 1}],
            "gidMappings": [{"containerID": gid, "hostID": gid, "size": 1}],
            "namespaces": namespaces,
            "maskedPaths": masked,
            "readonlyPaths": READ_ONLY,
            "seccomp": seccomp(),
        },
    }))
}

fn mounts(container: &Container) -> Result<Vec<Value>, LaunchError> {
    let tmp = match &container.tmp {
        WritableSpace::Memory(bytes) => {
            json!({"destination": "/tmp", "type": "tmpfs", "source": "tmpfs",
            "options": ["nosuid", "nodev", "mode=1777", format!("size={bytes}")]})
        }
        WritableSpace::Directory(path) => bind(&Bind::writable(path, "/tmp"))?,
    };
    let mut mounts = vec![
        json!({"destination": "/proc", "type": "proc", "source": "proc",
            "options": ["nosuid", "nodev", "noexec"]}),
        json!({"destination": "/dev", "type": "tmpfs", "source": "tmpfs",
            "options": ["nosuid", "mode=755"]}),
        json!({"destination": "/dev/pts", "type": "devpts", "source": "devpts",
            "options": ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"]}),
        json!({"destination": "/dev/shm", "type": "tmpfs", "source": "shm",
            "options": ["nosuid", "nodev", "mode=1777"]}),
        bind(&Bind::read_only("/sys", "/sys"))?,
        tmp,
    ];
    let devices = container.devices.iter().map(|path| {
        json!({"destination": path, "type": "bind", "source": path,
            "options": ["bind", "nosuid", "noexec"]})
    });
    mounts.extend(devices);
    for wanted in &container.binds {
        mounts.push(bind(wanted)?);
    }
    Ok(mounts)
}

fn bind(bind: &Bind) -> Result<Value, LaunchError> {
    let mut options = vec!["rbind", "nosuid", "nodev", if bind.writable { "rw" } else { "ro" }];
    // The same for what is mounted below, which a file has not. A runtime that does not know these
    // refuses. What cannot be looked at may be either.
    let failed = |source| LaunchError::Source { path: bind.source.clone(), source };
    if FileType::from_raw_mode(stat(&bind.source).map_err(failed)?.st_mode) == FileType::Directory {
        options.extend(["rnosuid", "rnodev"]);
        options.extend((!bind.writable).then_some("rro"));
    }
    let (target, source) = (&bind.target, &bind.source);
    Ok(json!({"destination": target, "type": "bind", "source": source, "options": options}))
}

fn seccomp() -> Value {
    /// The kernel looks at so many bits of a request, and so must the filter.
    const REQUEST: u64 = 0xFFFF_FFFF;
    let terminals = TERMINAL_INPUT.map(|request| {
        json!({"names": ["ioctl"], "action": "SCMP_ACT_ERRNO", "errnoRet": libc::EPERM,
            "args": [{"index": 1, "value": REQUEST, "valueTwo": request,
                      "op": "SCMP_CMP_MASKED_EQ"}]})
    });
    json!({
        "defaultAction": "SCMP_ACT_ALLOW",
        "syscalls": [
            terminals[0],
            terminals[1],
            {"names": refused_calls(), "action": "SCMP_ACT_ERRNO", "errnoRet": libc::EPERM},
            {"names": KEEPS_PIPES, "action": "SCMP_ACT_ERRNO", "errnoRet": libc::EINVAL},
            {"names": [SENDS_FILES], "action": "SCMP_ACT_ERRNO", "errnoRet": libc::EINVAL,
             "args": [{"index": 2, "value": 0, "op": "SCMP_CMP_EQ"}]},
            {"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": libc::ENOSYS},
            {"names": ["clone", "unshare"], "action": "SCMP_ACT_ERRNO", "errnoRet": libc::EPERM,
             "args": [{"index": 0, "value": libc::CLONE_NEWUSER, "valueTwo": libc::CLONE_NEWUSER,
                       "op": "SCMP_CMP_MASKED_EQ"}]},
        ],
    })
}
