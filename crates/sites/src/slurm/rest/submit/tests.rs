//! What is handed in, in the words of the versions that differ.

use super::*;
use crate::batch::PilotStart;
use shipway_model::{AllocationId, Bytes, Cores, Millis};

const OLD: Version = Version(38);
const NEW: Version = Version(42);

fn order() -> Order {
    Order {
        allocation: AllocationId::new("a7").expect("good"),
        partition: Some("gpu".into()),
        nodes: 1,
        cpus: Cores::whole(8),
        memory: Bytes((60 << 30) + 1),
        gpus: Some(OrderedGpus { count: 2, kind: Some("1g.10gb".into()), request: None }),
        wall: Millis(90 * 60_000),
        warning: Millis(60_000),
        submit_lines: Vec::new(),
        pilot: PilotStart {
            sha256: None,
            program: "/opt/shipway".into(),
            options: Vec::new(),
            scratch: None,
            credentials: vec!["it's secret".into()],
            files: Vec::new(),
        },
    }
}

fn said(order: &Order, version: Version) -> Result<Value, String> {
    let naming = Naming { whose: "s1-hpc_".into() };
    let body = body(order, &naming, "ada", version).map_err(|error| error.to_string())?;
    Ok(serde_json::from_slice(&body).expect("JSON"))
}

#[test]
fn each_version_is_told_the_same_in_its_words() {
    let old = said(&order(), OLD).expect("good");
    assert_eq!(
        old["job"],
        json!({
            "name": "shipway-s1-hpc_-a7", "partition": "gpu", "nodes": [1, 1], "tasks": 1,
            "cpus_per_task": 8, "memory_per_node": 61441, "time_limit": 90,
            "gres": "gpu:1g.10gb:2", "no_requeue": true, "current_working_directory": "/",
            "standard_output": "/dev/null", "standard_error": "/dev/null",
            "environment": {"PATH": PATH, "USER": "ada", "LOGNAME": "ada"},
        })
    );
    let new = said(&order(), NEW).expect("good");
    let set = |number: u64| json!({"set": true, "infinite": false, "number": number});
    assert_eq!(
        new["job"],
        json!({
            "name": "shipway-s1-hpc_-a7", "partition": "gpu", "minimum_nodes": 1, "tasks": 1,
            "cpus_per_task": 8, "memory_per_node": set(61441), "time_limit": set(90),
            "tres_per_node": "gres/gpu:1g.10gb:2", "requeue": false,
            "current_working_directory": "/", "standard_output": "/dev/null",
            "standard_error": "/dev/null",
            "environment": [format!("PATH={PATH}"), "USER=ada", "LOGNAME=ada"],
        })
    );
    assert_eq!(old["script"], new["script"]);
    let script = old["script"].as_str().expect("text");
    assert!(script.starts_with("#!/bin/sh\n") && script.contains(r"printf %s 'it'\''s secret'"));
    // Ninety minutes, without the one before their end.
    assert!(script.contains("sleep 5340 &"), "{script}");
}

#[test]
fn what_a_site_adds_is_said_or_refused_by_name() {
    let with = |lines: &[&str], version: Version| {
        let mut order = order();
        order.submit_lines = lines.iter().map(ToString::to_string).collect();
        said(&order, version).map(|said| said["job"].clone())
    };
    let lines =
        ["--account=physics", "-C a100&nvlink", "-qlong", "--comment two words", "--nice=7"];
    for version in [OLD, NEW] {
        let job = with(&lines, version).expect("known");
        assert_eq!((&job["account"], &job["qos"]), (&json!("physics"), &json!("long")));
        assert_eq!((&job["constraints"], &job["nice"]), (&json!("a100&nvlink"), &json!(7)));
        assert_eq!(job["comment"], "two words");
    }
    assert_eq!(with(&["--hold"], OLD).expect("known")["hold"], true);
    let own = with(&["--gres=lustre:1,nic:2"], NEW).expect("known");
    assert_eq!(own["tres_per_node"], "gres/gpu:1g.10gb:2", "ours are said last");
    for line in ["--exclusive", "-t5", "--nice=soon", "--hold=yes", "--account", "-N2"] {
        let said = with(&[line], OLD).expect_err(line);
        assert!(said.contains("cannot be asked of slurmrestd here"), "{said}");
        assert!(said.contains("--account") && said.contains("--reservation"), "{said}");
    }
    assert!(with(&["--wrap=id"], OLD).expect_err("refused").contains("must be one job"));
}

#[test]
fn gpus_are_asked_for_as_the_site_wants() {
    let with = |request: GpuOption, version: Version| {
        let mut order = order();
        order.gpus.as_mut().expect("some").request = Some(request);
        said(&order, version).expect("good")["job"].clone()
    };
    assert_eq!(with(GpuOption::Gpus, OLD)["gpus"], "1g.10gb:2");
    assert_eq!(with(GpuOption::Gpus, NEW)["tres_per_job"], "gres/gpu:1g.10gb:2");
    for version in [OLD, NEW] {
        let none = with(GpuOption::None, version);
        assert!(none.get("gres").is_none() && none.get("tres_per_node").is_none(), "{none}");
    }
    let mut two = order();
    two.nodes = 2;
    let said = said(&two, NEW).expect_err("several");
    assert_eq!(said, "2 nodes in one allocation are not asked of slurmrestd");
}
