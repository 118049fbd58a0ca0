//! A large selection in pieces: the writer takes them one after the other, and what others wish is
//! decided in between. Not here: what a selection means (`act.rs`) and what becomes of it (the
//! core).
//!
//! Each piece is on disk as a whole or not at all; of several, a server that dies does the first
//! ones. Whoever repeats the request has the others done.

use shipway_core::State;
use shipway_core::command::Pick;
use shipway_model::{JobId, TaskIndex};
use std::collections::HashMap;

/// What one piece may cost, in jobs of one task: about a tenth of a second.
const MOST: usize = 1_000;
/// Tasks of a job that cost as much as a job: all of them are one mark in a table.
const TASKS_LIKE_A_JOB: usize = 20_000;
/// Tasks named one by one that cost as much as a job.
const NAMES_LIKE_A_JOB: usize = 10;

pub(super) type Chosen = Vec<(JobId, Pick)>;

/// Whether it may be more than one piece at all: for a job or two nobody need ask.
pub(super) fn is_small(jobs: &Chosen) -> bool {
    let named = |pick: &Pick| match pick {
        Pick::Tasks(indices) => indices.len(),
        Pick::All | Pick::State(_) => 0,
    };
    jobs.len() <= 2 && jobs.iter().map(|(_, pick)| named(pick)).sum::<usize>() < MOST
}

/// Jobs of the selection that have left memory: only history knows how large they are.
pub(super) fn gone(jobs: &Chosen, state: &State) -> Vec<JobId> {
    jobs.iter().map(|(job, _)| *job).filter(|job| state.job(*job).is_none()).collect()
}

/// In the order of the selection. `gone` has the tasks of those that have left memory.
pub(super) fn pieces(jobs: Chosen, state: &State, gone: &HashMap<JobId, usize>) -> Vec<Chosen> {
    let of_gone = |job: JobId| gone.get(&job).copied().unwrap_or_default();
    cut(jobs, |job| state.job(job).map_or_else(|| of_gone(job), |job| job.tasks.len() as usize))
}

fn cut(jobs: Chosen, tasks: impl Fn(JobId) -> usize) -> Vec<Chosen> {
    let mut pieces: Vec<Chosen> = Vec::new();
    let mut room = 0;
    for (job, pick) in jobs.into_iter().flat_map(short_lists) {
        let cost = 1 + match &pick {
            Pick::Tasks(indices) => indices.len() / NAMES_LIKE_A_JOB,
            Pick::All | Pick::State(_) => tasks(job) / TASKS_LIKE_A_JOB,
        };
        if let Some(piece) = pieces.last_mut().filter(|_| cost <= room) {
            piece.push((job, pick));
            room -= cost;
        } else {
            pieces.push(vec![(job, pick)]);
            room = MOST.saturating_sub(cost);
        }
    }
    pieces
}

/// No list of tasks is longer than a piece may be.
fn short_lists((job, pick): (JobId, Pick)) -> Vec<(JobId, Pick)> {
    let longest = (MOST - 1) * NAMES_LIKE_A_JOB;
    match pick {
        Pick::Tasks(indices) if indices.len() > longest => {
            let lists = indices.chunks(longest).map(<[TaskIndex]>::to_vec);
            lists.map(|indices| (job, Pick::Tasks(indices))).collect()
        }
        other => vec![(job, other)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(jobs: u64) -> Chosen {
        (1..=jobs).map(|job| (JobId(job), Pick::All)).collect()
    }

    fn sizes_of(pieces: &[Chosen]) -> Vec<usize> {
        pieces.iter().map(Vec::len).collect()
    }

    #[test]
    fn nothing_is_lost_and_the_order_stays() {
        let pieces = cut(all(2_500), |_| 1);
        assert_eq!(sizes_of(&pieces), [1_000, 1_000, 500]);
        assert_eq!(pieces.concat(), all(2_500));
    }

    #[test]
    fn a_large_array_is_a_piece_almost_by_itself() {
        let tasks = |job: JobId| if job.0 % 2 == 1 { 10_000_000 } else { 1 };
        let pieces = cut(all(6), tasks);
        assert_eq!(sizes_of(&pieces), [2, 2, 2], "two of the largest do not fit into one");
        assert_eq!(
            sizes_of(&cut(all(1), |_| usize::MAX)),
            [1],
            "what is larger is one all the same"
        );
    }

    #[test]
    fn what_has_left_memory_is_as_large_as_history_says() {
        let sizes: HashMap<JobId, usize> = (1..=3).map(|job| (JobId(job), 10_000_000)).collect();
        let state = State::default();
        assert_eq!(gone(&all(3), &state), [JobId(1), JobId(2), JobId(3)]);
        assert_eq!(sizes_of(&pieces(all(3), &state, &sizes)), [1, 1, 1]);
        assert_eq!(sizes_of(&pieces(all(3), &state, &HashMap::new())), [3]);
    }

    #[test]
    fn a_long_list_of_tasks_is_cut_too() {
        let names: Vec<TaskIndex> = (0..25_000).map(TaskIndex).collect();
        let pieces = cut(vec![(JobId(7), Pick::Tasks(names.clone()))], |_| 1);
        let mut found = Vec::new();
        for piece in &pieces {
            for (job, pick) in piece {
                assert_eq!(*job, JobId(7));
                let Pick::Tasks(indices) = pick else { panic!("{pick:?}") };
                found.extend(indices.clone());
            }
        }
        assert_eq!((pieces.len(), found), (3, names));
        assert!(is_small(&all(2)) && !is_small(&all(3)));
        assert!(!is_small(&vec![(JobId(7), Pick::Tasks((0..1_000).map(TaskIndex).collect()))]));
    }
}
