//! How many processes and threads tasks may have on this node, and who is ended when there are
//! more: pure, but for the few numbers of the kernel's that it begins with.
//!
//! A task has its own limit, a person one for all their tasks together, and all tasks leave a part
//! of the node to everybody else. The kernel holds these where it can (`groups.rs`); what it does
//! not hold is counted now and then (`limits.rs`).

use crate::spawn::Ticket;
use rustix::process::{Resource, geteuid, getrlimit};
use shipway_runtime::cgroup::most_processes;
use shipway_runtime::crowd::Caps;
use shipway_runtime::share::MOST_PROCESSES;
use std::collections::BTreeMap;
use std::path::Path;

/// Where the kernel does not say how many there can be, what it says by default.
const USUAL_ROOM: u64 = 32_768;

/// A quarter of the room stays with the rest of the node, and nobody has more than a half.
fn of_room(room: u64) -> Caps {
    let number = |wanted: u64| u32::try_from(wanted.max(1)).unwrap_or(u32::MAX);
    let (all, person) = (room - room / 4, room / 2);
    Caps { task: number(person.min(MOST_PROCESSES)), person: number(person), all: number(all) }
}

pub(super) fn find() -> Caps {
    of_room(room_for_processes())
}

/// On this node: what the kernel has numbers for, what a batch system or a container leaves of
/// them, and what this user may have, where that is not root.
pub(crate) fn room_for_processes() -> u64 {
    let read = |name: &str| {
        let text = std::fs::read_to_string(Path::new("/proc/sys/kernel").join(name)).ok()?;
        text.trim().parse().ok()
    };
    let of_user = || getrlimit(Resource::Nproc).current;
    let known: [Option<u64>; 4] = [
        read("pid_max"),
        read("threads-max"),
        most_processes(Path::new("/")),
        (!geteuid().is_root()).then(of_user).flatten(),
    ];
    known.into_iter().flatten().min().unwrap_or(USUAL_ROOM)
}

/// A task, whose it is, and how many it has.
#[derive(Debug, Clone, Copy)]
pub(super) struct Counted<'a> {
    pub(super) ticket: Ticket,
    pub(super) person: &'a str,
    pub(super) processes: u64,
}

/// What people have beside those that were counted one by one.
pub(super) type Besides<'a> = BTreeMap<&'a str, u64>;

/// Why somebody starts no more tasks who has so much left of earlier ones, if that is too much.
pub(super) fn too_much_left(caps: Caps, hanging: u64) -> Option<String> {
    let most = u64::from(caps.person);
    (hanging >= most).then(|| {
        format!(
            "{hanging} processes and threads of earlier tasks of yours were killed and hang in the \
             kernel on this node, and all of yours there may be {most}: end what they wait for, or \
             wait until they are gone"
        )
    })
}

/// Who has to be ended, and why. Of a person who has too many it is the largest task, and of all
/// the largest of the person who has the most.
pub(super) fn too_many(
    caps: Caps,
    counted: &[Counted<'_>],
    besides: &Besides<'_>,
) -> Vec<(Ticket, String)> {
    let mut left: Vec<Counted<'_>> = counted.to_vec();
    left.sort_by_key(|task| (task.processes, task.ticket));
    let mut ended = Vec::new();
    left.retain(|task| {
        let most = u64::from(caps.task);
        let is_over = task.processes > most;
        if is_over {
            let words = format!("ended: {} processes and threads, {most} at most", task.processes);
            ended.push((task.ticket, words));
        }
        !is_over
    });
    let mut people = besides.clone();
    for task in &left {
        *people.entry(task.person).or_default() += task.processes;
    }
    while let Some((person, has)) = people.iter().max_by_key(|(_, has)| **has) {
        let (person, has, all) = (*person, *has, people.values().sum::<u64>());
        let words = if has > u64::from(caps.person) {
            format!("ended: {has} processes and threads of {person}, {} at most", caps.person)
        } else if all > u64::from(caps.all) {
            format!("ended: {all} processes and threads of all tasks, {} at most", caps.all)
        } else {
            break;
        };
        let Some(at) = left.iter().rposition(|task| task.person == person) else {
            // Nothing of theirs can be ended, and nobody else is ended for it.
            people.remove(person);
            continue;
        };
        let largest = left.remove(at);
        people.entry(person).and_modify(|has| *has -= largest.processes);
        ended.push((largest.ticket, words));
    }
    ended
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPS: Caps = Caps { task: 100, person: 120, all: 200 };

    fn ended(tasks: &[(&str, u64)]) -> Vec<(u64, String)> {
        ended_beside(tasks, 0)
    }

    fn ended_beside(tasks: &[(&str, u64)], of_eve: u64) -> Vec<(u64, String)> {
        let besides = Besides::from([("eve", of_eve)]);
        let tasks: Vec<Counted<'_>> = (1..)
            .zip(tasks)
            .map(|(number, (person, processes))| Counted {
                ticket: Ticket(number),
                person,
                processes: *processes,
            })
            .collect();
        too_many(CAPS, &tasks, &besides)
            .into_iter()
            .map(|(ticket, words)| (ticket.0, words))
            .collect()
    }

    #[test]
    fn limits_leave_room_and_large_jobs_have_theirs() {
        // A kernel's default, that of a node with 128 cores, and a user who may have few.
        assert_eq!(of_room(32_768), Caps { task: 16_384, person: 16_384, all: 24_576 });
        assert_eq!(of_room(131_072), Caps { task: 16_384, person: 65_536, all: 98_304 });
        assert_eq!(of_room(400), Caps { task: 200, person: 200, all: 300 });
        assert!(find().all > find().person);
    }

    #[test]
    fn a_task_over_its_limit_is_ended_and_its_neighbours_go_on() {
        let [(2, words)] = &ended(&[("ada", 90), ("eve", 101), ("bob", 90)])[..] else { panic!() };
        assert_eq!(words, "ended: 101 processes and threads, 100 at most");
    }

    #[test]
    fn tasks_of_one_person_count_together() {
        let [(3, words)] = &ended(&[("ada", 50), ("eve", 50), ("eve", 90)])[..] else { panic!() };
        assert_eq!(words, "ended: 140 processes and threads of eve, 120 at most");
        assert_eq!(ended(&[("ada", 60), ("eve", 60), ("eve", 60)]), []);
        assert_eq!(ended_beside(&[("ada", 60), ("eve", 60)], 61).len(), 1);
        assert_eq!(ended_beside(&[], 500), [], "there is nobody to end");
        assert_eq!(ended_beside(&[("ada", 90)], 500), [], "nor is anybody else");
        assert_eq!(ended_beside(&[("ada", 70), ("ada", 90)], 500).len(), 1, "but for their own");
    }

    #[test]
    fn many_people_together_leave_the_node_its_part() {
        let all = [("ada", 20), ("bob", 90), ("eve", 60), ("eve", 59)];
        let [(3, words)] = &ended(&all)[..] else { panic!("{:?}", ended(&all)) };
        assert_eq!(words, "ended: 229 processes and threads of all tasks, 200 at most");
    }
}
