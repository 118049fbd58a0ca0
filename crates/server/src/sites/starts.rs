//! When pilots that wait may come, by what their batch system said of it. It is a guess that
//! changes from look to look, so it is in no event: it is kept here, with its age, and put into an
//! answer when somebody asks why a job waits. Where nothing was said, what the core knows of
//! earlier waits stays.

use super::Sites;
use crate::locks::Locked;
use shipway_core::State;
use shipway_model::reason::{ExpectedStart, SiteWait};
use shipway_model::{AllocationId, Reason, SiteName, Timestamp};
use shipway_sites::batch::{Seen, SeenPhase};
use std::collections::BTreeMap;

/// What a batch system said of starts, when it was last looked at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Starts {
    said: Timestamp,
    of: BTreeMap<AllocationId, Timestamp>,
}

impl Starts {
    pub(super) fn of(seen: &[Seen], said: Timestamp) -> Starts {
        let waits = seen.iter().filter(|one| one.phase == SeenPhase::Queued);
        let of = waits.filter_map(|one| Some((one.allocation.clone(), one.expected?)));
        Starts { said, of: of.collect() }
    }
}

impl Sites {
    pub(super) fn saw_starts(&self, site: &SiteName, starts: Starts) {
        self.starts.locked().insert(site.clone(), starts);
    }

    /// Puts in, for the pilots that wait at each site, when its batch system expects the first.
    pub(crate) fn say_starts(&self, state: &State, reasons: &mut [Reason]) {
        let known = self.starts.locked();
        for reason in reasons {
            let Reason::AtSite { site, class, wait: SiteWait::Pending { start, .. } } = reason
            else {
                continue;
            };
            let Some(said) = known.get(site) else { continue };
            if let Some(expected) = expected(state, site, class, said) {
                *start = Some(expected);
            }
        }
    }
}

fn expected(
    state: &State,
    site: &SiteName,
    class: &str,
    Starts { said, of }: &Starts,
) -> Option<ExpectedStart> {
    let by = state.sites().get(site)?.spec.kind;
    let waits = state.allocations_of(site).filter(|(_, known, _)| known.phase.is_pending());
    let of_class = waits.filter(|(_, _, batch)| batch.class == class);
    let at = of_class.filter_map(|(id, ..)| of.get(id)).min()?;
    Some(ExpectedStart::Engine { by, at: *at, said: *said })
}

#[cfg(test)]
mod tests {
    use super::*;
    use shipway_core::Command;
    use shipway_core::command::AskBatch;
    use shipway_core::engine::step;
    use shipway_core::event::Awaited;
    use shipway_model::{Actor, BatchKind, PilotId, Role, UserName};
    use shipway_sites::batch::EngineId;

    fn allocation(name: &str) -> AllocationId {
        AllocationId::new(name).expect("good")
    }

    /// Two of one class and one of another are asked for.
    fn asked() -> State {
        let spec = r#"{"name":"hpc","kind":"slurm","program":"/s","server":"http://h:1","classes":[
            {"name":"a100","pilots":4,"cpus":4,"memory":"16GB"},
            {"name":"cpu","pilots":4,"cpus":4,"memory":"16GB"}]}"#;
        let by = Actor::new(UserName::new("root").expect("good"), Role::Admin);
        let spec = Box::new(serde_json::from_str(spec).expect("a good site"));
        let ask = |class: &str, names: &[&str]| {
            let one = |name: &&str| {
                let pilot = PilotId::new(&format!("batch-{name}")).expect("good");
                (allocation(name), vec![Awaited { pilot, hash: (*name).into() }])
            };
            let site = SiteName::new("hpc").expect("good");
            let allocations = names.iter().map(one).collect();
            Command::AskBatch(Box::new(AskBatch { site, class: class.into(), allocations }))
        };
        let mut state = State::default();
        for command in [Command::AddSite { by, spec }, ask("a100", &["a", "b"]), ask("cpu", &["c"])]
        {
            step(&mut state, Timestamp(1), &command).expect("done");
        }
        state
    }

    fn seen(name: &str, phase: SeenPhase, expected: Option<u64>) -> Seen {
        Seen {
            id: EngineId(name.into()),
            allocation: allocation(name),
            phase,
            words: String::new(),
            nodes: Vec::new(),
            expected: expected.map(Timestamp),
        }
    }

    fn pending(class: &str) -> Reason {
        let (site, others) = (
            SiteName::new("hpc").expect("good"),
            ExpectedStart::Others {
                pilots: 1,
                shortest: shipway_model::Millis(1),
                longest: shipway_model::Millis(1),
                newest: Timestamp(1),
            },
        );
        let wait = SiteWait::Pending { pilots: 2, words: String::new(), start: Some(others) };
        Reason::AtSite { site, class: class.into(), wait }
    }

    fn start(reason: &Reason) -> Option<&ExpectedStart> {
        let Reason::AtSite { wait: SiteWait::Pending { start, .. }, .. } = reason else {
            return None;
        };
        start.as_ref()
    }

    #[test]
    fn the_first_start_that_is_expected_of_a_class_is_said_with_its_age() {
        let (state, sites) = (asked(), Sites::default());
        let all = [
            seen("a", SeenPhase::Queued, Some(9_000)),
            seen("b", SeenPhase::Queued, Some(5_000)),
            seen("c", SeenPhase::Queued, None),
            seen("gone", SeenPhase::Queued, Some(10)),
        ];
        let site = SiteName::new("hpc").expect("good");
        sites.saw_starts(&site, Starts::of(&all, Timestamp(77)));
        let mut reasons = [pending("a100"), pending("cpu"), Reason::NoNodes];
        let before = reasons.clone();
        sites.say_starts(&state, &mut reasons);
        let by = BatchKind::Slurm;
        let expected = ExpectedStart::Engine { by, at: Timestamp(5_000), said: Timestamp(77) };
        assert_eq!(start(&reasons[0]), Some(&expected));
        assert_eq!(reasons[1..], before[1..], "of the other class it said nothing");
        // What it does not say any more is not said on.
        let held = [seen("b", SeenPhase::Held, Some(5_000))];
        sites.saw_starts(&site, Starts::of(&held, Timestamp(99)));
        let mut reasons = before.clone();
        sites.say_starts(&state, &mut reasons);
        assert_eq!(reasons, before);
        sites.saw_starts(&site, Starts::of(&all, Timestamp(99)));
        sites.forget(&site);
        sites.say_starts(&state, &mut reasons);
        assert_eq!(reasons, before);
    }
}
