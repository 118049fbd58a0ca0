//! A busybox tree, some directories, and a way to run a container and see what it said.

use shipway_runtime::Runtime;
use shipway_runtime::native::{Helper, Keeper};
use shipway_runtime::plan::{Container, Root, User};
use shipway_runtime::report::{Ending, NotStarted, Why};
use shipway_runtime::runtime::{After, LaunchError};
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

/// The account of nobody in particular.
pub(crate) const NOBODY: u32 = 65534;

pub(crate) struct Site<'a> {
    pub(crate) runtime: &'a dyn Runtime,
    pub(crate) helper: Arc<Helper>,
    /// Where people are kept apart, tasks are those of one of them.
    pub(crate) keeper: Option<Arc<Keeper>>,
    dir: tempfile::TempDir,
    state: PathBuf,
}

pub(crate) struct Outcome {
    pub(crate) ending: Ending,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl<'a> Site<'a> {
    /// `state` is where the runtime keeps what it needs while containers run.
    pub(crate) fn new(
        runtime: &'a dyn Runtime,
        helper: Arc<Helper>,
        keeper: Option<Arc<Keeper>>,
        state: &Path,
    ) -> Self {
        let dir = tempfile::tempdir().unwrap();
        open_to_all(dir.path());
        let site = Self { runtime, helper, keeper, dir, state: state.to_owned() };
        busybox_tree(&site.tree());
        site
    }

    pub(crate) fn state(&self) -> &Path {
        &self.state
    }

    pub(crate) fn tree(&self) -> PathBuf {
        self.dir.path().join("tree")
    }

    /// A tree of its own, for a case that changes it.
    pub(crate) fn other_tree(&self, name: &str) -> PathBuf {
        let tree = self.dir.path().join(name);
        busybox_tree(&tree);
        tree
    }

    /// A tree of its own that belongs to the task's user.
    pub(crate) fn own_tree(&self, name: &str) -> PathBuf {
        let tree = self.other_tree(name);
        let owner = format!("{NOBODY}:{NOBODY}");
        if rustix::process::geteuid().is_root() {
            let changed = Command::new("chown").args(["-R", &owner]).arg(&tree).status();
            assert!(changed.unwrap().success());
        }
        tree
    }

    /// A new directory that belongs to the task's user.
    pub(crate) fn directory(&self, name: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        fs::create_dir(&path).unwrap();
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&path, Some(NOBODY), Some(NOBODY)).unwrap();
        }
        if self.keeper.is_some() {
            // The caller cannot give it away by itself; then it is everybody's.
            fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
        }
        path
    }

    /// A container that runs a script in the shared tree.
    pub(crate) fn script(&self, script: &str) -> Container {
        self.command(&["sh", "-c", script])
    }

    pub(crate) fn command(&self, argv: &[&str]) -> Container {
        let argv = argv.iter().map(|&arg| arg.to_owned()).collect();
        let mut container = Container::new(Root::Tree(self.tree()), argv);
        container.env.push(("PATH".into(), "/bin".into()));
        if rustix::process::geteuid().is_root() {
            container.user = Some(User { uid: NOBODY, gid: NOBODY, groups: Vec::new() });
        }
        container.person = self.keeper.as_ref().map(|_| crate::people::person(self, 1));
        container
    }

    pub(crate) fn run(&self, container: &Container) -> Outcome {
        self.run_with(container, None)
    }

    pub(crate) fn run_with(&self, container: &Container, stdin: Option<OwnedFd>) -> Outcome {
        let (child, after) = match self.try_start(container, stdin) {
            Ok(started) => started,
            Err(error) => return Outcome::not_started(&error),
        };
        let output = child.wait_with_output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Outcome {
            ending: after.ending(output.status),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }

    pub(crate) fn start(&self, container: &Container, stdin: Option<OwnedFd>) -> (Child, After) {
        self.try_start(container, stdin).expect("a container can be launched")
    }

    fn try_start(
        &self,
        container: &Container,
        stdin: Option<OwnedFd>,
    ) -> Result<(Child, After), LaunchError> {
        let (mut command, after) = self.runtime.launch(container, stdin)?.into_command();
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Ok((command.spawn().expect("the helper starts"), after))
    }

    /// What a script prints when all goes well.
    pub(crate) fn says(&self, script: &str) -> String {
        self.ok(&self.script(script))
    }

    /// All that it says, however it ends.
    pub(crate) fn ok_or_not(&self, container: &Container) -> String {
        let outcome = self.run(container);
        outcome.stdout + &outcome.stderr
    }

    pub(crate) fn ok(&self, container: &Container) -> String {
        let outcome = self.run(container);
        assert_eq!(outcome.ending, Ending::Exit(0), "{} {}", outcome.stdout, outcome.stderr);
        outcome.stdout
    }
}

impl Outcome {
    fn not_started(error: &LaunchError) -> Self {
        let told = NotStarted { why: Why::Container, message: error.to_string() };
        let ending = Ending::NotStarted(told);
        Self { ending, stdout: String::new(), stderr: String::new() }
    }

    /// Other runtimes than ours fail without saying that nothing was started.
    pub(crate) fn refusal_or_failure(&self) {
        assert_ne!(self.ending, Ending::Exit(0), "{} {}", self.stdout, self.stderr);
    }

    /// Why nothing was started.
    pub(crate) fn refusal(&self) -> &str {
        match &self.ending {
            Ending::NotStarted(told) => &told.message,
            other => panic!("it was started: {other:?} {} {}", self.stdout, self.stderr),
        }
    }
}

fn busybox_tree(tree: &Path) {
    for name in ["bin", "dev", "etc", "proc", "sys", "tmp", "var"] {
        fs::create_dir_all(tree.join(name)).unwrap();
    }
    fs::copy("/bin/busybox", tree.join("bin/busybox")).unwrap();
    let names = [
        "sh", "true", "cat", "ls", "echo", "id", "sleep", "env", "touch", "kill", "ps", "pwd",
        "hostname", "mount", "stat", "dd", "wc", "ln", "mkdir", "rm", "readlink", "umount", "ip",
        "seq", "unshare", "mknod", "chmod", "find", "grep", "test", "su", "tail", "head",
    ];
    for name in names {
        symlink("busybox", tree.join("bin").join(name)).unwrap();
    }
    fs::write(tree.join("etc/marker"), "image\n").unwrap();
}

/// Lets every user into a directory.
pub(crate) fn open_to_all(path: &Path) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Waits for a condition.
pub(crate) fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = std::time::Instant::now() + std::time::Duration::from_mins(1);
    while !holds() {
        assert!(std::time::Instant::now() < deadline, "waited in vain for {what}");
        // tidy: allow(sleep-in-test) because it is the pause between two looks
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}
