//! Nodes and partitions as real daemons list them, in the versions that differ.

use super::*;
use shipway_model::{Bytes, Cores};

const ANSWERS: [(&str, &str, u64); 3] = [
    (
        include_str!("../../../../tests/fixtures/slurm/22.05.8/v0.0.38-nodes.json"),
        include_str!("../../../../tests/fixtures/slurm/22.05.8/v0.0.38-partitions.json"),
        8000,
    ),
    (
        include_str!("../../../../tests/fixtures/slurm/24.11.5/v0.0.40-nodes.json"),
        include_str!("../../../../tests/fixtures/slurm/24.11.5/v0.0.40-partitions.json"),
        7000,
    ),
    (
        include_str!("../../../../tests/fixtures/slurm/24.11.5/v0.0.42-nodes.json"),
        include_str!("../../../../tests/fixtures/slurm/24.11.5/v0.0.42-partitions.json"),
        7000,
    ),
];

fn read(nodes_said: &str, partitions_said: &str) -> Vec<EngineNodes> {
    let (partitions, _) = partitions(partitions_said.as_bytes()).expect("readable");
    let (nodes, _) = nodes(nodes_said.as_bytes()).expect("readable");
    together(&nodes, &partitions)
}

#[test]
fn real_nodes_stand_together_with_those_that_are_alike() {
    for (nodes, partitions, slow_memory) in ANSWERS {
        let all = read(nodes, partitions);
        let of = |partition: &str, name: &str| {
            let is_it = |it: &&EngineNodes| {
                it.partition.as_deref() == Some(partition) && it.names.iter().any(|it| it == name)
            };
            all.iter().find(is_it).unwrap_or_else(|| panic!("{partition} {name} in {all:?}"))
        };
        let fast = of("gpu", "n1");
        assert_eq!((fast.names.as_slice(), fast.count), (&["n1".into(), "n2".into()][..], 2));
        assert_eq!((fast.up, fast.idle), (1, 0), "n1 is mixed, n2 is not: {fast:?}");
        assert_eq!(fast.down, ["mixed+drain: bad PSU | x"]);
        assert_eq!((fast.cpus, fast.memory), (Cores::whole(16), Bytes(8000 << 20)));
        assert_eq!((fast.gpus[0].kind.as_deref(), fast.gpus[0].count), (Some("a100"), 4));
        assert_eq!(fast.features, ["gpu", "a100"]);
        assert_eq!(fast.longest, Some(Millis((7 * 24 + 12) * 3_600_000)));
        let slow = of("main", "n3");
        assert_eq!(slow.memory, Bytes(slow_memory << 20), "1000 MB are the node's own");
        assert_eq!((slow.up, slow.down[0].as_str()), (0, "idle+reserved"));
        let plain = of("short", "n4");
        assert_eq!((plain.gpus.as_slice(), plain.longest), (&[][..], Some(Millis(120_000))));
        assert_eq!((plain.up, plain.down[0].as_str()), (0, "down: two"), "the first line of it");
        assert_eq!(of("closed", "n4").down[0], "partition down: two");
        assert_eq!(of("main", "n4").longest, None);
    }
}

#[test]
fn partitions_that_are_not_listed_are_not_for_us() {
    let (nodes, partitions, _) = ANSWERS[0];
    let hidden = partitions.replace("\"name\":\"gpu\"", "\"name\":\"other\"");
    let all = read(nodes, &hidden);
    assert!(all.iter().all(|it| it.partition.as_deref() != Some("gpu")), "{all:?}");
    assert!(!all.is_empty());
}
