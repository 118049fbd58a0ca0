//! What can lie over the panels: a job's details, why it waits, what a task writes.

use super::log_text::LogText;
use super::news::Ticket;
use crate::view;
use crate::view::job_detail::JobDetail;
use crate::view::time::Reader;
use shipway_api::types::{JobView, TaskPage, TaskView};
use shipway_model::{JobId, TaskId};

#[derive(Debug)]
pub enum Page {
    Detail(Detail),
    Why {
        job: JobId,
        /// `None` until the answer is there.
        text: Option<String>,
        scroll: usize,
    },
    Log(LogPane),
}

impl Page {
    pub fn job(&self) -> Option<JobId> {
        match self {
            Page::Detail(detail) => Some(detail.job.id),
            Page::Why { job, .. } => Some(*job),
            Page::Log(pane) => Some(pane.task.job),
        }
    }
}

#[derive(Debug)]
pub struct Detail {
    /// With its specification once that has come: it may be large and is fetched once.
    pub job: JobView,
    /// The job in words. Made when something new is known, not for every frame.
    pub facts: String,
    pub tasks: Vec<TaskView>,
    pub selected: usize,
}

impl Detail {
    pub fn new(job: JobView, reader: &Reader) -> Self {
        let mut detail = Detail { job, facts: String::new(), tasks: Vec::new(), selected: 0 };
        detail.describe(reader);
        detail
    }

    /// Takes what has changed; the specification does not.
    pub fn renew(&mut self, job: JobView, tasks: Vec<TaskView>, reader: &Reader) {
        let spec = self.job.spec.take();
        self.job = job;
        self.job.spec = self.job.spec.take().or(spec);
        let selected = self.task().map(|task| task.id);
        self.tasks = tasks;
        let found = self.tasks.iter().position(|task| Some(task.id) == selected);
        self.selected = found.unwrap_or(self.selected).min(self.tasks.len().saturating_sub(1));
        self.describe(reader);
    }

    pub fn specify(&mut self, job: JobView, reader: &Reader) {
        self.job.spec = job.spec;
        self.describe(reader);
    }

    pub fn task(&self) -> Option<&TaskView> {
        self.tasks.get(self.selected)
    }

    /// Says the same as `shipway show`, whose view it borrows.
    fn describe(&mut self, reader: &Reader) {
        let spec = self.job.spec.take();
        let job = JobView { spec, ..self.job.clone() };
        let tasks = TaskPage { tasks: Vec::new(), next: None };
        let detail = JobDetail { job, tasks, not_shown: 0, reader: reader.clone() };
        self.facts = view::text(&detail, false);
        self.job.spec = detail.job.spec;
    }
}

/// The output of one task, as it comes.
#[derive(Debug)]
pub struct LogPane {
    pub task: TaskId,
    pub ticket: Ticket,
    pub text: LogText,
    /// Lines below the lowest one shown; 0 stays with the newest.
    pub from_end: usize,
    pub is_over: bool,
}

impl LogPane {
    pub fn new(task: TaskId, ticket: Ticket) -> Self {
        LogPane { task, ticket, text: LogText::default(), from_end: 0, is_over: false }
    }
}
