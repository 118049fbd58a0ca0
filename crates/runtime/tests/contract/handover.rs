//! What root makes for an account: the account must not be able to turn it into something else
//! while root still works with it. Each attack is made by a process of the task's account.

use crate::site::{NOBODY, Site, wait_for};
use crate::{Case, On};
use shipway_runtime::plan::{Bind, Root, WritableSpace};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

pub(crate) const ALL: &[Case] = &[
    Case { name: "what root works in cannot be exchanged", on: On::All, run: exchanged },
    Case { name: "nothing is made where a link leads", on: On::All, run: raced },
    Case { name: "an end changes nothing outside", on: On::All, run: end },
    Case { name: "nothing is listed that the account may not", on: On::All, run: listed },
    Case { name: "nothing is found that the account may not", on: On::All, run: found },
    Case { name: "a folder of somebody else is not the task's", on: On::Native, run: not_theirs },
    Case { name: "the helper is closed to its account", on: On::All, run: closed_helper },
    Case { name: "a tree of root's cannot be written", on: On::All, run: tree_not_written },
];

/// These cases are for a starter that is root. An ordinary user's turn is one of several, unless
/// nobody here is root: which `main` says.
fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A line of shell, run by the task's account outside of any container.
fn as_nobody(line: &str) -> Command {
    let mut command = Command::new("setpriv");
    command.args([format!("--reuid={NOBODY}"), format!("--regid={NOBODY}")]);
    command.args(["--clear-groups", "sh", "-c", line]).current_dir("/");
    command.stdin(Stdio::null());
    command
}

fn said_by_nobody(line: &str) -> String {
    let done = as_nobody(line).output().expect("setpriv is there");
    String::from_utf8_lossy(&done.stdout).into_owned()
}

/// A tree of root's, closed to all others.
fn closed_tree(site: &Site, name: &str) -> PathBuf {
    let tree = site.other_tree(name);
    fs::set_permissions(&tree, fs::Permissions::from_mode(0o700)).unwrap();
    tree
}

fn exchanged(site: &Site) {
    if !is_root() {
        return;
    }
    let mut container = site.command(&["true"]);
    container.root = Root::Tree(closed_tree(site, "handed"));
    container.tree_is_ours = true;
    container.scratch = Some(WritableSpace::Memory(1 << 20));
    let launch = site.runtime.launch(&container, None).expect("it can be launched");
    let state = site.state().display();
    let moved = said_by_nobody(&format!(
        "cd {state} && find . -mindepth 1 \\( -name 'shipway-*' -o -name tree \\) | \
         while read d; do mv \"$d\" \"$d.moved\" 2>/dev/null && echo \"$d\"; done"
    ));
    drop(launch);
    assert_eq!(moved, "", "moved away by the account");
}

/// Exchanges what root is about to make for links, again and again.
struct Attacker(Child);

impl Attacker {
    fn start(site: &Site, target: &Path) -> Self {
        // Where this program lies the account may not look.
        let own = site.directory("attacker").join("contract");
        fs::copy("/proc/self/exe", &own).unwrap();
        let (word, state) = (crate::EXCHANGE, site.state().display());
        let line = format!("exec {} {word} {state} {}", own.display(), target.display());
        let attacker = Self(as_nobody(&line).spawn().expect("setpriv is there"));
        let running = format!("/proc/{}/cmdline", attacker.0.id());
        wait_for("the attacker to begin", || {
            let line = fs::read_to_string(&running).unwrap_or_default();
            line.contains(word) && !line.contains("setpriv") && !line.contains("exec")
        });
        attacker
    }
}

impl Drop for Attacker {
    fn drop(&mut self) {
        let _killed = self.0.kill();
        let _reaped = self.0.wait();
    }
}

/// The body of the attacker. It tries where it may make something: in the place itself, and in
/// what of it has its own number.
pub(crate) fn exchange_for_ever(place: &Path, target: &Path) -> ! {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    let places = [place.to_owned(), place.join(NOBODY.to_string())];
    let mut kept = 0;
    loop {
        for place in &places {
            let Ok(entries) = fs::read_dir(place) else { continue };
            let link = place.join(".link");
            // There already, or nothing can be made there.
            let _made = symlink(target, &link);
            for entry in entries.filter_map(Result::ok) {
                if !entry.file_name().to_string_lossy().starts_with("shipway-") {
                    continue;
                }
                if renameat_with(CWD, entry.path(), CWD, &link, RenameFlags::EXCHANGE).is_ok() {
                    kept += 1;
                    let _out_of_the_way = fs::rename(&link, place.join(format!("kept-{kept}")));
                    let _made = symlink(target, &link);
                }
            }
        }
    }
}

fn raced(site: &Site) {
    const ROUNDS: usize = 100;
    if !is_root() {
        return;
    }
    let target = site.directory("raced-target");
    std::os::unix::fs::chown(&target, Some(0), Some(0)).unwrap();
    fs::write(target.join("run"), "root's").unwrap();
    // The account's first container: from then on it knows where the others will be.
    let mut container = site.command(&["true"]);
    container.scratch = Some(WritableSpace::Memory(1 << 20));
    drop(site.runtime.launch(&container, None).expect("it can be launched"));
    let attacker = Attacker::start(site, &target);
    for _ in 0..ROUNDS {
        drop(site.runtime.launch(&container, None));
    }
    drop(attacker);
    let found: Vec<PathBuf> =
        fs::read_dir(&target).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(found, [target.join("run")], "made by root where a link led");
    let owners = [&target, &target.join("run")].map(|path| path.metadata().unwrap().uid());
    assert_eq!(owners, [0, 0], "given away");
}

fn end(site: &Site) {
    if !is_root() {
        return;
    }
    let target = site.directory("end-target").join("secret");
    fs::write(&target, "root's").unwrap();
    fs::set_permissions(&target, fs::Permissions::from_mode(0o600)).unwrap();
    let mut container = site.command(&["true"]);
    container.scratch = Some(WritableSpace::Memory(1 << 20));
    let launch = site.runtime.launch(&container, None).expect("it can be launched");
    let (state, to) = (site.state().display(), target.display());
    said_by_nobody(&format!(
        "find {state} -type d -writable 2>/dev/null | while read d; do \
         mkdir -p \"$d/layer/work\"; rm -rf \"$d/layer/work/work\"; \
         ln -s {to} \"$d/layer/work/work\"; done"
    ));
    drop(launch);
    let found = target.metadata().expect("it is still there");
    assert_eq!((found.mode() & 0o777, found.uid()), (0o600, 0));
}

/// A tree that the account may not list is not listed for it.
fn listed(site: &Site) {
    if !is_root() {
        return;
    }
    let tree = closed_tree(site, "unlisted");
    fs::create_dir(tree.join("a-name-of-roots")).unwrap();
    let mut container = site.command(&["true"]);
    container.root = Root::Tree(tree);
    container.scratch = Some(WritableSpace::Memory(1 << 20));
    let launch = site.runtime.launch(&container, None);
    let found = said_by_nobody(&format!(
        "grep -rl a-name-of-roots {0} 2>/dev/null; find {0} -name a-name-of-roots 2>/dev/null",
        site.state().display()
    ));
    drop(launch);
    assert_eq!(found, "");
}

/// What lies in a folder that is closed to the account is as good as not there, whoever looks:
/// as the place of a bind below another one, and as the source of one.
fn found(site: &Site) {
    if !is_root() {
        return;
    }
    let shared = site.directory("shared-with-all");
    let closed = shared.join("closed");
    fs::create_dir_all(closed.join("there")).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
    let own = site.directory("own-bind");
    let mut container = site.command(&["true"]);
    container.root = Root::Tree(closed_tree(site, "found"));
    container.tree_is_ours = true;
    container.scratch = Some(WritableSpace::Memory(1 << 20));
    let [there, absent] = ["there", "absent"].map(|name| {
        let place = Path::new("/tmp/shared/closed").join(name);
        container.binds = vec![Bind::read_only(&shared, "/tmp/shared").asked_for()];
        container.binds.push(Bind::read_only(&own, place));
        let nested = site.run(&container);
        nested.refusal_or_failure();
        container.binds = vec![Bind::read_only(closed.join(name), "/tmp/closed")];
        let source = site.run(&container);
        source.refusal_or_failure();
        // Its bundle, which the account can read, would say whether it is a folder.
        if site.runtime.name() == "crun" {
            source.refusal();
        }
        let said =
            format!("{:?} {} {:?} {}", nested.ending, nested.stderr, source.ending, source.stderr);
        said.replace(name, "NAME")
    });
    assert_eq!(there, absent, "told by whether it is there");
}

/// Folders that are opened for a task with root's rights must be the task's own.
fn not_theirs(site: &Site) {
    if !is_root() {
        return;
    }
    let (others, own) = (site.directory("of-others"), site.directory("own-folder"));
    std::os::unix::fs::chown(&others, Some(0), Some(0)).unwrap();
    fs::set_permissions(&others, fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(others.join("secret"), "of others").unwrap();
    let link = site.directory("with-link").join("link");
    symlink(&others, &link).unwrap();
    for source in [&others, &link, &others.join("secret")] {
        let mut container = site.command(&["ls", "/tmp/own"]);
        container.binds = vec![Bind::read_only(source, "/tmp/own").made_for_it()];
        site.run(&container).refusal();
    }
    let mut container = site.command(&["ls", "/tmp/own"]);
    container.binds = vec![Bind::read_only(&own, "/tmp/own").made_for_it()];
    site.ok(&container);
}

/// While a container runs, what its account finds of the processes that made it.
fn closed_helper(site: &Site) {
    if !is_root() {
        return;
    }
    let tree = closed_tree(site, "closed-helper");
    let mut container = site.script("echo ready; cat");
    container.root = Root::Tree(tree.clone());
    container.tree_is_ours = true;
    container.scratch = Some(WritableSpace::Memory(1 << 20));
    let (reading, writing) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
    let (mut child, _after) = site.start(&container, Some(reading));
    crate::lifetimes::wait_until_ready(&mut child);
    // Everything of this account, by every door of /proc.
    let tree_name = tree.file_name().unwrap().to_str().unwrap();
    let line = format!(
        "for p in /proc/[0-9]*; do for d in $p/cwd $p/fd/*; do \
           (echo written > $d/etc/marker) 2>/dev/null && echo $d; \
           (echo written > $d/new) 2>/dev/null && echo $d; done; \
         find $p/root/ -xdev -maxdepth 6 -name marker -path '*tree*' 2>/dev/null | \
           while read f; do (echo written > \"$f\") 2>/dev/null; done; \
         find $p/root/tmp -maxdepth 5 -path '*{tree_name}*' -name marker 2>/dev/null | \
           while read f; do (echo written > \"$f\") 2>/dev/null; done; done; true"
    );
    said_by_nobody(&line);
    let marker = fs::read_to_string(tree.join("etc/marker")).unwrap();
    let made = tree.join("new").exists() || tree.join("etc/new").exists();
    drop(writing);
    child.wait().unwrap();
    assert_eq!((marker.as_str(), made), ("image\n", false), "the store was changed");
    if site.runtime.name() == "native" {
        closed_doors(site);
    }
}

/// Nothing of the helper can be looked at by its account.
fn closed_doors(site: &Site) {
    let (reading, writing) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
    let (mut child, _after) = site.start(&site.script("echo ready; cat"), Some(reading));
    crate::lifetimes::wait_until_ready(&mut child);
    let line = format!(
        "for d in cwd root exe fd environ mem ns/mnt; do p=/proc/{}/$d; \
         (readlink $p || ls $p/ || head -c 1 $p) >/dev/null 2>&1 && echo $d; done; true",
        child.id()
    );
    let open = said_by_nobody(&line);
    drop(writing);
    child.wait().unwrap();
    assert_eq!(open, "", "open to the account");
}

/// Also where nothing lies above it.
fn tree_not_written(site: &Site) {
    if !is_root() {
        return;
    }
    let tree = closed_tree(site, "not-written");
    let mut container = site.script(
        "(echo x > /etc/marker) 2>/dev/null && echo wrote; rm /bin/ip 2>/dev/null && echo removed; \
         mount -o remount,rw,bind / 2>/dev/null; (echo x > /etc/marker) 2>/dev/null && echo wrote; \
         cat /etc/marker",
    );
    container.root = Root::Tree(tree.clone());
    container.tree_is_ours = true;
    assert_eq!(site.ok(&container), "image\n");
    assert_eq!(fs::read_to_string(tree.join("etc/marker")).unwrap(), "image\n");
}
