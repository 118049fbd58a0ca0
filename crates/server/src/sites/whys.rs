//! Why allocations still wait, where a batch system has to be asked for each of them: of those of a
//! class that wait, the one that has waited longest, now and then. What it said stands beside its
//! state until it is asked again, so that nothing changes from look to look.

use shipway_model::{AllocationId, Millis, Timestamp};
use shipway_sites::batch::{EngineId, MAX_WORDS, Seen, SeenPhase};
use std::collections::BTreeMap;

/// What waits for less says enough with its state.
const AFTER: Millis = Millis(20_000);
/// The answer takes a batch system as much work as looking at all its nodes.
const EVERY: Millis = Millis(3 * 60_000);

#[derive(Debug, Default)]
pub(super) struct Whys {
    words: BTreeMap<AllocationId, String>,
    /// When it was asked last, by class.
    asked: BTreeMap<String, Timestamp>,
}

/// One that waits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waiting<'a> {
    pub(super) id: &'a AllocationId,
    pub(super) class: &'a str,
    pub(super) engine_id: &'a EngineId,
    pub(super) since: Timestamp,
}

impl Whys {
    /// Which to ask about now. What waits no more is forgotten.
    pub(super) fn due(
        &mut self,
        waiting: &[Waiting<'_>],
        now: Timestamp,
    ) -> Vec<(AllocationId, EngineId)> {
        self.words.retain(|id, _| waiting.iter().any(|one| one.id == id));
        self.asked.retain(|class, _| waiting.iter().any(|one| one.class == class));
        let mut oldest: BTreeMap<&str, Waiting<'_>> = BTreeMap::new();
        for one in waiting.iter().filter(|one| now.since(one.since) >= AFTER) {
            let first = oldest.entry(one.class).or_insert(*one);
            if (one.since, one.id) < (first.since, first.id) {
                *first = *one;
            }
        }
        let is_due = |class: &str| {
            let asked = self.asked.get(class);
            asked.is_none_or(|asked| now.since(*asked) >= EVERY)
        };
        let due: Vec<Waiting<'_>> = oldest.into_values().filter(|one| is_due(one.class)).collect();
        for one in &due {
            self.asked.insert(one.class.to_owned(), now);
        }
        due.into_iter().map(|one| (one.id.clone(), one.engine_id.clone())).collect()
    }

    /// `None`: the batch system knows no more than it says anyway.
    pub(super) fn learn(&mut self, id: AllocationId, why: Option<String>) {
        match why {
            Some(why) => self.words.insert(id, why),
            None => self.words.remove(&id),
        };
    }

    /// Its own words, and why it waits where that is known.
    pub(super) fn words(&self, seen: &Seen) -> String {
        let why = self.words.get(&seen.allocation).filter(|_| seen.phase == SeenPhase::Queued);
        let Some(why) = why else { return seen.words.clone() };
        format!("{}: {why}", seen.words).chars().take(MAX_WORDS).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allocation(name: &str) -> AllocationId {
        AllocationId::new(name).expect("good")
    }

    #[test]
    fn of_each_class_the_longest_waiting_is_asked_about_now_and_then() {
        let ids = ["a", "b", "c", "d"].map(allocation);
        let engine = EngineId("7".into());
        let one = |at: usize, class, since| Waiting {
            id: &ids[at],
            class,
            engine_id: &engine,
            since: Timestamp(since),
        };
        let all = [one(0, "cpu", 5_000), one(1, "cpu", 1_000), one(2, "gpu", 90_000)];
        let mut whys = Whys::default();
        let due = |whys: &mut Whys, all: &[Waiting<'_>], now| -> Vec<AllocationId> {
            whys.due(all, Timestamp(now)).into_iter().map(|(id, _)| id).collect()
        };
        assert_eq!(due(&mut whys, &all, 20_000), [], "it is early");
        assert_eq!(due(&mut whys, &all, 100_000), [ids[1].clone()]);
        assert_eq!(due(&mut whys, &all, 120_000), [ids[2].clone()], "the other class");
        assert_eq!(due(&mut whys, &all, 279_999), [], "not all the time");
        assert_eq!(due(&mut whys, &all, 280_000), [ids[1].clone()]);
        whys.learn(ids[1].clone(), Some("nothing fits".into()));
        let seen = |phase| Seen {
            id: engine.clone(),
            allocation: ids[1].clone(),
            phase,
            words: "IDLE".into(),
            nodes: Vec::new(),
            expected: None,
        };
        assert_eq!(whys.words(&seen(SeenPhase::Queued)), "IDLE: nothing fits");
        assert_eq!(whys.words(&seen(SeenPhase::Running)), "IDLE");
        assert_eq!(due(&mut whys, &all[2..], 290_000), []);
        assert_eq!(whys.words(&seen(SeenPhase::Queued)), "IDLE", "what has left is forgotten");
    }
}
