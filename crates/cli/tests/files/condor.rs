//! HTCondor's own tools, as judges of a log: `condor_wait`, `condor_userlog`,
//! `condor_check_userlogs`, and the Python bindings.

use crate::common::{Ran, cannot};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A root of Debian with HTCondor in it; `xtask` installs it.
const ROOT: &str = "/opt/shipway-htcondor";

/// HTCondor asks for the address of its own machine, and waits long where nobody knows it; so the
/// machine has a name here that stands in `/etc/hosts`.
const ENTER: &str = r#"echo localhost > /proc/sys/kernel/hostname; exec chroot "$@""#;

pub(crate) struct Condor {
    /// A folder that is seen inside.
    shared: tempfile::TempDir,
    python: Option<PathBuf>,
}

impl Condor {
    /// `None`: it is not here, which was said.
    pub(crate) fn find() -> Option<Condor> {
        let is_root = rustix::process::geteuid().is_root();
        if !is_root || !Path::new(ROOT).join("usr/bin/condor_wait").exists() {
            cannot("HTCondor is not installed in its own root, or this is not root");
            return None;
        }
        let shared =
            tempfile::Builder::new().prefix("log-").tempdir_in(Path::new(ROOT).join("tmp"));
        let python = python();
        if python.is_none() {
            cannot("the Python package htcondor is not installed in target/tools");
        }
        Some(Condor { shared: shared.expect("a folder in HTCondor's root"), python })
    }

    /// One of its tools on a copy of the log.
    pub(crate) fn tool(&self, log: &Path, name: &str, words: &[&str]) -> Ran {
        let copy = self.shared.path().join("log");
        std::fs::copy(log, &copy).expect("a copy");
        let inside = Path::new("/").join(copy.strip_prefix(ROOT).expect("inside"));
        let mut command = Command::new("unshare");
        command.args(["--uts", "sh", "-c", ENTER, "sh", ROOT, name]).args(words).arg(inside);
        ran(command.env("CONDOR_CONFIG", "/dev/null"))
    }

    /// What the bindings make of it: number, job and chosen attributes of each event.
    pub(crate) fn events(&self, log: &Path) -> Option<String> {
        const READ: &str = "import htcondor2, sys\n\
            for e in htcondor2.JobEventLog(sys.argv[1]).events(stop_after=0):\n    \
            names = ('ReturnValue', 'TerminatedBySignal', 'TerminatedAndRequeued', 'Reason')\n    \
            more = [str(e[n]) for n in names if n in e]\n    \
            print(int(e.type), '%s.%s' % (e.cluster, e.proc), *more)\n";
        let mut command = Command::new(self.python.as_ref()?);
        command.args(["-c", READ]).arg(log).env("CONDOR_CONFIG", "/dev/null");
        let read = ran(&mut command);
        assert_eq!(read.code, 0, "{read:?}");
        Some(read.stdout)
    }
}

fn python() -> Option<PathBuf> {
    let built = Path::new(env!("CARGO_BIN_EXE_shipway")).parent()?.parent()?;
    let tools = std::fs::read_dir(built.join("tools")).ok()?.flatten();
    let ours = |name: &std::ffi::OsStr| name.to_string_lossy().starts_with("htcondor-");
    let mut folders = tools.filter(|tool| ours(&tool.file_name())).map(|tool| tool.path());
    folders.find(|folder| folder.join("installed").exists()).map(|it| it.join("bin/python"))
}

fn ran(command: &mut Command) -> Ran {
    let output = command.output().expect("it runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ran {
        code: output.status.code().unwrap_or(-1),
        stdout: text(&output.stdout),
        stderr: text(&output.stderr),
    }
}
