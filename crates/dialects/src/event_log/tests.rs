//! Each block against what HTCondor 23.9 writes itself.

use super::*;

fn block(what: What) -> String {
    render(&Event { cluster: 1, proc: 0, at_ms: 1_794_780_225_000, ahead_s: 0, what })
}

fn asked() -> Resources {
    Resources { cpus_milli: 1_000, memory: 100 << 20, disk: 1 << 20, ..Resources::default() }
}

#[test]
fn the_way_of_a_task() {
    assert_eq!(
        block(What::Submitted { host: "127.0.0.1:7447".into() }),
        "000 (001.000.000) 2026-11-15 22:03:45 Job submitted from host: <127.0.0.1:7447>\n...\n"
    );
    assert_eq!(
        block(What::Executing { node: "vm".into(), resources: asked() }),
        "001 (001.000.000) 2026-11-15 22:03:45 Job executing on host: <vm:0?alias=vm>\n\
         \tSlotName: slot1@vm\n\tCpus = 1\n\tDisk = 1024\n\tMemory = 100\n...\n"
    );
    let resources = Resources {
        gpus: 2,
        devices: vec!["GPU-a0223334".into(), "GPU-b1223334".into()],
        ..asked()
    };
    assert_eq!(
        block(What::Terminated { how: How::Exit(4), ran_ms: 2_500, resources }),
        "005 (001.000.000) 2026-11-15 22:03:45 Job terminated.\n\
         \t(1) Normal termination (return value 4)\n\
         \t\tUsr 0 00:00:00, Sys 0 00:00:00  -  Run Remote Usage\n\
         \t\tUsr 0 00:00:00, Sys 0 00:00:00  -  Run Local Usage\n\
         \t\tUsr 0 00:00:00, Sys 0 00:00:00  -  Total Remote Usage\n\
         \t\tUsr 0 00:00:00, Sys 0 00:00:00  -  Total Local Usage\n\
         \t0  -  Run Bytes Sent By Job\n\t0  -  Run Bytes Received By Job\n\
         \t0  -  Total Bytes Sent By Job\n\t0  -  Total Bytes Received By Job\n\
         \tPartitionable Resources :    Usage  Request Allocated Assigned\n\
         \t   Cpus                 :                 1         1 \n\
         \t   Disk (KB)            :              1024      1024 \n\
         \t   GPUs                 :                 2         2 \"GPU-a0223334,GPU-b1223334\"\n\
         \t   Memory (MB)          :               100       100 \n\
         \t   TimeExecute (s)      :        2                    \n\
         \n\
         \tJob terminated of its own accord at 2026-11-15T22:03:45Z with exit-code 4.\n...\n"
    );
}

#[test]
fn what_was_used_stands_beside_what_was_asked_for() {
    let used = Used {
        cpu_ms: Some(90_061_000),
        cpus_milli: Some(1_234),
        memory: Some((3 << 20) + 1),
        gpus_milli: Some(59),
    };
    let resources = Resources { gpus: 1, devices: vec!["GPU-a".into()], used, ..asked() };
    let block = block(What::Terminated { how: How::Exit(0), ran_ms: 2_500, resources });
    for line in [
        "\t\tUsr 1 01:01:01, Sys 0 00:00:00  -  Run Remote Usage",
        "\t\tUsr 0 00:00:00, Sys 0 00:00:00  -  Run Local Usage",
        "\t\tUsr 1 01:01:01, Sys 0 00:00:00  -  Total Remote Usage",
        "\t   Cpus                 :     1.23        1         1 ",
        "\t   GPUs                 :     0.06        1         1 \"GPU-a\"",
        "\t   Memory (MB)          :        4      100       100 ",
    ] {
        assert!(block.lines().any(|found| found == line), "no `{line}` in\n{block}");
    }
    let not_asked = Resources { cpus_milli: 1_000, used, ..Resources::default() };
    let started = block_of_start(not_asked.clone());
    assert!(!started.contains("Memory"), "{started}");
    let table =
        self::block(What::Evicted { why: Evicted::Stopped { reason: None }, resources: not_asked });
    let line = "\t   Memory (MB)          :        4                    ";
    assert!(table.lines().any(|found| found == line), "{table}");
}

fn block_of_start(resources: Resources) -> String {
    block(What::Executing { node: "vm".into(), resources })
}

#[test]
fn a_signal_and_the_ways_to_go_again() {
    let killed = What::Terminated { how: How::Signal(9), ran_ms: 0, resources: asked() };
    let killed = block(killed);
    assert!(killed.contains("\t(0) Abnormal termination (signal 9)\n\t(0) No core file\n\t\tUsr"));
    assert!(killed.ends_with(" with signal 9.\n...\n"), "{killed}");
    let why = Evicted::Requeued(How::Exit(4));
    assert_eq!(
        block(What::Evicted { why, resources: asked() }),
        "004 (001.000.000) 2026-11-15 22:03:45 Job was evicted.\n\
         \t(0) Job terminated and was requeued\n\
         \t\tUsr 0 00:00:00, Sys 0 00:00:00  -  Run Remote Usage\n\
         \t\tUsr 0 00:00:00, Sys 0 00:00:00  -  Run Local Usage\n\
         \t0  -  Run Bytes Sent By Job\n\t0  -  Run Bytes Received By Job\n\
         \t(1) Normal termination (return value 4)\n...\n"
    );
    let (reason, node) = ("its pilot died".to_string(), "vm".to_string());
    assert_eq!(
        block(What::Disconnected { reason: reason.clone(), node: node.clone() }),
        "022 (001.000.000) 2026-11-15 22:03:45 Job disconnected, attempting to reconnect\n    \
         its pilot died\n    Trying to reconnect to slot1@vm <vm:0?alias=vm>\n...\n"
    );
    assert_eq!(
        block(What::ReconnectFailed { reason, node }),
        "024 (001.000.000) 2026-11-15 22:03:45 Job reconnection failed\n    its pilot died\n    \
         Can not reconnect to slot1@vm, rescheduling job\n...\n"
    );
}

/// Whatever a reason contains, the block stays one.
#[test]
fn no_text_ends_a_block_early() {
    let block = block(What::Aborted { reason: "bad\n...\n000 (002".into() });
    assert_eq!(
        block,
        "009 (001.000.000) 2026-11-15 22:03:45 Job was aborted.\n\tbad ... 000 (002\n...\n"
    );
}
