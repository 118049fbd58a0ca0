//! A server that an ordinary user started, and two other people who submit to it: their tasks run
//! under ids of their own, and neither reaches the other, the service, or what it keeps.
//!
//! The account of the service exists in these tests only: in a copy of the node's `/etc`, in a
//! mount namespace of their own. That takes root.

use crate::common::{cannot, copy_program, wait_for, wait_some};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Ids that nobody has.
const SERVICE: u32 = 64_321;
const FIRST_ID: u32 = 1_879_048_192;
const IDS: u32 = 1_000;

/// Tasks that only wait and look, several at a time.
const LITTLE: &str = "0.1";

const OWN_ETC: &str = "set -e; mount -t tmpfs none /mnt; cp -a /etc /mnt; \
    mount --bind /mnt/etc /etc; umount -l /mnt; \
    echo shipway-svc:x:64321:64321::/:/bin/sh >> /etc/passwd; \
    echo shipway-svc:x:64321: >> /etc/group; \
    printf \"$IDS\" > /etc/subuid; printf \"$IDS\" > /etc/subgid; exec \"$@\"";

struct Site {
    dir: tempfile::TempDir,
    server: Child,
}

/// Somebody who is not the owner of the server.
struct Somebody<'a> {
    site: &'a Site,
    token: String,
}

impl Site {
    /// `None`: only root can try this.
    fn start(ids: &str) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            cannot("an account with subordinate ids can only be made up by root");
            return None;
        }
        // Not in `/tmp`: tasks have one of their own, and would not see it anyway.
        let dir = tempfile::Builder::new().prefix("shipway-apart-").tempdir_in("/var/lib");
        let dir = dir.expect("a directory");
        set_mode(dir.path(), 0o755);
        copy_program(&dir.path().join("shipway"));
        let home = dir.path().join("home");
        fs::create_dir(&home).expect("a home");
        chown(&home, Some(SERVICE), Some(SERVICE)).expect("given away");
        set_mode(&home, 0o700);
        let shared = dir.path().join("shared");
        fs::create_dir(&shared).expect("a folder");
        set_mode(&shared, 0o1777);
        let server = up(dir.path(), ids);
        Some(Self { dir, server })
    }

    fn with_ids() -> Option<Self> {
        Self::start(&format!("shipway-svc:{FIRST_ID}:{IDS}\\n"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// As the owner of the server.
    fn owner(&self, words: &[&str]) -> Output {
        let mut command = command(self.dir.path());
        command.uid(SERVICE).gid(SERVICE).args(words).output().expect("started")
    }

    fn owners(&self, words: &[&str]) -> String {
        let done = self.owner(words);
        assert!(done.status.success(), "{words:?}: {}", text(&done.stderr));
        text(&done.stdout)
    }

    fn somebody(&self, name: &str) -> Somebody<'_> {
        self.owners(&["user", "add", name]);
        let token = self.owners(&["token", "new", "--user", name]).trim().to_string();
        Somebody { site: self, token }
    }

    fn node(&self) -> Value {
        wait_some("the node is there", || {
            let list: Value = serde_json::from_str(&self.owners(&["--json", "nodes"])).ok()?;
            list["nodes"].get(0).filter(|node| node["link"] == "connected").cloned()
        })
    }

    fn server_file(&self) -> Value {
        let text = fs::read_to_string(self.path("home/server.json")).expect("it is up");
        serde_json::from_str(&text).expect("json")
    }

    fn token(&self) -> String {
        self.server_file()["token"].as_str().expect("a token").to_string()
    }

    /// What is left of private work directories.
    fn left(&self) -> Vec<PathBuf> {
        let below = ["work", "removing", "kept"].map(|name| self.path("home/pilot").join(name));
        let lists = below.iter().filter_map(|folder| fs::read_dir(folder).ok());
        lists.flatten().filter_map(|entry| Some(entry.ok()?.path())).collect()
    }

    fn stop(&mut self) {
        // `unshare` and `sh` have turned into the server.
        let pid = rustix::process::Pid::from_child(&self.server);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let _ = self.server.wait();
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Somebody<'_> {
    fn command(&self, words: &[&str]) -> Command {
        let url = self.site.server_file()["url"].as_str().expect("an address").to_string();
        let mut command = command(self.site.dir.path());
        command.env("SHIPWAY_URL", url).env("SHIPWAY_TOKEN", &self.token).args(words);
        command.current_dir(self.site.path("shared"));
        command
    }

    /// Exit code, and all that it said.
    fn run(&self, options: &[&str], line: &str) -> (i32, String) {
        let words = [&["run", "--cpus", LITTLE], options, &["--", "sh", "-c", line]].concat();
        let done = self.command(&words).output().expect("started");
        (done.status.code().unwrap_or(-1), text(&done.stdout) + &text(&done.stderr))
    }

    /// In a folder of its own.
    fn says(&self, options: &[&str], line: &str) -> String {
        let (code, said) = self.run(&[&["--workdir", "private"], options].concat(), line);
        assert_eq!(code, 0, "{said}");
        said
    }

    /// A task that goes on until it is told to end.
    fn start(&self, line: &str) -> String {
        let words = ["run", "-d", "--cpus", LITTLE, "--workdir", "private", "--", "sh", "-c"];
        let done = self.command(&[&words[..], &[line]].concat()).output().expect("started");
        assert!(done.status.success(), "{}", text(&done.stderr));
        text(&done.stdout).trim().to_string()
    }
}

/// The program as the service, on a node that gives it these ids.
fn with_ids(dir: &Path, ids: &str) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", OWN_ETC, "sh", "setpriv"]);
    command.args([format!("--reuid={SERVICE}"), format!("--regid={SERVICE}")]);
    command.arg("--clear-groups").arg(dir.join("shipway"));
    environment(&mut command, dir);
    command.env("IDS", ids);
    command
}

fn up(dir: &Path, ids: &str) -> Child {
    let mut up = with_ids(dir, ids);
    up.args(["up", "--listen", "127.0.0.1:0"]);
    let log = fs::File::create(dir.join("up.log")).expect("a log");
    let server = up.stdout(Stdio::null()).stderr(log).spawn().expect("started");
    let file = dir.join("home/server.json");
    wait_for("the server is up", || file.exists());
    server
}

fn command(dir: &Path) -> Command {
    let mut command = Command::new(dir.join("shipway"));
    environment(&mut command, dir);
    command
}

fn environment(command: &mut Command, dir: &Path) {
    let home = dir.join("home");
    command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("SHIPWAY_HOME", home);
    command.current_dir(dir.join("shared")).stdin(Stdio::null());
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("a mode");
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Whom processes with this word run as, looked at from outside.
fn users_of(word: &str) -> BTreeSet<u32> {
    let mut users = BTreeSet::new();
    for entry in fs::read_dir("/proc").expect("proc").flatten() {
        let words = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        if text(&words).starts_with(&format!("sleep\0{word}")) {
            users.extend(fs::metadata(entry.path()).ok().map(|found| found.uid()));
        }
    }
    users
}

#[test]
fn people_run_under_ids_of_their_own() {
    let Some(site) = Site::with_ids() else { return };
    let added = site.owner(&["user", "add", "eve"]);
    assert!(!text(&added.stderr).contains("warning"), "{}", text(&added.stderr));
    let (ada, bob) = (site.somebody("ada"), site.somebody("bob"));
    assert_eq!(site.node()["ad"]["people"]["apart"], "by_subordinate_id");
    assert!(site.owners(&["nodes"]).contains("APART"));
    let shared = site.text("shared");
    let open = format!("{shared}:{shared}:rw");
    let own = |name: &str| format!("umask 077; echo {name} > {shared}/{name}; id -un; id -u");
    assert!(ada.says(&["--bind", &open], &own("ada")).ends_with("\n1000\n"));
    bob.says(&["--bind", &open], &own("bob"));
    let owner = |name: &str| fs::metadata(site.path("shared").join(name)).expect("made").uid();
    // The last ones: the first are users of containers that the account has of its own.
    let range = FIRST_ID + IDS - 5..FIRST_ID + IDS;
    assert!(range.contains(&owner("ada")) && range.contains(&owner("bob")));
    assert_ne!(owner("ada"), owner("bob"));
    let (code, said) = bob.run(&["--workdir", "private"], &format!("cat {shared}/ada"));
    assert!(code == 1 && said.contains("Permission denied"), "{said}");
    let (code, said) = bob.run(&["--input", &format!("{shared}/ada")], "true");
    assert!(code != 0 && said.contains("under an id of bob's own"), "{code} {said}");
    // The same person has the same id each time, and whoever started it all is themselves.
    assert_eq!(ada.says(&[], &format!("cat {shared}/ada")), "ada\n");
    let own = ["run", "--workdir", "private", "--", "id", "-u"];
    assert_eq!(site.owners(&own), format!("{SERVICE}\n"));
    wait_for("all is removed", || site.left().is_empty());
}

#[test]
fn processes_of_people_are_theirs() {
    let Some(site) = Site::with_ids() else { return };
    let (ada, bob) = (site.somebody("ada"), site.somebody("bob"));
    let mark = format!("10000.{}", std::process::id());
    let jobs =
        [ada.start(&format!("SECRET=x sleep {mark}1")), bob.start(&format!("sleep {mark}2"))];
    let users = wait_some("both run", || {
        let users = [users_of(&format!("{mark}1")), users_of(&format!("{mark}2"))];
        users.iter().all(|users| !users.is_empty()).then_some(users)
    });
    assert!(users[0].is_disjoint(&users[1]), "{users:?}");
    assert!(!users.concat_all().contains(&SERVICE), "{users:?}");
    let seen = bob.says(&[], "cat /proc/*/cmdline /proc/*/environ 2>/dev/null | tr '\\0' '\\n'");
    assert!(!seen.contains("SECRET") && !seen.contains(&mark), "{seen}");
    // A private folder of somebody else's, by the path that the node knows it by.
    let folder = wait_some("a folder", || site.left().into_iter().next());
    let (_, said) = bob.run(&["--workdir", "private"], &format!("ls {}", folder.display()));
    assert!(said.contains("Permission denied") || said.contains("No such file"), "{said}");
    for (somebody, job) in [(&ada, &jobs[0]), (&bob, &jobs[1])] {
        let ended = somebody.command(&["cancel", job]).output().expect("started");
        assert!(ended.status.success(), "{}", text(&ended.stderr));
    }
    wait_for("nothing is left", || users_of(&mark).is_empty() && site.left().is_empty());
}

trait ConcatAll {
    fn concat_all(&self) -> BTreeSet<u32>;
}

impl ConcatAll for [BTreeSet<u32>; 2] {
    fn concat_all(&self) -> BTreeSet<u32> {
        self.iter().flatten().copied().collect()
    }
}

/// What the service may read, and nobody else: by every way that a person can name a file.
#[test]
fn what_a_person_names_is_opened_with_their_rights() {
    let Some(site) = Site::with_ids() else { return };
    let ada = site.somebody("ada");
    // By itself it could be read by all; the folder above is closed.
    let closed = site.path("closed");
    fs::create_dir_all(closed.join("tree/bin")).expect("folders");
    fs::copy("/bin/busybox", closed.join("tree/bin/sh")).expect("busybox-static is installed");
    fs::write(closed.join("secret"), "the-secret\n").expect("a file");
    for (path, mode) in [("secret", 0o644), ("tree", 0o755), ("", 0o700)] {
        set_mode(&closed.join(path), mode);
        chown(closed.join(path), Some(SERVICE), Some(SERVICE)).expect("given away");
    }
    let (secret, folder) = (site.text("closed/secret"), site.text("closed"));
    let link = site.path("shared/link");
    symlink(&secret, &link).expect("a link");
    let (link, tree) = (link.display().to_string(), site.text("closed/tree"));
    for options in [
        &["--bind", &format!("{secret}:/tmp/x")][..],
        &["--bind", &format!("{link}:/tmp/x")],
        &["--bind", &format!("{folder}/tree:/tmp/x")],
        &["--bind", &format!("/usr:{folder}/new")],
        &["--image", &format!("dir:{tree}")],
        &["--image", &format!("sif:{secret}")],
        &["--image", &format!("docker-archive:{secret}")],
        &["--stdin", &secret],
        &["--stdin", &link],
        &["--input", &secret],
        &["--input", &link],
        &["--workdir", &folder],
        &["--workdir", &tree],
        &["--stdout", &format!("{folder}/out")],
    ] {
        let named = options.iter().any(|word| ["--workdir", "--input"].contains(word));
        let work: &[&str] = if named { &[] } else { &["--workdir", "private"] };
        let line = "cat; cat /tmp/x link secret; ls /tmp/x";
        let (code, said) = ada.run(&[work, options].concat(), line);
        assert!(code != 0 && !said.contains("the-secret"), "{options:?}: {code} {said}");
    }
    let token = site.token();
    for file in ["home/server.json", "home/pilot/token.json", "closed/secret"] {
        let (_, said) = ada.run(&["--workdir", "private"], &format!("cat {}", site.text(file)));
        assert!(!said.contains(&token) && !said.contains("the-secret"), "{file}: {said}");
    }
    assert!(!closed.join("out").exists());
    wait_for("all is removed", || site.left().is_empty());
}

#[test]
fn files_come_and_go_with_the_rights_of_the_person() {
    let Some(site) = Site::with_ids() else { return };
    let (ada, bob) = (site.somebody("ada"), site.somebody("bob"));
    let shared = site.text("shared");
    fs::write(site.path("shared/data"), "data\n").expect("a file");
    let open = format!("{shared}:{shared}:rw");
    bob.says(&["--bind", &open], &format!("umask 077; echo of-bob > {shared}/bobs"));
    let options = ["--input", "data", "--stdin", "data", "--output", "made", "--stdout", "said"];
    let (code, said) = ada.run(&options, "cat data > made; cat; echo hidden > other");
    assert_eq!((code, &*said), (0, "data\n"), "{said}");
    let taken = |name: &str| fs::read_to_string(site.path("shared").join(name)).ok();
    assert_eq!(
        (taken("made").as_deref(), taken("said").as_deref()),
        (Some("data\n"), Some("data\n"))
    );
    assert_ne!(fs::metadata(site.path("shared/made")).expect("taken").uid(), SERVICE);
    // Links that lead to what the service, or somebody else, may read.
    for (at, target) in ["home/server.json", "shared/bobs"].into_iter().enumerate() {
        let (out, link) = (format!("out{at}"), site.text(target));
        let (code, said) = ada.run(&["--output", &out], &format!("ln -s {link} {out}"));
        assert_ne!(code, 0, "{said}");
        let found = taken(&out).unwrap_or_default();
        assert!(!found.contains("token") && !found.contains("of-bob"), "{found}");
    }
    wait_for("all is removed", || site.left().is_empty());
}

#[test]
fn whatever_is_left_in_a_work_directory_is_removed() {
    let Some(site) = Site::with_ids() else { return };
    let ada = site.somebody("ada");
    let outside = site.path("shared/kept");
    fs::write(&outside, "kept\n").expect("a file");
    let deep = "i=0; while [ $i -lt 1000 ]; do mkdir d && cd d || exit 1; i=$((i+1)); done; \
                cd /tmp/shipway/work";
    let link = format!("ln -s {} link; ln -s {} folder", outside.display(), site.text("shared"));
    let closed =
        "mkdir -p a/b; echo x > a/b/c; chmod 0 a/b/c a/b a; mkdir e; chmod 0500 e; chmod 0 .";
    ada.says(&[], &format!("{deep}; {link}; {closed}"));
    wait_for("all is removed", || site.left().is_empty());
    assert_eq!(fs::read_to_string(&outside).expect("not removed"), "kept\n");
}

/// Fills a folder through descriptors, as fast as it can, as long as this lives.
struct Filling(Arc<AtomicBool>);

impl Filling {
    fn start(folder: &Path) -> Self {
        let goes_on = Arc::new(AtomicBool::new(true));
        // Whoever removes is busy with these at first.
        for number in 0..20_000 {
            fs::write(folder.join(number.to_string()), "").expect("a file");
        }
        for thread in 0..6 {
            let held = fs::File::open(folder).expect("a folder");
            let goes_on = Arc::clone(&goes_on);
            std::thread::spawn(move || {
                let by = PathBuf::from(format!("/proc/self/fd/{}", held.as_raw_fd()));
                let mut names = (0_u64..).map(|count| by.join(format!("{thread}.{count}")));
                let mut made = || names.next().is_some_and(|name| fs::write(name, "").is_ok());
                while goes_on.load(Ordering::Relaxed) && made() {}
            });
        }
        Self(goes_on)
    }
}

impl Drop for Filling {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// A process outside can be handed a folder by a task, and hold it when that has ended.
#[test]
fn a_folder_that_is_filled_without_end_keeps_nobody_elses_from_going() {
    let Some(site) = Site::with_ids() else { return };
    let (ada, bob) = (site.somebody("ada"), site.somebody("bob"));
    let mark = format!("30000.{}", std::process::id());
    let job = ada.start(&format!("sleep {mark}"));
    wait_for("it runs", || !users_of(&mark).is_empty());
    let folder = site.left().into_iter().next().expect("a folder of its own");
    let filling = Filling::start(&folder.join("work"));
    let ended = ada.command(&["cancel", &job]).output().expect("started");
    assert!(ended.status.success(), "{}", text(&ended.stderr));
    wait_for("it has ended", || users_of(&mark).is_empty());
    for _ in 0..3 {
        bob.says(&[], "echo mine > file");
        // Hers stays, in its place or where it is kept.
        let is_hers = |left: &PathBuf| left.file_name() == folder.file_name();
        wait_for("his is removed", || site.left().iter().all(is_hers));
    }
    drop(filling);
}

/// Guard and pilot, killed at one stroke: nobody is left to end the task or to remove its folder.
fn kill_pilot(site: &Site) {
    let program = site.text("shipway");
    for entry in fs::read_dir("/proc").expect("proc").flatten() {
        let words = text(&fs::read(entry.path().join("cmdline")).unwrap_or_default());
        let number = entry.file_name().to_string_lossy().parse().ok();
        let is_pilot = words.starts_with(&format!("{program}\0pilot\0"));
        if let Some(pid) = number.filter(|_| is_pilot).and_then(rustix::process::Pid::from_raw) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }
}

#[test]
fn what_a_killed_pilot_left_of_people_is_ended_and_removed() {
    let Some(site) = Site::with_ids() else { return };
    let ada = site.somebody("ada");
    let mark = format!("20000.{}", std::process::id());
    let job = ada.start(&format!("mkdir a; echo x > a/b; chmod 0 a; sleep {mark}"));
    wait_for("it runs", || !users_of(&mark).is_empty());
    let folder = site.left().into_iter().next().expect("a folder of its own");
    kill_pilot(&site);
    let ended = ada.command(&["cancel", &job]).output().expect("started");
    assert!(ended.status.success(), "{}", text(&ended.stderr));
    wait_for("the next pilot has ended it and removed all", || {
        users_of(&mark).is_empty() && !folder.exists() && site.left().is_empty()
    });
}

#[test]
fn a_work_directory_that_is_not_theirs_is_told_with_what_helps() {
    let Some(site) = Site::with_ids() else { return };
    let ada = site.somebody("ada");
    let folder = site.path("not-hers");
    fs::create_dir(&folder).expect("a folder");
    let folder = folder.display().to_string();
    let (code, said) = ada.run(&["--workdir", &folder], "true");
    assert!(code != 0 && said.contains("--workdir private"), "{code} {said}");
    // One that everybody may write to is as good as any.
    assert_eq!(ada.run(&[], "touch here").0, 0);
}

#[test]
fn where_there_are_no_ids_it_is_said() {
    let Some(site) = Site::start("nobody-else:100000:65536\\n") else { return };
    site.node();
    let added = site.owner(&["user", "add", "ada"]);
    let said = text(&added.stderr);
    assert!(said.contains("people are not kept apart") && said.contains("usermod"), "{said}");
    let people = &site.node()["ad"]["people"];
    assert_eq!((&people["apart"], &people["user"]), (&"no".into(), &"shipway-svc".into()));
    assert!(site.owners(&["nodes"]).contains("no: all as shipway-svc"));
}

/// What the doctor advises is done, and then what it advises next.
#[test]
fn ids_that_were_given_later_are_used_after_a_restart() {
    let (none, some) = ("nobody-else:100000:65536\\n", format!("shipway-svc:{FIRST_ID}:{IDS}\\n"));
    let Some(mut site) = Site::start(none) else { return };
    site.node();
    let doctor = |site: &Site, ids: &str| {
        let mut command = with_ids(site.dir.path(), ids);
        let found = command.args(["doctor", "--quick", "--json"]).output().expect("started");
        let found: Value = serde_json::from_slice(&found.stdout).expect("json");
        let of = |name: &str| {
            let checks = found["checks"].as_array().expect("checks");
            let check = checks.iter().find(|check| check["name"] == name);
            check.map(|check| (check["state"].clone(), check["fix"].to_string())).expect(name)
        };
        (of("people"), of("pilot"))
    };
    let (people, pilot) = doctor(&site, none);
    assert!(people.0 == "warning" && people.1.contains("usermod"), "{people:?}");
    assert_eq!(pilot.0, "ok", "it does what was found: {pilot:?}");
    let (people, pilot) = doctor(&site, &some);
    assert_eq!(people.0, "ok", "{people:?}");
    assert!(pilot.0 == "warning" && pilot.1.contains("start `shipway up` again"), "{pilot:?}");
    site.stop();
    fs::remove_file(site.path("home/server.json")).ok();
    site.server = up(site.dir.path(), &some);
    wait_for("the new pilot is there", || {
        site.node()["ad"]["people"]["apart"] == "by_subordinate_id"
    });
    assert_eq!(doctor(&site, &some).1.0, "ok");
}
