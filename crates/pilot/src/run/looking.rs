//! Containers for which something has to be looked at that a person has named: a tree of their own,
//! or, by runtimes that open folders by name, whatever they bind. That may lie on a file system
//! that does not answer, so threads look, each for one person at a time (`turns.rs`), and never
//! whoever holds the pilot's lock. Whom this concerns is said in `containers.rs`.

use super::Work;
use super::containers::{Command, Containers};
use super::images::ReadyImage;
use crate::machine::Start;
use crate::spawn::{Contained, Request, Streams};
use crate::turns::{AtOnce, Workers};
use shipway_model::AttemptId;
use shipway_runtime::rights::with_rights_of;
use std::collections::HashMap;
use std::sync::Arc;

/// Looked for at the same time: a file system that answers does so at once.
const AT_ONCE: AtOnce = AtOnce { all: 4, each: 2 };

struct Look {
    start: Start,
    image: Arc<ReadyImage>,
    command: Command,
}

/// What a look came to.
pub(super) struct Looked {
    id: AttemptId,
    result: Result<Contained, String>,
}

pub(super) type Tell = Arc<dyn Fn(Looked) + Send + Sync>;

/// A launch that waits for a look.
struct Waiting {
    start: Start,
    request: Request,
    streams: Streams,
}

pub(super) struct Looking {
    waiting: HashMap<AttemptId, Waiting>,
    workers: Workers<Look>,
}

impl Looking {
    pub(super) fn new(containers: Arc<Containers>, tell: Tell) -> Self {
        let workers = Workers::new("looking", AT_ONCE, move |look: Look| {
            let Look { start, image, command } = look;
            let result = contained(&containers, &start, &image, command);
            tell(Looked { id: start.id, result });
        });
        Looking { waiting: HashMap::new(), workers }
    }

    /// Those that are not wanted any more.
    fn take_if(&mut self, gone: impl Fn(AttemptId) -> bool) -> Vec<AttemptId> {
        let gone: Vec<_> = self.waiting.keys().copied().filter(|id| gone(*id)).collect();
        for id in &gone {
            let Some(waiting) = self.waiting.remove(id) else { continue };
            self.workers.withdraw(&waiting.start.template.user, |look| look.start.id == *id);
        }
        gone
    }
}

/// What the task names is looked at with its own rights, but for an image that is ours.
pub(super) fn contained(
    containers: &Containers,
    start: &Start,
    image: &Arc<ReadyImage>,
    command: Command,
) -> Result<Contained, String> {
    let user = command.user.clone().filter(|_| !image.is_ours());
    let contain = || containers.contain(start, image, command);
    let contained = with_rights_of(user.as_ref(), contain).map_err(|error| {
        format!("cannot look at files with the rights of the task's account: {error}")
    })?;
    contained.map_err(|error| error.to_string())
}

impl Work {
    /// The launch goes on when it has been looked at.
    pub(super) fn look(
        &mut self,
        start: &Start,
        image: &Arc<ReadyImage>,
        (request, command): (Request, Command),
        streams: Option<Streams>,
    ) {
        // Whoever follows the output finds it from now on, and waits for its end.
        let log = start.id;
        let open = || self.pool.open_log(log, start.keep());
        let waiting =
            Waiting { start: start.clone(), request, streams: streams.unwrap_or_else(open) };
        self.looking.waiting.insert(start.id, waiting);
        let look = Look { start: start.clone(), image: Arc::clone(image), command };
        self.looking.workers.add(&start.template.user, look);
    }

    pub(super) fn looked(&mut self, looked: Looked) {
        let Some(waiting) = self.looking.waiting.remove(&looked.id) else { return };
        let Waiting { start, mut request, streams } = waiting;
        let request = looked.result.map(|contained| {
            request.container = Some(contained);
            request
        });
        self.launch_prepared(&start, request, Some(streams));
    }

    /// Who is to end need not wait for a file system first.
    pub(super) fn let_go_of_looks(&mut self) {
        if self.looking.waiting.is_empty() {
            return;
        }
        for id in self.looking.take_if(|id| self.machine.is_ending(id)) {
            self.refuse(id, "it was stopped before it was started".into());
            self.tasks.clean(id);
        }
    }
}
