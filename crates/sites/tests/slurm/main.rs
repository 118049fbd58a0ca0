//! Slurm as a site, with a real one: what we hand in starts what we meant, and what we read is what
//! it is. Not how fast anything is, and nothing about the real pilot.
//!
//! Needs root and Debian's packages of Slurm and MariaDB, and is a skip unless it is asked for:
//! `cargo xtask test --only slurm`, which installs them, or
//! `SHIPWAY_TEST_SLURM=1 cargo test -p shipway-sites --test slurm`.

mod accounts;
mod engine;
mod pilot;
mod rest;
#[path = "../ssh/sshd.rs"]
mod sshd;

use engine::{Engine, until};
use pilot::{Stand, seen_as};
use shipway_model::{Bytes, Cores, GpuOption, Millis};
use shipway_sites::batch::{
    AllocationEnd, BatchSystem as _, EngineId, EngineTrouble, Naming, OrderedGpus, SeenPhase,
};
use shipway_sites::slurm::{COMMAND_LIMIT, Slurm};
use sshd::Sshd;
use std::time::Duration;

fn ended(phase: SeenPhase) -> bool {
    matches!(phase, SeenPhase::Ended(_))
}

fn gpus(kind: &str, count: u32) -> OrderedGpus {
    OrderedGpus { count, kind: Some(kind.into()), request: None }
}

#[test]
fn a_pilot_starts_with_what_was_ordered_and_is_cancelled() {
    let Some(engine) = Engine::shared() else { return };
    let (slurm, stand) = (engine.slurm("one"), Stand::new(&engine, "one"));
    let mut order = stand.order("a");
    order.gpus = Some(gpus("k40", 1));
    order.pilot.credentials = vec!["secret-0 it's\n#SBATCH --bogus".into()];
    order.submit_lines = vec!["-C k40".into(), "--comment=two words".into()];
    let id = slurm.submit(&order).expect("it takes it");
    let start = until("the pilot's start", || stand.file("0.start"));
    let lines: Vec<&str> = start.lines().collect();
    let folder = lines[1];
    assert!(folder.starts_with(stand.folder.join("scratch").to_str().expect("text")), "{folder}");
    let words = format!("<pilot><--dir><{folder}><--token-file><{folder}/credentials.json>");
    assert_eq!(lines[0], format!("{words}<--server><https://x>"));
    assert_eq!(lines[2].trim(), "700 . 600 ca.pem 600 credentials.json");
    assert_eq!(lines[3..], ["secret-0 it's", "#SBATCH --bogus"]);
    let env = stand.file("0.env").expect("written");
    assert!(env.contains("CUDA_VISIBLE_DEVICES="), "{env}");
    for file in ["0.env", "0.processes"] {
        assert!(!stand.file(file).expect("written").contains("secret-0"), "{file}");
    }

    let seen = seen_as(&slurm, "a", |phase| phase == SeenPhase::Running);
    assert_eq!((&seen.id, seen.words.as_str()), (&id, "RUNNING"));
    assert_eq!((seen.nodes, seen.expected), (vec!["n3".to_string()], None));
    // Another object knows nothing and finds it by its name; another server does not.
    let later = engine.slurm("one").look().expect("it answers");
    assert_eq!(later.iter().filter(|seen| seen.id == id).count(), 1);
    assert!(engine.slurm("on").look().expect("it answers").is_empty());

    slurm.cancel(std::slice::from_ref(&id)).expect("it is cancelled");
    let seen = seen_as(&slurm, "a", ended);
    assert_eq!(seen.phase, SeenPhase::Ended(AllocationEnd::Cancelled));
    until("the folder is removed", || stand.scratch_is_empty().then_some(()));
    assert_eq!(stand.file("0.end").as_deref(), Some("TERM\n"), "it was asked to end");
    let unknown = EngineId("4000000".into());
    slurm.cancel(&[id, unknown]).expect("what is over is no error");
}

#[test]
fn each_of_several_nodes_has_a_pilot_with_its_own_credentials() {
    let Some(engine) = Engine::shared() else { return };
    several_nodes(&engine, "several", None);
    // In the other words for them each node has as many.
    several_nodes(&engine, "severals", Some(GpuOption::Gpus));
}

fn several_nodes(engine: &Engine, name: &str, request: Option<GpuOption>) {
    let (slurm, stand) = (engine.slurm(name), Stand::new(engine, name));
    let mut order = stand.order("a");
    let each = OrderedGpus { request, ..gpus("a100", 1) };
    (order.nodes, order.gpus, order.cpus) = (2, Some(each), Cores::whole(2));
    order.pilot.credentials = vec!["secret-0".into(), "secret-1\nEND_OF_NODE\nit's".into()];
    let id = slurm.submit(&order).expect("it takes it");
    let starts = ["0.start", "1.start"].map(|file| until(file, || stand.file(file)));
    assert!(starts[0].ends_with("\nsecret-0\n"), "{}", starts[0]);
    assert!(starts[1].ends_with("\nsecret-1\nEND_OF_NODE\nit's\n"), "{}", starts[1]);
    let of = |file: &str, name: &str| {
        let env = stand.file(file).expect("written");
        let line = env.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        line.unwrap_or_else(|| panic!("{name} in {env}")).to_string()
    };
    let nodes = ["0.env", "1.env"].map(|file| of(file, "SLURMD_NODENAME"));
    assert_eq!(nodes, ["n1", "n2"]);
    for file in ["0.env", "1.env"] {
        assert_eq!(of(file, "CUDA_VISIBLE_DEVICES").split(',').count(), 1);
        assert_eq!(of(file, "SLURM_CPUS_PER_TASK"), "2");
    }
    for file in ["0.env", "0.processes", "1.env", "1.processes"] {
        assert!(!stand.file(file).expect("written").contains("secret-"), "{file}");
    }
    let seen = seen_as(&slurm, "a", |phase| phase == SeenPhase::Running);
    assert_eq!(seen.nodes, ["n1", "n2"]);
    slurm.cancel(&[id]).expect("it is cancelled");
    seen_as(&slurm, "a", ended);
    until("the folders are removed", || stand.scratch_is_empty().then_some(()));
    for file in ["0.end", "1.end"] {
        assert_eq!(stand.file(file).as_deref(), Some("TERM\n"), "{file}");
    }
}

#[test]
fn who_waits_has_the_engines_words_for_it() {
    let Some(engine) = Engine::shared() else { return };
    let (slurm, stand) = (engine.slurm("waits"), Stand::new(&engine, "waits"));
    let mut first = stand.order("first");
    (first.partition, first.wall) = (Some("short".into()), Millis(60_000));
    first.cpus = Cores::whole(16);
    let mut second = first.clone();
    second.allocation = stand.order("second").allocation;
    let mut long = stand.order("long");
    (long.partition, long.wall) = (Some("short".into()), Millis(3_600_000));
    let mut held = stand.order("held");
    held.submit_lines = vec!["--hold".into()];
    let mut closed = stand.order("closed");
    closed.partition = Some("closed".into());
    let orders = [&first, &second, &long, &held, &closed];
    let ids = orders.map(|order| slurm.submit(order).expect("it takes it"));
    let waits = |name: &str, words: &str| {
        until(name, || {
            let all = slurm.look().expect("it answers");
            all.into_iter().find(|it| it.allocation.as_str() == name && it.words.starts_with(words))
        })
    };
    let seen = waits("second", "PENDING (Resources)");
    assert_eq!(seen.phase, SeenPhase::Queued);
    assert_eq!(waits("long", "PENDING (PartitionTimeLimit)").phase, SeenPhase::Queued);
    assert_eq!(waits("closed", "PENDING (PartitionDown)").phase, SeenPhase::Queued);
    assert_eq!(waits("held", "PENDING (JobHeldUser)").phase, SeenPhase::Held);
    until("an estimate", || {
        let all = slurm.look().expect("it answers");
        all.iter().find(|it| it.allocation.as_str() == "second")?.expected
    });
    engine.type_in(&format!("scontrol hold {}", ids[1].0));
    assert_eq!(waits("second", "PENDING (JobHeld").phase, SeenPhase::Held);
    engine.type_in(&format!("scontrol release {}", ids[1].0));
    slurm.cancel(&ids).expect("they are cancelled");
    for name in ["first", "second", "long", "held", "closed"] {
        let seen = seen_as(&slurm, name, ended);
        assert_eq!(seen.phase, SeenPhase::Ended(AllocationEnd::Cancelled), "{name}");
    }
}

#[test]
fn what_it_will_never_take_is_refused_in_its_words() {
    let Some(engine) = Engine::shared() else { return };
    let (slurm, stand) = (engine.slurm("refused"), Stand::new(&engine, "refused"));
    let mut nowhere = stand.order("nowhere");
    nowhere.partition = Some("nope".into());
    let error = slurm.submit(&nowhere).expect_err("no such partition");
    assert_eq!(error.kind, EngineTrouble::Refused);
    assert_eq!(
        error.to_string(),
        "cannot submit to partition nope: invalid partition specified: nope; Batch job \
         submission failed: Invalid partition name specified"
    );
    let mut much = stand.order("much");
    much.memory = Bytes(999 << 30);
    let mut unknown = stand.order("unknown");
    unknown.gpus = Some(gpus("h100", 1));
    let mut lines = stand.order("lines");
    lines.submit_lines = vec!["--bogus=1".into()];
    for (order, words) in [
        (&much, "Memory specification can not be satisfied"),
        (&unknown, "Requested node configuration is not available"),
        (&lines, "unrecognized option '--bogus=1'"),
    ] {
        let error = slurm.submit(order).expect_err(words);
        assert_eq!(error.kind, EngineTrouble::Refused, "{error}");
        assert!(error.words.contains(words), "{error}");
    }
}

#[test]
fn pilots_that_fail_and_programs_that_are_missing_are_failures() {
    let Some(engine) = Engine::shared() else { return };
    let (slurm, stand) = (engine.slurm("fails"), Stand::new(&engine, "fails"));
    let mut order = stand.order("fails");
    order.pilot.options.push("--then=fail".into());
    slurm.submit(&order).expect("it takes it");
    let mut missing = stand.order("missing");
    missing.pilot.program = "/no/such/shipway".into();
    slurm.submit(&missing).expect("it takes it");
    let missing = "FAILED (exit code 127: the program is not there)";
    for (name, words) in [("fails", "FAILED (exit code 3)"), ("missing", missing)] {
        let seen = seen_as(&slurm, name, ended);
        assert_eq!(seen.phase, SeenPhase::Ended(AllocationEnd::Failed));
        assert_eq!(seen.words, words);
    }
    until("the folders are removed", || stand.scratch_is_empty().then_some(()));
}

#[test]
fn nodes_are_counted_by_their_kind() {
    let Some(engine) = Engine::shared() else { return };
    let all = engine.slurm("nodes").nodes().expect("it answers");
    let of = |name: &str| {
        let of_gpu = |it: &&_| is_of(it, "gpu", name);
        all.iter().find(of_gpu).unwrap_or_else(|| panic!("{name} in {all:?}"))
    };
    let (fast, slow) = (of("n1"), of("n3"));
    assert_eq!(
        (fast.count, fast.up, fast.names.as_slice()),
        (2, 2, &["n1".into(), "n2".into()][..])
    );
    assert_eq!((fast.gpus[0].kind.as_deref(), fast.gpus[0].count), (Some("a100"), 4));
    assert_eq!((slow.gpus[0].kind.as_deref(), slow.gpus[0].count), (Some("k40"), 2));
    assert_eq!((fast.cpus, fast.memory), (Cores::whole(16), Bytes(8000 << 20)));
    assert_eq!(slow.memory, Bytes(7000 << 20), "without what the node keeps");
    assert_eq!(fast.longest, Some(Millis(648_000_000)));
    assert!(all.iter().any(|it| is_of(it, "closed", "n4") && it.up == 0));
    assert!(all.iter().any(|it| is_of(it, "main", "n4") && it.gpus.is_empty()));
}

fn is_of(nodes: &shipway_sites::batch::EngineNodes, partition: &str, name: &str) -> bool {
    nodes.partition.as_deref() == Some(partition) && nodes.names.iter().any(|it| it == name)
}

#[test]
fn jobs_of_another_account_are_not_ours_whatever_their_name() {
    let Some(engine) = Engine::shared() else { return };
    let slurm = engine.slurm("names");
    let other = "setpriv --reuid=daemon --regid=daemon --clear-groups --no-new-privs";
    let hold = "--parsable --hold --chdir=/ --output=/dev/null --wrap true";
    let theirs = engine.type_in(&format!("{other} sbatch --job-name=shipway-names-x {hold}"));
    let ours = engine.type_in(&format!("sbatch --job-name=shipway-names-y {hold}"));
    let seen = slurm.look().expect("it answers");
    assert_eq!(seen.iter().map(|it| it.id.0.as_str()).collect::<Vec<_>>(), [&ours]);
    engine.type_in(&format!("scancel {theirs} {ours}"));
}

#[test]
fn all_of_it_goes_over_ssh_too() {
    let Some(engine) = Engine::shared() else { return };
    let Some(sshd) = Sshd::start(&engine.vars()) else { return };
    let stand = Stand::new(&engine, "ssh");
    let naming = Naming { whose: "ssh".into() };
    let slurm = Slurm::new(Box::new(sshd.way()), naming, COMMAND_LIMIT);
    let mut order = stand.order("a");
    order.pilot.credentials = vec!["secret it's".into()];
    order.submit_lines = vec!["--comment=two $(words)".into()];
    let id = slurm.submit(&order).expect("it takes it");
    let start = until("the pilot's start", || stand.file("0.start"));
    assert!(start.ends_with("\nsecret it's\n"), "{start}");
    let seen = seen_as(&slurm, "a", |phase| phase == SeenPhase::Running);
    assert_eq!(seen.id, id);
    let comment = format!("squeue --noheader --jobs={} --format=%k", id.0);
    assert_eq!(engine.type_in(&comment), "two $(words)");
    assert!(slurm.nodes().expect("it answers").iter().any(|it| is_of(it, "gpu", "n3")));
    slurm.cancel(&[id]).expect("it is cancelled");
    seen_as(&slurm, "a", ended);
    order.submit_lines = vec!["--time=soon".into(), "--gres=odd:1".into()];
    order.allocation = stand.order("b").allocation;
    let error = slurm.submit(&order).expect_err("sbatch ends with 255 here");
    assert_eq!(error.kind, EngineTrouble::Refused, "{error}");
}

/// The shortest limit Slurm knows is a minute: both wait for theirs at once.
#[test]
fn a_pilot_is_warned_before_its_time_is_over_and_then_ended() {
    let Some(engine) = Engine::shared() else { return };
    let slurm = engine.slurm("limit");
    let (stand, other) = (Stand::new(&engine, "limit"), Stand::new(&engine, "deaf"));
    let mut warned = stand.order("warned");
    (warned.wall, warned.warning) = (Millis(60_000), Millis(45_000));
    warned.gpus = Some(gpus("k40", 1));
    let mut deaf = other.order("deaf");
    (deaf.wall, deaf.gpus) = (Millis(1), Some(gpus("k40", 1)));
    let program = other.folder.join("shipway");
    std::fs::write(&program, "#!/bin/sh\ntrap '' TERM\nwhile :; do sleep 0.1; done\n").expect("ok");
    slurm.submit(&warned).expect("it takes it");
    slurm.submit(&deaf).expect("it takes it");
    let seen = seen_as(&slurm, "warned", ended);
    assert_eq!(seen.phase, SeenPhase::Ended(AllocationEnd::Completed), "it ended in time");
    assert_eq!(stand.file("0.end").as_deref(), Some("TERM\n"));
    let seen = seen_as(&slurm, "deaf", ended);
    assert_eq!(seen.phase, SeenPhase::Ended(AllocationEnd::TimeLimit));
    assert!(seen.words.starts_with("TIMEOUT"), "{}", seen.words);
}

#[test]
fn a_lost_node_and_a_silent_controller_are_told_apart() {
    let Some(engine) = Engine::own() else { return };
    let (slurm, stand) = (engine.slurm("lost"), Stand::new(&engine, "lost"));
    let mut order = stand.order("lost");
    order.partition = Some("short".into());
    order.wall = Millis(120_000);
    slurm.submit(&order).expect("it takes it");
    seen_as(&slurm, "lost", |phase| phase == SeenPhase::Running);
    engine.type_in("scontrol update nodename=n4 state=down reason='lost its power'");
    let seen = seen_as(&slurm, "lost", ended);
    assert_eq!(seen.phase, SeenPhase::Ended(AllocationEnd::NodeFailed), "{}", seen.words);
    let nodes = slurm.nodes().expect("it answers");
    let dark = nodes.iter().find(|it| is_of(it, "short", "n4")).expect("it is there");
    assert_eq!((dark.up, dark.down[0].as_str()), (0, "down: lost its power"));

    let kept = slurm.submit(&stand.order("kept")).expect("it takes it");
    engine.stop_controller();
    let hasty = engine.impatient("lost", Duration::from_secs(15));
    let errors = [
        hasty.look().map(drop).expect_err("nobody answers"),
        hasty.submit(&stand.order("more")).map(drop).expect_err("nobody answers"),
        hasty.cancel(std::slice::from_ref(&kept)).expect_err("nobody answers"),
        hasty.nodes().map(drop).expect_err("nobody answers"),
    ];
    for error in errors {
        assert_eq!(error.kind, EngineTrouble::NotReached, "{error}");
    }
    engine.start_controller();
    let found = until("the controller", || {
        let all = slurm.look().ok()?;
        all.into_iter().find(|seen| seen.allocation.as_str() == "kept")
    });
    assert_eq!(found.id, kept, "a controller that comes back knows it by its name");
    slurm.cancel(&[kept]).expect("it is cancelled");
}
