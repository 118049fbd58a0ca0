//! Who is next at the writer: everybody with something waiting has a lane, and lanes take turns.
//!
//! However much one person asks for, another waits for one request of theirs at a time. What the
//! server has to do itself (pilots' reports, the timer, its end) goes before. Within a lane the
//! order is kept, and a lane with nothing in it is forgotten. Not here: threads, waiting, and how
//! much may wait altogether (`queue.rs`).

use shipway_model::UserName;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};

/// Requests of one person that wait. The door lets in half as many (`http/asking.rs`): this is for
/// what it does not count.
const OF_ONE: usize = 2_048;
/// What the server may do of its own before a person has a turn, so that pilots which report
/// without end keep nobody out. Reports take microseconds: nobody notices so few.
const OWN_IN_A_ROW: usize = 64;

#[derive(Debug)]
pub(super) struct Lanes<T> {
    own: VecDeque<T>,
    /// Of the server's own, since a person had a turn.
    in_a_row: usize,
    /// None of them is empty.
    people: HashMap<UserName, VecDeque<T>>,
    /// Everybody who has a lane, once; the next one first.
    turns: VecDeque<UserName>,
}

/// Of whom something was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Of {
    Server,
    Person,
}

impl<T> Default for Lanes<T> {
    fn default() -> Self {
        Lanes { own: VecDeque::new(), in_a_row: 0, people: HashMap::new(), turns: VecDeque::new() }
    }
}

impl<T> Lanes<T> {
    /// Gives it back if too many of this person's wait. `None` is the server itself.
    pub(super) fn push(&mut self, by: Option<UserName>, request: T) -> Result<(), T> {
        let Some(person) = by else {
            self.own.push_back(request);
            return Ok(());
        };
        match self.people.entry(person) {
            Entry::Occupied(lane) if lane.get().len() >= OF_ONE => return Err(request),
            Entry::Occupied(mut lane) => lane.get_mut().push_back(request),
            Entry::Vacant(lane) => {
                self.turns.push_back(lane.key().clone());
                lane.insert(VecDeque::new()).push_back(request);
            }
        }
        Ok(())
    }

    pub(super) fn pop(&mut self) -> Option<(Of, T)> {
        let is_own_turn = self.in_a_row < OWN_IN_A_ROW || self.turns.is_empty();
        if is_own_turn && let Some(request) = self.own.pop_front() {
            self.in_a_row = self.in_a_row.saturating_add(1);
            return Some((Of::Server, request));
        }
        self.in_a_row = 0;
        self.pop_of_people().map(|request| (Of::Person, request))
    }

    fn pop_of_people(&mut self) -> Option<T> {
        let person = self.turns.pop_front()?;
        let lane = self.people.get_mut(&person)?;
        let request = lane.pop_front();
        if lane.is_empty() {
            self.people.remove(&person);
        } else {
            self.turns.push_back(person);
        }
        request
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by(name: &str) -> Option<UserName> {
        UserName::new(name).ok()
    }

    fn all<T>(lanes: &mut Lanes<T>) -> Vec<T> {
        std::iter::from_fn(|| lanes.pop()).map(|(_, request)| request).collect()
    }

    #[test]
    fn people_take_turns_however_much_one_of_them_wants() {
        let mut lanes = Lanes::default();
        for number in 0..1_000 {
            lanes.push(by("eve"), ("eve", number)).expect("room");
        }
        for number in 0..3 {
            lanes.push(by("bob"), ("bob", number)).expect("room");
        }
        lanes.push(by("ada"), ("ada", 0)).expect("room");
        let taken = all(&mut lanes);
        let first: Vec<&str> = taken.iter().take(8).map(|(name, _)| *name).collect();
        assert_eq!(first, ["eve", "bob", "ada", "eve", "bob", "eve", "bob", "eve"]);
        for name in ["eve", "bob"] {
            let numbers = taken.iter().filter(|one| one.0 == name).map(|(_, number)| *number);
            assert!(numbers.is_sorted(), "the order of {name}'s is kept");
        }
        assert_eq!(taken.len(), 1_004, "nothing is lost");
        assert!(lanes.people.is_empty() && lanes.turns.is_empty(), "empty lanes are forgotten");
    }

    #[test]
    fn whoever_comes_again_at_once_does_not_come_before_others() {
        let mut lanes = Lanes::default();
        for name in ["eve", "bob"] {
            lanes.push(by(name), name).expect("room");
        }
        assert_eq!(lanes.pop(), Some((Of::Person, "eve")));
        lanes.push(by("eve"), "eve").expect("room");
        assert_eq!(all(&mut lanes), ["bob", "eve"]);
    }

    #[test]
    fn the_server_goes_first_and_lets_people_in_between() {
        let mut lanes = Lanes::default();
        for _ in 0..3 {
            lanes.push(by("eve"), "eve").expect("room");
        }
        for _ in 0..=OWN_IN_A_ROW {
            lanes.push(None, "own").expect("room");
        }
        let taken = all(&mut lanes);
        let mut expected = vec!["own"; OWN_IN_A_ROW];
        expected.extend(["eve", "own", "eve", "eve"]);
        assert_eq!(taken, expected);
    }

    #[test]
    fn one_person_has_a_lane_of_limited_length() {
        let mut lanes = Lanes::default();
        for number in 0..OF_ONE {
            lanes.push(by("eve"), number).expect("room");
        }
        assert_eq!(lanes.push(by("eve"), 7), Err(7));
        lanes.push(by("bob"), 8).expect("bob has room");
        for number in 0..2 * OF_ONE {
            lanes.push(None, number).expect("so has the server");
        }
        assert_eq!(all(&mut lanes).len(), 3 * OF_ONE + 1);
        lanes.push(by("eve"), 7).expect("room again");
    }
}
