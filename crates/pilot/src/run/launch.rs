//! From a start that the machine asks for to a running process: its image first, then its files,
//! then its limits. What a process or container is made of is said in `task.rs` and
//! `containers.rs`; waiting for images and files is theirs too.

use super::Work;
use super::containers::Command;
use super::images::{Fetched, ReadyImage, Wanted};
use super::looking::contained;
use crate::accounts::{Whom, Whose};
use crate::machine::Start;
use crate::memory::FilesIn;
use crate::spawn::{Contained, Request, Streams, Ticket};
use shipway_images::pull::JobOf;
use shipway_images::sources::Judge;
use shipway_model::{ImageRef, Network};
use shipway_runtime::plan::WritableSpace;
use shipway_runtime::reach::{Reach, Use};
use std::sync::Arc;

impl Work {
    pub(super) fn start(&mut self, start: &Start) {
        let named = start.template.image.clone();
        let Some(image) = named.or_else(|| self.usual_image(start)) else {
            return self.launch_plain(start);
        };
        // The pilot reads what a user may not, and what it has found open may be another file when
        // it is read: so it reads no files for others, but those that the site names.
        if start.template.image.is_some()
            && image.is_stored()
            && image.place().is_some()
            && !self.accounts.may_read_all(Whose::of(&start.template))
        {
            let message = format!(
                "image {image}: an image in a file is read with the rights of whoever started the \
                 pilot, so it is read for nobody else; push it to a registry, or name the folder \
                 it is unpacked in (dir:PATH)"
            );
            return self.refuse(start.id, message);
        }
        let of = self.logins_of(start);
        let open_log = || self.pool.open_log(start.id, start.keep());
        // Whoever it is for: what the server keeps is for no task.
        let judge = || judge_of(&self.reaches.of(&Whom::Pilot));
        if let Wanted::Ready(ready) = self.images.want((&image, of), start, judge, open_log) {
            self.launch(start, Some(&ready), None);
        }
    }

    /// With whose logins its image is fetched. Those of whoever started the pilot are for their own
    /// tasks, and for the image that they have chosen for all tasks that name none.
    fn logins_of(&mut self, start: &Start) -> JobOf {
        let whose = Whose::of(&start.template);
        let is_owners = whose.is_owner && self.accounts.may_read_all(whose);
        if is_owners || start.template.image.is_none() { JobOf::Owner } else { JobOf::Others }
    }

    /// A plain process of the node, which must not ask for what only a container has.
    fn launch_plain(&mut self, start: &Start) {
        let template = &start.template;
        if template.binds.is_empty() && template.network == Network::Host {
            return self.launch(start, None, None);
        }
        let message = "binds and networks need a container, and this node has none for tasks \
                       without an image: name one, such as --image host";
        self.refuse(start.id, message.into());
    }

    /// What a task runs on that names no image; `None`: it is a plain process.
    fn usual_image(&self, start: &Start) -> Option<ImageRef> {
        if self.tasks.shares(start) { None } else { self.usual.image().cloned() }
    }

    /// An image is there, or will not come: on with those that waited for it.
    pub(super) fn image(&mut self, fetched: &Fetched) {
        for (start, streams) in self.images.take_waiting(fetched) {
            match &fetched.result {
                Ok(ready) => self.launch(&start, Some(ready), Some(streams)),
                Err(problem) => self.refuse(start.id, problem.clone()),
            }
        }
    }

    pub(super) fn launch(
        &mut self,
        start: &Start,
        image: Option<&Arc<ReadyImage>>,
        streams: Option<Streams>,
    ) {
        if start.template.files.is_some() && self.staging.get(start.id).is_none() {
            return self.stage_in(start, image, streams);
        }
        self.next_ticket += 1;
        let request = self.prepare(Ticket(self.next_ticket), start, image);
        match (request, image) {
            (Ok((request, Some(command))), Some(image)) => {
                if self.containers.look_elsewhere(image, &start.template) {
                    return self.look(start, image, (request, command), streams);
                }
                let made = contained(&self.containers, start, image, command);
                let request = made.map(|it| Request { container: Some(it), ..request });
                self.launch_prepared(start, request, streams);
            }
            (request, _) => {
                self.launch_prepared(start, request.map(|(request, _)| request), streams);
            }
        }
    }

    /// Everything that is known of it is in its request, or why there is none.
    pub(super) fn launch_prepared(
        &mut self,
        start: &Start,
        request: Result<Request, String>,
        mut streams: Option<Streams>,
    ) {
        let refused = self.limits.refuses(&start.template.user).map_or(Ok(()), Err);
        let request = refused.and(request).and_then(|mut request| {
            self.add_streams(start, &mut request, &mut streams).map(|()| request)
        });
        let started = request.and_then(|mut request| {
            let ticket = request.ticket;
            self.tickets.insert(ticket, start.id);
            self.running.insert(start.id, ticket);
            let (doors, held) = self.groups.make(ticket, &start.template);
            if let Some(contained) = &mut request.container {
                contained.container.limits = self.groups.limits(&start.template);
            }
            let person = start.template.user.as_str();
            request.slot = self.groups.slot(ticket, person);
            let files = request.container.as_ref().map_or(FilesIn::Nothing, files_in);
            let memory = Some(start.template.need.memory.0).filter(|bytes| !held && *bytes > 0);
            let counted = request.slot.is_none().then_some(person);
            self.limits.expect(ticket, memory, counted, files);
            request.join(doors, &self.helper);
            self.told.expect(start.id, &mut request);
            self.shares.expect(ticket, start);
            let share = start.template.gpu_share.map(|share| u64::from(share.0));
            let meter = self.groups.meter(ticket);
            self.usages.expect(ticket, start.id, (&start.devices, share), meter);
            let started = match streams {
                None => self.pool.start(request),
                Some(streams) => self.pool.start_with(request, streams),
            };
            started.map_err(|error| {
                self.forget(ticket);
                error.to_string()
            })
        });
        if let Err(message) = started {
            self.refuse(start.id, message);
            self.tasks.clean(start.id);
        }
    }

    /// Of a container its command too, around which it is still to be made.
    fn prepare(
        &mut self,
        ticket: Ticket,
        start: &Start,
        image: Option<&Arc<ReadyImage>>,
    ) -> Result<(Request, Option<Command>), String> {
        let whom = self.accounts.find(Whose::of(&start.template), image.is_some());
        let whom = whom.map_err(|error| error.to_string())?;
        let request = match image {
            None => self.tasks.prepare(ticket, start, &whom, &self.helper).map(|it| (it, None)),
            Some(image) => {
                let whose = (&whom, self.reaches.of(&whom));
                let prepared =
                    self.tasks.prepare_container(ticket, start, whose, &self.containers, image);
                prepared.map(|(request, command)| (request, Some(command)))
            }
        };
        request.map_err(|error| error.to_string())
    }
}

/// What of a container counts as the task's memory.
fn files_in(contained: &Contained) -> FilesIn {
    let in_memory = matches!(contained.container.scratch, Some(WritableSpace::Memory(_)));
    if in_memory && contained.runtime.keeps_memory_roots_in_memory() {
        FilesIn::TmpAndRoot
    } else {
        FilesIn::Tmp
    }
}

/// A file of an image is judged as its tree would be.
fn judge_of(reach: &Reach) -> Judge {
    let reach = reach.for_trees();
    Judge::new(move |file, path| Ok(reach.judge(file, path, Use::Read).map(drop)?))
}
