//! What is held and not started, in the order in which it is to start: people take turns, and
//! everybody's own come in order of arrival.
//!
//! The place is found on arrival: somebody's first goes behind the first of everybody who waits
//! already, their second behind everybody's second, and so on. So nobody comes before whoever is
//! first, who is waited for at last (`assign.rs`, which also decides what fits).

use super::Weighed;
use shipway_api::link::Template;
use shipway_model::AttemptId;
use std::collections::VecDeque;
use std::sync::Arc;

#[derive(Debug, Default)]
pub(super) struct Queue {
    /// Rounds never fall from the first to the last.
    waiting: VecDeque<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    id: AttemptId,
    /// Says whose it is.
    template: Arc<Weighed<Template>>,
    /// In each one everybody has one turn.
    round: u64,
}

impl Queue {
    pub(super) fn push(&mut self, id: AttemptId, template: Arc<Weighed<Template>>) {
        let is_theirs = |other: &&Waiting| other.template.user == template.user;
        // Looked for from the end: while only one person's wait, that is one look.
        let round = match self.waiting.iter().rev().find(is_theirs) {
            Some(last) => last.round + 1,
            None => self.waiting.front().map_or(0, |first| first.round),
        };
        let at = self.waiting.partition_point(|other| other.round <= round);
        self.waiting.insert(at, Waiting { id, template, round });
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn get(&self, at: usize) -> Option<AttemptId> {
        self.waiting.get(at).map(|waiting| waiting.id)
    }

    pub(super) fn remove(&mut self, at: usize) {
        self.waiting.remove(at);
    }

    pub(super) fn forget(&mut self, id: AttemptId) {
        self.waiting.retain(|waiting| waiting.id != id);
    }

    pub(super) fn take_all(&mut self) -> impl Iterator<Item = AttemptId> {
        std::mem::take(&mut self.waiting).into_iter().map(|waiting| waiting.id)
    }
}
