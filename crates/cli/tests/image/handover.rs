//! What a pilot that is root makes for a task: no process of the task's account can turn it into
//! something else while it is made.

use crate::site::{Site, add_user, is_root};
use rustix::process::{Gid, Uid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// An account that Debian has, and that is not `nobody`.
const GAMES: (&str, u32) = ("games", 5);

/// Each is a try for the attacker.
const JOBS: u32 = 40;

/// From here on this thread, and no other, acts for an account.
fn become_account(id: u32) {
    let (uid, gid) = (Uid::from_raw(id), Gid::from_raw(id));
    set_thread_groups(&[]).expect("root may");
    set_thread_res_gid(gid, gid, gid).expect("root may");
    set_thread_res_uid(uid, uid, uid).expect("root may");
}

/// A process of the account puts links where the pilot is about to write.
fn scripts_are_not_written_through_links(options: &[&str]) {
    let site = Site::start_with(None, options);
    let token = add_user(&site, GAMES.0);
    let target = site.path("target");
    std::fs::write(&target, "root's").expect("written");
    std::fs::set_permissions(&target, std::fs::Permissions::from_mode(0o600)).expect("closed");
    let script = site.path("script");
    std::fs::write(&script, "#!/bin/sh\nexit 0\n").expect("written");
    let mut last = Ok((false, Vec::new()));
    let (stop, job) = (AtomicBool::new(false), AtomicU32::new(1));
    let folder = || -> PathBuf {
        site.path(&format!("home/pilot/work/{}.0.1", job.load(Ordering::Relaxed)))
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            become_account(GAMES.1);
            while !stop.load(Ordering::Relaxed) {
                let _refused = symlink(&target, folder().join("script"));
                let _refused = symlink(&target, folder().join("script/run"));
            }
        });
        for number in 1..=JOBS {
            job.store(number, Ordering::Relaxed);
            let words = ["run", "--workdir", "private", "--script", &script.to_string_lossy()];
            let done = site.with_token(&token).args(words).output();
            last = done.map(|done| (done.status.success(), done.stderr));
        }
        stop.store(true, Ordering::Relaxed);
    });
    let found = target.metadata().expect("it is still there");
    assert_eq!((found.uid(), found.mode() & 0o777), (0, 0o600), "given away");
    assert_eq!(std::fs::read_to_string(&target).expect("readable"), "root's");
    let (done, said) = last.expect("started");
    assert!(done, "they ran all the same: {}", String::from_utf8_lossy(&said));
}

#[test]
fn scripts_of_plain_tasks_are_not_written_through_links() {
    if is_root() {
        scripts_are_not_written_through_links(&["--default-image", "none"]);
    }
}

#[test]
fn scripts_of_contained_tasks_are_not_written_through_links() {
    if is_root() {
        scripts_are_not_written_through_links(&[]);
    }
}

/// Whoever can rename a folder on the way decides what root works in.
#[test]
fn a_home_that_others_can_change_is_refused() {
    if !is_root() {
        return;
    }
    let mut site = Site::start_with(None, &["--default-image", "none"]);
    let token = add_user(&site, GAMES.0);
    let run = |site: &Site| {
        let words = ["run", "--workdir", "private", "--", "true"];
        let done = site.with_token(&token).args(words).output().expect("started");
        (done.status.success(), String::from_utf8_lossy(&done.stderr).into_owned())
    };
    let (good, said) = run(&site);
    assert!(good, "{said}");
    std::os::unix::fs::chown(site.path(""), Some(GAMES.1), None).expect("given away");
    site.restart(&["--default-image", "none"]);
    let (good, said) = run(&site);
    assert!(!good && said.contains("users of this node can change"), "{said}");
    std::os::unix::fs::chown(site.path(""), Some(0), None).expect("taken back");
}
