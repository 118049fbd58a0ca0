//! Taking tasks and starting them in the order of the queue, as far as the node has room.

use super::held::{HeldAttempt, Phase};
use super::need::Need;
use super::weight::{self, Filled, Scales, Weighed};
use super::{Machine, Now, Output, Start, Taken};
use shipway_api::link::{Assign, Task, Template};
use shipway_model::{AttemptId, JobId, Outcome};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Attempts held at once, far above what the server places on one node.
pub(super) const MAX_HELD: usize = 100_000;
/// How far behind a task that does not fit one that does is looked for.
pub(super) const LOOK_AHEAD: usize = 64;
/// How often the first in the queue may be overtaken before everybody waits for it.
pub(super) const MAX_OVERTAKEN: u32 = 100;

/// Whether a task may start now.
enum MayStart {
    Free,
    /// The node has none: who comes later and fits passes it.
    None,
    /// By starts of the same person: nobody passes it who would have to wait for it.
    TakenByTheirOwn,
}

/// What the tasks of each job in one message have in common.
type Templates = BTreeMap<JobId, Common>;

#[derive(Debug)]
struct Common {
    need: Arc<Need>,
    template: Arc<Weighed<Template>>,
    taken: Option<Arc<Weighed<Taken>>>,
    filled: Filled,
}

impl Common {
    fn new(scales: &mut Scales, mut template: Template) -> Self {
        let need = Arc::new(Need::of(&template));
        let user = template.user.clone();
        let filled = template.files.as_ref().map(Filled::of).unwrap_or_default();
        let taken = template.files.as_mut().and_then(Taken::out_of).map(|taken| {
            let bytes = weight::of_outputs(&taken.outputs);
            Arc::new(scales.weigh(&user, taken, bytes))
        });
        let bytes = weight::of_template(&template);
        Common { need, template: Arc::new(scales.weigh(&user, template, bytes)), taken, filled }
    }

    fn start(&self, scales: &mut Scales, Task { id, devices, fields }: Task) -> Start {
        let bytes = self.filled.with(&fields);
        Start {
            id,
            template: Arc::clone(&self.template),
            taken: self.taken.clone(),
            devices,
            fields: Arc::new(scales.weigh(&self.template.user, fields, bytes)),
        }
    }
}

impl Machine {
    pub(super) fn assign(&mut self, now: Now, assign: Assign, out: &mut Vec<Output>) {
        let Assign { templates, unreadable, tasks } = assign;
        let of_job = |(job, template)| (job, Common::new(&mut self.scales, template));
        let templates: Templates = templates.into_iter().map(of_job).collect();
        for task in tasks {
            let job = task.id.task.job;
            let taken = match (templates.get(&job), unreadable.get(&job)) {
                (Some(common), _) => self.take(now, common, task),
                (None, Some(error)) => self.refuse(now, task.id, error.to_string()),
                (None, None) => false,
            };
            if !taken {
                // The next connection's Hello shows that it is not here, and it comes again.
                return self.drop_link(out);
            }
        }
        self.start_what_fits(out);
        self.refill_at = self.queue.len() / 2;
    }

    /// Whether there is nothing to do for it: one that is held already is the same one.
    fn is_known(&self, id: AttemptId) -> bool {
        self.draining || self.held.contains_key(&id)
    }

    /// False when the task cannot even be held.
    fn take(&mut self, now: Now, common: &Common, task: Task) -> bool {
        let id = task.id;
        if self.is_known(id) {
            return true;
        }
        if self.held.len() >= MAX_HELD {
            return false;
        }
        let start = common.start(&mut self.scales, task);
        let refused = if self.room.could_fit(&common.need) {
            self.scales.refuses(&start.template.user)
        } else {
            Some("it needs more than this node has".to_owned())
        };
        self.held.insert(id, HeldAttempt::new(Arc::clone(&common.need), Some(start)));
        match refused {
            None => self.queue.push(id, Arc::clone(&common.template)),
            Some(message) => self.end(now, id, &Outcome::NotStarted { message }),
        }
        true
    }

    /// Nothing is known of what it needs, so it ends here. False when it cannot even be held.
    fn refuse(&mut self, now: Now, id: AttemptId, message: String) -> bool {
        if self.is_known(id) {
            return true;
        }
        if self.held.len() >= MAX_HELD {
            return false;
        }
        self.held.insert(id, HeldAttempt::new(Arc::default(), None));
        self.end(now, id, &Outcome::NotStarted { message });
        true
    }

    /// In the order of the queue; a task that fits may pass one that does not, but not for ever.
    pub(super) fn start_what_fits(&mut self, out: &mut Vec<Output>) {
        let (mut at, mut passes_one) = (0, false);
        while let Some(id) = self.queue.get(at).filter(|_| at < LOOK_AHEAD) {
            match self.place_for(id) {
                MayStart::Free => {
                    self.overtaken = if passes_one { self.overtaken + 1 } else { 0 };
                    self.queue.remove(at);
                    self.start(id, out);
                }
                MayStart::None if self.overtaken >= MAX_OVERTAKEN => return,
                MayStart::None => (at, passes_one) = (at + 1, true),
                MayStart::TakenByTheirOwn => at += 1,
            }
        }
    }

    fn place_for(&self, id: AttemptId) -> MayStart {
        match self.held.get(&id) {
            Some(held) if !self.begun.has_room(&held.need.user) => MayStart::TakenByTheirOwn,
            Some(held) if self.room.fits(&held.need) => MayStart::Free,
            _ => MayStart::None,
        }
    }

    fn start(&mut self, id: AttemptId, out: &mut Vec<Output>) {
        let Some(held) = self.held.get_mut(&id) else { return };
        let Some(start) = held.start.take() else { return };
        held.phase = Phase::Starting;
        self.begun.add(&held.need.user);
        self.room.take(&held.need);
        out.push(Output::Start(start));
    }
}
