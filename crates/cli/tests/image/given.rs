//! What a task's account puts into the folder that it was given, and that is not its own: a pilot
//! that is root removes nothing there that the account could not.

use crate::common::wait_for;
use crate::site::{Site, add_user, is_root};
use rustix::process::{Gid, Uid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

/// Accounts that Debian has: the one that takes, and the one that is taken from.
const GAMES: (&str, u32) = ("games", 5);
const DAEMON: u32 = 1;

fn as_games<T: Send>(act: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let (uid, gid) = (Uid::from_raw(GAMES.1), Gid::from_raw(GAMES.1));
            set_thread_groups(&[]).expect("root may");
            set_thread_res_gid(gid, gid, gid).expect("root may");
            set_thread_res_uid(uid, uid, uid).expect("root may");
            act()
        });
        thread.join().expect("it ends")
    })
}

/// A folder that all work in, with one of the other account's, which holds what nobody else may
/// even see.
fn shared(site: &Site) -> PathBuf {
    let (shared, project) = (site.path("shared"), site.path("shared/project"));
    let (private, thesis) = (project.join("private"), project.join("private/thesis"));
    std::fs::create_dir_all(&private).expect("folders");
    std::fs::write(&thesis, "years").expect("written");
    for (path, mode) in [(&shared, 0o777), (&project, 0o777), (&private, 0o700), (&thesis, 0o600)] {
        chown(path, Some(DAEMON), Some(DAEMON)).expect("given away");
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("set");
    }
    project
}

fn is_whole(project: &Path) {
    let thesis = project.join("private/thesis");
    let found = thesis.metadata().unwrap_or_else(|error| panic!("{}: {error}", thesis.display()));
    assert_eq!(found.uid(), DAEMON);
    assert_eq!(std::fs::read_to_string(&thesis).expect("readable"), "years");
}

#[test]
fn what_a_task_took_from_others_is_not_removed_for_it() {
    if !is_root() {
        return;
    }
    let site = Site::start_with(None, &["--default-image", "none"]);
    let token = add_user(&site, GAMES.0);
    let project = shared(&site);
    as_games(|| {
        let refused = std::fs::remove_dir_all(&project).expect_err("it is not theirs");
        assert_eq!(refused.kind(), ErrorKind::PermissionDenied);
    });
    let line = format!("mkdir own && touch own/file && mv {} taken", project.display());
    let words = ["run", "--workdir", "private", "--", "sh", "-c", &line];
    let done = site.with_token(&token).args(words).output().expect("started");
    assert!(done.status.success(), "a task is not the worse for it: {done:?}");
    let pilot = site.path("home/pilot");
    wait_for("its folder is gone", || !pilot.join("work/1.0.1").exists());
    let kept = pilot.join("kept");
    is_whole(&kept.join("1.0.1/work/taken"));
    assert!(!kept.join("1.0.1/work/own").exists(), "what was its own is not kept");
    assert_eq!(kept.metadata().expect("a folder").mode() & 0o777, 0o700);
    let said = site.shipway(&["doctor", "--quick"]);
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(said.contains(&kept.display().to_string()), "{said}");
}

/// Where the folder is opened for the task, nobody need find it by its path.
#[test]
fn the_folder_of_a_container_is_not_to_be_reached_from_outside() {
    if !is_root() {
        return;
    }
    let site = Site::start_with(None, &[]);
    let token = add_user(&site, GAMES.0);
    let words = ["run", "-d", "--workdir", "private", "--image", "host", "--"];
    let line = ["sh", "-c", "echo here > file && cat file && sleep 1000"];
    let made = site.with_token(&token).args(words).args(line).output().expect("started");
    assert!(made.status.success(), "{made:?}");
    let work = site.path("home/pilot/work/1.0.1/work");
    wait_for("it has written a file", || work.join("file").exists());
    let seen = as_games(|| std::fs::read_dir(&work).map(drop).map_err(|error| error.kind()));
    assert_eq!(seen, Err(ErrorKind::PermissionDenied));
    let ended = site.with_token(&token).args(["cancel", "1"]).output().expect("started");
    assert!(ended.status.success(), "{ended:?}");
    wait_for("its folder is gone", || !work.exists());
    assert!(!site.path("home/pilot/kept").exists());
}
