//! Slurm's states of a job, and what each is to us.

use crate::batch::{AllocationEnd, SeenPhase};

/// Reasons of a pending job that only a person takes away: nobody's turn will start it.
const HELD: [&str; 7] = [
    "JobHeldUser",
    "JobHeldAdmin",
    "BadConstraints",
    "JobHoldMaxRequeue",
    "DependencyNeverSatisfied",
    "launch failed requeued held",
    "job requeued in held state",
];

/// By the long name or the short one, in `squeue` and `sacct` of all versions. `sacct` adds who
/// cancelled it, newer versions say several at once (`PENDING,REQUEUED`): the first counts.
pub(super) fn phase(state: &str, reason: &str) -> SeenPhase {
    use AllocationEnd::{
        Cancelled, Completed, Failed, NodeFailed, OutOfMemory, Preempted, TimeLimit,
    };
    let state = state.split([' ', ',', '+']).next().unwrap_or_default();
    let ended = SeenPhase::Ended;
    match state {
        "PENDING" | "PD" if HELD.iter().any(|held| reason.starts_with(held)) => SeenPhase::Held,
        "REQUEUE_HOLD" | "RH" | "RESV_DEL_HOLD" | "RD" | "SPECIAL_EXIT" | "SE" => SeenPhase::Held,
        "PENDING" | "PD" | "REQUEUED" | "RQ" | "REQUEUE_FED" | "RF" | "EXPEDITING" | "EX" => {
            SeenPhase::Queued
        }
        "COMPLETED" | "CD" => ended(Completed),
        "FAILED" | "F" | "LAUNCH_FAILED" | "RECONFIG_FAIL" => ended(Failed),
        "CANCELLED" | "CA" | "REVOKED" | "RV" => ended(Cancelled),
        // A deadline: it could not have ended in time, and was not let run on.
        "TIMEOUT" | "TO" | "DEADLINE" | "DL" => ended(TimeLimit),
        "PREEMPTED" | "PR" => ended(Preempted),
        "NODE_FAIL" | "NF" | "BOOT_FAIL" | "BF" => ended(NodeFailed),
        "OUT_OF_MEMORY" | "OOM" => ended(OutOfMemory),
        // It has its nodes: RUNNING, CONFIGURING (they are started for it), COMPLETING, SUSPENDED,
        // STOPPED, RESIZING, SIGNALING, STAGE_OUT. So is a state of a later version: as long as it
        // is listed, it is not known to be over.
        _ => SeenPhase::Running,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use AllocationEnd as End;

    #[test]
    fn every_state_has_its_phase_by_both_names() {
        let ended = SeenPhase::Ended;
        let table = [
            ("PENDING", "PD", SeenPhase::Queued),
            ("REQUEUED", "RQ", SeenPhase::Queued),
            ("REQUEUE_FED", "RF", SeenPhase::Queued),
            ("REQUEUE_HOLD", "RH", SeenPhase::Held),
            ("RESV_DEL_HOLD", "RD", SeenPhase::Held),
            ("SPECIAL_EXIT", "SE", SeenPhase::Held),
            ("RUNNING", "R", SeenPhase::Running),
            ("CONFIGURING", "CF", SeenPhase::Running),
            ("COMPLETING", "CG", SeenPhase::Running),
            ("SUSPENDED", "S", SeenPhase::Running),
            ("STOPPED", "ST", SeenPhase::Running),
            ("RESIZING", "RS", SeenPhase::Running),
            ("SIGNALING", "SI", SeenPhase::Running),
            ("STAGE_OUT", "SO", SeenPhase::Running),
            ("COMPLETED", "CD", ended(End::Completed)),
            ("FAILED", "F", ended(End::Failed)),
            ("BOOT_FAIL", "BF", ended(End::NodeFailed)),
            ("NODE_FAIL", "NF", ended(End::NodeFailed)),
            ("CANCELLED", "CA", ended(End::Cancelled)),
            ("CANCELLED by 1000", "CANCELLED+", ended(End::Cancelled)),
            ("REVOKED", "RV", ended(End::Cancelled)),
            ("TIMEOUT", "TO", ended(End::TimeLimit)),
            ("DEADLINE", "DL", ended(End::TimeLimit)),
            ("PREEMPTED", "PR", ended(End::Preempted)),
            ("OUT_OF_MEMORY", "OOM", ended(End::OutOfMemory)),
            ("PENDING,REQUEUED", "PD", SeenPhase::Queued),
        ];
        for (long, short, expected) in table {
            assert_eq!(phase(long, "None"), expected, "{long}");
            assert_eq!(phase(short, "None"), expected, "{short}");
        }
        assert_eq!(phase("A_STATE_OF_LATER", ""), SeenPhase::Running);
    }

    #[test]
    fn who_waits_for_a_person_is_held() {
        for reason in ["JobHeldUser", "JobHeldAdmin", "BadConstraints", "JobHoldMaxRequeue"] {
            assert_eq!(phase("PENDING", reason), SeenPhase::Held, "{reason}");
        }
        for reason in ["Resources", "Priority", "PartitionDown", "ReqNodeNotAvail, Unavailable…"]
        {
            assert_eq!(phase("PENDING", reason), SeenPhase::Queued, "{reason}");
        }
        assert_eq!(phase("RUNNING", "JobHeldUser"), SeenPhase::Running);
    }
}
