//! What is said to a pilot after all else: placements of jobs whose specifications are large and
//! not at hand. Each of them takes a part of a second to be read, in which nothing else could be
//! said; so they are said one job at a time, people take turns, and all other orders go before.
//!
//! An order to stop a task stays behind the order to start it: a pilot that was told so first would
//! start it all the same.

use super::PilotOrder;
use shipway_core::event::Placement;
use shipway_model::{AttemptId, JobId, Millis};
use std::collections::{BTreeSet, VecDeque};

#[derive(Debug, Default)]
pub(super) struct Later {
    /// The first one's turn is next. Nobody is here without an order.
    people: VecDeque<Person>,
}

#[derive(Debug)]
struct Person {
    name: String,
    orders: VecDeque<PilotOrder>,
    /// Jobs that the orders are about.
    jobs: BTreeSet<JobId>,
}

impl Later {
    pub(super) fn is_empty(&self) -> bool {
        self.people.is_empty()
    }

    /// Placements of one job of this person's.
    pub(super) fn add(&mut self, name: &str, job: JobId, placements: Vec<Placement>) {
        if !self.people.iter().any(|person| person.name == name) {
            let (orders, jobs) = (VecDeque::new(), BTreeSet::new());
            self.people.push_back(Person { name: name.to_owned(), orders, jobs });
        }
        if let Some(person) = self.people.iter_mut().find(|person| person.name == name) {
            person.orders.push_back(PilotOrder::Assign(placements));
            person.jobs.insert(job);
        }
    }

    /// Keeps the orders to stop what waits here; returns the others.
    pub(super) fn stop(&mut self, attempts: Vec<AttemptId>, grace: Millis) -> Vec<AttemptId> {
        let mut others = attempts;
        for person in &mut self.people {
            let (here, left) =
                others.into_iter().partition(|id: &AttemptId| person.jobs.contains(&id.task.job));
            others = left;
            let here: Vec<_> = here;
            if !here.is_empty() {
                person.orders.push_back(PilotOrder::Stop { attempts: here, grace });
            }
        }
        others
    }

    /// The next order of whoever's turn it is.
    pub(super) fn next(&mut self) -> Option<PilotOrder> {
        let mut person = self.people.pop_front()?;
        let order = person.orders.pop_front();
        if !person.orders.is_empty() {
            self.people.push_back(person);
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shipway_model::{Attempt, TaskId, TaskIndex};

    fn task(job: u64) -> TaskId {
        JobId(job).task(TaskIndex(0))
    }

    fn add(later: &mut Later, name: &str, job: u64) {
        let placement = Placement { task: task(job), attempt: Attempt::FIRST, devices: Vec::new() };
        later.add(name, JobId(job), vec![placement]);
    }

    /// The job of an order, and whether it starts it.
    fn said(later: &mut Later) -> Vec<(u64, bool)> {
        std::iter::from_fn(|| later.next())
            .map(|order| match order {
                PilotOrder::Assign(placements) => (placements[0].task.job.0, true),
                PilotOrder::Stop { attempts, .. } => (attempts[0].task.job.0, false),
                PilotOrder::Say(_)
                | PilotOrder::Read(_)
                | PilotOrder::Answer(..)
                | PilotOrder::End(_) => {
                    panic!("nobody said that")
                }
            })
            .collect()
    }

    #[test]
    fn people_take_turns() {
        let mut later = Later::default();
        (1..=3).for_each(|job| add(&mut later, "eve", job));
        add(&mut later, "ada", 9);
        assert_eq!(said(&mut later), [(1, true), (9, true), (2, true), (3, true)]);
        assert!(later.is_empty());
    }

    #[test]
    fn nothing_is_stopped_before_it_was_started() {
        let mut later = Later::default();
        add(&mut later, "eve", 1);
        add(&mut later, "ada", 2);
        let stops = [1, 2, 3].map(|job| task(job).attempt(Attempt::FIRST)).to_vec();
        let others = later.stop(stops, Millis(5));
        assert_eq!(
            others,
            [task(3).attempt(Attempt::FIRST)],
            "what is not here can be told at once"
        );
        assert_eq!(said(&mut later), [(1, true), (2, true), (1, false), (2, false)]);
    }
}
