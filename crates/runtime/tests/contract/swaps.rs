//! Somebody exchanges what a path leads to, while a container is made on the node's own tree:
//! folders for links to what no task may see, and places of binds for other places. Each attack is
//! made by a thread with the rights of the task.

use crate::site::Site;
use crate::{Case, On};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use shipway_runtime::binds::{AllowList, Allowed};
use shipway_runtime::plan::{Bind, Container, Root};
use shipway_runtime::report::Ending;
use std::fs;
use std::io::Read;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) const ALL: &[Case] = &[
    Case { name: "a folder that became a link is not made anew", on: On::Native, run: folder },
    Case { name: "an entry that became a link is not followed", on: On::Native, run: entries },
    Case { name: "no source of a guest can be exchanged", on: On::All, run: of_guests },
    Case { name: "what is covered stays so when it is moved", on: On::Native, run: moved },
];

/// Where temporary folders are that a task on the node's own tree sees.
pub(crate) const SHOWN: &str = "SHIPWAY_SHOWN";

/// Files in a folder that takes long to be made anew: time for an attacker to act in. No more than
/// a container mounts one by one.
const MANY: usize = 2000;

/// Folders that are covered one by one.
const SOME: usize = 1000;

/// How often a race is run that an attacker does not win each time.
const TRIES: usize = 5;

/// A folder with something in it that is closed, and a folder that tasks may write.
struct Ground {
    dir: tempfile::TempDir,
}

impl Ground {
    /// `None` for root's containers: nothing is different in them, and where tests may make folders
    /// their accounts see none.
    fn new() -> Option<Self> {
        if rustix::process::geteuid().is_root() {
            return None;
        }
        let above = std::env::var_os(SHOWN).unwrap_or(env!("CARGO_TARGET_TMPDIR").into());
        let dir = tempfile::tempdir_in(above).unwrap();
        crate::site::open_to_all(dir.path());
        let ground = Self { dir };
        fs::create_dir(ground.data()).unwrap();
        fs::set_permissions(ground.data(), fs::Permissions::from_mode(0o777)).unwrap();
        ground.keep("kept");
        Some(ground)
    }

    fn top(&self) -> PathBuf {
        self.dir.path().canonicalize().unwrap()
    }

    fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// A folder with a secret.
    fn keep(&self, name: &str) -> PathBuf {
        let kept = self.top().join(name);
        fs::create_dir_all(&kept).unwrap();
        fs::write(kept.join("token"), "secret\n").unwrap();
        kept
    }

    /// A task on the node's own tree that reads all tokens there are in the folder.
    fn task(&self, site: &Site, tokens: &str) -> Container {
        let line = format!("cat {}/{tokens} 2>/dev/null; echo end", self.data().display());
        let mut container = site.command(&["/bin/sh", "-c", &line]);
        container.root = Root::Host;
        container.env = vec![("PATH".into(), "/usr/bin:/bin".into())];
        container.reach.closed = vec![self.top().join("kept")];
        container
    }
}

fn exchange(one: &Path, other: &Path) {
    renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).unwrap();
}

/// Runs a container. As soon as a folder is listed for it, pairs of others are exchanged.
fn when_listed(
    site: &Site,
    container: &Container,
    folder: &Path,
    pairs: &[(PathBuf, PathBuf)],
) -> String {
    let looks = inotify::init(CreateFlags::CLOEXEC).unwrap();
    inotify::add_watch(&looks, folder, WatchFlags::ACCESS).unwrap();
    let outcome = std::thread::scope(|scope| {
        scope.spawn(|| {
            rustix::io::read(&looks, &mut [0; 512]).unwrap();
            for (one, other) in pairs {
                exchange(one, other);
            }
        });
        let outcome = site.run(container);
        // Where it was refused before, nobody has looked yet.
        assert!(fs::read_dir(folder).unwrap().count() > 0);
        outcome
    });
    assert_eq!(outcome.ending, Ending::Exit(0), "{}", outcome.stderr);
    outcome.stdout
}

/// It is a folder when it is looked at, and a link when it is opened. In between another one is
/// made anew: whoever sees that begin, exchanges it.
fn folder(site: &Site) {
    let Some(ground) = Ground::new() else { return };
    let (many, x, link) = ["a", "x", "y"].map(|name| ground.data().join(name)).into();
    fs::create_dir(&many).unwrap();
    (0..MANY).for_each(|number| fs::write(many.join(number.to_string()), "").unwrap());
    fs::create_dir(&x).unwrap();
    symlink(ground.top().join("kept"), &link).unwrap();
    let mut container = ground.task(site, "x/token");
    container.binds =
        [&many, &x].map(|folder| Bind::read_only("/usr", folder.join("missing"))).to_vec();
    let said = when_listed(site, &container, &many, &[(x, link)]);
    assert_eq!(said, "end\n", "the link was followed");
}

/// They are folders when they are listed, and links when they are taken.
fn entries(site: &Site) {
    let Some(ground) = Ground::new() else { return };
    let (many, links) = (ground.data().join("many"), ground.data().join("links"));
    let pairs: Vec<(PathBuf, PathBuf)> = (0..MANY)
        .map(|number| (many.join(number.to_string()), links.join(number.to_string())))
        .collect();
    for (folder, link) in &pairs {
        fs::create_dir_all(folder).unwrap();
        fs::create_dir_all(&links).unwrap();
        symlink(ground.top().join("kept"), link).unwrap();
    }
    let mut container = ground.task(site, "many/*/token");
    container.binds = vec![Bind::read_only("/usr", many.join("missing"))];
    for _ in 0..TRIES {
        let said = when_listed(site, &container, &many, &pairs);
        assert_eq!(said, "end\n", "a link was followed");
        for (folder, link) in &pairs {
            exchange(folder, link);
        }
    }
}

/// Where a bind lies is exchanged for another folder, while what is closed in it is covered.
fn moved(site: &Site) {
    let Some(ground) = Ground::new() else { return };
    let kept: Vec<PathBuf> =
        (0..SOME).map(|number| ground.keep(&format!("around/kept/{number}"))).collect();
    let (x, z) = (ground.data().join("x"), ground.data().join("z"));
    for folder in [&x, &z] {
        fs::create_dir(folder).unwrap();
    }
    let mut container = ground.task(site, "*/kept/*/token");
    container.reach.closed = kept;
    container.binds = vec![Bind::read_only(ground.top().join("around"), &x).asked_for()];
    container.argv[2].insert_str(0, "echo ready; cat; ");
    for _ in 0..TRIES {
        let said = exchanged_until_ready(site, &container, &x, &z);
        assert_eq!(said, "end\n", "what is closed was seen");
    }
}

/// Where tasks of guests may write, a source is opened once, or not at all: other runtimes open it
/// by its name when it has been judged.
fn of_guests(site: &Site) {
    // Root's tasks are nobody's guests.
    if rustix::process::geteuid().is_root() {
        return;
    }
    let data = site.directory("offered-to-guests");
    fs::create_dir(data.join("x")).unwrap();
    let mut container = site.command(&["ls", "/var"]);
    container.tree_is_ours = true;
    container.reach.guest = true;
    container.reach.offered =
        Some(AllowList::new([Allowed { path: data.clone(), writable: true }]));
    container.binds = vec![Bind::writable(&data, "/var").asked_for()];
    assert_eq!(site.ok(&container), "x\n");
    container.binds = vec![Bind::read_only(data.join("x"), "/var").asked_for()];
    if site.runtime.name() == "native" {
        assert_eq!(site.ok(&container), "");
    } else {
        let outcome = site.run(&container);
        assert!(outcome.refusal().contains("offered for writing"), "{}", outcome.refusal());
    }
}

/// Ends an attack, also where a test fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs a container. Until its task has begun, and is told to go on, two folders are exchanged.
fn exchanged_until_ready(site: &Site, container: &Container, x: &Path, z: &Path) -> String {
    let (reading, writing) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
    let over = AtomicBool::new(false);
    let mut child = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                exchange(x, z);
            }
        });
        let _over = Over(&over);
        let (mut child, _after) = site.start(container, Some(reading));
        crate::lifetimes::wait_until_ready(&mut child);
        child
    });
    drop(writing);
    let mut said = String::new();
    child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    child.wait().unwrap();
    said
}
