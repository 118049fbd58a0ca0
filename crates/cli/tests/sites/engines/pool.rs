//! A real HTCondor pool, started and ended by `xtask/src/test/htcondor_pool.sh`: joined to this
//! machine's network and `/tmp`, so that pilots in it reach a server outside.

use super::slurm::pairs;
use super::{Engine, Held, Shared, is_wanted};
use crate::common::{World, copy_program};
use crate::ground::BOOK;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../xtask/src/test/htcondor_pool.sh");
/// What a server runs there; `sh` too, which feeds the rest.
const COMMANDS: [&str; 6] =
    ["condor_submit", "condor_q", "condor_history", "condor_rm", "condor_status", "sh"];

static SHARED: Shared<Pool> = Shared::new();

#[derive(Debug)]
pub(crate) struct Pool {
    dir: tempfile::TempDir,
}

impl Pool {
    /// `None`: it was not asked for, and that was said.
    pub(crate) fn among() -> Option<Held<Pool>> {
        SHARED.among(Pool::start)
    }

    /// For tests that stop something.
    pub(crate) fn alone() -> Option<Held<Pool>> {
        SHARED.alone(Pool::start)
    }

    fn start() -> Option<Pool> {
        if !is_wanted("SHIPWAY_TEST_HTCONDOR") {
            return None;
        }
        // What is below `/tmp` is in the pool too.
        let dir = tempfile::tempdir_in("/tmp").expect("a folder");
        open(dir.path(), 0o755);
        let pool = Pool { dir };
        let mut up = Command::new("sh");
        let up = up.args([SCRIPT, "up"]).arg(pool.dir.path()).arg("joined").status();
        assert!(up.expect("sh starts").success(), "no pool came up");
        copy_program(&pool.program());
        std::fs::create_dir(pool.commands()).expect("made");
        for name in COMMANDS {
            pool.command(name);
        }
        Some(pool)
    }

    /// Where jobs find the program.
    pub(crate) fn program(&self) -> PathBuf {
        self.dir.path().join("shipway")
    }

    /// A folder of commands that are run on the pool's side, as a user of the pool.
    pub(crate) fn commands(&self) -> PathBuf {
        self.dir.path().join("commands")
    }

    fn command(&self, name: &str) {
        let (dir, file) = (self.dir.path().display(), self.commands().join(name));
        let text = format!(
            "#!/bin/sh\nPATH=/usr/sbin:/usr/bin:/sbin:/bin\n\
             exec /bin/sh {SCRIPT} in {dir} -u tester {name} \"$@\"\n"
        );
        std::fs::write(&file, text).expect("written");
        open(&file, 0o755);
    }

    /// What a user or `root` of the pool would type.
    pub(crate) fn type_in(&self, user: &str, line: &str) -> String {
        let mut sh = Command::new("sh");
        sh.args([SCRIPT, "in"]).arg(self.dir.path()).args(["-u", user, "sh", "-c", line]);
        let output = sh.output().expect("sh");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{line}: {said}");
        String::from_utf8(output.stdout).expect("text").trim().to_owned()
    }
}

impl Engine for Pool {
    fn queue(&self) -> Vec<String> {
        let all = self.type_in("root", "condor_q -allusers -af ShipwayAllocation");
        all.lines().map(str::to_owned).collect()
    }

    fn history(&self) -> Vec<(String, String)> {
        pairs(&self.type_in("root", "condor_history -af ShipwayAllocation JobStatus ExitCode"))
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let down = Command::new("sh").args([SCRIPT, "down"]).arg(self.dir.path()).status();
        assert!(down.is_ok_and(|status| status.success()) || std::thread::panicking());
    }
}

fn open(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("it is ours");
}

/// Jobs of the pool run as another user, who works in this world too.
pub(crate) fn open_to_the_pool(world: &World) {
    let work = world.work();
    assert!(work.starts_with("/tmp"), "TMPDIR must be below /tmp, which the pool has too");
    open(work.parent().expect("a folder"), 0o755);
    open(&work, 0o777);
    let book = work.join(BOOK);
    std::fs::write(&book, "").expect("written");
    open(&book, 0o666);
}
