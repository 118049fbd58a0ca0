//! What the server keeps is hidden from every task, and a site's list of folders holds for all that
//! a job names: binds, work directories, images, inputs, outputs and streams.

use crate::archive::archive;
use crate::site::{Site, add_user, has_guests, is_root};
use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

/// An account that Debian has, and that is not `nobody`.
const GAMES: &str = "games";

/// What a job may name to get at a path, and what it runs then.
fn doors(path: &str) -> Vec<Vec<String>> {
    let folder = Path::new(path).parent().expect("a folder").display().to_string();
    let words = |options: &[String], command: &[&str]| {
        let private = ["--workdir", "private"].map(String::from);
        let command = command.iter().map(|word| (*word).to_string());
        let has_work = options.iter().any(|word| word == "--workdir");
        let private = private.into_iter().filter(|_| !has_work);
        private.chain(options.iter().cloned()).chain(["--".into()]).chain(command).collect()
    };
    let option = |name: &str, value: String| vec![name.to_string(), value];
    let host = option("--image", "host".into());
    vec![
        words(&host, &["cat", path]),
        words(&[host.clone(), option("--bind", format!("{path}:/mnt"))].concat(), &["cat", "/mnt"]),
        words(
            &[host.clone(), option("--bind", format!("{folder}:/mnt"))].concat(),
            &["sh", "-c", "cat /mnt/*"],
        ),
        words(&[host, option("--workdir", folder.clone())].concat(), &["sh", "-c", "cat *"]),
        words(&option("--image", format!("dir:{folder}")), &["cat", "/server.json"]),
        words(&option("--image", format!("docker-archive:{path}")), &["true"]),
        words(&option("--input", format!("{path}:x")), &["cat", "x"]),
        words(&option("--input", format!("{folder}/:x")), &["sh", "-c", "cat x/*"]),
        words(&option("--stdin", path.into()), &["cat"]),
        words(&option("--output", format!("x:{path}")), &["sh", "-c", "echo mine > x"]),
        words(&option("--stdout", path.into()), &["echo", "mine"]),
    ]
}

fn run_as(site: &Site, token: &str, words: &[String]) -> (i32, String, String) {
    let mut command = site.with_token(token);
    let done = command.arg("run").args(words).output().expect("started");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (done.status.code().unwrap_or(-1), text(&done.stdout), text(&done.stderr))
}

/// Of whoever started the server.
fn owners_token(site: &Site) -> String {
    let file = std::fs::read_to_string(site.path("home/server.json")).expect("a server");
    let file: serde_json::Value = serde_json::from_str(&file).expect("JSON");
    file["token"].as_str().expect("a token").to_string()
}

/// Neither the owner's tasks nor others' get at the owner's token, by its own name or another.
#[test]
fn nothing_that_a_job_names_leads_to_what_the_server_keeps() {
    what_is_kept_is_closed(&Site::start(), "ada");
}

/// Such a pilot could read all of it for everybody.
#[test]
fn nothing_that_a_job_names_leads_to_what_a_server_of_root_keeps() {
    if is_root() {
        what_is_kept_is_closed(&Site::start_as(None), GAMES);
    }
}

fn what_is_kept_is_closed(site: &Site, other: &str) {
    let home = site.path("home");
    let secret = std::fs::read_to_string(home.join("server.json")).expect("a server");
    let (token, owner) = (add_user(site, other), owners_token(site));
    let shared = site.path("shared");
    std::fs::create_dir(&shared).expect("a folder");
    symlink(&home, shared.join("link")).expect("a link");
    for who in [&token, &owner] {
        for path in [home.join("server.json"), shared.join("link/server.json")] {
            for words in doors(&path.display().to_string()) {
                let (code, out, err) = run_as(site, who, &words);
                assert!(code != 0, "{words:?}: {out}{err}");
                assert!(!out.contains(&owner) && !err.contains(&owner), "{words:?}: {out}{err}");
            }
        }
    }
    let now = std::fs::read_to_string(home.join("server.json")).expect("still there");
    assert_eq!(now, secret, "it was written to");
}

/// A file of a service of the node, which everybody may read and write; it goes with this.
struct OfService(PathBuf);

impl OfService {
    fn leave(text: &str) -> OfService {
        let folder = PathBuf::from(format!("/run/shipway-test-{}", std::process::id()));
        std::fs::create_dir(&folder).expect("a folder of a service");
        let file = folder.join("answers");
        std::fs::write(&file, text).expect("written");
        let open = |path, mode| std::fs::set_permissions(path, Permissions::from_mode(mode));
        open(&folder, 0o777).and_then(|()| open(&file, 0o666)).expect("opened");
        OfService(folder)
    }
}

impl Drop for OfService {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Where the node's services and its kernel answer, everything that a job names is refused, and
/// not only a bind: also where root's pilot could open it.
#[test]
fn nothing_that_a_job_names_leads_to_the_nodes_services_and_processes() {
    if !is_root() {
        return;
    }
    let said = "what a service says";
    let service = OfService::leave(said);
    let file = service.0.join("answers").display().to_string();
    let made = format!("x:{}", service.0.join("made").display());
    // Of the first process, which some nodes close to root too, and of this one.
    let environs = ["1".to_string(), std::process::id().to_string()];
    let environs = environs.map(|process| format!("/proc/{process}/environ"));
    let read = |path: &String| std::fs::read(path).unwrap_or_default();
    let mut secrets: Vec<String> =
        environs.iter().map(|path| String::from_utf8_lossy(&read(path)).into_owned()).collect();
    secrets.push(said.into());
    secrets.retain(|secret| !secret.is_empty());
    assert!(secrets.len() >= 2, "root may look at its own");
    for site in [Site::start(), Site::start_as(None)] {
        let (other, owner) = (add_user(&site, GAMES), owners_token(&site));
        for who in [&other, &owner] {
            let made = ["--workdir", "private", "--output", &made, "--", "touch", "x"];
            let made: Vec<String> = made.map(String::from).to_vec();
            // A container has processes of its own there, which it may look at.
            let of_kernel = environs.iter().flat_map(|path| doors(path).into_iter().skip(1));
            for words in doors(&file).into_iter().chain(of_kernel).chain([made]) {
                let (code, out, err) = run_as(&site, who, &words);
                assert!(code != 0, "{words:?}: {out}{err}");
                let told = secrets.iter().any(|secret| out.contains(secret));
                assert!(!told, "{words:?}: {code} {out}{err}");
            }
        }
    }
    assert_eq!(std::fs::read_to_string(&file).expect("still there"), said, "it was written to");
    assert_eq!(std::fs::read_dir(&service.0).expect("there").count(), 1, "something was made");
}

/// An image that lies there is read for nobody: neither for the owner, nor for somebody to whom the
/// operator has given the same account.
#[test]
fn images_in_files_of_the_server_are_not_read() {
    let mut site = Site::start();
    let account = site.account();
    site.restart(&["--accounts", &format!("ada={account},{account}={account}")]);
    let ada = add_user(&site, "ada");
    let busybox = std::fs::read("/bin/busybox").expect("busybox-static is installed");
    let (home, outside) = (site.path("home"), site.path("outside"));
    std::fs::create_dir(&outside).expect("a folder");
    // Not the same: an image whose bytes somebody has had is not read again.
    for (place, variable) in [(&home, "IN=home"), (&outside, "IN=another")] {
        archive(&place.join("saved.tar"), &[("bin/sh", &busybox)], variable);
    }
    symlink(&home, outside.join("link")).expect("a link");
    let (home, outside) = (home.display().to_string(), outside.display().to_string());
    // So that nobody looks before the pilot does.
    let pin = format!("@sha256:{}", "0".repeat(64));
    let by_process = format!("docker-archive:/proc/self/root{home}/saved.tar{pin}");
    let owner = ["run", "--workdir", "private"];
    for who in [None, Some(&ada)] {
        let run = |image: &str| {
            let mut command = who.map_or_else(|| site.command_by(&[]), |who| site.with_token(who));
            let words = ["--image", image, "--", "sh", "-c", "echo ran"];
            let done = command.args(owner).args(words).output().expect("started");
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            (text(&done.stdout), text(&done.stderr))
        };
        let (out, err) = run(&format!("docker-archive:{outside}/saved.tar"));
        assert_eq!(out, "ran\n", "what lies elsewhere is read: {err}");
        for image in [
            format!("docker-archive:{home}/saved.tar"),
            format!("docker-archive:{outside}/link/saved.tar"),
            format!("sif:{home}/saved.tar{pin}"),
            format!("oci:{home}{pin}"),
            format!("oci:{outside}/link/pilot{pin}"),
        ] {
            let (out, err) = run(&image);
            let said = err.contains("where the server keeps its files");
            assert!(said && out.is_empty(), "{image}: {out}{err}");
        }
        let (out, err) = run(&by_process);
        assert!(out.is_empty() && err.contains("cannot open"), "{out}{err}");
    }
}

/// Somebody who runs as the owner, for want of anything else, is not soon the owner.
#[test]
fn guests_write_only_where_they_are_let() {
    if !has_guests() {
        return;
    }
    let mut site = Site::start();
    let ada = add_user(&site, "ada");
    let shared = site.path("shared");
    std::fs::create_dir(&shared).expect("a folder");
    std::os::unix::fs::chown(&shared, site.user(), site.user()).expect("given away");
    let folder = shared.display().to_string();
    let bind = format!("{folder}:/mnt:rw");
    let words = |options: &[&str], line: &str| -> Vec<String> {
        let tail = ["--", "sh", "-c", line];
        options.iter().chain(&tail).map(|word| (*word).to_string()).collect()
    };
    let on_bind = words(&["--workdir", "private", "--bind", &bind], "echo x > /mnt/key");
    let in_place = words(&["--workdir", &folder], "echo x > key");
    let output = format!("key:{folder}/key");
    let taken = words(&["--workdir", "private", "--output", &output], "echo x > key");
    for words in [&on_bind, &in_place, &taken] {
        let (code, _, err) = run_as(&site, &ada, words);
        assert!(code != 0 && err.contains("--binds DIR:rw"), "{words:?}: {code} {err}");
    }
    assert!(!shared.join("key").exists());
    site.restart(&["--binds", &format!("{folder}:rw")]);
    for words in [&on_bind, &in_place, &taken] {
        let (code, _, err) = run_as(&site, &ada, words);
        assert_eq!(code, 0, "{words:?}: {err}");
        std::fs::remove_file(shared.join("key")).expect("it was written");
    }
}

/// `--binds` is for everything that a job names, whoever's it is.
#[test]
fn what_a_site_offers_holds_for_files_and_streams() {
    let mut site = Site::start();
    let (open, other) = (site.path("open"), site.path("other"));
    for folder in [&open, &other] {
        std::fs::create_dir(folder).expect("a folder");
        std::fs::write(folder.join("data"), "data\n").expect("written");
        std::os::unix::fs::chown(folder, site.user(), site.user()).expect("given away");
    }
    symlink(other.join("data"), open.join("link")).expect("a link");
    let (open, other) = (open.display().to_string(), other.display().to_string());
    let run = |site: &Site, option: &str, value: &str| {
        let line = "cat data || cat > made; echo made > made; echo made";
        let (code, out, err) = site.words(&[option, value, "--", "sh", "-c", line]);
        (code, out, err)
    };
    site.restart(&["--binds", &open]);
    let outside = [
        ("--input", format!("{other}/data")),
        ("--input", format!("{open}/link:data")),
        ("--stdin", format!("{other}/data")),
        ("--stdout", format!("{other}/out")),
        ("--output", format!("made:{other}/made")),
        ("--output", format!("made:{open}/made")),
        ("--stderr", format!("{open}/out")),
    ];
    for (option, value) in &outside {
        let (code, out, err) = run(&site, option, value);
        let said = err.contains("does not offer") || err.contains("for reading");
        assert!(code != 0 && said, "{option} {value}: {code} {out}{err}");
    }
    assert_eq!(run(&site, "--input", &format!("{open}/data")).0, 0);
    site.restart(&["--binds", &format!("{open}:rw")]);
    assert_eq!(run(&site, "--output", &format!("made:{open}/made")).0, 0);
    assert_eq!(std::fs::read_to_string(site.path("open/made")).expect("made"), "made\n");
}

/// Two people, one folder for each: what one writes is not there for the other.
#[test]
fn private_work_is_private() {
    let site = Site::start();
    let (ada, bob) = (add_user(&site, "ada"), add_user(&site, "bob"));
    let line = "echo secret > mine; echo ready; sleep 600";
    let words = ["run", "-d", "--workdir", "private", "--", "sh", "-c", line];
    let started = site.with_token(&ada).args(words).output().expect("started");
    let job = String::from_utf8_lossy(&started.stdout).trim().to_string();
    crate::common::wait_for("the task has written", || {
        let said = site.with_token(&ada).args(["logs", &job]).output().expect("logs");
        String::from_utf8_lossy(&said.stdout).contains("ready")
    });
    let work = site.path("home/pilot/work").display().to_string();
    let bound = ["--bind".to_string(), format!("{work}:/mnt"), "--".into()];
    for (options, place) in [(&bound[2..], work.as_str()), (&bound[..], "/mnt")] {
        let private = ["--workdir", "private"].map(String::from);
        let command = ["sh".to_string(), "-c".into(), format!("cat {place}/*/work/mine")];
        let words = [&private[..], options, &command[..]].concat();
        let (code, out, err) = run_as(&site, &bob, &words);
        assert!(code != 0 && !out.contains("secret"), "{words:?}: {out}{err}");
    }
    assert!(site.with_token(&ada).args(["cancel", &job]).status().expect("cancel").success());
}
