//! Why a job waits: every reason, from the state as it is. Computed when asked, never stored.

use crate::job::Job;
use crate::load::Load;
use crate::ready::rank;
use crate::schedule::classes;
use crate::state::State;
use shipway_model::{JobId, JobState, PilotId, Quantity, Reason, Resources};

/// The reasons of a job that is in memory; empty when nothing of it waits.
pub fn explain(state: &State, id: JobId) -> Vec<Reason> {
    let Some(job) = state.job(id).filter(|job| job.tasks.counts().waiting > 0) else {
        return Vec::new();
    };
    let mut reasons = Vec::new();
    for after in &job.after {
        let ended = state.job(after.job).map_or(JobState::Succeeded, Job::state);
        let (job, condition) = (after.job, after.condition);
        reasons.push(Reason::AfterJob { job, condition, state: ended });
    }
    if !reasons.is_empty() {
        return reasons;
    }
    let back_off = job.tasks.backing_off();
    if let Some(until) = back_off.values().min() {
        let tasks = u32::try_from(back_off.len()).unwrap_or(u32::MAX);
        reasons.push(Reason::BackOff { until: *until, tasks, last: None });
    }
    if !job.tasks.has_placeable() {
        return reasons;
    }
    if job.room() == 0 {
        let limit = job.max_running.unwrap_or(u32::MAX);
        reasons.push(Reason::MaxRunning { limit });
        return reasons;
    }
    reasons.extend(explain_need(state, &state.shapes().get(job.shape).resources));
    let ahead = state.ready().ahead_of(rank(id, job));
    if ahead > 0 && !reasons.iter().any(|reason| matches!(reason, Reason::TooSmall { .. })) {
        reasons.push(Reason::Behind { jobs: u32::try_from(ahead).unwrap_or(u32::MAX) });
    }
    if reasons.is_empty() { vec![Reason::Next] } else { reasons }
}

/// Why one task with this need could not start right now, class by class; empty when it could.
pub fn explain_need(state: &State, need: &Resources) -> Vec<Reason> {
    let classes = classes::connected(state);
    if classes.is_empty() {
        let away = u32::try_from(state.pilots().len()).unwrap_or(u32::MAX);
        return vec![if away == 0 { Reason::NoNodes } else { Reason::NodesAway { nodes: away } }];
    }
    let mut reasons = Vec::new();
    for (key, pilots) in &classes {
        match explain_class(state, &key.describe(), pilots, need) {
            Some(reason) => reasons.push(reason),
            None => return Vec::new(),
        }
    }
    reasons
}

/// `None`: a node of this class could take it now. Otherwise the node that comes nearest speaks
/// for its class.
fn explain_class(
    state: &State,
    class: &str,
    pilots: &[&PilotId],
    need: &Resources,
) -> Option<Reason> {
    let nodes = u32::try_from(pilots.len()).unwrap_or(u32::MAX);
    let mut too_small: Option<(Quantity, Quantity)> = None;
    let mut busy: Option<(Quantity, Quantity)> = None;
    for id in pilots {
        let pilot = &state.pilots()[*id];
        if let Some(lack) = Load::default().lacks(&pilot.ad, need) {
            too_small.get_or_insert(lack);
        } else if let Some(lack) = pilot.load.lacks(&pilot.ad, need) {
            // The node that comes nearest speaks for the busy ones.
            let nearer = busy.as_ref().is_none_or(|(_, found)| lack.1.raw() > found.raw());
            if nearer {
                busy = Some(lack);
            }
        } else {
            return None;
        }
    }
    let class = class.to_string();
    match (busy, too_small) {
        (Some((wanted, found)), _) => Some(Reason::Busy { nodes, class, wanted, found }),
        (None, Some((wanted, found))) => Some(Reason::TooSmall { nodes, class, wanted, found }),
        (None, None) => None,
    }
}
