//! Whoever is killed while files travel: what had come is gone on with, and nothing partial is
//! seen.

use super::common::{World, kill, wait_for, wait_some};
use super::{cli_in, pilot_again, read, server, write};
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// Large enough that there is a middle to be killed in.
const LARGE: usize = 256 << 20;

fn large(world: &World) -> PathBuf {
    let folder = world.work().join("large");
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut bytes = Vec::with_capacity(LARGE);
    while bytes.len() < LARGE {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_ne_bytes());
    }
    write(&folder, "data", bytes);
    folder
}

/// How much of a content has come there, whichever it is.
fn part(folder: &Path) -> Option<u64> {
    let entries = std::fs::read_dir(folder).ok()?.flatten();
    entries.filter_map(|entry| Some(entry.metadata().ok()?.len())).max().filter(|bytes| *bytes > 0)
}

fn files_of(world: &World) -> PathBuf {
    let users = std::fs::read_dir(world.home().join("files")).expect("somebody has uploaded");
    users.flatten().next().expect("one").path()
}

const SUM: &str = "cksum < data > sum; cat sum";

fn sum(folder: &Path) -> String {
    let mut sh = std::process::Command::new("sh");
    let output = sh.args(["-c", "cksum < data"]).current_dir(folder).output().expect("sh");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn an_upload_goes_on_after_the_server_was_killed() {
    let world = server(&[]);
    let folder = large(&world);
    let words = ["run", "-d", "--sandbox", "--sandbox-size", "1GB", "--", "sh", "-c", SUM];
    let mut first = world.command(&words);
    let first = first.current_dir(&folder).stdin(Stdio::null()).stderr(Stdio::piped());
    let first = first.spawn().expect("started");
    wait_some("a part of it has come", || {
        let users = std::fs::read_dir(world.home().join("files")).ok()?.flatten();
        users.filter_map(|user| part(&user.path().join("part"))).find(|bytes| *bytes > 32 << 20)
    });
    world.kill_server();
    let ended = first.wait_with_output().expect("it ends");
    assert!(!ended.status.success(), "it had not come whole");
    let came = part(&files_of(&world).join("part")).expect("a part is kept");
    assert!(came < LARGE as u64);
    world.up_with(&["--no-pilot"], |_| {});
    let ran = cli_in(&world, &folder, &words);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    // Less than all of it is uploaded now.
    assert!(ran.stderr.contains("uploading") && ran.stderr.contains("of 268"), "{}", ran.stderr);
    assert!(!ran.stderr.contains("uploading 268"), "{}", ran.stderr);
    assert!(part(&files_of(&world).join("part")).is_none(), "nothing is left over");
}

#[test]
fn a_fetch_goes_on_after_the_pilot_was_killed() {
    let world = server(&[]);
    let folder = large(&world);
    let words = ["run", "-d", "--sandbox", "--sandbox-size", "1GB", "--", "sh", "-c", SUM];
    let ran = cli_in(&world, &folder, &words);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let job = ran.stdout.trim().to_owned();
    let (dir, token) = (world.work().join("node"), world.work().join("node.json"));
    std::fs::write(&token, world.ok(&["token", "pilot", "--json"])).expect("written");
    let mut first = pilot_again(&world, &dir, &token, &[]);
    let parts = dir.join("files/part");
    wait_some("a part of it has come", || part(&parts).filter(|bytes| *bytes > 16 << 20));
    for pid in world.processes() {
        let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words = String::from_utf8_lossy(&words).into_owned();
        if words.contains("pilot") && words.contains(dir.to_str().expect("text")) {
            kill(pid);
        }
    }
    let _status = first.wait();
    let came = part(&parts).expect("a part is kept");
    assert!(came < LARGE as u64, "it was killed in the middle");
    let mut again = pilot_again(&world, &dir, &token, &[]);
    assert_eq!(world.cli(&["wait", &job]).code, 0, "{}", world.ok(&["show", &job]));
    let to = world.work().join("back");
    world.ok(&["outputs", &job, "-o", to.to_str().expect("text")]);
    assert_eq!(read(to.join("sum")), sum(&folder));
    wait_for("nothing is left over", || part(&parts).is_none());
    super::common::terminate(again.id());
    let _status = again.wait();
}

#[test]
fn files_wait_for_a_server_that_is_away() {
    let world = server(&[]);
    let folder = large(&world);
    let words = ["run", "-d", "--sandbox", "--sandbox-size", "1GB", "--", "sh", "-c", SUM];
    let job = cli_in(&world, &folder, &words).stdout.trim().to_owned();
    let (dir, token) = (world.work().join("node"), world.work().join("node.json"));
    std::fs::write(&token, world.ok(&["token", "pilot", "--json"])).expect("written");
    let address = world.url().trim_start_matches("http://").to_owned();
    let mut pilot = pilot_again(&world, &dir, &token, &[]);
    let parts = dir.join("files/part");
    wait_some("a part of it has come", || part(&parts).filter(|bytes| *bytes > 16 << 20));
    world.kill_server();
    world.up_with(&["--no-pilot", "--listen", &address], |_| {});
    assert_eq!(world.cli(&["wait", &job]).code, 0, "{}", world.ok(&["show", &job]));
    let shown = world.json(&["show", &format!("{job}/0")]);
    assert_eq!(shown["task"]["attempt"], 1, "it was begun once: {shown:#}");
    super::common::terminate(pilot.id());
    let _status = pilot.wait();
}
