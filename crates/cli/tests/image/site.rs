//! A server with its pilot, and a tree with nothing but busybox. Everything runs as an ordinary
//! user: where the tests are root, as `nobody`.

use crate::common::{cannot, copy_program, wait_for};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

pub(crate) const NOBODY: u32 = 65_534;

/// A server and its pilot, and a tree with nothing but busybox.
pub(crate) struct Site {
    dir: tempfile::TempDir,
    program: PathBuf,
    server: Child,
    runtime: String,
    /// What `--runtime` was told.
    told: String,
}

/// Where it is installed, by whom ever: it is not in Debian's stable release.
const APPTAINERS: [&str; 2] = ["/usr/bin/apptainer", "/opt/apptainer/bin/apptainer"];

/// Some versions of crun refuse nodes with both versions of cgroups, whatever they are asked to
/// do with them. So in a mount namespace of its own there is only one.
const ONE_KIND_OF_CGROUPS: &str =
    "umount -R /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup; exec \"$@\"";

/// The runtimes that can be tried here, as `--runtime` is told of them. Our own comes first.
pub(crate) fn runtimes() -> Vec<String> {
    let mut found = vec!["native".to_string()];
    // Only root can take away what it does not want to see.
    if Path::new("/usr/bin/crun").exists() && rustix::process::geteuid().is_root() {
        found.push("crun".into());
    } else {
        cannot("crun is not installed, or this is not root");
    }
    if let Some(program) = APPTAINERS.iter().find(|program| Path::new(program).exists()) {
        found.push(format!("apptainer={program}"));
    } else {
        cannot("apptainer is not installed");
    }
    found
}

/// The same with every runtime.
pub(crate) fn with_each_runtime(check: impl Fn(&Site)) {
    for runtime in runtimes() {
        println!("with {runtime}:");
        check(&Site::start_with(ordinary(), &["--runtime", &runtime]));
    }
}

/// Whether accounts can be changed to: what root's server does for others is tried by root.
pub(crate) fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        cannot("only root can change to other accounts");
    }
    is_root
}

/// Whom everything runs as, where that must not be root.
pub(crate) fn ordinary() -> Option<u32> {
    rustix::process::geteuid().is_root().then_some(NOBODY)
}

impl Site {
    pub(crate) fn start() -> Site {
        Self::start_as(ordinary())
    }

    /// Only one folder of the node may be bound.
    pub(crate) fn start_offering(folder: &str) -> Site {
        Self::start_with(ordinary(), &["--runtime", "native", "--binds", folder])
    }

    pub(crate) fn start_as(user: Option<u32>) -> Site {
        Self::start_with(user, &[])
    }

    pub(crate) fn start_with(user: Option<u32>, options: &[&str]) -> Site {
        let dir = tempfile::Builder::new().prefix("shipway-image-").tempdir().expect("a directory");
        let open = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(dir.path(), open).expect("opened");
        let home = dir.path().join("home");
        std::fs::create_dir(&home).expect("a home");
        if let Some(user) = user {
            std::os::unix::fs::chown(&home, Some(user), Some(user)).expect("given away");
        }
        let program = dir.path().join("shipway");
        copy_program(&program);
        tree(&dir.path().join("tree"));
        if let Some(user) = user {
            let mut give = Command::new("chown");
            give.args(["-R", &format!("{user}:{user}")]).arg(dir.path().join("tree"));
            assert!(give.status().expect("chown").success());
        }
        let told = options.iter().skip_while(|word| **word != "--runtime").nth(1);
        let told = told.map_or("native", |told| *told).to_string();
        let runtime = told.split('=').next().unwrap_or(&told).to_string();
        let server = up(&program, &home, user, options);
        Site { dir, program, server, runtime, told }
    }

    /// Another server in its place.
    pub(crate) fn restart(&mut self, options: &[&str]) {
        self.restart_by(&[], options);
    }

    /// The same, started by another program.
    pub(crate) fn restart_by(&mut self, by: &[&str], options: &[&str]) {
        self.stop();
        self.server = up_by(self.command_by(by), &self.path("home"), options);
    }

    /// The program as the owner of the server starts it, by another one.
    pub(crate) fn command_by(&self, by: &[&str]) -> Command {
        let (home, user) = (self.path("home"), self.user());
        let Some((first, rest)) = by.split_first() else {
            return command(&self.program, &home, user);
        };
        let mut command = command(Path::new(first), &home, user);
        command.args(rest).arg(&self.program);
        command
    }

    fn stop(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.server);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let _ = self.server.wait();
    }

    /// Whose home it is, if that is somebody else.
    pub(crate) fn user(&self) -> Option<u32> {
        let home = std::fs::metadata(self.path("home")).expect("a home");
        let owner = std::os::unix::fs::MetadataExt::uid(&home);
        (owner != rustix::process::geteuid().as_raw()).then_some(owner)
    }

    /// The name of the account that the server runs under.
    pub(crate) fn account(&self) -> String {
        let mut id = command(Path::new("/usr/bin/id"), &self.path("home"), self.user());
        String::from_utf8(id.arg("-un").output().expect("id").stdout).expect("text").trim().into()
    }

    /// By which containers are made.
    pub(crate) fn runtime(&self) -> &str {
        &self.runtime
    }

    /// The same, as `--runtime` was told of it.
    pub(crate) fn runtime_option(&self) -> &str {
        &self.told
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn shipway(&self, args: &[&str]) -> Output {
        let mut command = command(&self.program, &self.path("home"), self.user());
        command.args(args).output().expect("started")
    }

    /// The program, as somebody else than the owner of the server.
    pub(crate) fn with_token(&self, token: &str) -> Command {
        let mut command = command(&self.program, &self.path("home"), None);
        command.env("SHIPWAY_TOKEN", token);
        command
    }

    /// Runs something in a folder of its own.
    pub(crate) fn words(&self, words: &[&str]) -> (i32, String, String) {
        let done = self.shipway(&[&["run", "--workdir", "private"], words].concat());
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (done.status.code().unwrap_or(-1), text(&done.stdout), text(&done.stderr))
    }

    /// Runs a line of shell on the tree.
    pub(crate) fn on_tree(&self, options: &[&str], line: &str) -> (i32, String, String) {
        let image = format!("dir:{}", self.path("tree").display());
        self.run(&image, options, &["sh", "-c", line])
    }

    pub(crate) fn run(
        &self,
        image: &str,
        options: &[&str],
        words: &[&str],
    ) -> (i32, String, String) {
        self.words(&[&["--image", image], options, &["--"], words].concat())
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A pilot beside a server that has none, started by whoever runs the tests.
pub(crate) struct Pilot(Child);

impl Pilot {
    pub(crate) fn start(site: &Site, options: &[&str]) -> Pilot {
        let said = site.shipway(&["token", "pilot"]);
        let token = site.path("pilot-token");
        std::fs::write(&token, said.stdout).expect("written");
        let file = std::fs::read_to_string(site.path("home/server.json")).expect("a server");
        let file: serde_json::Value = serde_json::from_str(&file).expect("JSON");
        let mut pilot = command(&site.program, &site.path("home"), None);
        pilot.args(["pilot", "--server", file["url"].as_str().expect("an address")]);
        pilot.arg("--dir").arg(site.path("pilot")).arg("--token-file").arg(token).args(options);
        Pilot(pilot.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("started"))
    }

    pub(crate) fn stop(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.0);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let _ = self.0.wait();
    }
}

impl Drop for Pilot {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Whether other people are guests of the account that servers run under here. As root the tests
/// take one without subordinate ids; whoever runs them otherwise may have some.
pub(crate) fn has_guests() -> bool {
    if rustix::process::geteuid().is_root() {
        return true;
    }
    let name = crate::common::own_account();
    let given = std::fs::read_to_string("/etc/subuid").unwrap_or_default();
    let has_guests = !given.lines().any(|line| line.split(':').next() == Some(&*name));
    if !has_guests {
        cannot("a user without subordinate ids, to have guests");
    }
    has_guests
}

/// A user with a token of their own.
pub(crate) fn add_user(site: &Site, name: &str) -> String {
    assert!(site.shipway(&["user", "add", name]).status.success());
    let made = site.shipway(&["token", "new", "--user", name]);
    String::from_utf8(made.stdout).expect("text").trim().to_string()
}

fn up(program: &Path, home: &Path, user: Option<u32>, options: &[&str]) -> Child {
    let up = if options.contains(&"crun") {
        let mut up = command(Path::new("/usr/bin/unshare"), home, None);
        up.args(["--mount", "sh", "-c", ONE_KIND_OF_CGROUPS, "sh"]);
        if let Some(user) = user {
            up.args(["setpriv", &format!("--reuid={user}"), &format!("--regid={user}")]);
            up.arg("--clear-groups");
        }
        up.arg(program);
        up
    } else {
        command(program, home, user)
    };
    up_by(up, home, options)
}

fn up_by(mut up: Command, home: &Path, options: &[&str]) -> Child {
    up.args(["up", "--listen", "127.0.0.1:0"]).args(options);
    // Where the tests' registries are.
    up.env("SHIPWAY_PRIVATE_REGISTRIES", "127.0.0.1");
    let server = up.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("started");
    wait_for("the server is up", || home.join("server.json").exists());
    server
}

pub(crate) fn command(program: &Path, home: &Path, user: Option<u32>) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", home).current_dir(home);
    command.env("SHIPWAY_HOME", home).stdin(Stdio::null());
    if let Some(user) = user {
        command.uid(user).gid(user);
    }
    command
}

fn tree(root: &Path) {
    for dir in ["bin", "etc", "proc", "sys", "dev", "tmp"] {
        std::fs::create_dir_all(root.join(dir)).expect("a directory");
    }
    std::fs::copy("/bin/busybox", root.join("bin/busybox")).expect("busybox-static is installed");
    for name in ["sh", "ls", "ps", "cat", "id", "sleep", "touch", "ifconfig", "dd"] {
        std::os::unix::fs::symlink("busybox", root.join("bin").join(name)).expect("a link");
    }
}
