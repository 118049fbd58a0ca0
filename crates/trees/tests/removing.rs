//! What may lie in a tree that somebody else made, and what must still be there afterwards.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use shipway_trees::{Progress, Removal, remove};
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

fn tree(top: &Path) {
    for folder in ["a/b/c", "a/empty", "d"] {
        fs::create_dir_all(top.join(folder)).unwrap();
    }
    for file in ["a/b/c/file", "a/b/file", "file", "a/.hidden", "a/with\nline"] {
        fs::write(top.join(file), file).unwrap();
    }
}

#[test]
fn all_of_a_tree_goes_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let (top, kept) = (dir.path().join("top"), dir.path().join("kept"));
    tree(&top);
    tree(&kept);
    symlink(&kept, top.join("a/link")).unwrap();
    symlink("..", top.join("a/up")).unwrap();
    fs::hard_link(kept.join("file"), top.join("same")).unwrap();
    remove(&top).unwrap();
    assert!(!top.exists());
    assert_eq!(fs::read_to_string(kept.join("a/b/c/file")).unwrap(), "a/b/c/file");
    assert!(kept.join("file").exists() && kept.join("a/empty").exists());
    // What is not there, a file, and a link at the very top.
    remove(&top).unwrap();
    remove(&dir.path().join("no/such/folder")).unwrap();
    remove(&kept.join("file")).unwrap();
    symlink(&kept, &top).unwrap();
    remove(&top).unwrap();
    assert!(kept.join("a/b").exists() && !kept.join("file").exists());
}

/// As somebody to whom modes mean something, also where the tests are root's.
fn as_nobody<T: Send>(act: impl FnOnce() -> T + Send) -> T {
    use rustix::process::{Gid, Uid, geteuid};
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            if geteuid().is_root() {
                let (uid, gid) = (Uid::from_raw(65_534), Gid::from_raw(65_534));
                rustix::thread::set_thread_res_gid(gid, gid, gid).unwrap();
                rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
            }
            act()
        });
        thread.join().unwrap()
    })
}

#[test]
fn folders_that_are_closed_to_their_owner_go_too() {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), Permissions::from_mode(0o777)).unwrap();
    let top = dir.path().join("top");
    as_nobody(|| {
        tree(&top);
        for (folder, mode) in [("a/b/c", 0), ("a/b", 0o500), ("a", 0o300), ("d", 0), ("", 0o100)] {
            fs::set_permissions(top.join(folder), Permissions::from_mode(mode)).unwrap();
        }
        remove(&top).unwrap();
    });
    assert!(!top.exists());
}

#[test]
fn what_cannot_be_removed_is_said_and_the_rest_goes() {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), Permissions::from_mode(0o777)).unwrap();
    let top = dir.path().join("top");
    as_nobody(|| tree(&top));
    if !rustix::process::geteuid().is_root() {
        // Without another user nothing is closed to us: the folder above is, then.
        fs::set_permissions(dir.path(), Permissions::from_mode(0o500)).unwrap();
        assert!(remove(&top).is_err());
        fs::set_permissions(dir.path(), Permissions::from_mode(0o700)).unwrap();
        return remove(&top).unwrap();
    }
    for folder in ["a/b/c", "a/empty"] {
        std::os::unix::fs::chown(top.join(folder), Some(0), Some(0)).unwrap();
    }
    fs::write(top.join("a/b/c/other"), "").unwrap();
    let error = as_nobody(|| remove(&top)).unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("cannot remove ") && text.ends_with(" (and 1 more)"), "{text}");
    let left = Command::new("find").arg(&top).arg("-type").arg("f").output().unwrap();
    let left = String::from_utf8(left.stdout).unwrap();
    assert_eq!(left.lines().count(), 2, "{left}");
    remove(&top).unwrap();
}

/// Runs itself again where mounts can be made that nobody else sees.
#[test]
fn what_is_mounted_in_a_tree_stays() {
    const INSIDE: &str = "SHIPWAY_TREES_INSIDE";
    if let Some(dir) = std::env::var_os(INSIDE) {
        let dir = Path::new(&dir);
        let error = remove(&dir.join("top")).unwrap_err();
        assert!(error.to_string().contains("mounted"), "{error}");
        assert_eq!(fs::read_to_string(dir.join("kept/a/b/c/file")).unwrap(), "a/b/c/file");
        assert!(!dir.join("top/d").exists() && !dir.join("top/file").exists());
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    tree(&dir.path().join("top"));
    tree(&dir.path().join("kept"));
    fs::create_dir(dir.path().join("top/a/b/mounted")).unwrap();
    // The same file system, so that nothing but the mount tells them apart.
    let script = "mount --bind \"$1/kept\" \"$1/top/a/b/mounted\" && shift && exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-ec", script, "sh"]);
    command.arg(dir.path()).arg(std::env::current_exe().unwrap());
    command.args(["--exact", "what_is_mounted_in_a_tree_stays"]).env(INSIDE, dir.path());
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("1 passed"), "{said}");
    assert!(dir.path().join("kept/file").exists());
}

/// Somebody moves things about in the tree while it is removed.
#[test]
fn nothing_outside_is_reached_by_way_of_a_tree_that_changes() {
    // So often at least on both sides: either may be slow to begin.
    const ROUNDS: u32 = 300;
    let dir = tempfile::tempdir().unwrap();
    let (top, kept) = (dir.path().join("top"), dir.path().join("kept"));
    tree(&kept);
    let (done, outside) = (AtomicBool::new(false), dir.path().join("outside"));
    let changed = AtomicU32::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                // A folder becomes a link and a folder again; another is moved out and back.
                let (a, b) = (top.join("a"), top.join("a/b"));
                let _ = fs::create_dir_all(b.join("c/d/e/f/g/h/i/j/k"));
                let _ = fs::rename(b.join("c/d/e/f/g/h"), &outside);
                let _ = fs::rename(&outside, b.join("back"));
                let _ = fs::rename(&a, top.join("aside"));
                let _ = symlink(&kept, &a);
                let _ = fs::write(a.join("written"), "");
                let _ = fs::remove_file(&a);
                changed.fetch_add(1, Ordering::Relaxed);
            }
        });
        let mut rounds = 0;
        while rounds < ROUNDS || changed.load(Ordering::Relaxed) < ROUNDS {
            rounds += 1;
            let mut removal = Removal::new(&top);
            // It ends although somebody goes on adding; whether all is gone is another matter.
            while matches!(removal.go_on(100), Progress::More) {}
        }
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(fs::read_to_string(kept.join("a/b/c/file")).unwrap(), "a/b/c/file");
    assert_eq!(fs::read_to_string(kept.join("file")).unwrap(), "file");
    remove(&top).unwrap();
    remove(&outside).unwrap();
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}
