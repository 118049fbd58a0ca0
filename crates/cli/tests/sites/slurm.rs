//! Slurm alone: arrays, crashes of the server, and what operators and machines do to pilots.

use crate::common::{World, quick, wait_for};
use crate::engines::slurm::Slurm;
use crate::engines::{remembered, wait_until_empty};
use crate::ground::{
    Class, FEW, SiteFile, WRITE, allocations, book, each_ran_once_with_what_it_asked_for,
    ends_well, free_address, says, site, why,
};
use crate::{faults, killed};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

pub(crate) fn hpc(slurm: &Slurm) -> SiteFile {
    let gpus =
        |name, pilots, model| Class { name, pilots, cpus: 2, gpu: Some((name, model)), more: "" };
    SiteFile {
        name: "hpc",
        kind: "slurm",
        program: PathBuf::from(env!("CARGO_BIN_EXE_shipway")),
        env: vec![("SLURM_CONF", slurm.conf())],
        classes: vec![
            gpus("a100", 3, "NVIDIA A100"),
            gpus("k40", 2, "Tesla K40m"),
            Class { more: ", partition: main", ..Class::cpu(3) },
        ],
        limits: FEW,
        wall: "30m",
        more: String::new(),
    }
}

#[test]
fn arrays_run_there_and_here_each_task_once_where_it_may() {
    let Some(slurm) = Slurm::among() else { return };
    let world = World::started();
    hpc(&slurm).add(&world);
    let count = if quick() { 60 } else { 660 };
    let array = format!("1-{count}");
    let plain = world.submit(&["--array", &array, "--cpus", "0.2", "--", "sh", "-c", WRITE]);
    let gpu = |model: &str| {
        let request = ["--array", &array, "--gpus", model, "--cpus", "0.2"];
        world.submit(&[&request[..], &["--", "sh", "-c", WRITE]].concat())
    };
    let (a100, k40) = (gpu("A100"), gpu("K40"));
    for job in [&plain, &a100, &k40] {
        ends_well(&world, job);
    }
    each_ran_once_with_what_it_asked_for(&world, 3 * count, &plain, "declared-");
    wait_until_empty(&world, "hpc", &*slurm);
    // What each side says of what there was.
    let ended = site(&world, "hpc")["ended"].clone();
    let ended = ended.as_array().expect("a list");
    assert!(ended.iter().all(|one| one["end"] == "completed"), "{ended:?}");
    let theirs = remembered(&world, &*slurm);
    assert!(theirs.iter().all(|(_, state)| state == "COMPLETED"), "{theirs:?}");
    assert_eq!(theirs.len(), ended.len(), "allocation by allocation");
}

#[test]
fn a_server_that_is_killed_while_it_asks_asks_for_nothing_twice() {
    let Some(slurm) = Slurm::among() else { return };
    killed::nothing_twice(&World::new(), hpc(&slurm), &*slurm, ("sbatch", 1));
}

#[test]
fn what_stands_in_the_way_is_said_in_slurms_words_and_is_over_when_it_is() {
    let Some(slurm) = Slurm::alone() else { return };
    let world = World::new();
    world.up_with(&["--no-pilot"], |_| {});
    let right = hpc(&slurm);
    let mut wrong = right.clone();
    wrong.classes = vec![Class { more: ", partition: nowhere", ..Class::cpu(3) }];
    wrong.add(&world);
    let job = world.submit(&["--", "true"]);
    says(&world, &job, "nvalid partition");
    let words = "site hpc (cpu): the batch system refused a pilot";
    assert!(why(&world, &job).contains(words), "{}", why(&world, &job));
    assert_eq!(site(&world, "hpc")["state"], "in trouble");
    right.add(&world);
    ends_well(&world, &job);

    wait_until_empty(&world, "hpc", &*slurm);
    slurm.controller("stop");
    let job = world.submit(&["--", "true"]);
    says(&world, &job, "the batch system was not reached");
    slurm.controller("start");
    ends_well(&world, &job);

    let held = world.submit(&["--cpus", "3", "--", "true"]);
    wait_for("what is missing", || {
        why(&world, &held).contains("site hpc (cpu): needs 3 cores; a pilot has 2")
    });
    let elsewhere = world.submit(&["--workdir", "private", "--gpus", "A100", "--", "sleep", "600"]);
    wait_for("it runs", || world.json(&["show", &elsewhere])["job"]["state"] == "running");
    slurm.type_in("scancel --user=root");
    let task = || world.json(&["show", &format!("{elsewhere}/0")])["task"].clone();
    wait_for("another attempt", || task()["attempt"] == 2);
    let first = task()["attempts"][0]["outcome"].clone();
    assert_eq!(first["kind"], "lost", "{first}");
    world.ok(&["cancel", &elsewhere]);
    world.ok(&["cancel", &held]);
    world.ok(&["site", "drain", "hpc"]);
    wait_until_empty(&world, "hpc", &*slurm);
    world.ok(&["site", "remove", "hpc"]);
    assert_eq!(world.json(&["site", "list"])["sites"], Value::Array(Vec::new()));
}

/// With pilots of one kind, on one node.
fn few(slurm: &Slurm) -> SiteFile {
    SiteFile {
        classes: vec![Class { more: ", submit: [--nodelist=n4]", ..Class::cpu(3) }],
        ..hpc(slurm)
    }
}

pub(crate) fn without_pilot() -> World {
    let world = World::new();
    world.up_with(&["--no-pilot"], |_| {});
    world
}

#[test]
fn a_task_whose_pilot_is_cancelled_runs_again() {
    let Some(slurm) = Slurm::among() else { return };
    let world = without_pilot();
    hpc(&slurm).add(&world);
    let cancel = |id: &str| drop(slurm.type_in(&format!("scancel {id}")));
    faults::outlives_its_pilot(
        &world,
        "hpc",
        &*slurm,
        (cancel, &["site_took_back", "pilot_cancelled"]),
    );
    let words = faults::words_of_end(&world, "hpc", "cancelled");
    assert!(words.starts_with("CANCELLED"), "{words}");
}

/// Its time there is two minutes, of which tasks have one. What has a time limit that is longer
/// stays away, and what has none is told what became of it.
#[test]
fn a_task_whose_pilots_time_is_over_runs_again() {
    let Some(slurm) = Slurm::among() else { return };
    let world = without_pilot();
    SiteFile { wall: "2m", ..few(&slurm) }.add(&world);
    let long = world.submit(&["--time-limit", "2m", "--", "true"]);
    let job = world.submit(&["--", "sh", "-c", faults::STAYS_ONCE]);
    wait_for("it has begun", || world.work().join("began").exists());
    says(&world, &long, "may take 2m30s (its time limit, and the time to end after it); its");
    ends_well(&world, &job);
    let task = faults::task(&world, &job);
    assert_eq!(task["attempt"], 2, "{task:#}");
    let first = &task["attempts"][0]["outcome"];
    assert_eq!((&first["kind"], &first["why"]), (&"lost".into(), &"time_over".into()), "{first}");
    world.ok(&["cancel", &long]);
    wait_until_empty(&world, "hpc", &*slurm);
}

/// Nothing of it says goodbye, and this Slurm does not end what its tasks have left.
#[test]
fn a_task_whose_pilot_is_killed_runs_again() {
    let Some(slurm) = Slurm::among() else { return };
    let world = without_pilot();
    hpc(&slurm).add(&world);
    let kill = |id: &str| {
        let script = format!(
            "for it in /proc/[0-9]*; do grep -qz '^SLURM_JOB_ID={id}$' $it/environ 2> /dev/null && \
             grep -qz '^pilot$' $it/cmdline && kill -KILL ${{it#/proc/}}; done; true"
        );
        slurm.type_in(&script);
    };
    faults::outlives_its_pilot(&world, "hpc", &*slurm, (kill, &["pilot_died"]));
    let ended = site(&world, "hpc")["ended"].clone();
    assert_eq!(ended.as_array().map(Vec::len), Some(1), "another pilot in its place: {ended:#}");
    assert_eq!(ended[0]["end"], "completed");
}

#[test]
fn a_pilot_that_is_held_says_so_and_runs_when_it_is_released() {
    let Some(slurm) = Slurm::among() else { return };
    let world = without_pilot();
    let mut held = few(&slurm);
    held.more = "submit: [--hold]\n".to_owned();
    held.add(&world);
    let job = world.submit(&["--", "sh", "-c", WRITE]);
    says(&world, &job, "PENDING (JobHeldUser)");
    let said = why(&world, &job);
    let whole =
        "site hpc (cpu): 1 pilot is asked for; the batch system says: PENDING (JobHeldUser)";
    assert!(said.contains(whole), "{said}");
    let pilots = allocations(&world, "hpc");
    assert_eq!((pilots.len(), &pilots[0]["phase"]), (1, &Value::from("held")), "{pilots:#?}");
    slurm.type_in(&format!("scontrol release {}", pilots[0]["engine_id"].as_str().expect("text")));
    ends_well(&world, &job);
    assert_eq!(book(&world).len(), 1);
    wait_until_empty(&world, "hpc", &*slurm);
}

#[test]
fn a_full_disk_is_the_reason_that_is_shown() {
    let Some(slurm) = Slurm::among() else { return };
    let world = without_pilot();
    let disk = SmallDisk::at(world.work().join("scratch"));
    let at = disk.0.display();
    let file = SiteFile { more: format!("scratch: {at}\n"), ..few(&slurm) };
    let free = || drop(slurm.type_in(&format!("mount -o remount,nr_inodes=100000 {at}")));
    faults::says_that_its_disk_is_full(&world, &file, &*slurm, free);
}

/// Full, and gone with the test, however that ends.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn at(path: PathBuf) -> SmallDisk {
        let script = "mkdir \"$1\" && mount -t tmpfs -o size=300m,nr_inodes=5 none \"$1\" && \
                      cd \"$1\" && touch 1 2 3 4";
        let made = Command::new("sh").args(["-c", script, "sh"]).arg(&path).status();
        assert!(made.expect("sh starts").success(), "{} is mounted", path.display());
        SmallDisk(path)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // A pilot that still lives there keeps nobody from leaving.
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

/// Its jobs go on without it, and whoever runs there is not lost because the engine thinks so.
#[test]
fn a_node_whose_daemon_is_killed_keeps_its_tasks() {
    let Some(slurm) = Slurm::alone() else { return };
    let world = without_pilot();
    few(&slurm).add(&world);
    let script = "touch began; until [ -e go ]; do sleep 0.1; done; echo $SHIPWAY_TASK >> book";
    let job = world.submit(&["--", "sh", "-c", script]);
    wait_for("it has begun", || world.work().join("began").exists());
    faults::running(&world, "hpc");
    let daemon = slurm.dir().join("run/slurmd.n4.pid");
    slurm.type_in(&format!("kill -KILL $(cat {})", daemon.display()));
    slurm.type_in("scontrol update nodename=n4 state=down reason='lost its power'");
    wait_for("the engine gives it up", || site(&world, "hpc")["ended"] != Value::Array(vec![]));
    let words = faults::words_of_end(&world, "hpc", "node_failed");
    assert!(words.starts_with("NODE_FAIL"), "{words}");
    // Another waits for the node, and is told so; beside the first there is no room for it.
    let other = world.submit(&["--cpus", "2", "--", "sh", "-c", "echo $SHIPWAY_TASK >> book"]);
    assert_eq!(task_state(&world, &job), "running");
    says(&world, &other, "PENDING (");
    std::fs::write(world.work().join("go"), "").expect("written");
    ends_well(&world, &job);
    assert_eq!(faults::task(&world, &job)["attempt"], 1);
    slurm.type_in(&format!("PATH=$PATH:/usr/sbin; rm -f {}; slurmd -N n4", daemon.display()));
    slurm.type_in("scontrol update nodename=n4 state=resume");
    ends_well(&world, &other);
    assert_eq!(book(&world).values().sum::<u32>(), 2, "each once: {:?}", book(&world));
    // What was completing there when the daemon died, Slurm asks after when it sees fit.
}

fn task_state(world: &World, job: &str) -> Value {
    faults::task(world, job)["state"].clone()
}

/// Stands before each command of a login node, which hangs while `hangs` is there. Where `silent`
/// is, its `sbatch` does what it should, and then hangs once.
const HANGING: &str = r#"#!/bin/sh
PATH=/usr/sbin:/usr/bin:/sbin:/bin
cd FOLDER || exit 1
if [ -e hangs ]; then exec sleep 1000; fi
if [ NAME = sbatch ] && mv silent silent.done 2> /dev/null; then
    NAME "$@" > /dev/null
    exec sleep 1000
fi
exec NAME "$@"
"#;

fn behind(world: &World, slurm: &Slurm, name: &'static str) -> SiteFile {
    let folder = world.work().join(name);
    std::fs::create_dir(&folder).expect("made");
    let at = folder.to_str().expect("text");
    for name in ["sbatch", "squeue", "scancel", "sinfo", "scontrol", "sacct"] {
        let text = HANGING.replace("FOLDER", at).replace("NAME", name);
        std::fs::write(folder.join(name), text).expect("written");
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(folder.join(name), mode).expect("made to run");
    }
    let mut site = SiteFile { name, ..hpc(slurm) };
    site.env.push(("PATH", format!("{at}:/usr/bin:/bin")));
    site
}

/// One login node hangs altogether, and another takes a job and never says so. Neither delays
/// anybody else; what was taken is found, and not handed in again.
#[test]
fn a_login_node_that_hangs_delays_nobody_else() {
    // It takes minutes, in which others want one to stop.
    let Some(slurm) = Slurm::own() else { return };
    let world = World::started();
    let (mut stuck, mut silent) =
        (behind(&world, &slurm, "stuck"), behind(&world, &slurm, "silent"));
    stuck.classes.retain(|class| class.name == "k40");
    silent.classes.retain(|class| class.name == "a100");
    let flag = |path: &str| std::fs::write(world.work().join(path), "").expect("written");
    flag("stuck/hangs");
    flag("silent/silent");
    stuck.add(&world);
    silent.add(&world);
    let submit = |needs: &[&str]| world.submit(&[needs, &["--", "sh", "-c", WRITE]].concat());
    let (waits, taken) = (submit(&["--gpus", "K40"]), submit(&["--gpus", "A100"]));
    // Its pilot comes although nobody was told that it was taken.
    ends_well(&world, &taken);
    ends_well(&world, &submit(&[]));
    says(&world, &waits, "site stuck (k40): the batch system was not reached: `s");
    assert!(why(&world, &waits).contains("` did not end within 60 s"), "{}", why(&world, &waits));
    std::fs::remove_file(world.work().join("stuck/hangs")).expect("there");
    ends_well(&world, &waits);
    let book = book(&world);
    assert_eq!((book.len(), book.values().sum::<u32>()), (3, 3), "each once: {book:?}");
    for name in ["stuck", "silent"] {
        wait_until_empty(&world, name, &slurm);
    }
    let all = remembered(&world, &slurm);
    assert_eq!(all.len(), 2, "one for each job: {all:?}");
    let found = site(&world, "silent")["ended"].clone();
    assert_eq!((found.as_array().map(Vec::len), &found[0]["end"]), (Some(1), &"completed".into()));
}

/// Who waits for it comes as soon as there is one.
#[test]
fn pilots_go_by_the_relay_of_their_site() {
    let Some(slurm) = Slurm::among() else { return };
    let world = World::new();
    world.launch(&["--no-pilot", "--tls"], |_| {});
    wait_for("the server answers", || world.cli(&["nodes"]).code == 0);
    let (relay, server) = (free_address(), world.url());
    let certificate = world.home().join("certificate.pem");
    let certificate = certificate.to_str().expect("text");
    let more = format!("relay: {relay}\ncertificate: {certificate}\n");
    SiteFile { more, ..hpc(&slurm) }.add(&world);
    let job = world.submit(&["--array", "1-10", "--cpus", "0.2", "--", "sh", "-c", WRITE]);
    wait_for("a pilot is started", || {
        allocations(&world, "hpc").iter().any(|one| one["phase"] == "running")
    });
    assert_eq!(world.json(&["nodes"])["nodes"], Value::Array(Vec::new()), "there is no relay yet");
    let words = ["relay", "--listen", &relay, "--server", &server, "--ca", certificate];
    let mut relay = world.command(&words).spawn().expect("started");
    ends_well(&world, &job);
    assert_eq!(book(&world).len(), 10);
    wait_until_empty(&world, "hpc", &*slurm);
    relay.kill().expect("a child of ours");
    relay.wait().expect("a child of ours");
}

/// By its slurmrestd and no command of Slurm's: hardware slices, and whole GPUs beside them. Who
/// wants a slice gets one from pilots with slices, and nobody else does.
#[test]
fn slices_come_by_slurmrestd_to_those_who_want_one() {
    let Some(slurm) = Slurm::with_rest() else { return };
    let world = without_pilot();
    let file = |name: &'static str, model| Class {
        name,
        pilots: 2,
        cpus: 2,
        gpu: Some((name, model)),
        more: "",
    };
    let site_file = SiteFile {
        // What the file has of the GPU goes on after the model.
        classes: vec![file("1g.10gb", "NVIDIA A100, slice: 1g.10gb"), file("a100", "NVIDIA A100")],
        // Nothing of Slurm's is found by the server.
        env: vec![("PATH", "/nowhere".to_owned())],
        more: slurm.reach_by_rest(&world.work().join("token")),
        ..hpc(&slurm)
    };
    site_file.add(&world);
    let said = world.cli(&["gpus", "1g.10gb"]).stdout;
    assert!(said.contains("1 × NVIDIA A100 1g.10gb (40GB)"), "{said}");
    let none = world.submit(&["--gpus", "3g.20gb", "--", "true"]);
    for name in ["1g.10gb", "a100"] {
        says(&world, &none, &format!("site hpc ({name}): needs"));
    }
    let slices = world.submit(&["--gpus", "1g.10gb", "--array", "1-4", "--", "sh", "-c", WRITE]);
    ends_well(&world, &slices);
    let names = || -> Vec<String> {
        let ended = site(&world, "hpc")["ended"].as_array().cloned().unwrap_or_default();
        let all = ended.into_iter().chain(allocations(&world, "hpc"));
        all.map(|one| one["class"].as_str().expect("a class").to_owned()).collect()
    };
    assert!(names().iter().all(|name| name == "1g.10gb"), "{:?}", names());
    let whole = world.submit(&["--gpus", "A100", "--", "sh", "-c", WRITE]);
    ends_well(&world, &whole);
    assert_eq!(names().iter().filter(|name| *name == "a100").count(), 1, "{:?}", names());
    assert_eq!(book(&world).len(), 5);
    wait_until_empty(&world, "hpc", &slurm);
    assert!(slurm.type_in("squeue --noheader --states=all --format=%b").contains("gpu:1g.10gb:1"));
    let token = std::fs::read_to_string(world.work().join("token")).expect("there");
    let shown = world.cli(&["site", "show", "hpc", "--json"]).stdout;
    assert!(!shown.contains(token.trim().trim_start_matches("SLURM_JWT=")), "{shown}");
    world.ok(&["cancel", &none]);
}

/// A site where nobody has put the program: it is sent there, and sent again when it is gone.
#[test]
fn the_program_is_sent_to_a_site_that_has_none() {
    let Some(slurm) = Slurm::among() else { return };
    let world = without_pilot();
    let folder = world.work().join("sent here");
    let program = PathBuf::from(format!("send:{}", folder.display()));
    let file = SiteFile { program, ..few(&slurm) };
    file.add(&world);
    ends_well(&world, &world.submit(&["--", "true"]));
    let sent =
        || std::fs::read_dir(&folder).expect("it was made").next().expect("one").expect("it");
    let ours = std::fs::read(env!("CARGO_BIN_EXE_shipway")).expect("there");
    assert!(std::fs::read(sent().path()).expect("there") == ours, "{:?}", sent().path());
    wait_until_empty(&world, "hpc", &*slurm);
    std::fs::write(sent().path(), "#!/bin/sh\nexit 1\n").expect("written");
    world.stop_server();
    world.up_with(&["--no-pilot"], |_| {});
    // It has another address now.
    file.add(&world);
    ends_well(&world, &world.submit(&["--", "true"]));
    assert!(std::fs::read(sent().path()).expect("there") == ours);
    wait_until_empty(&world, "hpc", &*slurm);
}

/// Nothing is shared with it but the program: a folder of sources travels there, is built, and what
/// was made comes back.
#[test]
fn a_folder_is_built_where_nothing_is_shared() {
    let Some(slurm) = Slurm::among() else { return };
    let world = without_pilot();
    hpc(&slurm).add_sharing_nothing(&world);
    let named = world.submit(&["--", "true"]);
    says(&world, &named, "it does not share");
    let folder = world.work().join("source");
    std::fs::create_dir(&folder).expect("made");
    let makefile = "prog: main.sh\n\tcp main.sh prog && chmod +x prog && hostname > where\n";
    std::fs::write(folder.join("Makefile"), makefile).expect("written");
    std::fs::write(folder.join("main.sh"), "#!/bin/sh\necho hello\n").expect("written");
    let mut run = world.command(&["run", "--sandbox", "--", "make"]);
    let ran =
        run.current_dir(&folder).stdin(std::process::Stdio::null()).output().expect("it runs");
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert!(ran.status.success(), "{said}");
    assert!(said.contains("wrote ./prog"), "{said}");
    let made = Command::new(folder.join("prog")).output().expect("it can be run");
    assert_eq!(made.stdout, b"hello\n");
    world.ok(&["cancel", &named]);
    wait_until_empty(&world, "hpc", &*slurm);
}
