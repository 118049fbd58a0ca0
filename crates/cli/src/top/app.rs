//! The model of `top`: what is known, what is selected, what is open. It changes in `update` and
//! is shown by `draw`.

use super::news::{Fresh, Ticket, Wanted};
use super::pages::Page;
use crate::view::time::Reader;
use shipway_api::types::{GpuView, JobView, NodeView, Selection, SiteClassView, SiteView};
use shipway_model::{JobId, JobState, May, TaskId, Timestamp};
use std::cmp::Reverse;

/// Jobs fetched at first, and how many more when somebody has come to the end of them: the server
/// works out the reasons of each one.
pub const JOBS_AT_ONCE: usize = 200;

#[derive(Debug)]
pub struct App {
    pub server: String,
    pub data: Fresh,
    pub link: Link,
    pub reader: Reader,
    pub size: (u16, u16),
    pub colour: bool,
    /// A frame that is printed once has no selection and no keys.
    pub is_live: bool,
    pub panel: Panel,
    pub list: JobList,
    pub node: usize,
    pub gpu: usize,
    pub site: usize,
    /// The job whose details are opened as soon as it is there.
    pub opening: Option<JobId>,
    /// What lies over the panels, the uppermost last.
    pub pages: Vec<Page>,
    pub overlay: Overlay,
    pub notice: Option<Notice>,
    pub ticket: Ticket,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Link {
    InTouch,
    OutOfTouch { since: Timestamp, why: String },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Panel {
    Jobs,
    Nodes,
    Gpus,
    Sites,
}

impl Panel {
    pub const ALL: [Panel; 4] = [Panel::Jobs, Panel::Nodes, Panel::Gpus, Panel::Sites];
}

/// Which jobs are listed, and how.
#[derive(Debug)]
pub struct JobList {
    pub all: bool,
    pub limit: usize,
    pub filter: String,
    pub sort: Sort,
    /// By id, so that it stays on its job when others come and go.
    pub selected: Option<JobId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sort {
    /// What runs, what waits, what has ended; the newest first in each.
    State,
    Newest,
    Name,
}

impl Sort {
    pub fn as_str(self) -> &'static str {
        match self {
            Sort::State => "state",
            Sort::Newest => "newest",
            Sort::Name => "name",
        }
    }

    #[must_use]
    pub fn next(self) -> Sort {
        match self {
            Sort::State => Sort::Newest,
            Sort::Newest => Sort::Name,
            Sort::Name => Sort::State,
        }
    }
}

/// What takes all keys until it is answered.
#[derive(Debug, Clone, PartialEq)]
pub enum Overlay {
    None,
    Help,
    Filter,
    /// Cancel these? `what` names them.
    Cancel {
        what: String,
        selection: Selection,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    pub text: String,
    pub is_bad: bool,
}

/// One GPU with the node it is in.
#[derive(Debug, Clone, Copy)]
pub struct GpuAt<'a> {
    pub node: &'a NodeView,
    pub gpu: &'a GpuView,
}

/// One kind of pilots with the site it is of.
#[derive(Debug, Clone, Copy)]
pub struct SiteAt<'a> {
    pub site: &'a SiteView,
    pub class: &'a SiteClassView,
}

impl App {
    pub fn new(server: String, data: Fresh, reader: Reader, all: bool) -> Self {
        let list = JobList {
            all,
            limit: JOBS_AT_ONCE,
            filter: String::new(),
            sort: Sort::State,
            selected: None,
        };
        let mut app = App {
            server,
            data,
            link: Link::InTouch,
            reader,
            size: (80, 24),
            colour: false,
            is_live: true,
            panel: Panel::Jobs,
            list,
            node: 0,
            gpu: 0,
            site: 0,
            opening: None,
            pages: Vec::new(),
            overlay: Overlay::None,
            notice: None,
            ticket: Ticket(0),
        };
        app.select_something();
        app
    }

    /// The jobs that match the filter, in the order they are shown.
    pub fn jobs(&self) -> Vec<&JobView> {
        let wanted = self.list.filter.to_lowercase();
        let mut jobs: Vec<&JobView> =
            self.data.jobs.iter().filter(|job| matches(job, &wanted)).collect();
        match self.list.sort {
            Sort::State => jobs.sort_by_key(|job| (rank(job.state), Reverse(job.id))),
            Sort::Newest => jobs.sort_by_key(|job| Reverse(job.id)),
            Sort::Name => jobs.sort_by_key(|job| (job.name.to_lowercase(), Reverse(job.id))),
        }
        jobs
    }

    pub fn gpus(&self) -> Vec<GpuAt<'_>> {
        let of = |node| move |gpu| GpuAt { node, gpu };
        self.data.nodes.iter().flat_map(|node| node.gpus.iter().map(of(node))).collect()
    }

    pub fn sites(&self) -> Vec<SiteAt<'_>> {
        let of = |site| move |class| SiteAt { site, class };
        self.data.sites.iter().flat_map(|site| site.classes.iter().map(of(site))).collect()
    }

    /// In their order. Where there are no sites there is no panel of them.
    pub fn panels(&self) -> &'static [Panel] {
        if self.data.sites.is_empty() { &Panel::ALL[..3] } else { &Panel::ALL }
    }

    /// The job that keys act on: the selected one, or the one that uses the selected GPU.
    pub fn job(&self) -> Option<JobId> {
        if let Some(job) = self.pages.last().and_then(Page::job) {
            return Some(job);
        }
        match self.panel {
            Panel::Jobs => self.list.selected,
            Panel::Nodes | Panel::Sites => None,
            Panel::Gpus => self.task_on_gpu().map(|task| task.job),
        }
    }

    pub fn task_on_gpu(&self) -> Option<TaskId> {
        self.gpus().get(self.gpu).and_then(|at| at.gpu.tasks.first().copied())
    }

    /// What is known of a job: from the list, or from its open details.
    pub fn find(&self, id: JobId) -> Option<&JobView> {
        let open = self.data.open.as_ref().map(|(job, _)| job);
        self.data.jobs.iter().chain(open).find(|job| job.id == id)
    }

    pub fn is_operator(&self) -> bool {
        self.data.user.role.may(May::TouchAllJobs)
    }

    pub fn wanted(&self) -> Wanted {
        let open = self.pages.iter().find_map(|page| match page {
            Page::Detail(detail) => Some(detail.job.id),
            Page::Why { .. } | Page::Log(_) => None,
        });
        let is_operator = self.is_operator();
        Wanted { all: self.list.all, limit: self.list.limit, open, is_operator }
    }

    /// Keeps every selection on something that is there.
    pub fn select_something(&mut self) {
        let jobs = self.jobs();
        let there = self.list.selected.filter(|id| jobs.iter().any(|job| job.id == *id));
        self.list.selected = there.or_else(|| jobs.first().map(|job| job.id));
        self.node = self.node.min(self.data.nodes.len().saturating_sub(1));
        self.gpu = self.gpu.min(self.gpus().len().saturating_sub(1));
        self.site = self.site.min(self.sites().len().saturating_sub(1));
        if !self.panels().contains(&self.panel) {
            self.panel = Panel::Jobs;
        }
    }

    pub fn say(&mut self, text: impl Into<String>) {
        self.notice = Some(Notice { text: text.into(), is_bad: false });
    }

    pub fn complain(&mut self, text: impl Into<String>) {
        self.notice = Some(Notice { text: text.into(), is_bad: true });
    }
}

/// By its name, a label, its owner or the beginning of its id.
fn matches(job: &JobView, wanted: &str) -> bool {
    let has = |text: &str| text.to_lowercase().contains(wanted);
    wanted.is_empty()
        || has(&job.name)
        || has(job.owner.as_str())
        || job.id.to_string().starts_with(wanted)
        || job.labels.iter().any(|(key, value)| has(&format!("{key}={value}")))
}

fn rank(state: JobState) -> u8 {
    match state {
        JobState::Running => 0,
        JobState::Waiting => 1,
        JobState::Held => 2,
        JobState::Failed | JobState::Cancelled | JobState::Succeeded => 3,
    }
}
