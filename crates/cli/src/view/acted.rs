//! What `cancel` and `retry` did.

use super::View;
use super::paper::Paper;
use serde::Serialize;
use shipway_api::types::Acted;

/// More ids than this are counted, not listed.
const LISTED: usize = 20;

#[derive(Debug, Serialize)]
#[serde(transparent)]
pub struct ActedView {
    /// What was done: `cancelled`, `to be run again`.
    #[serde(skip)]
    pub done: &'static str,
    pub acted: Acted,
}

impl View for ActedView {
    fn text(&self, paper: &mut Paper) {
        let jobs = &self.acted.jobs;
        if self.acted.tasks == 0 {
            return paper.line(&format!("no task {}", self.done));
        }
        let mut ids: Vec<String> = jobs.iter().take(LISTED).map(ToString::to_string).collect();
        if jobs.len() > LISTED {
            ids.push(format!("and {} more", jobs.len() - LISTED));
        }
        let tasks = if self.acted.tasks == 1 { "task" } else { "tasks" };
        let of = if jobs.len() == 1 { "job" } else { "jobs" };
        let line = format!("{} {tasks} {} of {of} {}", self.acted.tasks, self.done, ids.join(", "));
        paper.line(&line);
    }
}
