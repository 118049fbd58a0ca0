//! Files that travel, through the real binary: a folder that is sent along with a job to a node
//! that shares nothing with whoever submits, and what comes back. Those who mean harm are in
//! `hostile.rs`, those who are killed in `killed.rs`.

#[path = "../common/mod.rs"]
mod common;

mod hostile;
mod killed;

use common::{Ran, World, own_account, wait_for};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A server that runs nothing itself.
fn server(options: &[&str]) -> World {
    let world = World::new();
    world.up_with(&[&["--no-pilot"], options].concat(), |_| {});
    world
}

/// A pilot of another machine, as far as anybody can tell: it knows the server's address, and has a
/// folder of its own.
/// Ended with the test, by its guard.
struct Pilot(Child);

impl Drop for Pilot {
    fn drop(&mut self) {
        common::terminate(self.0.id());
        let _status = self.0.wait();
    }
}

fn pilot(world: &World, name: &str, options: &[&str]) -> Pilot {
    let (dir, file) = (world.work().join(name), world.work().join(format!("{name}.json")));
    std::fs::write(&file, world.ok(&["token", "pilot", "--json"])).expect("written");
    Pilot(pilot_again(world, &dir, &file, options))
}

fn pilot_again(world: &World, dir: &Path, token: &Path, options: &[&str]) -> Child {
    let words = ["pilot", "--dir", dir.to_str().expect("text"), "--server", &world.url()];
    let mut command: Command = world.command(&words);
    command.arg("--token-file").arg(token).args(options);
    if !options.contains(&"--default-image") {
        command.args(["--default-image", "none"]);
    }
    if own_account() == "root" {
        command.args(["--accounts", "root=root"]);
    }
    command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().expect("started")
}

fn write(folder: &Path, name: &str, text: impl AsRef<[u8]>) {
    let path = folder.join(name);
    std::fs::create_dir_all(path.parent().expect("it has one")).expect("made");
    std::fs::write(path, text).expect("written");
}

fn read(path: impl AsRef<Path>) -> String {
    let path = path.as_ref();
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Runs a command in a folder.
fn cli_in(world: &World, folder: &Path, words: &[&str]) -> Ran {
    let mut command = world.command(words);
    let output = command.current_dir(folder).stdin(Stdio::null()).output().expect("it runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    Ran { code: output.status.code().unwrap_or(-1), stdout, stderr }
}

/// A source folder as people have one.
fn source(world: &World) -> PathBuf {
    let folder = world.work().join("source");
    let makefile = "all: out/prog\nout/prog: main.sh\n\tmkdir -p out\n\tcp main.sh out/prog\n\
                    \tchmod +x out/prog\n\t@echo built\n";
    write(&folder, "Makefile", makefile);
    write(&folder, "main.sh", "#!/bin/sh\necho hello\n");
    write(&folder, ".gitignore", "*.log\n");
    write(&folder, "old.log", "stays");
    write(&folder, "sub/deep/data", "data");
    symlink("main.sh", folder.join("link")).expect("made");
    symlink("/etc/passwd", folder.join("passwd")).expect("made");
    folder
}

/// Contents that the server keeps.
fn contents(world: &World) -> usize {
    let files = world.home().join("files");
    let mut find = Command::new("find");
    let found = find.arg(files).args(["-path", "*/content/*", "-type", "f"]).output();
    let found = found.expect("find").stdout;
    String::from_utf8(found).expect("text").lines().count()
}

#[test]
fn what_is_built_on_a_node_that_shares_nothing_comes_back() {
    let world = server(&[]);
    let _pilot = pilot(&world, "node", &[]);
    let folder = source(&world);
    let ran = cli_in(&world, &folder, &["run", "--sandbox", "--", "make"]);
    assert_eq!(ran.code, 0, "{}{}", ran.stderr, world.server_log());
    assert!(ran.stdout.contains("built"), "{}", ran.stdout);
    assert!(ran.stderr.contains("shipway: wrote ./out/prog"), "{}", ran.stderr);
    assert!(ran.stderr.contains("passwd is a link that leads out of here"), "{}", ran.stderr);
    assert_eq!(read(folder.join("out/prog")), read(folder.join("main.sh")));
    let mode = std::fs::metadata(folder.join("out/prog")).expect("there").permissions().mode();
    assert_eq!(mode & 0o111, 0o111, "it can be run");
    // What the task saw.
    let look = "ls -A; cat sub/deep/data; readlink link; test ! -e passwd && pwd";
    let ran = cli_in(&world, &folder, &["run", "--sandbox", "--", "sh", "-c", look]);
    let lines: Vec<&str> = ran.stdout.lines().collect();
    let here = [".gitignore", "Makefile", "link", "main.sh", "out", "sub"];
    assert_eq!(lines[..6], here, "{}{}", ran.stdout, ran.stderr);
    assert!(lines[6].starts_with("datamain.sh"), "{}", ran.stdout);
    let node = world.work().join("node");
    assert!(ran.stdout.trim().ends_with("work") && ran.stdout.contains(node.to_str().unwrap()));
    assert!(!ran.stderr.contains("wrote"), "nothing is new: {}", ran.stderr);
}

#[test]
fn only_what_changed_travels_again_and_nothing_of_ones_own_is_lost() {
    let world = server(&[]);
    let _pilot = pilot(&world, "node", &[]);
    let folder = source(&world);
    let script = "echo from the task > main.sh; echo new > made; echo mine > notes";
    let ran = cli_in(&world, &folder, &["run", "--sandbox", "--", "true"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let before = contents(&world);
    write(&folder, "sub/deep/data", "changed");
    let ran = cli_in(&world, &folder, &["run", "--sandbox", "--", "true"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    // The file, the list of files, and the list of nothing that came back is the same.
    assert_eq!(contents(&world), before + 2, "one file and the list of all of them");
    // While it runs the person goes on writing.
    let words = ["run", "--sandbox", "--", "sh", "-c"];
    let go_on =
        format!("{script}; until [ -e {} ]; do sleep 0.05; done", folder.join("go").display());
    let mut running = world.command(&[&words[..], &[&go_on]].concat());
    let running = running.current_dir(&folder).stdin(Stdio::null()).stderr(Stdio::piped());
    let running = running.spawn().expect("started");
    wait_for("it runs", || world.json(&["jobs"])["jobs"][0]["state"] == "running");
    write(&folder, "notes", "the person's own");
    write(&folder, "go", "");
    let ended = running.wait_with_output().expect("it ends");
    let said = String::from_utf8(ended.stderr).expect("text");
    assert!(ended.status.success(), "{said}");
    assert_eq!(read(folder.join("main.sh")), "from the task\n", "as it had travelled: {said}");
    assert_eq!(read(folder.join("made")), "new\n");
    assert_eq!(read(folder.join("notes")), "the person's own");
    let job = world.json(&["jobs"])["jobs"][0]["id"].to_string();
    assert_eq!(read(folder.join(format!("notes.from-{job}-0"))), "mine\n", "{said}");
    assert!(said.contains("notes is another one here, and was left as it is"), "{said}");
}

#[test]
fn outputs_of_many_tasks_are_listed_and_fetched() {
    let world = server(&[]);
    let _pilot = pilot(&world, "node", &[]);
    let folder = source(&world);
    let script = "mkdir out; echo $SHIPWAY_INDEX > out/x.txt; echo no > out/y.dat; echo z > z";
    let words = ["run", "-d", "--sandbox", "--array", "3-5", "--output", "out/*.txt", "--"];
    let ran = cli_in(&world, &folder, &[&words[..], &["sh", "-c", script]].concat());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let job = ran.stdout.trim().to_owned();
    assert_eq!(world.cli(&["wait", &job]).code, 0, "{}", world.ok(&["show", &job]));
    let listed = world.json(&["outputs", &job]);
    assert_eq!(listed["tasks"].as_array().expect("a list").len(), 3);
    assert_eq!(listed["tasks"][1]["task"], format!("{job}/4"));
    assert_eq!(listed["tasks"][1]["files"][0]["path"], "out/x.txt");
    assert_eq!(listed["tasks"][1]["files"].as_array().expect("a list").len(), 1);
    assert!(world.ok(&["outputs", &job]).contains("out/x.txt"));
    let to = world.work().join("results");
    world.ok(&["outputs", &job, "-o", to.to_str().expect("text")]);
    assert_eq!(read(to.join("5/out/x.txt")), "5\n");
    let one = world.work().join("one");
    let task = format!("{job}/4");
    world.ok(&["outputs", &task, "out", "-o", one.to_str().expect("text")]);
    assert_eq!(read(one.join("out/x.txt")), "4\n");
    assert_eq!(world.ok(&["outputs", &task, "nothing"]).trim(), "Nothing is kept of it.");
    let none = world.cli(&["outputs", &format!("{job}/9")]);
    assert_eq!(none.code, 3, "{}", none.stderr);
}

/// In a container, where the work directory is at another place, and by whoever may start one.
#[test]
fn a_container_has_them_in_its_own_work_directory() {
    let world = World::new();
    world.up_with(&["--default-image", "host"], |_| {});
    let folder = source(&world);
    let ran = cli_in(&world, &folder, &["run", "--sandbox", "--", "make"]);
    assert_eq!(ran.code, 0, "{}{}", ran.stderr, world.server_log());
    assert_eq!(read(folder.join("out/prog")), read(folder.join("main.sh")));
}

#[test]
fn ten_thousand_small_files_and_a_large_one_travel() {
    let world = server(&[]);
    let _pilot = pilot(&world, "node", &[]);
    let folder = world.work().join("many");
    let count = if common::quick() { 500 } else { 10_000 };
    for at in 0..count {
        write(&folder, &format!("d{}/f{at}", at % 100), format!("file {at}\n"));
    }
    let large: Vec<u8> =
        (0..40_000_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    write(&folder, "large", &large);
    let script = "find . -name 'f*' | wc -l; cat $(find . -name 'f1*' | sort) | cksum; \
                  cksum < large; cp large copy";
    let here = Command::new("sh").args(["-c", script]).current_dir(&folder).output().expect("sh");
    std::fs::remove_file(folder.join("copy")).expect("it was there");
    let ran = cli_in(&world, &folder, &["run", "--sandbox", "--", "sh", "-c", script]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(ran.stdout, String::from_utf8_lossy(&here.stdout));
    assert!(std::fs::read(folder.join("copy")).expect("it came back") == large);
}
