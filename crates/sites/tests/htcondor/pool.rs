//! A real pool for the time of a test, and the way into it. What is in it, the script says that
//! starts it.

use shipway_sites::way::{Output, Way, WayError};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../xtask/src/test/htcondor_pool.sh");
const ROOT: &str = "/opt/shipway-htcondor/usr/bin/condor_submit";
/// On a machine that does much else.
const PATIENCE: Duration = Duration::from_mins(2);

#[derive(Debug)]
pub(crate) struct Pool {
    dir: tempfile::TempDir,
}

impl Pool {
    /// Or why this machine is not asked to have one.
    pub(crate) fn up() -> Result<Pool, &'static str> {
        if std::env::var_os("SHIPWAY_TEST_HTCONDOR").is_none() {
            return Err("SHIPWAY_TEST_HTCONDOR=1 has a real HTCondor pool asked, as root");
        }
        assert!(rustix::process::geteuid().is_root(), "a pool needs namespaces, and so root");
        assert!(
            std::path::Path::new(ROOT).exists(),
            "no HTCondor here: run `sh xtask/src/test/htcondor.sh`"
        );
        let dir = tempfile::tempdir().expect("a folder");
        // Users of the pool go through it to their homes.
        let open = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(dir.path(), open).expect("it is ours");
        let pool = Pool { dir };
        let up = Command::new("sh").arg(SCRIPT).arg("up").arg(pool.dir.path()).status();
        assert!(up.expect("a shell").success(), "no pool came up");
        Ok(pool)
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.dir.path().join("home/tester")
    }

    pub(crate) fn way(&self, user: &'static str) -> PoolWay {
        PoolWay { dir: self.dir.path().to_path_buf(), user }
    }

    /// What a command inside says; it has to end well.
    pub(crate) fn says(&self, user: &'static str, words: &[&str]) -> String {
        let output = self.way(user).run(words, &[], PATIENCE).expect("it runs");
        let [stdout, stderr] =
            [&output.stdout, &output.stderr].map(|it| String::from_utf8_lossy(it).into_owned());
        assert_eq!(output.code, Some(0), "{words:?}: {stdout}{stderr}");
        stdout
    }

    /// Sends a signal to all daemons of that name.
    pub(crate) fn signal(&self, signal: &str, name: &str) {
        let script = format!(
            "for it in /proc/[0-9]*; do [ \"$(cat $it/comm)\" = {name} ] && \
             kill -s {signal} ${{it#/proc/}}; done; true"
        );
        self.says("root", &["sh", "-c", &script]);
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let down = Command::new("sh").arg(SCRIPT).arg("down").arg(self.dir.path()).status();
        assert!(down.is_ok_and(|status| status.success()) || thread::panicking());
    }
}

/// Runs commands as a user of the pool, with what they start ended in time.
#[derive(Debug)]
pub(crate) struct PoolWay {
    dir: PathBuf,
    user: &'static str,
}

impl Way for PoolWay {
    fn run(&self, words: &[&str], input: &[u8], within: Duration) -> Result<Output, WayError> {
        let mut command = Command::new("sh");
        command.arg(SCRIPT).arg("in").arg(&self.dir).args(["-u", self.user]).args(words);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.process_group(0).spawn();
        let program = words.first().copied().unwrap_or_default().to_string();
        let mut child =
            child.map_err(|source| WayError::NotStarted { program: program.clone(), source })?;
        let mut stdin = child.stdin.take().expect("piped");
        let input = input.to_vec();
        thread::spawn(move || stdin.write_all(&input));
        let stdout = reader(child.stdout.take().expect("piped"));
        let stderr = reader(child.stderr.take().expect("piped"));
        let Some(status) = wait(&mut child, within) else {
            return Err(WayError::TooSlow { program, within });
        };
        let [stdout, stderr] = [stdout, stderr].map(|it| it.join().expect("it reads"));
        Ok(Output { code: status.code(), stdout, stderr })
    }
}

fn reader(mut from: impl Read + Send + 'static) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut all = Vec::new();
        from.read_to_end(&mut all).expect("it reads");
        all
    })
}

/// How it ended, or `None`: it was killed, because the time was over.
fn wait(child: &mut Child, within: Duration) -> Option<ExitStatus> {
    let until = Instant::now() + within;
    while Instant::now() < until {
        if let Some(status) = child.try_wait().expect("it is ours") {
            return Some(status);
        }
        // tidy: allow(sleep-in-test) because it is between two looks
        thread::sleep(Duration::from_millis(10));
    }
    let group = rustix::process::Pid::from_child(child);
    let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    let _ = child.wait();
    None
}

/// Looks until there is something to be seen.
pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Result<T, String>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        match look() {
            Ok(found) => return found,
            Err(seen) => assert!(Instant::now() < end, "not {what}, but {seen}"),
        }
        // tidy: allow(sleep-in-test) because it is between two looks
        thread::sleep(Duration::from_millis(200));
    }
}
