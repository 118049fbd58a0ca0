//! Those who are told what is on disk: the edges of the server, its timer and its health.

use super::Edges;
use super::way::{Asked, Reply};
use crate::auth::{Table, changes_doors};
use crate::live::Told;
use crate::panics::guarded;
use crate::published::{Changes, Published};
use shipway_core::event::{Event, Recorded, Submitted};
use shipway_core::{Effect, State};
use shipway_model::{JobSpec, Timestamp};
use shipway_shell::{Done, EventSeq, Lines, Outside, WriteError};
use std::sync::Arc;
use tokio::sync::watch;

/// What a batch changes of what is looked at without the desk.
#[derive(Debug)]
pub(super) struct Publication {
    /// Who may come in, where that changes.
    doors: Option<Table>,
    changes: Changes,
}

pub(super) struct Listeners {
    pub(super) published: Arc<Published>,
    pub(super) edges: Edges,
    pub(super) wake_at: watch::Sender<Option<Timestamp>>,
    pub(super) health: watch::Sender<Option<String>>,
}

impl Outside for Listeners {
    type Reply = Reply;
    type Question = Asked;
    type Publication = Publication;

    fn decided(&self, accepted: bool) {
        self.edges.metrics.decided(accepted);
    }

    /// The timer sleeps on unless something changed: most batches change no deadline.
    fn wake_at(&self, next: Option<Timestamp>) {
        self.wake_at.send_if_modified(|at| std::mem::replace(at, next) != next);
    }

    fn publication(&self, state: &State, events: &[Recorded]) -> Publication {
        let changed = events.iter().any(|recorded| changes_doors(&recorded.event));
        let doors = changed.then(|| Table::of(state));
        Publication { doors, changes: Changes::of(state, events) }
    }

    fn written(&self, publication: Option<Publication>, events: &mut [Recorded], encoded: &Lines) {
        let edges = &self.edges;
        if let Some(Publication { doors, changes }) = publication {
            self.published.put(changes);
            if let Some(table) = doors {
                edges.auth.install(table);
            }
        } else if !events.is_empty() {
            self.published.falls_behind();
        }
        for (at, recorded) in events.iter_mut().enumerate() {
            #[allow(clippy::wildcard_enum_match_arm, reason = "the others say nothing of a spec")]
            match &mut recorded.event {
                Event::JobSubmitted(submitted) => {
                    let owner = submitted.owner.to_string();
                    let spec = take_spec(submitted);
                    edges.specs.keep(submitted.job, owner, spec, encoded.size(at));
                }
                Event::JobsGiven { .. } => edges.specs.forget(),
                _ => {}
            }
        }
    }

    fn effect(&self, effect: Effect) {
        self.edges.effects.run(effect);
    }

    fn reply(&self, reply: Reply, answer: Result<Done, WriteError>) {
        // Whoever asked may have gone.
        let _ = reply.send(answer);
    }

    fn happened(&self, first: EventSeq, events: Vec<Recorded>) {
        // Those who watch are told whatever becomes of the others.
        let _ = guarded(|| {
            if let Some(logs) = &self.edges.event_logs {
                logs.happened(&events);
            }
            self.edges.metrics.happened(&events);
        });
        self.edges.live.notify(Told { first, events });
    }

    fn reset(&self) {
        self.edges.effects.reset();
    }

    fn restored(&self, state: &State) {
        self.published.replace(state);
        self.edges.auth.install(Table::of(state));
    }

    fn health(&self, problem: Option<&str>) {
        self.health.send_replace(problem.map(str::to_owned));
    }
}

/// Those who are told afterwards want to know that there is a job, and whether it has a log: the
/// rest of it must not stay in memory until the slowest of them has heard of it.
fn take_spec(submitted: &mut Submitted) -> JobSpec {
    let event_log = submitted.spec.event_log.clone();
    std::mem::replace(&mut submitted.spec, JobSpec { event_log, ..JobSpec::default() })
}
