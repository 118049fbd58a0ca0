//! A real Slurm, started and ended by `xtask/src/test/slurm.sh`.

use super::{Engine, Held, Shared, is_wanted};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../xtask/src/test/slurm.sh");

static SHARED: Shared<Slurm> = Shared::new();

#[derive(Debug)]
pub(crate) struct Slurm {
    folder: tempfile::TempDir,
}

impl Slurm {
    /// `None`: it was not asked for, and that was said.
    pub(crate) fn among() -> Option<Held<Slurm>> {
        SHARED.among(|| Slurm::start(&[]))
    }

    /// For tests that stop something.
    pub(crate) fn alone() -> Option<Held<Slurm>> {
        SHARED.alone(|| Slurm::start(&[]))
    }

    /// One that nobody else has.
    pub(crate) fn own() -> Option<Slurm> {
        Slurm::start(&[])
    }

    /// One that keeps accounts of what has ended, and soon forgets it otherwise.
    pub(crate) fn with_accounts() -> Option<Slurm> {
        Slurm::start(&["accounts"])
    }

    /// One with a slurmrestd, whose n3 has two slices of the kind `1g.10gb`.
    pub(crate) fn with_rest() -> Option<Slurm> {
        Slurm::start(&["rest slices"])
    }

    /// How that is reached, as a line of a site's file, with a token that is written there.
    pub(crate) fn reach_by_rest(&self, token: &Path) -> String {
        let text = self.type_in("scontrol token username=root lifespan=7200");
        std::fs::write(token, text).expect("written");
        let mode = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(token, mode).expect("closed");
        let url = std::fs::read_to_string(self.dir().join("rest/url")).expect("written");
        let (url, token) = (url.trim(), token.display());
        format!("reach: {{slurmrestd: {{url: \"{url}\", user: root, token: {token}}}}}\n")
    }

    fn start(more: &[&str]) -> Option<Slurm> {
        if !is_wanted("SHIPWAY_TEST_SLURM") {
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder");
        // Munge and other accounts have to pass.
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(folder.path(), mode).expect("opened");
        let slurm = Slurm { folder };
        slurm.script(&["up"], more);
        Some(slurm)
    }

    pub(crate) fn dir(&self) -> PathBuf {
        self.folder.path().join("engine")
    }

    pub(crate) fn conf(&self) -> String {
        self.dir().join("slurm.conf").to_str().expect("text").to_owned()
    }

    fn script(&self, verb: &[&str], more: &[&str]) {
        let mut sh = Command::new("sh");
        let status = sh.arg(SCRIPT).args(verb).arg(self.dir()).args(more).status();
        assert!(status.expect("sh starts").success(), "{verb:?}");
    }

    /// Starts or stops the controller.
    pub(crate) fn controller(&self, what: &str) {
        self.script(&["controller"], &[what]);
    }

    /// What the database of jobs says of them, by name and state.
    pub(crate) fn accounts(&self) -> Vec<(String, String)> {
        let line = "sacct --noheader --parsable2 --delimiter=' ' --allocations \
                    --starttime=now-1days --format=JobName,State";
        pairs(&self.type_in(line))
    }

    /// A command that is not ours: what an operator would type.
    pub(crate) fn type_in(&self, line: &str) -> String {
        let mut sh = Command::new("sh");
        let output = sh.args(["-c", line]).env("SLURM_CONF", self.conf()).output().expect("sh");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{line}: {said}");
        String::from_utf8(output.stdout).expect("text").trim().to_owned()
    }
}

impl Engine for Slurm {
    fn queue(&self) -> Vec<String> {
        self.type_in("squeue --noheader --format=%j").lines().map(str::to_owned).collect()
    }

    fn history(&self) -> Vec<(String, String)> {
        pairs(&self.type_in("squeue --noheader --states=all --format='%j %T'"))
    }
}

/// Lines of two words, the second of which may be several.
pub(super) fn pairs(text: &str) -> Vec<(String, String)> {
    let pair = |line: &str| {
        let (name, rest) = line.split_once(' ').expect("two words");
        (name.to_owned(), rest.to_owned())
    };
    text.lines().map(pair).collect()
}

impl Drop for Slurm {
    fn drop(&mut self) {
        self.script(&["down"], &[]);
    }
}
