//! The cgroups of tasks, where the node delegates them.
//!
//! Every task has a slot, which holds the number of its processes and is used again by the next.
//! One whose job names memory has a group of its own besides: made before the task starts, asked
//! when it has ended, removed when it is empty. That takes longer than starting a process.

use super::crowding::{self, Counted, too_many};
use crate::leftovers::group_prefix;
use crate::machine::OutOfMemory;
use crate::spawn::Ticket;
use shipway_api::link::Template;
use shipway_model::Bytes;
use shipway_runtime::cgroup::{Delegation, Group};
use shipway_runtime::crowd::{Caps, Slot, Slots};
use shipway_runtime::meter::Meter;
use shipway_runtime::plan;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

#[derive(Debug)]
pub(super) struct Groups {
    delegation: Delegation,
    prefix: String,
    caps: Caps,
    held: HashMap<Ticket, TaskGroup>,
    slots: Option<Slots>,
    taken: HashMap<Ticket, Arc<Slot>>,
    /// Of tasks that have ended, with processes that are still dying.
    emptying: Vec<Group>,
    next: Option<Instant>,
}

/// A group of one task, of a job that names memory.
#[derive(Debug)]
struct TaskGroup {
    group: Group,
    limit: Bytes,
    person: String,
}

/// How often groups are asked whether the kernel has killed something in them.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// How soon groups are looked at again whose processes were still dying.
const SWEEP_AGAIN: Duration = Duration::from_millis(100);

impl Groups {
    /// Also says what is to be known of it, if limits are not held by the kernel.
    pub(super) fn find(node_key: &str) -> (Self, Option<String>) {
        let caps = crowding::find();
        let node = Path::new("/");
        let delegation = Delegation::find(node).take_over(node);
        let prefix = group_prefix(node_key);
        delegation.clear(&prefix);
        let note = match &delegation {
            Delegation::Polled { why } => {
                Some(format!("limits on memory are held by looking once a second: {why}"))
            }
            Delegation::V1 { .. } | Delegation::V2 { .. } => None,
        };
        let slots = Slots::find(&delegation, &prefix, caps);
        let (held, taken, emptying) = (HashMap::new(), HashMap::new(), Vec::new());
        (Self { delegation, prefix, caps, held, slots, taken, emptying, next: None }, note)
    }

    /// How many processes tasks may have.
    pub(super) const fn caps(&self) -> Caps {
        self.caps
    }

    pub(super) fn limits(&self, template: &Template) -> plan::Limits {
        let millicpus = u32::try_from(template.need.cpus.milli).unwrap_or(u32::MAX);
        plan::Limits {
            memory: (template.need.memory.0 > 0).then_some(template.need.memory.0),
            pids: Some(self.caps.task),
            millicpus: (millicpus > 0).then_some(millicpus),
        }
    }

    /// What holds the processes of a task of this person. `None`: somebody has to look.
    pub(super) fn slot(&mut self, ticket: Ticket, person: &str) -> Option<Arc<Slot>> {
        match self.slots.as_mut()?.take(person) {
            Ok(slot) => {
                self.taken.insert(ticket, Arc::clone(&slot));
                Some(slot)
            }
            Err(error) => {
                tracing::warn!(%error, "no cgroup for the processes of a task");
                None
            }
        }
    }

    /// What a task has to join, and whether its memory is held by that.
    pub(super) fn make(&mut self, ticket: Ticket, template: &Template) -> (Vec<PathBuf>, bool) {
        self.sweep();
        if template.need.memory == Bytes(0) {
            return (Vec::new(), false);
        }
        let name = format!("{}{}", self.prefix, ticket.0);
        match Group::make(&self.delegation, &name, &self.limits(template)) {
            Ok(None) => (Vec::new(), false),
            Ok(Some(group)) => {
                let doors = group.doors();
                let (limit, person) = (template.need.memory, template.user.clone());
                self.held.insert(ticket, TaskGroup { group, limit, person });
                self.next.get_or_insert_with(|| Instant::now() + ASK_AGAIN);
                (doors, self.delegation.holds_memory())
            }
            // The task is none the worse for it: its memory is looked at instead.
            Err(error) => {
                tracing::warn!(?error, "a task gets no cgroup");
                (Vec::new(), false)
            }
        }
    }

    /// Where to look for what a task uses, if it has a group of its own.
    pub(super) fn meter(&self, ticket: Ticket) -> Option<Meter> {
        self.held.get(&ticket).map(|held| held.group.meter())
    }

    /// Who has to be ended, and why if nothing else will say it. Tasks of which the kernel has
    /// killed a part: a task without it is seldom of use, and may wait for it for ever (version 2
    /// ends all of it by itself). And those of people who have too many processes in groups that
    /// do not count together.
    pub(super) fn look(&mut self, now: Instant) -> Vec<(Ticket, Option<String>)> {
        if self.next.is_none_or(|next| next > now) {
            return Vec::new();
        }
        self.sweep();
        self.next = match (self.emptying.is_empty(), self.held.is_empty()) {
            (false, _) => Some(now + SWEEP_AGAIN),
            (true, false) => Some(now + ASK_AGAIN),
            (true, true) => None,
        };
        let hurt = self.held.iter().filter(|(_, held)| held.group.out_of_memory_kills() > 0);
        let hurt = hurt.map(|(ticket, _)| (*ticket, None));
        hurt.chain(self.crowds().into_iter().map(|(ticket, why)| (ticket, Some(why)))).collect()
    }

    fn crowds(&self) -> Vec<(Ticket, String)> {
        let counted = self.held.iter().map(|(ticket, held)| Counted {
            ticket: *ticket,
            person: &held.person,
            processes: held.group.processes(),
        });
        let people = self.held.values().map(|held| held.person.as_str());
        let in_slots = |person| self.slots.as_ref().map_or(0, |slots| slots.processes(person));
        let besides = people.map(|person| (person, in_slots(person))).collect();
        too_many(self.caps, &counted.collect::<Vec<_>>(), &besides)
    }

    pub(super) fn next_look(&self) -> Option<Instant> {
        self.next
    }

    /// Whether the kernel had to kill something of the task.
    pub(super) fn ended(&self, ticket: Ticket) -> Option<OutOfMemory> {
        let TaskGroup { group, limit, .. } = self.held.get(&ticket)?;
        (group.out_of_memory_kills() > 0).then_some(OutOfMemory::Held { limit: *limit })
    }

    pub(super) fn forget(&mut self, ticket: Ticket) {
        if let (Some(slots), Some(slot)) = (&mut self.slots, self.taken.remove(&ticket)) {
            slots.give_back(slot);
        }
        self.emptying.extend(self.held.remove(&ticket).map(|held| held.group));
        self.sweep();
        if !self.emptying.is_empty() {
            let soon = Instant::now() + SWEEP_AGAIN;
            self.next = Some(self.next.map_or(soon, |next| next.min(soon)));
        }
    }

    /// Removes what is empty by now.
    fn sweep(&mut self) {
        self.emptying.retain_mut(|group| group.remove().is_err());
    }
}
