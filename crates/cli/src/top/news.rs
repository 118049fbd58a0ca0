//! What comes in and what goes out: everything that can happen to the model, and everything it can
//! ask for. Plain data.

use crate::view::output::Stream;
use bytes::Bytes;
use ratatui::crossterm::event::KeyEvent;
use shipway_api::types::{
    JobView, LiveEvent, NodeView, Selection, SiteView, TaskPage, UserView, Why,
};
use shipway_model::{JobId, TaskId, Timestamp};

#[derive(Debug, Clone)]
pub enum Input {
    Key(KeyEvent),
    Size { width: u16, height: u16 },
    Time(Timestamp),
    News(News),
}

/// What the server said, or that it says nothing.
#[derive(Debug, Clone)]
pub enum News {
    Fresh(Box<Fresh>),
    Events(Vec<LiveEvent>),
    InTouch {
        url: String,
    },
    OutOfTouch {
        why: String,
    },
    /// One job with its specification.
    Spec(Box<JobView>),
    Why(Box<Why>),
    Output {
        ticket: Ticket,
        stream: Stream,
        bytes: Bytes,
    },
    /// It comes once more from its beginning, because the connection broke.
    OutputAgain {
        ticket: Ticket,
    },
    /// All that one attempt wrote has come.
    OutputEnded {
        ticket: Ticket,
    },
    /// Something asked for was done, in words; or it was not.
    Done(Result<String, String>),
}

/// What is shown of the server, as of one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Fresh {
    pub user: UserView,
    pub jobs: Vec<JobView>,
    /// There are older jobs than these.
    pub has_more: bool,
    pub nodes: Vec<NodeView>,
    /// Those that are batch systems.
    pub sites: Vec<SiteView>,
    /// The job whose details are open, and some of its tasks.
    pub open: Option<(JobView, TaskPage)>,
}

/// What to fetch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// Everybody's jobs.
    pub all: bool,
    pub limit: usize,
    pub open: Option<JobId>,
    /// Who asks may see any job; the open one need not be in the list.
    pub is_operator: bool,
}

/// Tells the output that is being followed from what is left of an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket(pub u64);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    Cancel,
    Retry,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Ask {
    /// Fetch anew, soon; several at once are one.
    Refresh(Wanted),
    Spec(JobId),
    Why(JobId),
    Follow(TaskId, Ticket),
    Unfollow,
    Act(Act, Selection),
    Quit,
}
