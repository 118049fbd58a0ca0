//! The real thing: `condor_submit -dry-run` in a root of its own, where no daemon runs.

use crate::ad::Ad;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where `xtask/src/test/htcondor.sh` puts it.
const ROOT: &str = "/opt/shipway-htcondor";

/// HTCondor asks for the address of its own machine, and waits long where nobody knows it; so the
/// machine has a name here that stands in `/etc/hosts`.
const ENTER: &str = r#"
    echo localhost > /proc/sys/kernel/hostname
    root=$1; shift
    exec chroot "$root" sh -c '
        cd "$1" || exit 1; shift
        for name in "$@"; do
            condor_submit -dry-run "$name.ads" "$name" > "$name.said" 2>&1 </dev/null
            echo $? > "$name.code"
        done' sh "$@"
"#;

/// Variables that the corpus speaks of.
pub(crate) const VARIABLES: [(&str, &str); 4] =
    [("CORPUS_A", "first"), ("CORPUS_B", "b"), ("CORPUS_B2", "b two"), ("CORPUS_BX", "no")];

pub(crate) struct Answers {
    /// The folder of the corpus as it is called inside.
    pub(crate) inside: String,
    pub(crate) files: Vec<Answer>,
}

/// What HTCondor makes of one file.
pub(crate) struct Answer {
    pub(crate) good: bool,
    /// Seconds since 1970 when it was read.
    pub(crate) submitted: u64,
    pub(crate) tasks: Vec<Ad>,
    /// Errors and warnings.
    pub(crate) said: String,
}

/// `None` where it cannot be asked.
#[expect(clippy::print_stdout, reason = "a skip must be seen")]
pub(crate) fn answers(corpus: &Path, names: &[String]) -> Option<Answers> {
    let root = rustix::process::geteuid().is_root();
    if !root || !Path::new(ROOT).join("usr/bin/condor_submit").exists() {
        assert!(std::env::var_os("CI").is_none(), "HTCondor is not installed in {ROOT}");
        println!("skipped: HTCondor is not installed in {ROOT}, or this is not root");
        return None;
    }
    let folder = tempfile::tempdir_in(format!("{ROOT}/tmp")).expect("a folder inside");
    copy(corpus, folder.path());
    let inside = folder.path().strip_prefix(ROOT).expect("below the root");
    let inside = format!("/{}", inside.display());
    let mut enter = Command::new("unshare");
    enter.args(["--uts", "sh", "-c", ENTER, "sh", ROOT, &inside]).args(names);
    enter.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("HOME", "/root");
    assert!(enter.envs(VARIABLES).status().expect("unshare starts").success());
    let files = names.iter().map(|name| answer(folder.path(), name)).collect();
    Some(Answers { inside, files })
}

fn answer(folder: &Path, name: &str) -> Answer {
    let text = |ending: &str| {
        let bytes = std::fs::read(folder.join(format!("{name}.{ending}"))).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let tasks = Ad::read_all(&text("ads"));
    let submitted = tasks.first().and_then(|ad| ad.number("QDate")).unwrap_or(0);
    let said = text("said");
    let good = text("code").trim() == "0" && !said.contains("no jobs queued");
    Answer { good, submitted, tasks, said }
}

fn copy(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).expect("a folder") {
        let path: PathBuf = entry.expect("an entry").path();
        let target = to.join(path.file_name().expect("a name"));
        if path.is_dir() {
            std::fs::create_dir(&target).expect("a folder");
            copy(&path, &target);
        } else {
            std::fs::copy(&path, &target).expect("a copy");
        }
    }
}
