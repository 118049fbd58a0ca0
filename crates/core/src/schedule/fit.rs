//! Where one more task of a shape goes, given what this pass has placed already.

use super::{backlog, classes};
use crate::job::Job;
use crate::load::Load;
use crate::state::State;
use shipway_model::{DeviceId, PilotId, Resources};
use std::collections::BTreeMap;

/// The connected nodes with what they hold, as this pass changes it.
pub(super) struct Nodes<'a> {
    state: &'a State,
    /// Pilots in class order, so that alike nodes stand together.
    order: Vec<&'a PilotId>,
    loads: BTreeMap<&'a PilotId, (Load, u32)>,
}

impl<'a> Nodes<'a> {
    pub(super) fn new(state: &'a State) -> Self {
        let order: Vec<_> = classes::connected(state).into_values().flatten().collect();
        Nodes { state, order, loads: BTreeMap::new() }
    }

    /// A pilot with room for one more, or a short place in its backlog; takes it.
    pub(super) fn take(&mut self, job: &Job, need: &Resources) -> Option<(PilotId, Vec<DeviceId>)> {
        let with_room = self.order.iter().position(|id| {
            let pilot = &self.state.pilots()[*id];
            let load = self.loads.get(id).map_or(&pilot.load, |(load, _)| load);
            load.lacks(&pilot.ad, need).is_none()
        });
        let at = with_room.or_else(|| self.backlog(job, need))?;
        let id = self.order[at];
        let pilot = &self.state.pilots()[id];
        let current = self.loads.entry(id);
        let (load, unstarted) = current.or_insert_with(|| (pilot.load.clone(), pilot.unstarted));
        let devices = load.choose_devices(&pilot.ad, need);
        load.add(need, &devices);
        *unstarted += 1;
        Some((id.clone(), devices))
    }

    /// The pilot with the shortest backlog that may still grow.
    fn backlog(&self, job: &Job, need: &Resources) -> Option<usize> {
        let candidates = self.order.iter().enumerate().filter_map(|(at, id)| {
            let pilot = &self.state.pilots()[*id];
            let unstarted = self.loads.get(id).map_or(pilot.unstarted, |(_, unstarted)| *unstarted);
            backlog::allows(job, pilot, need, unstarted).then_some((unstarted, at))
        });
        candidates.min().map(|(_, at)| at)
    }
}
