//! How much work may wait at a pilot beyond what it can run at once.
//!
//! Tiny tasks would otherwise wait for a round trip and a commit each. Only tasks that are known
//! to be short are sent ahead, and only a few milliseconds' worth, so that nothing ever waits at
//! one node while another is free for long. Tasks with devices are never sent ahead: which device
//! they get is decided when it is free.

use crate::job::Job;
use crate::pilot::Pilot;
use crate::shape::Pace;
use shipway_model::Resources;
use shipway_model::limits::{BACKLOG_TARGET, MAX_BACKLOG};

pub fn allows(job: &Job, pilot: &Pilot, need: &Resources, unstarted: u32) -> bool {
    let Some(pace) = job.pace.filter(|pace| *pace <= BACKLOG_TARGET) else { return false };
    if need.gpu.is_some() || !need.named.is_empty() {
        return false;
    }
    let slots = (pilot.ad.capacity.cpus.milli / need.cpus.milli.max(1)).max(1);
    let fits_when_empty = need.amounts().fits(&pilot.ad.capacity.amounts());
    let target = BACKLOG_TARGET.0.saturating_mul(slots) / pace.0.max(1);
    fits_when_empty && u64::from(unstarted) < target.min(u64::from(MAX_BACKLOG))
}

/// Whether some task of a shape with this pace may be worth sending ahead.
pub(super) fn may_be_short(pace: Pace) -> bool {
    pace.tasks > 0 && pace.mean <= BACKLOG_TARGET
}
