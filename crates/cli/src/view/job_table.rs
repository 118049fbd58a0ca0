//! A page of jobs, one line each.

use super::View;
use super::paper::{Paper, Tone};
use super::table::{Cell, Table};
use super::time::{Reader, short};
use serde::Serialize;
use shipway_api::types::{JobPage, JobView};

/// A reason longer than this is cut; `why` has it whole.
const REASON_WIDTH: usize = 60;

#[derive(Debug, Serialize)]
#[serde(transparent)]
pub struct JobTable {
    pub page: JobPage,
    /// Several people's jobs: say whose.
    #[serde(skip)]
    pub with_owner: bool,
    /// The options that chose these jobs; the next page needs them too.
    #[serde(skip)]
    pub options: String,
    #[serde(skip)]
    pub reader: Reader,
}

impl View for JobTable {
    fn text(&self, paper: &mut Paper) {
        if self.page.jobs.is_empty() {
            return paper.line("no jobs");
        }
        let reader = &self.reader;
        let mut heading = vec!["ID", "NAME", "STATE", "TASKS", "AGE", "TOOK", "REASON"];
        if self.with_owner {
            heading.insert(1, "OWNER");
        }
        let mut table = Table::new(&heading);
        for job in &self.page.jobs {
            let mut cells = row(job, reader);
            if self.with_owner {
                cells.insert(1, Cell::from(&job.owner));
            }
            table.row(cells);
        }
        table.write(paper);
        if let Some(next) = self.page.next {
            paper.line(&format!("older ones: shipway jobs{} --before {next}", self.options));
        }
    }
}

fn row(job: &JobView, reader: &Reader) -> Vec<Cell> {
    let took = job.ended.map_or_else(|| "-".into(), |ended| short(ended.since(job.submitted)));
    vec![
        job.id.into(),
        if job.name.is_empty() { "-".into() } else { Cell::from(&job.name) },
        Cell::toned(job.state, Tone::of_job(job.state)),
        tasks(job).into(),
        reader.age(job.submitted).into(),
        took.into(),
        reason(job).into(),
    ]
}

/// Ended ones of all, and how many of them failed.
fn tasks(job: &JobView) -> String {
    let counts = job.counts;
    let ended = counts.succeeded + counts.failed + counts.cancelled;
    match counts.failed {
        0 => format!("{ended}/{}", job.tasks),
        failed => format!("{ended}/{} ({failed} failed)", job.tasks),
    }
}

/// Why it waits; or, when it ended badly, how.
fn reason(job: &JobView) -> String {
    let outcome = || job.outcome.as_ref().filter(|outcome| !outcome.is_success());
    let whole = match job.reasons.first() {
        Some(reason) => reason.to_string(),
        None => outcome().map(ToString::to_string).unwrap_or_default(),
    };
    if whole.chars().count() <= REASON_WIDTH {
        return whole;
    }
    let cut: String = whole.chars().take(REASON_WIDTH - 1).collect();
    format!("{}…", cut.trim_end())
}
