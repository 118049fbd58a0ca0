//! Jobs as real daemons list them, in the versions that differ.

use super::*;

const ANSWERS: [&str; 3] = [
    include_str!("../../../../tests/fixtures/slurm/22.05.8/v0.0.38-jobs.json"),
    include_str!("../../../../tests/fixtures/slurm/24.11.5/v0.0.40-jobs.json"),
    include_str!("../../../../tests/fixtures/slurm/24.11.5/v0.0.42-jobs.json"),
];

fn naming() -> Naming {
    Naming { whose: "s1".into() }
}

fn read(answer: &str, user: &str) -> Result<Vec<Seen>, String> {
    let read = parse(answer.as_bytes(), &naming(), user);
    read.map(|(seen, _)| seen).map_err(|error| error.to_string())
}

#[test]
fn a_real_list_is_read_by_name() {
    for answer in ANSWERS {
        let all = read(answer, "root").expect("readable");
        let of = |name: &str| {
            let found = all.iter().find(|seen| seen.allocation.as_str() == name);
            found.unwrap_or_else(|| panic!("{name} in {all:?}")).clone()
        };
        let running = of("running");
        assert_eq!((running.phase, running.words.as_str()), (SeenPhase::Running, "RUNNING"));
        assert_eq!((running.nodes.as_slice(), running.expected), (&["n1".to_string()][..], None));
        assert_eq!(of("two-nodes").nodes, ["n1", "n2"]);
        let queued = of("queued");
        let words = "PENDING (Resources)";
        assert_eq!((queued.phase, queued.words.as_str()), (SeenPhase::Queued, words));
        assert!(queued.expected.is_some_and(|at| at.0 > 1_700_000_000_000), "{queued:?}");
        assert_eq!((of("held").phase, of("held").expected), (SeenPhase::Held, None));
        assert_eq!(of("failed").phase, SeenPhase::Ended(AllocationEnd::Failed));
        assert_eq!(of("failed").words, "FAILED (exit code 3)");
        assert_eq!(of("completed").phase, SeenPhase::Ended(AllocationEnd::Completed));
        assert_eq!(of("cancelled").phase, SeenPhase::Ended(AllocationEnd::Cancelled));
        assert_eq!(of("node-down").phase, SeenPhase::Ended(AllocationEnd::NodeFailed));
        assert_eq!(of("too-long").words, "PENDING (PartitionTimeLimit)");
        assert!(all.iter().all(|seen| !seen.allocation.as_str().contains("others")));
        assert_eq!(read(answer, "daemon").expect("readable"), [], "they are root's");
    }
}

#[test]
fn of_several_states_the_one_that_squeue_says_counts() {
    let table: [(&[&str], SeenPhase); 6] = [
        (&["CANCELLED", "COMPLETING"], SeenPhase::Running),
        (&["RUNNING", "CONFIGURING"], SeenPhase::Running),
        (&["PENDING", "REQUEUED"], SeenPhase::Queued),
        (&["PENDING", "REQUEUE_HOLD"], SeenPhase::Held),
        (&["COMPLETED", "UPDATE_DB"], SeenPhase::Ended(AllocationEnd::Completed)),
        (&[], SeenPhase::Running),
    ];
    for (states, expected) in table {
        let states: Vec<String> = states.iter().map(ToString::to_string).collect();
        assert_eq!(phase(state(&states), ""), expected, "{states:?}");
    }
}

#[test]
fn what_is_not_said_whole_is_not_believed() {
    let row = |user: &str| {
        format!(r#"{{"jobs": [{{"job_id": 7, "name": "shipway-s1-a", {user} "job_state": "X"}}]}}"#)
    };
    assert_eq!(read(&row(r#""user_name": "ada","#), "ada").expect("readable").len(), 1);
    assert_eq!(read(&row(r#""user_name": "eve","#), "ada"), Ok(Vec::new()));
    let said = read(&row(r#""user_name": "","#), "ada").expect_err("whose?");
    assert!(said.contains("whose a job is"), "{said}");
    let cut = ANSWERS.map(|answer| &answer[..answer.len() - 40]);
    for answer in cut {
        assert!(read(answer, "root").is_err(), "the rest may have been ours");
    }
    let one = r#"{"job_id": 7, "name": "shipway-s1-a", "user_name": "ada"},"#;
    let many = format!(r#"{{"jobs": [{}{{}}]}}"#, one.repeat(MAX_OURS + 1));
    let said = read(&many, "ada").expect_err("too many");
    assert!(said.contains("carry our name"), "{said}");
}
