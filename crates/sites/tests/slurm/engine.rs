//! A real Slurm for the tests: started by `xtask/src/test/slurm.sh`, shared by those that leave it
//! as it is, and ended with the last of them.

#![allow(clippy::print_stderr, reason = "a skipped test must be seen")]

use shipway_sites::batch::Naming;
use shipway_sites::slurm::Slurm;
use shipway_sites::way::Local;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../xtask/src/test/slurm.sh");
const LIMIT: Duration = Duration::from_mins(1);
/// A job waits its turn on a machine that has other things to do.
const PATIENCE: Duration = Duration::from_mins(4);

static SHARED: Mutex<Weak<Engine>> = Mutex::new(Weak::new());

#[derive(Debug)]
pub(crate) struct Engine {
    folder: tempfile::TempDir,
}

impl Engine {
    /// `None`: it is not there or not wanted, and that was said.
    pub(crate) fn shared() -> Option<Arc<Engine>> {
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(engine) = shared.upgrade() {
            return Some(engine);
        }
        let engine = Arc::new(Engine::own()?);
        *shared = Arc::downgrade(&engine);
        Some(engine)
    }

    /// For tests that stop something.
    pub(crate) fn own() -> Option<Engine> {
        Engine::start("slurmctld slurmd munged sinfo sbatch", &[])
    }

    /// With a database of jobs, and a controller that forgets those that have ended.
    pub(crate) fn with_accounts() -> Option<Engine> {
        let programs = "slurmctld slurmd munged sbatch sacct slurmdbd mariadbd mariadb";
        Engine::start(programs, &["accounts"])
    }

    /// With a slurmrestd, and two slices at n3.
    pub(crate) fn with_rest() -> Option<Engine> {
        Engine::start("slurmctld slurmd munged sinfo sbatch slurmrestd", &["rest slices"])
    }

    fn start(programs: &str, more: &[&str]) -> Option<Engine> {
        if !are_there(programs) {
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder");
        // Munge and other accounts have to pass.
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(folder.path(), mode).expect("opened");
        let engine = Engine { folder };
        assert!(engine.script(&["up"], more), "Slurm starts");
        Some(engine)
    }

    fn script(&self, verb: &[&str], more: &[&str]) -> bool {
        let mut sh = Command::new("sh");
        sh.arg(SCRIPT).args(verb).arg(self.dir()).args(more);
        sh.status().expect("sh starts").success()
    }

    pub(crate) fn stop_controller(&self) {
        assert!(self.script(&["controller"], &["stop"]));
    }

    pub(crate) fn start_controller(&self) {
        assert!(self.script(&["controller"], &["start"]));
    }

    pub(crate) fn dir(&self) -> PathBuf {
        self.folder.path().join("engine")
    }

    /// For what tests leave.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn vars(&self) -> Vec<(String, String)> {
        let conf = self.dir().join("slurm.conf");
        vec![("SLURM_CONF".into(), conf.to_str().expect("text").into())]
    }

    pub(crate) fn slurm(&self, server: &str) -> Slurm {
        let naming = Naming { whose: server.into() };
        Slurm::new(Box::new(Local::new(self.vars())), naming, LIMIT)
    }

    pub(crate) fn impatient(&self, server: &str, within: Duration) -> Slurm {
        let naming = Naming { whose: server.into() };
        Slurm::new(Box::new(Local::new(self.vars())), naming, within)
    }

    /// A command that is not ours: what an operator or somebody else would type.
    pub(crate) fn type_in(&self, line: &str) -> String {
        let mut sh = Command::new("sh");
        let output = sh.args(["-c", line]).envs(self.vars()).output().expect("sh starts");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{line}: {stderr}");
        String::from_utf8(output.stdout).expect("text").trim().to_string()
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.script(&["down"], &[]);
    }
}

/// It takes a wish: it starts six daemons as root. Who wishes for it is told what is missing.
fn are_there(programs: &str) -> bool {
    if std::env::var_os("SHIPWAY_TEST_SLURM").is_none() {
        eprintln!("skipped: a real Slurm is started with SHIPWAY_TEST_SLURM=1 only");
        return false;
    }
    // `command -v` of several is content with one of them.
    let proof = format!("for it in {programs}; do command -v $it || exit 1; done");
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    let found = Command::new("sh").args(["-c", &proof]).env("PATH", path).output();
    let found = found.is_ok_and(|output| output.status.success());
    let is_root = rustix::process::geteuid().is_root();
    assert!(found && is_root, "of {programs} something is missing, or this is not root");
    true
}

/// Looks until something is so.
pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "never came: {what}");
        // tidy: allow(sleep-in-test) because it is the pause between two looks
        std::thread::sleep(Duration::from_millis(200));
    }
}
