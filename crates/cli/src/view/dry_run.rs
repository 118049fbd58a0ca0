//! What a job file would do, had it been submitted.

use super::View;
use super::advice::Advice;
use super::job_detail::{command, specification, standing};
use super::paper::{Paper, Tone};
use super::reason::sentence;
use super::time::Reader;
use serde::Serialize;
use shipway_api::types::DryRun;

#[derive(Debug, Serialize)]
#[serde(transparent)]
pub struct DryRuns {
    pub runs: Vec<DryRun>,
    #[serde(skip)]
    pub reader: Reader,
}

impl View for DryRuns {
    fn text(&self, paper: &mut Paper) {
        for (at, run) in self.runs.iter().enumerate() {
            if at > 0 {
                paper.end_line();
            }
            write_one(paper, run, &self.reader);
        }
    }
}

fn write_one(paper: &mut Paper, run: &DryRun, reader: &Reader) {
    let tasks = if run.tasks == 1 { "task" } else { "tasks" };
    let name = if run.spec.name.is_empty() { "a job" } else { &run.spec.name };
    paper.write(Tone::Strong, &format!("Would submit {name} of {} {tasks}", run.tasks));
    paper.end_line();
    standing(paper, run.spec.priority, &run.spec.labels);
    specification(paper, &run.spec);
    if run.tasks > 1 {
        paper.line(&format!("First task: {}", command(&run.first_command)));
    }
    if run.reasons.is_empty() {
        return paper.line("It could start now.");
    }
    paper.line("It could not start now because:");
    for (at, reason) in run.reasons.iter().enumerate() {
        paper.line(&format!("  {}. {}", at + 1, sentence(reason, reader)));
    }
    let advice = Advice::of(&run.reasons, &run.prospect.changes);
    super::prospect::write(paper, &run.prospect, &advice, reader);
}
