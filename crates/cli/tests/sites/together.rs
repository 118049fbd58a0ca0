//! Several nodes in one allocation, with the real Slurm: a pilot on each, which come and are taken
//! away together and otherwise live for themselves.

use crate::common::{World, wait_for, wait_some};
use crate::engines::slurm::Slurm;
use crate::engines::{remembered, wait_until_empty};
use crate::ground::{Class, SiteFile, allocations, book, ends_well, site};
use crate::journal::Journal;
use crate::slurm::{hpc, without_pilot};
use crate::{faults, killed};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Pilots of two cores, two at a time.
fn pairs(slurm: &Slurm, pilots: u32) -> SiteFile {
    let classes = vec![Class { more: ", nodes: 2, partition: main", ..Class::cpu(pilots) }];
    SiteFile { classes, ..hpc(slurm) }
}

/// Says that it began, and waits to be told to go on.
const BEGIN_AND_WAIT: &str = "echo $SHIPWAY_TASK >> began; until [ -e go ]; do sleep 0.1; done; \
    echo $SHIPWAY_TASK >> book";

fn submit(world: &World, tasks: u32, script: &str) -> String {
    let array = format!("1-{tasks}");
    world.submit(&["--array", &array, "--cpus", "1", "--", "sh", "-c", script])
}

/// Lines that tasks have written there.
fn lines(world: &World, file: &str) -> usize {
    let text = std::fs::read_to_string(world.work().join(file)).unwrap_or_default();
    text.lines().count()
}

/// What this world has in the queue: how many nodes each has.
fn in_queue(world: &World, slurm: &Slurm) -> Vec<String> {
    let journal = Journal::of(world);
    let all = slurm.type_in("squeue --noheader --format='%j %D'");
    let ours = all.lines().filter_map(|line| {
        let (name, nodes) = line.split_once(' ').expect("two words");
        journal.id_of(name).map(|_| nodes.trim().to_owned())
    });
    ours.collect()
}

fn task(world: &World, job: &str, index: u32) -> Value {
    world.json(&["show", &format!("{job}/{index}")])["task"].clone()
}

/// How many of these tasks' last attempts each node had.
fn by_node(world: &World, job: &str, tasks: u32) -> BTreeMap<String, u32> {
    let mut found = BTreeMap::new();
    for index in 1..=tasks {
        let attempts = task(world, job, index)["attempts"].clone();
        let last = attempts.as_array().and_then(|all| all.last().cloned()).expect("one");
        *found.entry(last["node"].as_str().expect("text").to_owned()).or_default() += 1;
    }
    found
}

/// The engine's id of the one allocation there, both of whose pilots have come.
fn whole(world: &World) -> String {
    wait_some("both pilots have come", || {
        let all = allocations(world, "hpc");
        assert_eq!(all.len(), 1, "one allocation: {all:#?}");
        let nodes = all[0]["nodes"].as_array().map_or(0, Vec::len);
        assert_eq!(all[0]["pilots"], 2, "{all:#?}");
        all[0]["engine_id"].as_str().filter(|_| nodes == 2).map(str::to_owned)
    })
}

#[test]
fn an_array_runs_on_all_nodes_of_an_allocation_and_again_when_it_is_cancelled() {
    let Some(slurm) = Slurm::among() else { return };
    let world = without_pilot();
    pairs(&slurm, 2).add(&world);
    // Two cores each: four tasks of one core are on both.
    let job = submit(&world, 4, BEGIN_AND_WAIT);
    wait_for("all of it runs", || lines(&world, "began") == 4);
    whole(&world);
    assert_eq!(in_queue(&world, &slurm), ["2"], "one allocation, of two nodes");
    let names = site(&world, "hpc")["allocations"][0]["nodes"].clone();
    let names: BTreeSet<&str> =
        names.as_array().expect("a list").iter().filter_map(Value::as_str).collect();
    std::fs::write(world.work().join("go"), "").expect("written");
    ends_well(&world, &job);
    let ran = by_node(&world, &job, 4);
    assert_eq!(ran.keys().map(String::as_str).collect::<BTreeSet<_>>(), names);
    assert_eq!(ran.values().collect::<Vec<_>>(), [&2, &2]);
    assert_eq!((book(&world).len(), book(&world).values().sum::<u32>()), (4, 4), "each once");
    let shown = world.ok(&["site", "show", "hpc"]);
    assert!(shown.contains("2 nodes in an allocation"), "{shown}");

    // The batch system takes it: both pilots' tasks are lost by that name, and run again.
    std::fs::remove_file(world.work().join("began")).expect("there");
    let job = submit(&world, 4, faults::STAYS_ONCE);
    wait_for("all of it runs", || lines(&world, "began") == 4);
    slurm.type_in(&format!("scancel {}", whole(&world)));
    ends_well(&world, &job);
    for index in 1..=4 {
        let task = task(&world, &job, index);
        assert_eq!(task["attempt"], 2, "{task:#}");
        let first = &task["attempts"][0]["outcome"];
        let why = first["why"].as_str().expect("a word");
        assert!(["site_took_back", "pilot_cancelled"].contains(&why), "{task:#}");
    }
    assert_eq!((book(&world).len(), book(&world).values().sum::<u32>()), (8, 8), "each once");
    wait_until_empty(&world, "hpc", &*slurm);
    assert!(in_queue(&world, &slurm).is_empty());
    let all = remembered(&world, &*slurm);
    let different: BTreeSet<&String> = all.iter().map(|(id, _)| id).collect();
    assert_eq!(all.len(), different.len(), "none twice: {all:?}");
}

/// Nobody says goodbye for it; the next one in its folder does.
#[test]
fn one_that_is_killed_takes_no_other_along() {
    let Some(slurm) = Slurm::among() else { return };
    let world = without_pilot();
    pairs(&slurm, 2).add(&world);
    let job = submit(&world, 4, BEGIN_AND_WAIT);
    wait_for("all of it runs", || lines(&world, "began") == 4);
    let id = whole(&world);
    let script = format!(
        "for it in /proc/[0-9]*; do grep -qz '^SLURM_JOB_ID={id}$' $it/environ 2> /dev/null && \
         grep -qz '^SLURM_PROCID=1$' $it/environ && grep -qz '^pilot$' $it/cmdline && \
         kill -KILL ${{it#/proc/}}; done; true"
    );
    slurm.type_in(&script);
    wait_for("its tasks run again", || lines(&world, "began") == 6);
    std::fs::write(world.work().join("go"), "").expect("written");
    ends_well(&world, &job);
    let tasks: Vec<Value> = (1..=4).map(|index| task(&world, &job, index)).collect();
    let again: Vec<&Value> = tasks.iter().filter(|task| task["attempt"] == 2).collect();
    assert_eq!(again.len(), 2, "{tasks:#?}");
    for task in again {
        assert_eq!(task["attempts"][0]["outcome"]["why"], "pilot_died", "{task:#}");
    }
    assert_eq!((book(&world).len(), book(&world).values().sum::<u32>()), (4, 4), "each once");
    wait_until_empty(&world, "hpc", &*slurm);
    let ended = site(&world, "hpc")["ended"].clone();
    assert_eq!(ended.as_array().map(Vec::len), Some(1), "no other in its place: {ended:#}");
}

#[test]
fn one_that_has_nothing_to_do_leaves_and_the_other_goes_on() {
    let Some(slurm) = Slurm::among() else { return };
    let world = without_pilot();
    pairs(&slurm, 2).add(&world);
    let job = submit(&world, 1, BEGIN_AND_WAIT);
    wait_for("one has left", || {
        let nodes = allocations(&world, "hpc").first().map(|one| one["nodes"].clone());
        let is_one = nodes.and_then(|nodes| nodes.as_array().map(Vec::len)) == Some(1);
        is_one && Journal::of(&world).ended() == 1
    });
    assert_eq!(in_queue(&world, &slurm), ["2"], "its node is held as long as the other runs");
    assert_eq!(world.json(&["show", &job])["job"]["state"], "running");
    std::fs::write(world.work().join("go"), "").expect("written");
    ends_well(&world, &job);
    assert_eq!(task(&world, &job, 1)["attempt"], 1);
    wait_until_empty(&world, "hpc", &*slurm);
    let ended = site(&world, "hpc")["ended"].clone();
    assert_eq!((ended.as_array().map(Vec::len), &ended[0]["end"]), (Some(1), &"completed".into()));
    let troubles = site(&world, "hpc")["troubles"].clone();
    assert_eq!(troubles, Value::Null, "nothing is wrong with it");
}

#[test]
fn a_server_that_is_killed_while_it_asks_for_several_nodes_asks_for_nothing_twice() {
    let Some(slurm) = Slurm::among() else { return };
    killed::nothing_twice(&World::new(), hpc(&slurm), &*slurm, ("sbatch", 2));
}
