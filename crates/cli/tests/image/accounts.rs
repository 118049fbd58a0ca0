//! A pilot that is root: tasks run under accounts of the node, never as root.

use crate::archive::archive;
use crate::site::{Site, add_user, runtimes};
use std::os::unix::fs::PermissionsExt as _;

/// An account that Debian has, and that is not `nobody`.
const GAMES: &str = "5";
const NOBODY: &str = "65534";

fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        println!("left out: only root can change to other accounts");
    }
    root
}

fn run_as(site: &Site, token: &str, words: &[&str]) -> (i32, String, String) {
    let run = ["run", "--workdir", "private"];
    let done = site.with_token(token).args(run).args(words).output().expect("started");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (done.status.code().unwrap_or(-1), text(&done.stdout), text(&done.stderr))
}

#[test]
fn containers_of_root_are_nobodys_with_every_runtime() {
    if !is_root() {
        return;
    }
    for runtime in runtimes() {
        println!("with {runtime}:");
        let site = Site::start_with(None, &["--runtime", &runtime]);
        let busybox = std::fs::read("/bin/busybox").expect("busybox-static is installed");
        let mut files = vec![("etc/secret", &b"mine"[..])];
        files.extend(
            ["bin/sh", "bin/id", "bin/cat", "bin/dd", "bin/tr"].map(|it| (it, &busybox[..])),
        );
        archive(&site.path("home/saved.tar"), &files, "WHO=image");
        let line = "echo x > here && echo y > /etc/secret && echo $(id -u) $(cat here /etc/secret)";
        let image = ["--memory", "100MB", "--image", "docker-archive:saved.tar"];
        let (code, out, err) = site.words(&[&image[..], &["--", "sh", "-c", line]].concat());
        assert_eq!((code, out), (0, format!("{NOBODY} x y\n")), "{err}");
        let (code, _, err) = site.words(&[
            "--memory",
            "64MB",
            "--image",
            "docker-archive:saved.tar",
            "--",
            "sh",
            "-c",
            "x=$(dd if=/dev/zero bs=1M count=200 | tr '\\0' a); cat",
        ]);
        assert!(code == 137 && err.contains("out of memory"), "{code} {err}");
    }
}

#[test]
fn everybody_has_their_own_account_and_nobody_roots() {
    if !is_root() {
        return;
    }
    let site = Site::start_as(None);
    let (games, other) = (add_user(&site, "games"), add_user(&site, "no-such-account"));
    let line = "echo x > here; echo $(id -u) $(id -g) $(cat here) $USER $HOME; ls /root";
    let words = ["--", "sh", "-c", line];
    let (_, out, err) = run_as(&site, &games, &words);
    assert!(out.starts_with(GAMES) && out.contains(" x games /usr/games"), "{out}{err}");
    assert!(err.contains("Permission denied"), "{err}");
    let (_, out, err) = run_as(&site, &other, &words);
    assert!(out.starts_with(NOBODY), "{out}{err}");
    let (_, out, err) = site.words(&words);
    assert!(out.starts_with(NOBODY), "the owner's too: {out}{err}");
    let script = site.path("script");
    std::fs::write(&script, "#!/bin/sh\nid -u\n").expect("written");
    let (_, out, err) = run_as(&site, &games, &["--script", &script.to_string_lossy()]);
    assert_eq!(out.trim(), GAMES, "{err}");
    // What is not theirs stays closed: other tasks' folders, the pilot's secrets, root's files.
    let home = site.path("home");
    let line = format!(
        "ls {0}/pilot {0}/pilot/work; cat {0}/shipway.db {0}/pilot/logs/1/0.1.out \
                        {0}/server.json {0}/pilot/credentials.json | wc -c",
        home.display()
    );
    let (_, out, err) = run_as(&site, &games, &["--", "sh", "-c", &line]);
    assert_eq!(out.trim(), "0", "{err}");
    let (code, _, err) = run_as(&site, &games, &["--image", "dir:/root", "--", "ls"]);
    assert!(code != 0 && err.contains("Permission denied"), "{code} {err}");
    let secret = site.path("secret.tar");
    let busybox = std::fs::read("/bin/busybox").expect("busybox-static is installed");
    archive(&secret, &[("bin/ls", &busybox)], "A=b");
    let image = format!("docker-archive:{}", secret.display());
    let (code, _, err) = run_as(&site, &games, &["--image", &image, "--", "ls"]);
    assert!(code != 0 && err.contains("reads no image from a file for others"), "{code} {err}");
    let (code, _, err) = run_as(&site, &games, &["--", "no-such-program"]);
    assert!(code == 127 && err.contains("no such program in PATH"), "{code} {err}");
}

/// A home in a folder that accounts may not even enter.
#[test]
fn a_task_needs_no_way_to_its_own_folders() {
    if !is_root() {
        return;
    }
    let mut site = Site::start_as(None);
    std::fs::set_permissions(site.path(""), std::fs::Permissions::from_mode(0o700)).unwrap();
    let script = site.path("script");
    std::fs::write(&script, "#!/bin/sh\necho x > here; cat here; id -u\n").expect("written");
    let (_, out, err) = site.words(&["--script", &script.to_string_lossy()]);
    assert_eq!(out, format!("x\n{NOBODY}\n"), "{err}");
    // One that is no task's own stays closed.
    let home = site.path("home").to_string_lossy().into_owned();
    let closed = site.shipway(&["run", "--workdir", &home, "--", "true"]);
    let said = String::from_utf8_lossy(&closed.stderr).into_owned();
    assert!(!closed.status.success() && said.contains("may not enter it"), "{said}");
    site.restart(&["--default-image", "none"]);
    let (code, _, err) = site.words(&["--", "id", "-u"]);
    assert!(code != 0 && err.contains("is closed to others"), "{code} {err}");
    site.restart(&["--default-image", "none", "--accounts", "root=root"]);
    assert_eq!(site.words(&["--", "id", "-u"]).1, "0\n", "because the site says so");
}

#[test]
fn a_site_says_who_has_which_account() {
    if !is_root() {
        return;
    }
    let site = Site::start_with(None, &["--accounts", "ada=games"]);
    let refused = site.shipway(&["up", "--accounts", "ada=no-such-account"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("there is no account `no-such-account`"), "{said}");
    let ada = add_user(&site, "ada");
    let (_, out, err) = run_as(&site, &ada, &["--", "id", "-u"]);
    assert_eq!(out.trim(), GAMES, "{err}");
    // The owner of the server is root, and has no account here.
    let (code, _, err) = site.words(&["--", "id", "-u"]);
    assert!(code != 0 && err.contains("user root has no account on this node"), "{code} {err}");
}
