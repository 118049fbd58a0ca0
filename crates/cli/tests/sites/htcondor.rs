//! HTCondor alone: an array, crashes of the server, and what operators and machines do to pilots.

use crate::common::{World, quick, wait_for};
use crate::engines::pool::{Pool, open_to_the_pool};
use crate::engines::{remembered, wait_until_empty};
use crate::ground::{
    Class, FEW, SiteFile, WRITE, allocations, book, each_ran_once_with_what_it_asked_for,
    ends_well, says, site,
};
use crate::{faults, killed};

pub(crate) fn pool(pool: &Pool) -> SiteFile {
    let gpus =
        |name, pilots, model| Class { name, pilots, cpus: 2, gpu: Some((model, model)), more: "" };
    SiteFile {
        name: "pool",
        kind: "htcondor",
        program: pool.program(),
        env: vec![("PATH", pool.commands().to_str().expect("text").to_owned())],
        classes: vec![
            gpus("a100", 3, "A100-SXM4-40GB"),
            gpus("k40", 2, "Tesla K40m"),
            Class::cpu(3),
        ],
        limits: FEW,
        wall: "30m",
        more: String::new(),
    }
}

#[test]
fn an_array_runs_there_each_task_once_where_it_may() {
    let Some(condor) = Pool::among() else { return };
    let world = World::new();
    open_to_the_pool(&world);
    world.up_with(&["--no-pilot"], |_| {});
    pool(&condor).add(&world);
    let count = if quick() { 30 } else { 300 };
    let array = format!("1-{count}");
    let submit = |more: &[&str]| {
        let request = ["--array", &array, "--cpus", "0.2"];
        world.submit(&[&request[..], more, &["--", "sh", "-c", WRITE]].concat())
    };
    let plain = submit(&[]);
    let jobs = [plain.clone(), submit(&["--gpus", "A100"]), submit(&["--gpus", "K40"])];
    for job in &jobs {
        ends_well(&world, job);
    }
    each_ran_once_with_what_it_asked_for(&world, 3 * count, &plain, "GPU-");
    wait_until_empty(&world, "pool", &*condor);
    let ended = site(&world, "pool")["ended"].clone();
    let ended = ended.as_array().expect("a list");
    assert!(ended.iter().all(|one| one["end"] == "completed"), "{ended:?}");
    let theirs = remembered(&world, &*condor);
    // Completed, with exit code 0.
    assert!(theirs.iter().all(|(_, end)| end == "4 0"), "{theirs:?}");
    assert_eq!(theirs.len(), ended.len(), "allocation by allocation");
}

#[test]
fn a_server_that_is_killed_while_it_asks_asks_for_nothing_twice() {
    let Some(condor) = Pool::among() else { return };
    let world = World::new();
    open_to_the_pool(&world);
    // Which is fed all that hands an allocation in.
    killed::nothing_twice(&world, pool(&condor), &*condor, ("sh", 1));
}

/// A pool whose nodes have no program: it comes as a file of each job.
#[test]
fn the_program_is_sent_to_a_pool_that_has_none() {
    let Some(condor) = Pool::among() else { return };
    let world = World::new();
    open_to_the_pool(&world);
    world.up_with(&["--no-pilot"], |_| {});
    // Of this run alone, on the pool's side.
    let folder = format!("/tmp/shipway-sent-{}", std::process::id());
    let program = format!("send:{folder}").into();
    SiteFile { program, ..few(&condor) }.add(&world);
    ends_well(&world, &world.submit(&["--", "true"]));
    let sent = condor.type_in("tester", &format!("cd {folder} && echo *"));
    assert!(sent.trim().starts_with("shipway-") && sent.trim().len() == 72, "{sent}");
    condor.type_in("tester", &format!("rm -r {folder}"));
    wait_until_empty(&world, "pool", &*condor);
}

/// With pilots of one kind.
fn few(condor: &Pool) -> SiteFile {
    SiteFile { classes: vec![Class::cpu(3)], ..pool(condor) }
}

fn without_pilot() -> World {
    let world = World::new();
    open_to_the_pool(&world);
    world.up_with(&["--no-pilot"], |_| {});
    world
}

#[test]
fn a_task_whose_pilot_is_removed_runs_again() {
    let Some(condor) = Pool::among() else { return };
    let world = without_pilot();
    few(&condor).add(&world);
    let remove = |id: &str| drop(condor.type_in("tester", &format!("condor_rm {id}")));
    faults::outlives_its_pilot(
        &world,
        "pool",
        &*condor,
        (remove, &["site_took_back", "pilot_cancelled"]),
    );
    let words = faults::words_of_end(&world, "pool", "cancelled");
    assert!(words.starts_with("REMOVED (via condor_rm"), "{words}");
}

/// What had its start gets no other: to hold it is to end it, and its place is another's.
#[test]
fn a_task_whose_pilot_is_held_runs_again() {
    let Some(condor) = Pool::among() else { return };
    let world = without_pilot();
    few(&condor).add(&world);
    let hold = |id: &str| {
        condor.type_in("tester", &format!("condor_hold -reason 'it is too warm' {id}"));
    };
    faults::outlives_its_pilot(
        &world,
        "pool",
        &*condor,
        (hold, &["site_took_back", "pilot_cancelled"]),
    );
    let words = faults::words_of_end(&world, "pool", "cancelled");
    assert!(words.contains("it is too warm"), "{words}");
}

#[test]
fn a_pilot_that_is_held_says_so_and_runs_when_it_is_released() {
    let Some(condor) = Pool::among() else { return };
    let world = without_pilot();
    let mut waits = few(&condor);
    waits.more = "submit: [requirements = MayRun =?= true]\n".to_owned();
    waits.add(&world);
    let job = world.submit(&["--", "sh", "-c", WRITE]);
    let said = "site pool (cpu): 1 pilot is asked for; the batch system says: ";
    says(&world, &job, &format!("{said}IDLE"));
    let id = allocations(&world, "pool")[0]["engine_id"].as_str().expect("text").to_owned();
    condor.type_in("tester", &format!("condor_hold -reason 'it is too warm' {id}"));
    let held = format!("{said}HELD (code 1: it is too warm (by user tester))");
    says(&world, &job, &held);
    condor.type_in("tester", &format!("condor_qedit {id} MayRun True && condor_release {id}"));
    ends_well(&world, &job);
    assert_eq!(book(&world).values().sum::<u32>(), 1);
    wait_until_empty(&world, "pool", &*condor);
}

/// HTCondor says `IDLE` of all that waits, and why only to who asks.
#[test]
fn what_no_machine_has_is_said_as_the_pool_says_it() {
    let Some(condor) = Pool::among() else { return };
    let world = without_pilot();
    let mut waits = few(&condor);
    waits.more = "submit: [requirements = HasUnobtainium =?= true]\n".to_owned();
    waits.add(&world);
    let job = world.submit(&["--", "true"]);
    says(&world, &job, "the batch system says: IDLE (no match found): none of ");
    says(&world, &job, "HasUnobtainium");
    world.ok(&["cancel", &job]);
    wait_until_empty(&world, "pool", &*condor);
}

#[test]
fn a_full_disk_is_the_reason_that_is_shown() {
    let Some(condor) = Pool::among() else { return };
    let world = without_pilot();
    let disk = world.work().join("scratch");
    let at = disk.display();
    // Inside only: what is mounted outside comes to the pool no more.
    let make = format!(
        "mkdir {at} && mount -t tmpfs -o mode=1777,size=300m,nr_inodes=5 none {at} && \
         cd {at} && touch 1 2 3 4"
    );
    condor.type_in("root", &make);
    let file = SiteFile { more: format!("scratch: {at}\n"), ..few(&condor) };
    let free = || drop(condor.type_in("root", &format!("mount -o remount,nr_inodes=100000 {at}")));
    faults::says_that_its_disk_is_full(&world, &file, &*condor, free);
    condor.type_in("root", &format!("umount {at}"));
}

/// A schedd that is killed comes back with its queue; until then nobody answers.
#[test]
fn a_schedd_that_does_not_answer_loses_no_task() {
    let Some(condor) = Pool::alone() else { return };
    let world = without_pilot();
    few(&condor).add(&world);
    let script = "touch began; until [ -e go ]; do sleep 0.1; done; echo $SHIPWAY_TASK >> book";
    let job = world.submit(&["--", "sh", "-c", script]);
    wait_for("it has begun", || world.work().join("began").exists());
    faults::running(&world, "pool");
    condor.type_in("root", "condor_off -fast -schedd && sleep 1");
    let other = world.submit(&["--cpus", "2", "--", "sh", "-c", "echo $SHIPWAY_TASK >> book"]);
    says(&world, &other, "the batch system was not reached");
    std::fs::write(world.work().join("go"), "").expect("written");
    condor.type_in("root", "condor_on -schedd");
    ends_well(&world, &job);
    ends_well(&world, &other);
    let book = book(&world);
    assert_eq!((book.len(), book.values().sum::<u32>()), (2, 2), "each once: {book:?}");
    wait_until_empty(&world, "pool", &*condor);
}
