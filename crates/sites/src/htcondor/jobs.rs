//! The jobs of allocations, from the queue and from the history, and what is seen of an allocation
//! in them: one with several nodes is several jobs of one cluster.

use super::ad::Ad;
use super::submit::{HELD_FOR_FILES, NAME};
use super::words::{self, Status};
use crate::batch::{AllocationEnd, EngineId, Naming, Seen, SeenPhase};
use shipway_model::AllocationId;
use std::collections::BTreeMap;

/// What is asked of each job.
pub(super) const ATTRIBUTES: [&str; 21] = [
    "ClusterId",
    "ProcId",
    NAME,
    "JobStatus",
    "LastJobStatus",
    "HoldReason",
    "HoldReasonCode",
    "LastHoldReason",
    "LastHoldReasonCode",
    "RemoveReason",
    "VacateReason",
    "VacateReasonCode",
    "LastVacateTime",
    "JobDisconnectedDate",
    "ExitCode",
    "ExitBySignal",
    "ExitSignal",
    "JobStartDate",
    "RemoteHost",
    "LastRemoteHost",
    "LastRejMatchReason",
];

/// A node has a name that is longer than a host's, and no more.
const MAX_NODE_NAME: usize = 255;

/// One job, which is one node of an allocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Job {
    pub(super) cluster: u64,
    process: u64,
    allocation: AllocationId,
    phase: SeenPhase,
    words: String,
    node: Option<String>,
}

/// What an ad says of a job of ours; `None`: it is somebody else's, or no job.
pub(super) fn job(ad: &Ad, naming: &Naming) -> Option<Job> {
    let allocation = naming.allocation(ad.text(NAME)?)?;
    let (cluster, process) = (ad.count("ClusterId")?, ad.count("ProcId")?);
    let (phase, words) = phase(ad);
    let host = match phase {
        SeenPhase::Running => ad.text("RemoteHost"),
        SeenPhase::Ended(_) => ad.text("RemoteHost").or(ad.text("LastRemoteHost")),
        _ => None,
    };
    let node = host.map(node_of);
    Some(Job { cluster, process, allocation, phase, words, node })
}

fn phase(ad: &Ad) -> (SeenPhase, String) {
    let still_there = ad.text("RemoteHost").is_some();
    match words::status(ad) {
        Some(Status::Idle) => (SeenPhase::Queued, idle_words(ad)),
        Some(Status::Running) => (SeenPhase::Running, "RUNNING".into()),
        Some(Status::Transferring) => (SeenPhase::Running, "TRANSFERRING OUTPUT".into()),
        Some(Status::Suspended) => (SeenPhase::Running, "SUSPENDED".into()),
        // It is so from the moment it was handed in until its files have come.
        Some(Status::Held) if ad.whole("HoldReasonCode") == Some(HELD_FOR_FILES) => {
            (SeenPhase::Queued, "SPOOLING".into())
        }
        Some(Status::Held) => (SeenPhase::Held, words::held_words(ad)),
        // The pilot has been warned, and has until it is killed.
        Some(Status::Removed) if still_there => {
            (SeenPhase::Running, format!("{}, and still ends", words::end_words(ad)))
        }
        Some(Status::Removed | Status::Completed) => {
            (SeenPhase::Ended(words::end(ad)), words::end_words(ad))
        }
        None => {
            (SeenPhase::Ended(AllocationEnd::Unknown), "JobStatus is not one that is known".into())
        }
    }
}

fn idle_words(ad: &Ad) -> String {
    match ad.text("LastRejMatchReason").map(str::trim).filter(|reason| !reason.is_empty()) {
        Some(reason) => words::cut(&format!("IDLE ({reason})")),
        None => "IDLE".into(),
    }
}

/// The node that a slot is of: `slot1_2@a.example` is of `a.example`. Several startds of one
/// machine have names of their own there, and are nodes of their own to us.
pub(super) fn node_of(slot: &str) -> String {
    let node = match slot.split_once('@') {
        Some((number, node)) if number.starts_with("slot") => node,
        _ => slot,
    };
    node.chars().filter(|c| !c.is_control()).take(MAX_NODE_NAME).collect()
}

/// What is seen of each allocation. A job that left the queue between the two questions is in
/// both answers: what is said later is true.
pub(super) fn seen(queued: Vec<Job>, ended: Vec<Job>) -> Vec<Seen> {
    let mut clusters: BTreeMap<u64, BTreeMap<u64, Job>> = BTreeMap::new();
    for job in queued.into_iter().chain(ended) {
        clusters.entry(job.cluster).or_default().insert(job.process, job);
    }
    let lists = clusters.into_values().map(|jobs| jobs.into_values().collect::<Vec<Job>>());
    lists.filter_map(|jobs| one(&jobs)).collect()
}

/// The cluster as one: it runs where any of it does, and is over when all of it is.
fn one(jobs: &[Job]) -> Option<Seen> {
    let rank = |job: &Job| match job.phase {
        SeenPhase::Running => 0,
        SeenPhase::Held => 1,
        SeenPhase::Queued => 2,
        SeenPhase::Ended(AllocationEnd::Completed) => 4,
        SeenPhase::Ended(_) => 3,
    };
    let told = jobs.iter().min_by_key(|job| rank(job))?;
    let running = |job: &&Job| told.phase != SeenPhase::Running || job.phase == told.phase;
    let nodes = jobs.iter().filter(running).filter_map(|job| job.node.clone());
    let mut nodes: Vec<String> = nodes.collect();
    nodes.sort();
    nodes.dedup();
    let alike = jobs.iter().filter(|job| job.phase == told.phase).count();
    let words = match jobs.len() {
        1 => told.words.clone(),
        all => words::cut(&format!("{alike} of {all}: {}", told.words)),
    };
    Some(Seen {
        id: EngineId(told.cluster.to_string()),
        allocation: told.allocation.clone(),
        phase: told.phase,
        words,
        nodes,
        expected: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::htcondor::ad::read;

    fn naming() -> Naming {
        Naming { whose: "s1".into() }
    }

    fn jobs(text: &str) -> Vec<Job> {
        let ads = read(text.as_bytes()).expect("readable");
        ads.iter().filter_map(|ad| job(ad, &naming())).collect()
    }

    fn text(process: u32, rest: &str) -> String {
        let name = r#""ShipwayAllocation": "shipway-s1-a""#;
        format!(r#"{{"ClusterId": 7, "ProcId": {process}, {name}, {rest}}}"#)
    }

    fn look(queued: &[String], ended: &[String]) -> Seen {
        let list = |ads: &[String]| jobs(&format!("[{}]", ads.join(",")));
        let mut seen = seen(list(queued), list(ended));
        assert_eq!(seen.len(), 1, "{seen:?}");
        seen.remove(0)
    }

    #[test]
    fn phases_are_read_from_states_and_codes() {
        let phase = |rest: &str| {
            let seen = look(&[text(0, rest)], &[]);
            (seen.phase, seen.words)
        };
        let queued = |words: &str| (SeenPhase::Queued, words.to_string());
        assert_eq!(phase(r#""JobStatus": 1"#), queued("IDLE"));
        let rejected = r#""JobStatus": 1, "LastRejMatchReason": "no match found ""#;
        assert_eq!(phase(rejected), queued("IDLE (no match found)"));
        assert_eq!(phase(r#""JobStatus": 5, "HoldReasonCode": 16"#), queued("SPOOLING"));
        assert_eq!(phase(r#""JobStatus": 5, "HoldReasonCode": 1"#).0, SeenPhase::Held);
        let going = r#""JobStatus": 3, "RemoveReason": "x", "RemoteHost": "slot1@n""#;
        assert_eq!(phase(going), (SeenPhase::Running, "REMOVED (x), and still ends".into()));
        let gone = phase(r#""JobStatus": 3, "RemoveReason": "x""#).0;
        assert_eq!(gone, SeenPhase::Ended(AllocationEnd::Cancelled));
        assert_eq!(phase(r#""JobStatus": 12"#).0, SeenPhase::Ended(AllocationEnd::Unknown));
    }

    #[test]
    fn several_nodes_are_one_allocation() {
        let runs = |n, at: &str| text(n, &format!(r#""JobStatus": 2, "RemoteHost": "{at}""#));
        let over = |n, code| text(n, &format!(r#""JobStatus": 4, "ExitCode": {code}"#));
        let seen = look(&[runs(0, "slot1_1@b"), runs(1, "slot1_3@a"), over(2, 1)], &[]);
        assert_eq!((seen.phase, seen.nodes), (SeenPhase::Running, vec!["a".into(), "b".into()]));
        assert_eq!((seen.id.0.as_str(), seen.words.as_str()), ("7", "2 of 3: RUNNING"));
        let seen = look(&[], &[over(0, 0), over(1, 3)]);
        assert_eq!(seen.phase, SeenPhase::Ended(AllocationEnd::Failed));
        let seen = look(&[runs(0, "slot1_1@b")], &[over(0, 0)]);
        assert_eq!(seen.phase, SeenPhase::Ended(AllocationEnd::Completed), "the later answer");
    }

    #[test]
    fn jobs_of_others_are_not_ours() {
        let others = [
            r#"{"ClusterId": 1, "ProcId": 0, "JobStatus": 1}"#,
            r#"{"ClusterId": 1, "ProcId": 0, "ShipwayAllocation": "shipway-s2-a", "JobStatus": 1}"#,
            r#"{"ClusterId": -1, "ProcId": 0, "ShipwayAllocation": "shipway-s1-a"}"#,
            r#"{"ProcId": 0, "ShipwayAllocation": "shipway-s1-a"}"#,
        ];
        assert_eq!(jobs(&format!("[{}]", others.join(","))), []);
    }

    #[test]
    fn a_slot_is_of_a_node() {
        assert_eq!(node_of("slot1_12@a.example"), "a.example");
        assert_eq!(node_of("slot1@k40@a.example"), "k40@a.example");
        assert_eq!(node_of("glidein@a"), "glidein@a");
        assert_eq!(node_of("bare\n"), "bare");
    }
}
