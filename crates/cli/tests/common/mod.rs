//! A world for one test: a home of its own, the real binary, and every process it started ended
//! when the test is over.
//!
//! - `World`        the home, `up`, commands
//! - `processes.rs` finding and signalling processes
//! - `http.rs`      one plain request
//! - `hanging.rs`   a file system that does not answer
//! - `terminal.rs`  a terminal to type into
//!
//! Not here: what any test checks.

#![allow(dead_code, unused_imports, reason = "every test binary uses its own part of this")]
#![allow(clippy::print_stderr, reason = "a skipped test and a failed server must be seen")]
#![allow(unreachable_pub, reason = "shared by several test binaries")]

mod hanging;
mod http;
mod processes;
mod terminal;

use serde_json::Value;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

pub use hanging::Hanging;
use processes::processes_of;
pub use processes::{children, has_word, interrupt, is_alive, kill, stop, terminate};
pub use terminal::Terminal;

/// For a machine that is busy with other tests; nothing that works comes near it.
const DEADLINE: Duration = Duration::from_mins(2);

/// Looks again and again until there is something to return.
pub fn wait_some<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + DEADLINE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "waited too long for this: {what}");
        pause(Duration::from_millis(10));
    }
}

/// What this machine cannot do is said; on the build machine it is an error.
pub fn cannot(what: &str) {
    assert!(std::env::var("CI").is_err(), "this must run in CI: {what}");
    eprintln!("skipped: {what}");
}

/// The program in another folder: where it was built, others may not be let in. Copied by another
/// process: what we have open for writing is busy for whatever another test starts meanwhile.
pub fn copy_program(to: &Path) {
    let mut copy = Command::new("cp");
    let copied = copy.arg(env!("CARGO_BIN_EXE_shipway")).arg(to).status();
    assert!(copied.expect("cp").success());
}

pub fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    wait_some(what, || holds().then_some(()));
}

/// Time that passes on purpose: between two looks, or because the test is about time.
pub fn pause(span: Duration) {
    // tidy: allow(sleep-in-test) because this is the helper that pauses between two looks
    std::thread::sleep(span);
}

/// Whether long tests do a smaller version of themselves.
pub fn quick() -> bool {
    std::env::var_os("SHIPWAY_TEST_QUICK").is_some_and(|value| value != "0")
}

/// What a command did.
#[derive(Debug, Clone)]
pub struct Ran {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

/// Tests look at what tasks leave outside of their own folders, and at the tasks themselves: so
/// tasks are plain processes here, root's too, unless a test says otherwise.
pub fn plain_tasks(arguments: &[&str]) -> Vec<String> {
    let said = |option: &str| arguments.iter().any(|word| word.starts_with(option));
    let mut options = Vec::new();
    if said("--no-pilot") {
        return options;
    }
    if !said("--default-image") {
        options.extend(["--default-image".into(), "none".into()]);
    }
    // Others' plain processes have to be allowed: as those of nobody, or of whoever tests.
    if !said("--accounts") {
        let others = if rustix::process::geteuid().is_root() { "nobody" } else { &own_account() };
        options.extend(["--accounts".into(), format!("*={others}")]);
    }
    options
}

/// For a pilot that is started by itself and knows of no owner: whoever tests runs as themselves.
pub fn as_myself() -> [String; 2] {
    let me = own_account();
    ["--accounts".into(), format!("{me}={me}")]
}

pub fn own_account() -> String {
    let said = Command::new("id").arg("-un").output().expect("id").stdout;
    String::from_utf8(said).expect("text").trim().to_owned()
}

/// A home, and at most one server on it.
#[derive(Debug)]
pub struct World {
    dir: tempfile::TempDir,
    home: PathBuf,
    server: Mutex<Option<Child>>,
    is_mounted: bool,
}

impl World {
    /// An empty home and no server.
    pub fn new() -> Self {
        let dir = tempfile::Builder::new().prefix("shipway-test-").tempdir().expect("a directory");
        let home = dir.path().join("home");
        std::fs::create_dir(dir.path().join("work")).expect("a directory");
        World { dir, home, server: Mutex::new(None), is_mounted: false }
    }

    /// With the home on a small disk of its own. `None`: mounting one needs root.
    pub fn on_small_disk(size: &str) -> Option<Self> {
        let mut world = World::new();
        std::fs::create_dir(&world.home).expect("a directory");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={size},mode=700"), "none"]);
        let mounted = mount.arg(&world.home).stderr(Stdio::null()).status();
        world.is_mounted = mounted.is_ok_and(|status| status.success());
        world.is_mounted.then_some(world)
    }

    /// With a server that is ready and its pilot.
    pub fn started() -> Self {
        let world = World::new();
        world.up();
        world
    }

    pub fn home(&self) -> &Path {
        &self.home
    }

    /// Outside of the home; where commands run, and so where tasks run.
    pub fn work(&self) -> PathBuf {
        self.dir.path().join("work")
    }

    pub fn up(&self) {
        self.up_with(&[], |_| {});
    }

    /// Starts the server, with more arguments and environment, and waits until it takes work.
    pub fn up_with(&self, arguments: &[&str], change: impl FnOnce(&mut Command)) {
        self.launch(arguments, change);
        let pid = self.server_pid();
        wait_for("the server is ready", || {
            let ended = self.server().as_mut().and_then(|child| child.try_wait().expect("a child"));
            assert!(ended.is_none(), "`up` ended: {}", self.server_log());
            self.server_file().is_some_and(|file| file["pid"] == pid) && self.is_ready()
        });
    }

    /// The same with a server that may have only so many files open.
    pub fn up_with_files(&self, files: u32) {
        let mut command = Command::new("prlimit");
        command.arg(format!("--nofile={files}:{files}")).arg(env!("CARGO_BIN_EXE_shipway"));
        command.current_dir(self.work()).env("SHIPWAY_HOME", &self.home);
        command.env_remove("SHIPWAY_URL").env_remove("SHIPWAY_TOKEN");
        let child = self.spawn_up_by(command.args(["up", "--listen", "127.0.0.1:0"]), &[], |_| {});
        assert!(self.server().replace(child).is_none(), "one server at a time");
        wait_for("the server is ready", || self.is_ready());
    }

    /// Starts the server and does not wait.
    pub fn launch(&self, arguments: &[&str], change: impl FnOnce(&mut Command)) {
        let child = self.spawn_up(arguments, change);
        assert!(self.server().replace(child).is_none(), "one server at a time");
    }

    /// For a server that is expected to refuse: its exit code and what it said.
    pub fn up_refused(&self, arguments: &[&str]) -> Ran {
        let before = self.server_log().len();
        let mut child = self.spawn_up(arguments, |_| {});
        let status = wait_some("`up` ends", || child.try_wait().expect("a child"));
        let stderr = self.server_log().split_off(before);
        Ran { code: status.code().unwrap_or(-1), stdout: String::new(), stderr }
    }

    fn spawn_up(&self, arguments: &[&str], change: impl FnOnce(&mut Command)) -> Child {
        let mut command = self.command(&["up"]);
        if !arguments.contains(&"--listen") {
            command.args(["--listen", "127.0.0.1:0"]);
        }
        self.spawn_up_by(&mut command, arguments, change)
    }

    fn spawn_up_by(
        &self,
        command: &mut Command,
        arguments: &[&str],
        change: impl FnOnce(&mut Command),
    ) -> Child {
        let log = File::options().create(true).append(true).open(self.log_file()).expect("a log");
        command.args(plain_tasks(arguments));
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        change(command);
        command.spawn().expect("the binary starts")
    }

    fn log_file(&self) -> PathBuf {
        self.dir.path().join("up.log")
    }

    /// Everything that every server of this world has said.
    pub fn server_log(&self) -> String {
        let bytes = std::fs::read(self.log_file()).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn server_file(&self) -> Option<Value> {
        let text = std::fs::read_to_string(self.home.join("server.json")).ok()?;
        serde_json::from_str(&text).ok()
    }

    /// The address of the server, from the file by which clients find it.
    pub fn url(&self) -> String {
        let file = self.server_file().expect("a server file");
        file["url"].as_str().expect("an address").to_string()
    }

    /// The owner's token, from the same file.
    pub fn token(&self) -> String {
        let file = self.server_file().expect("a server file");
        file["token"].as_str().expect("a token").to_string()
    }

    fn server(&self) -> MutexGuard<'_, Option<Child>> {
        self.server.lock().expect("no holder panics")
    }

    pub fn server_pid(&self) -> u32 {
        self.server().as_ref().expect("a server").id()
    }

    /// Ends the server with `kill -9`; the pilot lives on.
    pub fn kill_server(&self) {
        let mut child = self.server().take().expect("a server");
        child.kill().expect("a child of ours");
        child.wait().expect("a child of ours");
    }

    /// Ends the server in order and returns how it went.
    pub fn stop_server(&self) -> ExitStatus {
        let mut child = self.server().take().expect("a server");
        terminate(child.id());
        wait_some("the server ends in order", || child.try_wait().expect("a child"))
    }

    /// The guard's process, once it holds the pilot's lock.
    pub fn guard_pid(&self) -> u32 {
        wait_some("a guard", || self.guard_if_any())
    }

    /// The same, if there is one now.
    pub fn guard_if_any(&self) -> Option<u32> {
        self.pilot_processes().into_iter().find(|pid| !processes::has_word(*pid, "--inner"))
    }

    /// The pilot's process, below the guard.
    pub fn pilot_pid(&self) -> u32 {
        wait_some("a pilot", || {
            let mut inner = self.pilot_processes();
            inner.retain(|pid| processes::has_word(*pid, "--inner"));
            // A task that is just being started still has its pilot's words.
            inner.iter().find(|pid| !inner.contains(&processes::parent(**pid))).copied()
        })
    }

    /// Every process of this world: servers, guard, pilot, tasks, and commands that still run.
    pub fn processes(&self) -> Vec<u32> {
        processes_of(self.dir.path())
    }

    fn pilot_processes(&self) -> Vec<u32> {
        let dir = self.home.join("pilot");
        let dir = dir.to_str().expect("a plain path");
        let mut all = self.processes();
        all.retain(|pid| processes::has_word(*pid, "pilot") && processes::has_word(*pid, dir));
        all
    }

    /// The binary with this home, in the work directory, ready to be run.
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_shipway"));
        command.args(words).current_dir(self.work()).env("SHIPWAY_HOME", &self.home);
        command.env_remove("SHIPWAY_URL").env_remove("SHIPWAY_TOKEN");
        command
    }

    /// Runs a command to its end.
    pub fn cli(&self, words: &[&str]) -> Ran {
        let mut command = self.command(words);
        let output = command.stdin(Stdio::null()).output().expect("the binary runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ran {
            code: output.status.code().unwrap_or(-1),
            stdout: text(&output.stdout),
            stderr: text(&output.stderr),
        }
    }

    /// Runs a command that has to succeed; its standard output.
    pub fn ok(&self, words: &[&str]) -> String {
        let ran = self.cli(words);
        assert_eq!(ran.code, 0, "{words:?}: {}{}", ran.stderr, self.server_log());
        ran.stdout
    }

    /// The same with `--json`, understood.
    pub fn json(&self, words: &[&str]) -> Value {
        let text = self.ok(&[&["--json"], words].concat());
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{words:?}: {error}: {text}"))
    }

    /// `run -d …`; the id of the job.
    pub fn submit(&self, words: &[&str]) -> String {
        self.ok(&[&["run", "-d"], words].concat()).trim().to_string()
    }

    /// One request without a token; the status and the body. `None`: nobody answers.
    pub fn get(&self, path: &str) -> Option<(u16, String)> {
        let file = self.server_file()?;
        http::get(file["url"].as_str()?, path)
    }

    pub fn is_ready(&self) -> bool {
        self.get("/readyz").is_some_and(|(status, _)| status == 200)
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let server = self.server.get_mut().map(Option::take).unwrap_or_default();
        if let Some(mut server) = server {
            let _ = server.kill();
            let _ = server.wait();
        }
        let left = processes::end_all_of(self.dir.path());
        if self.is_mounted {
            let _ = Command::new("umount").arg(&self.home).status();
        }
        if std::thread::panicking() {
            eprintln!("--- the servers of this test said:\n{}", self.server_log());
        } else {
            assert!(left.is_empty(), "processes outlived their guard: {left:?}");
        }
    }
}
