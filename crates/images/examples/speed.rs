//! How fast is unpacking, and against what? An image is built from files of this machine, pushed
//! to a registry on loopback, and taken apart by several tools in turn, each into fresh
//! directories, in interleaved rounds. At the end our tree is compared with umoci's.
//!
//! `cargo run --release -p shipway-images --example speed -- DIR [ROUNDS] [MEGABYTES] [--json]`
//!
//! Needs umoci, skopeo, docker-registry and, for its row, podman. Nothing in DIR is removed until
//! the end: a file system that has just lost many files makes new ones slowly.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "its output is its purpose")]

#[path = "../tests/images/listing.rs"]
mod listing;

use libdeflater::Decompressor;
use shipway_images::progress::Silent;
use shipway_images::tar::{Kind, Member, TarReader, Time, write};
use shipway_images::{Holder, Pull, Settings, Store, walk};
use shipway_model::Timestamp;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

const LAYERS: usize = 4;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (options, words): (Vec<&str>, Vec<&str>) =
        args.iter().map(String::as_str).partition(|word| *word == "--json");
    let number = |word: &str| word.parse().expect("a number");
    let (dir, rounds, megabytes) = match words[..] {
        ["floor", layout, to] => return floor(Path::new(layout), Path::new(to)),
        ["ours", reference, to] => return ours(reference, Path::new(to)),
        [dir] => (dir, 3, 500),
        [dir, rounds] => (dir, number(rounds), 500),
        [dir, rounds, size] => (dir, number(rounds), number(size)),
        _ => return eprintln!("usage: speed DIR [ROUNDS] [MEGABYTES] [--json]"),
    };
    let seconds = compare(Path::new(dir), rounds, megabytes);
    if !options.is_empty() {
        println!("{}", serde_json::to_string(&seconds).expect("plain data"));
    }
}

/// The least that could be done: each layer inflated in one go, each file written once. Layers
/// side by side, nothing verified, nothing shared.
fn floor(layout: &Path, to: &Path) {
    fs::create_dir_all(to).expect("made");
    let blobs = fs::read_dir(layout.join("blobs/sha256")).expect("listed");
    let blobs: Vec<PathBuf> = blobs.map(|entry| entry.expect("entry").path()).collect();
    std::thread::scope(|scope| {
        for (number, blob) in blobs.into_iter().enumerate() {
            let dir = to.join(number.to_string());
            scope.spawn(move || {
                let packed = fs::read(blob).expect("read");
                if !packed.starts_with(&[0x1f, 0x8b]) {
                    return;
                }
                fs::create_dir(&dir).expect("made");
                let size = packed.last_chunk::<4>().expect("a trailer");
                let mut tar = vec![0; usize::try_from(u32::from_le_bytes(*size)).expect("fits")];
                Decompressor::new().gzip_decompress(&packed, &mut tar).expect("inflated");
                write_files(&tar, &dir);
            });
        }
    });
    sync(to);
}

fn write_files(tar: &[u8], dir: &Path) {
    let mut reader = TarReader::new(tar);
    let mut number = 0u64;
    while let Some(member) = reader.next_member().expect("an archive") {
        if member.kind == Kind::File {
            number += 1;
            let mut file = File::create_new(dir.join(number.to_string())).expect("made");
            file.write_all(reader.content().expect("content")).expect("written");
        }
    }
}

fn sync(at: &Path) {
    rustix::fs::syncfs(File::open(at).expect("opened")).expect("synced");
}

fn ours(reference: &str, to: &Path) {
    let holder = Holder::begin(&Store::create(to).expect("store")).expect("holder");
    let settings = Settings::default();
    let pull = Pull { holder: &holder, settings: &settings, progress: &Silent, now: Timestamp(0) };
    let done = pull.run(&reference.parse().expect("reference")).expect("pulled");
    assert!(done.fetched);
}

/// A layout with real files of this machine, in layers of about the same size.
fn build(dir: &Path, megabytes: u64) -> PathBuf {
    let layout = dir.join("layout");
    let image = format!("{}:latest", layout.display());
    run(Command::new("umoci").arg("init").arg("--layout").arg(&layout));
    run(Command::new("umoci").args(["new", "--image", &image]));
    let mut roots = vec![PathBuf::from("/usr/lib"), "/usr/share".into(), "/usr/bin".into()];
    let mut total = 0;
    for layer in 0..LAYERS {
        let part = dir.join(format!("part{layer}"));
        let mut size = 0;
        while size < megabytes * 1_000_000 / LAYERS as u64 {
            let Some(from) = roots.pop() else { break };
            size += copy(&from, &part.join(from.strip_prefix("/").expect("absolute")), &mut roots);
        }
        total += size;
        let tar = dir.join(format!("part{layer}.tar"));
        walk::archive(&part, File::create(&tar).expect("made")).expect("written");
        run(Command::new("umoci").args(["raw", "add-layer", "--image", &image]).arg(&tar));
    }
    let tar = dir.join("changes.tar");
    fs::write(&tar, changes(&dir.join("part0"))).expect("written");
    run(Command::new("umoci").args(["raw", "add-layer", "--image", &image]).arg(&tar));
    println!("image: {LAYERS} layers and one of changes, {} MB of files", total / 1_000_000);
    layout
}

/// Effective `cap_net_raw`, as the kernel stores it.
const CAPABILITY: [u8; 20] = [1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// A layer that hides, replaces and links what is below it.
fn changes(below: &Path) -> Vec<u8> {
    let mut out = Vec::new();
    let mut add = |path: String, kind: Kind, link: &str| {
        let capable = path.ends_with("capable");
        let member = Member {
            path: path.into_bytes(),
            kind,
            mode: if capable || kind == Kind::Dir { 0o755 } else { 0o644 },
            uid: 12,
            gid: 34,
            mtime: Time { seconds: 1_000_000_000, nanos: 0 },
            link: link.as_bytes().to_vec(),
            size: 0,
            sparse: None,
            xattrs: if capable {
                vec![(b"security.capability".to_vec(), CAPABILITY.to_vec())]
            } else {
                Vec::new()
            },
        };
        write::header(&mut out, &member).expect("memory");
    };
    let mut files = Vec::new();
    let mut todo = vec![below.to_path_buf()];
    while let Some(dir) = todo.pop() {
        for entry in fs::read_dir(dir).expect("listed").flatten() {
            match entry.file_type().expect("a kind") {
                kind if kind.is_dir() => todo.push(entry.path()),
                kind if kind.is_file() => files.push(entry.path()),
                _ => {}
            }
        }
    }
    files.sort();
    add("hard/".into(), Kind::Dir, "");
    // Within the layer: podman takes no hard links to what is below.
    add("hard/first".into(), Kind::File, "");
    add("bin-of-changes/".into(), Kind::Dir, "");
    let inside = |path: &Path| path.strip_prefix(below).expect("below").display().to_string();
    // Each kind of change to its own part of the files, so that none meets another.
    for (number, file) in files.iter().enumerate().filter(|(number, _)| number % 50 == 0) {
        let (dir, name) = (file.parent().expect("below"), file.file_name().expect("a name"));
        let name = name.to_string_lossy();
        match number / 50 % 3 {
            0 => add(format!("{}/.wh.{name}", inside(dir)), Kind::File, ""),
            1 => add(format!("hard/{number}"), Kind::HardLink, "hard/first"),
            _ => add(format!("{}/link-{number}", inside(dir)), Kind::Symlink, &name),
        }
    }
    if let Some(dir) = files.last().and_then(|file| file.parent()) {
        add(format!("{}/.wh..wh..opq", inside(dir)), Kind::File, "");
        add(format!("{}/instead", inside(dir)), Kind::File, "");
    }
    add("bin-of-changes/capable".into(), Kind::File, "");
    write::end(&mut out).expect("memory");
    out
}

/// Whether our tree is umoci's, name by name.
fn judge(dir: &Path) {
    let store = Store::open(&dir.join("unpack1")).expect("a store");
    let image = store.images().expect("listed").pop().expect("an image").image;
    let ours = listing::listing(&store.tree(&image));
    let theirs = listing::listing(&dir.join("umoci1/rootfs"));
    let differs = |path: &&String| ours.get(*path) != theirs.get(*path);
    let all: std::collections::BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
    let other: Vec<&String> = all.iter().copied().filter(differs).collect();
    println!("our tree and umoci's: {} names, {} differ", all.len(), other.len());
    for path in other.iter().take(10) {
        println!("  {path}: {:?} {:?}", ours.get(*path), theirs.get(*path));
    }
}

/// Copies the files of a directory; its directories are left for another time.
fn copy(from: &Path, to: &Path, dirs: &mut Vec<PathBuf>) -> u64 {
    fs::create_dir_all(to).expect("made");
    let mut size = 0;
    for entry in fs::read_dir(from).into_iter().flatten().flatten() {
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type().expect("a kind");
        if kind.is_dir() {
            dirs.push(path);
        } else if kind.is_symlink() {
            let _ = std::os::unix::fs::symlink(fs::read_link(path).expect("read"), target);
        } else if kind.is_file() {
            size += fs::copy(path, target).unwrap_or(0);
        }
    }
    size
}

/// Prints what was measured, and returns the seconds of each round by what was done.
fn compare(dir: &Path, rounds: u64, megabytes: u64) -> BTreeMap<&'static str, Vec<f64>> {
    fs::create_dir_all(dir).expect("made");
    let layout = build(dir, megabytes);
    let port = 15_311;
    let config = format!(
        "version: 0.1\nlog: {{level: error}}\nstorage:\n  filesystem: {{rootdirectory: {}}}\n\
         http: {{addr: 127.0.0.1:{port}}}\n",
        dir.join("registry").display()
    );
    fs::write(dir.join("registry.yml"), config).expect("written");
    let mut registry = Command::new("docker-registry")
        .arg("serve")
        .arg(dir.join("registry.yml"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("started");
    let name = format!("127.0.0.1:{port}/test/speed:1");
    run(Command::new("skopeo")
        .args(["--insecure-policy", "copy", "-q", "--retry-times=5", "--dest-tls-verify=false"])
        .args([format!("oci:{}:latest", layout.display()), format!("docker://{name}")]));
    let me = std::env::current_exe().expect("this program");
    println!("{:>5}  {:<22}{:>9}{:>9}{:>9}", "round", "what", "wall s", "user s", "system s");
    let mut seconds: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for round in 1..=rounds {
        let fresh = |what: &str| dir.join(format!("{what}{round}")).display().to_string();
        let layout = layout.display().to_string();
        let image = format!("{layout}:latest");
        let root = fresh("podman");
        let pulled = format!("docker://{name}");
        let oci = format!("oci:{layout}");
        let program = me.display().to_string();
        let rows: [(&'static str, Vec<&str>); 5] = [
            ("libdeflate and write", vec![&program, "floor", &layout, &fresh("floor")].leaked()),
            ("ours, unpack", vec![&program, "ours", &oci, &fresh("unpack")].leaked()),
            ("umoci unpack", vec!["umoci", "unpack", "--image", &image, &fresh("umoci")].leaked()),
            ("ours, pull", vec![&program, "ours", &pulled, &fresh("pull")].leaked()),
            (
                "podman pull",
                vec!["podman", "--root", &root, "pull", "-q", "--tls-verify=false", &name].leaked(),
            ),
        ];
        for (what, command) in rows {
            seconds.entry(what).or_default().extend(measure(round, what, &command));
            sync(dir);
        }
        // It leaves its layers mounted, which would keep them from being removed.
        let mounted = Path::new(&root).join("overlay");
        let _ = Command::new("umount").arg(mounted).stderr(Stdio::null()).status();
    }
    let _ = registry.kill();
    let _ = registry.wait();
    judge(dir);
    seconds
}

/// Arguments that outlive the round: a program that measures may leak a few words.
trait Leaked {
    fn leaked(self) -> Vec<&'static str>;
}

impl Leaked for Vec<&str> {
    fn leaked(self) -> Vec<&'static str> {
        self.into_iter().map(|word| &*word.to_owned().leak()).collect()
    }
}

/// Prints wall and processor time of a command, the latter by the shell's own measure. Returns the
/// former unless it failed.
fn measure(round: u64, what: &str, command: &[&str]) -> Option<f64> {
    let mut timed = Command::new("bash");
    timed.args(["-c", "TIMEFORMAT='%U %S'; time \"$@\" > /dev/null 2>&1 || echo failed", "_"]);
    timed.args(command);
    let start = Instant::now();
    let done = timed.output().expect("started");
    let wall = start.elapsed().as_secs_f64();
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    let times: Vec<f64> = said.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let (user, system) = (times.first().unwrap_or(&0.0), times.get(1).unwrap_or(&0.0));
    let failed = if done.stdout.is_empty() { "" } else { "  failed" };
    println!("{round:>5}  {what:<22}{wall:>9.2}{user:>9.2}{system:>9.2}{failed}");
    failed.is_empty().then_some(wall)
}

fn run(command: &mut Command) {
    let done = command.stdin(Stdio::null()).output().expect("started");
    assert!(done.status.success(), "{command:?}: {}", String::from_utf8_lossy(&done.stderr));
}
