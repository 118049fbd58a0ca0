//! What a pilot offers of a node of which it was given a part.

use crate::common::{World, terminate, wait_for, wait_some};
use crate::{code_of, nodes, pilot, server};
use serde_json::Value;
use std::process::Child;

/// Four devices, in the order in which a batch system counts them.
fn declared(world: &World) -> String {
    let gpu = |at: u32| {
        format!(r#"{{"uuid":"GPU-fake-{at}","model":"A100","memory":"40GB","vendor":"nvidia"}}"#)
    };
    let gpus = (0..4).map(gpu).collect::<Vec<_>>().join(",");
    let file = world.work().join("declared.json");
    let text = format!(r#"{{"gpus":[{gpus}],"cpus_milli":16000,"memory":"64GB"}}"#);
    std::fs::write(&file, text).expect("a file");
    file.to_str().expect("a plain path").to_owned()
}

fn in_slurm(world: &World, name: &str, options: &[&str], devices: &str) -> Child {
    let file = declared(world);
    let options = [&["--within", "slurm", "--declared", &file][..], options].concat();
    let variables = [
        ("SLURM_JOB_ID", "7"),
        ("SLURM_CPUS_ON_NODE", "3"),
        ("SLURM_MEM_PER_NODE", "2000"),
        ("SLURM_JOB_GPUS", devices),
        ("CUDA_VISIBLE_DEVICES", devices),
    ];
    pilot(world, name, &options, &variables)
}

fn end(pilots: &mut [Child]) {
    for pilot in pilots {
        terminate(pilot.id());
        code_of("it ends", pilot);
    }
}

/// The node, once its pilot has said all it has to say.
fn only_node(world: &World) -> Value {
    wait_some("the node is there", || nodes(world).pop())
}

#[test]
fn pilots_of_one_node_offer_what_each_was_given() {
    let world = server();
    let mut pilots = [
        in_slurm(&world, "one", &[], "0,2"),
        in_slurm(&world, "two", &["--expect-gpus", "1"], "3"),
    ];
    wait_for("both are there", || nodes(&world).len() == 2);
    let gpus = world.ok(&["gpus"]);
    for (id, offered) in [("0", true), ("1", false), ("2", true), ("3", true)] {
        assert_eq!(gpus.contains(&format!("GPU-fake-{id}")), offered, "{gpus}");
    }
    for node in nodes(&world) {
        let text = node.to_string();
        assert!(text.contains("2097152000"), "2000 MiB: {text}");
        assert!(!text.contains("GPU-fake-1"), "not withheld either: {text}");
        assert!(!text.contains("asked for"), "{text}");
    }
    let job = world.submit(&["--gpus", "2", "--", "sh", "-c", "echo got $CUDA_VISIBLE_DEVICES"]);
    assert_eq!(world.cli(&["wait", &job]).code, 0);
    assert_eq!(world.ok(&["logs", &job]), "got GPU-fake-0,GPU-fake-2\n");
    end(&mut pilots);
}

#[test]
fn less_than_was_asked_for_is_a_note_and_nothing_at_all_is_unfit() {
    for (devices, expected, unfit) in [
        ("1", "asked for 2 GPUs, found 1", false),
        ("NoDevFiles", "asked for 2 GPUs, found none", true),
    ] {
        let world = server();
        let mut pilots = [in_slurm(&world, "one", &["--expect-gpus", "2"], devices)];
        let node = only_node(&world);
        assert!(node.to_string().contains(expected), "{node:#}");
        assert_eq!(node["link"] == "unfit", unfit, "{node:#}");
        end(&mut pilots);
    }
}

#[test]
fn jobs_may_ask_when_the_allocation_ends() {
    let world = server();
    let mut pilots = [pilot(&world, "one", &["--until", "4000000000"], &[])];
    only_node(&world);
    let ask = |requirements: &str| world.submit(&["--requirements", requirements, "--", "true"]);
    let (now, later) = (ask("AllocationEnds == 4000000000"), ask("AllocationEnds > 4000000000"));
    assert_eq!(world.cli(&["wait", &now]).code, 0);
    assert_eq!(world.json(&["show", &later])["job"]["state"], "waiting");
    end(&mut pilots);
}

#[test]
fn options_that_mean_nothing_are_refused() {
    let world = World::new();
    let words = ["pilot", "--dir", "d", "--home", "h", "--token-file", "t"];
    for (option, value, said) in [
        ("--within", "pbs", "slurm, htcondor or none"),
        ("--until", "tomorrow", "invalid"),
        ("--idle", "soon", "--idle"),
    ] {
        let ran = world.cli(&[&words[..], &[option, value]].concat());
        assert_eq!(ran.code, 2, "{}", ran.stderr);
        assert!(ran.stderr.contains(said), "{}", ran.stderr);
    }
}
