//! Folders of root's in which somebody else was given something, who has put there what is not
//! theirs. Only root can try it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]
#![allow(clippy::print_stdout, reason = "it says what was left out")]

use shipway_trees::{KEPT, Progress, Removal, remove_of_others};
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

const ADA: u32 = 64_001;
const BOB: u32 = 64_002;

fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    assert!(is_root || std::env::var_os("CI").is_none(), "this must run as root in CI");
    if !is_root {
        println!("skipped: only root can give files to others");
    }
    is_root
}

/// As a pilot makes it: a folder of root's, and what is Ada's in it.
fn attempt(dir: &Path, name: &str) -> (PathBuf, PathBuf) {
    let outer = dir.join("work").join(name);
    let inner = outer.join("work");
    fs::create_dir_all(&inner).unwrap();
    fs::write(outer.join("stdout.all"), "root's").unwrap();
    fs::write(outer.join("script"), "hers").unwrap();
    for given in [&inner, &outer.join("script")] {
        chown(given, Some(ADA), Some(ADA)).unwrap();
        fs::set_permissions(given, Permissions::from_mode(0o700)).unwrap();
    }
    (outer, inner)
}

/// Bob's, in which everybody may write, with something in it that is his alone.
fn bobs(at: &Path) -> PathBuf {
    let private = at.join("bob/private");
    fs::create_dir_all(&private).unwrap();
    let thesis = private.join("thesis");
    fs::write(&thesis, "years").unwrap();
    for (path, mode) in [(&thesis, 0o600), (&private, 0o700), (&at.join("bob"), 0o777)] {
        chown(path, Some(BOB), Some(BOB)).unwrap();
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }
    at.join("bob")
}

/// As Ada would type it.
fn as_ada(script: &str, at: &Path) {
    let mut command = Command::new("setpriv");
    command.args([&format!("--reuid={ADA}"), &format!("--regid={ADA}"), "--clear-groups"]);
    let status = command.args(["sh", "-ec", script]).current_dir(at).status().unwrap();
    assert!(status.success(), "{script}");
}

#[test]
fn what_is_not_theirs_is_kept_and_the_rest_goes() {
    if !is_root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let shared = tempfile::tempdir_in(dir.path()).unwrap();
    for round in 1..=2 {
        let (outer, inner) = attempt(dir.path(), "1.0.1");
        let folder = bobs(shared.path());
        as_ada("mkdir -p a/b && touch a/b/file own", &inner);
        fs::rename(&folder, inner.join("a/bob")).unwrap();
        remove_of_others(&outer).unwrap();
        assert!(!outer.exists(), "nobody need try again");
        let kept = dir.path().join(KEPT);
        assert_eq!(kept.metadata().unwrap().mode() & 0o777, 0o700);
        // The second of the same name does not take the place of the first.
        let name = if round == 1 { "1.0.1" } else { "1.0.1.2" };
        let kept = kept.join(name);
        let thesis = kept.join("work/a/bob/private/thesis");
        assert_eq!(fs::read_to_string(&thesis).unwrap(), "years");
        assert_eq!(thesis.metadata().unwrap().uid(), BOB);
        let gone = ["stdout.all", "script", "work/own", "work/a/b"];
        assert!(gone.iter().all(|name| !kept.join(name).exists()), "{gone:?}");
    }
}

#[test]
fn what_is_theirs_goes_however_it_is_closed() {
    if !is_root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (outer, inner) = attempt(dir.path(), "2.0.1");
    let deep = "d/".repeat(40);
    as_ada(
        &format!(
            "mkdir -p {deep} shut/in other; touch {deep}/file shut/in/file other/file; \
             ln -s / root; ln -s .. up; mkfifo pipe; \
             chmod 0 shut/in shut; chmod 500 other; chmod 0 ."
        ),
        &inner,
    );
    // What Ada has a name of, and not more: it has another elsewhere.
    let elsewhere = dir.path().join("elsewhere");
    fs::write(&elsewhere, "root's").unwrap();
    fs::hard_link(&elsewhere, inner.join("other/link")).unwrap();
    remove_of_others(&outer).unwrap();
    assert!(!outer.exists() && !dir.path().join(KEPT).exists());
    assert_eq!(fs::read_to_string(&elsewhere).unwrap(), "root's");
    assert!(rustix::process::geteuid().is_root(), "with its own rights again");
}

/// A folder of root's below one of hers was put there by her, too.
#[test]
fn what_is_roots_in_a_folder_of_theirs_is_not_removed_as_root() {
    if !is_root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (outer, inner) = attempt(dir.path(), "3.0.1");
    fs::create_dir_all(inner.join("roots/own")).unwrap();
    fs::write(inner.join("roots/own/file"), "root's").unwrap();
    let mut removal = Removal::of_others(&outer);
    // With a pause after each step: nothing is forgotten meanwhile.
    let over = loop {
        if let Progress::Over(over) = removal.go_on(1) {
            break over;
        }
        assert!(rustix::process::geteuid().is_root(), "between two turns it is itself");
    };
    over.unwrap();
    let file = dir.path().join(KEPT).join("3.0.1/work/roots/own/file");
    assert_eq!(fs::read_to_string(file).unwrap(), "root's");
}
