//! Taking tasks and starting them: first come, first served, as far as the node has room.

use super::held::{Held, Phase};
use super::{AttemptKey, Machine, Now, Output, Start};
use shipway_api::wire;
use shipway_model::{JobId, Outcome};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Attempts held at once, far above what the server places on one node.
pub(super) const MAX_HELD: usize = 100_000;
/// How far behind a task that does not fit one that does is looked for.
pub(super) const LOOK_AHEAD: usize = 64;
/// How often the first in the queue may be overtaken before everybody waits for it.
pub(super) const MAX_OVERTAKEN: u32 = 100;

/// What the tasks of each job in one message have in common.
type Templates = BTreeMap<JobId, Arc<wire::Template>>;

impl Machine {
    pub(super) fn assign(&mut self, now: Now, assign: wire::Assign, out: &mut Vec<Output>) {
        let templates = assign.templates.into_iter();
        let templates: Templates =
            templates.map(|template| (JobId(template.job), Arc::new(template))).collect();
        for task in assign.tasks {
            if !self.take(now, &templates, task) {
                // The next connection's Hello shows that it is not here, and it comes again.
                return self.drop_link(out);
            }
        }
        self.start_what_fits(out);
        self.refill_at = self.queue.len() / 2;
    }

    /// False when the task cannot even be held. One that is held already is the same one.
    fn take(&mut self, now: Now, templates: &Templates, task: wire::Task) -> bool {
        let Some(id) = task.id.as_ref().map(AttemptKey::of) else { return false };
        if self.draining || self.held.contains_key(&id) {
            return true;
        }
        let template = templates.get(&id.task.job).filter(|_| self.held.len() < MAX_HELD);
        let Some(template) = template.cloned() else { return false };
        let could_fit = self.room.could_fit(&template);
        self.held.insert(id, Held::new(template, task));
        if could_fit {
            self.queue.push_back(id);
        } else {
            let message = "it needs more than this node has".to_string();
            self.end(now, id, &Outcome::NotStarted { message });
        }
        true
    }

    /// In order of arrival; a task that fits may pass one that does not, but not for ever.
    pub(super) fn start_what_fits(&mut self, out: &mut Vec<Output>) {
        let mut at = 0;
        while at < self.queue.len().min(LOOK_AHEAD) {
            let id = self.queue[at];
            let fits = self.held.get(&id).is_some_and(|held| self.room.fits(&held.template));
            if fits && at == 0 {
                self.overtaken = 0;
            } else if fits {
                self.overtaken += 1;
            } else if self.overtaken >= MAX_OVERTAKEN {
                return;
            } else {
                at += 1;
                continue;
            }
            self.queue.remove(at);
            self.start(id, out);
        }
    }

    fn start(&mut self, id: AttemptKey, out: &mut Vec<Output>) {
        let Some(held) = self.held.get_mut(&id) else { return };
        held.phase = Phase::Starting;
        self.room.take(&held.template);
        out.push(Output::Start(Start {
            id,
            template: Arc::clone(&held.template),
            devices: held.devices.clone(),
            fields: held.fields.clone(),
        }));
    }
}
