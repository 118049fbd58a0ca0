//! What a job file would do, had it been submitted.

use super::View;
use super::advice::Advice;
use super::job_detail::{FILES_SHOWN, command, fact, specification, standing};
use super::paper::{Paper, Tone};
use super::reason::sentence;
use super::time::Reader;
use serde::Serialize;
use shipway_api::types::DryRun;
use shipway_model::expand::Placeholders;
use shipway_model::{AfterNamed, Condition, JobSpec, Ordinal, Outputs, TaskIndex};

#[derive(Debug, Serialize)]
#[serde(transparent)]
pub struct DryRuns {
    pub runs: Vec<MemberRun>,
    #[serde(skip)]
    pub reader: Reader,
}

#[derive(Debug, Serialize)]
pub struct MemberRun {
    #[serde(flatten)]
    pub run: DryRun,
    /// Jobs of the same file that have to end first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<AfterNamed>,
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

/// The files of the first task that differ between tasks, by their own names. The job's id is not
/// known yet.
fn first_files(paper: &mut Paper, spec: &JobSpec) {
    let row = spec.each.as_ref().and_then(|each| each.row(0)).unwrap_or_default();
    let first = spec.indices().and_then(|indices| indices.index(Ordinal(0)));
    let names = Placeholders::before_submission(first.unwrap_or(TaskIndex(0)), &row);
    let inputs = spec.inputs.iter().map(|input| ("input", input.source.as_str()));
    let outputs = spec.outputs.as_ref().map_or(&[][..], Outputs::names).iter();
    let outputs =
        outputs.map(|file| ("output", file.target.as_deref().unwrap_or(file.source.as_str())));
    let log = spec.event_log.iter().map(|log| ("event log", log.as_str()));
    let all = spec.streams().chain(inputs).chain(outputs).chain(log);
    for (key, file) in all.filter(|(_, file)| file.contains('{')).take(FILES_SHOWN) {
        fact(paper, key, &names.fill(file));
    }
}

fn write_one(paper: &mut Paper, member: &MemberRun, reader: &Reader) {
    let MemberRun { run, after } = member;
    let tasks = if run.tasks == 1 { "task" } else { "tasks" };
    let name = if run.spec.name.is_empty() { "a job" } else { &run.spec.name };
    paper.write(Tone::Strong, &format!("Would submit {name} of {} {tasks}", run.tasks));
    paper.end_line();
    standing(paper, run.spec.priority, &run.spec.labels);
    specification(paper, &run.spec);
    if run.tasks > 1 {
        paper.line(&format!("First task: {}", command(&run.first_command)));
        first_files(paper, &run.spec);
    }
    if run.reasons.is_empty() && after.is_empty() {
        return paper.line("It could start now.");
    }
    paper.line("It could not start now because:");
    let of_this_file = |after: &AfterNamed| match after.condition {
        Condition::Ok => format!("{} of this file has to succeed first", after.name),
        Condition::Failed => format!("{} of this file has to fail first", after.name),
        Condition::Any => format!("{} of this file has to end first", after.name),
    };
    let others = run.reasons.iter().map(|reason| sentence(reason, reader));
    for (at, why) in after.iter().map(of_this_file).chain(others).enumerate() {
        paper.line(&format!("  {}. {why}", at + 1));
    }
    if run.reasons.is_empty() {
        return;
    }
    let advice = Advice::of(&run.reasons, &run.prospect.changes);
    super::prospect::write(paper, &run.prospect, &advice, reader);
}
