//! One job in full: what was asked, how far it is, why it waits, its tasks; or one of its tasks.

use super::View;
use super::paper::{Paper, Tone};
use super::reason::sentence;
use super::task_table::{write_attempts, write_tasks};
use super::time::{Reader, short};
use super::usage::{write_advice, write_series, write_usage};
use serde::Serialize;
use shipway_api::types::{Fetching, JobView, SeriesView, TaskPage, TaskView};
use shipway_model::{FileMap, JobSpec, Kind, Millis, Network, OutputFiles, Resources, TakenOn};
use std::collections::BTreeMap;

/// A command longer than this is cut; `--json` has it whole.
const COMMAND_WIDTH: usize = 200;
/// Files shown of a list; `--json` has them all.
pub(super) const FILES_SHOWN: usize = 20;
/// Room for the longest of the names on the left.
const NAME_WIDTH: usize = 11;

#[derive(Debug, Serialize)]
pub struct JobDetail {
    pub job: JobView,
    pub tasks: TaskPage,
    /// Tasks that match and are not on this page; not said when they were not counted.
    #[serde(skip)]
    pub not_shown: u32,
    #[serde(skip)]
    pub reader: Reader,
}

#[derive(Debug, Serialize)]
pub struct TaskDetail {
    pub job: JobView,
    pub task: TaskView,
    /// How its newest attempt went over time, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub series: Option<SeriesView>,
    #[serde(skip)]
    pub reader: Reader,
}

impl View for JobDetail {
    fn text(&self, paper: &mut Paper) {
        let reader = &self.reader;
        head(paper, &self.job);
        facts(paper, &self.job, reader);
        if let Some(spec) = &self.job.spec {
            specification(paper, spec);
        }
        reasons(paper, &self.job, reader);
        if self.tasks.tasks.is_empty() {
            return;
        }
        paper.end_line();
        write_tasks(paper, &self.tasks.tasks, reader);
        if let [only] = self.tasks.tasks.as_slice()
            && only.attempts.len() > 1
        {
            paper.end_line();
            write_attempts(paper, &only.attempts, reader);
        }
        if let [only] = self.tasks.tasks.as_slice()
            && (only.usage.is_some() || only.advice.is_some())
        {
            paper.end_line();
            write_usage_of(paper, only);
        }
        if self.not_shown > 0 {
            let next = self.tasks.next.map(|from| format!(" (next: --from {from})"));
            let line = format!("{} more tasks{}", self.not_shown, next.unwrap_or_default());
            paper.write(Tone::Faint, &line);
            paper.end_line();
        }
    }
}

impl View for TaskDetail {
    fn text(&self, paper: &mut Paper) {
        let reader = &self.reader;
        let task = &self.task;
        paper.write(Tone::Strong, &format!("Task {}", task.id));
        paper.write(Tone::Plain, "  ");
        paper.write(Tone::of_task(task.state), task.state.as_str());
        paper.end_line();
        fact(paper, "attempt", &task.attempt.to_string());
        if let Some(outcome) = &task.outcome {
            fact(paper, "outcome", &outcome.to_string());
        }
        if let Some(Fetching { sent, of }) = task.fetching {
            fact(paper, "files", &format!("fetching: {sent} of {of} have come"));
        }
        if let Some(node) = &task.node {
            let site = task.site.as_ref().map(|site| format!(" (site {site})"));
            fact(paper, "node", &format!("{node}{}", site.unwrap_or_default()));
        }
        if !task.devices.is_empty() {
            fact(paper, "devices", &task.devices.join(", "));
        }
        if let Some(started) = task.started {
            fact(paper, "started", &reader.moment_and_age(started));
            let until = task.ended.unwrap_or(reader.now);
            fact(paper, "time", &short(until.since(started)));
        }
        write_usage_of(paper, task);
        if let Some(series) = self.series.as_ref().filter(|series| series.cpu_milli.len() > 1) {
            paper.end_line();
            paper.line(&format!("Over time, from left to right ({} a step):", step(series)));
            write_series(paper, series);
        }
        if !task.attempts.is_empty() {
            paper.end_line();
            write_attempts(paper, &task.attempts, reader);
        }
    }
}

fn write_usage_of(paper: &mut Paper, task: &TaskView) {
    if let Some(usage) = &task.usage {
        write_usage(paper, usage);
    }
    write_advice(paper, task.advice.as_ref());
}

fn step(series: &SeriesView) -> String {
    short(Millis(series.step_ms))
}

fn head(paper: &mut Paper, job: &JobView) {
    paper.write(Tone::Strong, &format!("Job {}", job.id));
    if !job.name.is_empty() {
        paper.write(Tone::Plain, &format!("  {}", job.name));
    }
    paper.write(Tone::Plain, "  ");
    paper.write(Tone::of_job(job.state), job.state.as_str());
    paper.end_line();
}

pub(super) fn fact(paper: &mut Paper, name: &str, value: &str) {
    paper.write(Tone::Faint, &format!("  {name:NAME_WIDTH$} "));
    paper.line(value);
}

fn facts(paper: &mut Paper, job: &JobView, reader: &Reader) {
    fact(paper, "owner", job.owner.as_str());
    fact(paper, "submitted", &reader.moment_and_age(job.submitted));
    if let Some(ended) = job.ended {
        let took = short(ended.since(job.submitted));
        fact(paper, "ended", &format!("{}, after {took}", reader.moment(ended)));
    }
    if let Some(outcome) = &job.outcome {
        fact(paper, "outcome", &outcome.to_string());
    }
    if let Some(problem) = &job.event_log_problem {
        fact(paper, "warning", problem);
    }
    let counts = job.counts;
    let parts = [
        (counts.succeeded, "succeeded"),
        (counts.failed, "failed"),
        (counts.cancelled, "cancelled"),
        (counts.active, "placed or running"),
        (counts.waiting, "waiting"),
    ];
    let said: Vec<String> =
        parts.iter().filter(|(n, _)| *n > 0).map(|(n, word)| format!("{n} {word}")).collect();
    fact(paper, "tasks", &format!("{}: {}", job.tasks, said.join(", ")));
    standing(paper, job.priority, &job.labels);
}

/// What is neither the program nor its needs.
pub(super) fn standing(paper: &mut Paper, priority: i32, labels: &BTreeMap<String, String>) {
    if priority != 0 {
        fact(paper, "priority", &priority.to_string());
    }
    if !labels.is_empty() {
        let labels: Vec<String> = labels.iter().map(|(k, v)| format!("{k}={v}")).collect();
        fact(paper, "labels", &labels.join(", "));
    }
}

pub(super) fn specification(paper: &mut Paper, spec: &JobSpec) {
    if let Some(script) = &spec.script {
        fact(paper, "script", &format!("{} bytes", script.len()));
    }
    if !spec.command.is_empty() {
        fact(paper, "command", &command(&spec.command));
    }
    fact(paper, "workdir", spec.workdir.as_deref().unwrap_or("a fresh one for each task"));
    if !spec.env.is_empty() {
        // Names only: values are often secrets, and screens are looked at.
        let names: Vec<&str> = spec.env.keys().map(String::as_str).collect();
        fact(paper, "variables", &names.join(", "));
    }
    if let Some(array) = &spec.array {
        fact(paper, "array", &array.to_string());
    }
    if let Some(each) = &spec.each {
        let fields: Vec<&str> = each.fields().collect();
        fact(paper, "each", &format!("{} rows of {}", each.len(), fields.join(", ")));
    }
    if let Some(image) = &spec.image {
        fact(paper, "image", &image.to_string());
    }
    if !spec.binds.is_empty() {
        let binds: Vec<String> = spec.binds.iter().map(ToString::to_string).collect();
        fact(paper, "binds", &binds.join(", "));
    }
    if spec.network != Network::Host {
        fact(paper, "network", spec.network.as_str());
    }
    files(paper, spec);
    fact(paper, "needs", &needs(&spec.resources));
    if let Some(requirements) = &spec.requirements {
        fact(paper, "requires", &single_line(requirements));
    }
    if let Some(rank) = &spec.rank {
        fact(paper, "rank", &single_line(rank));
    }
    if !spec.tags.is_empty() {
        fact(paper, "tags", &spec.tags.join(", "));
    }
    if let Some(limit) = &spec.time_limit {
        let (signal, grace) = (limit.warn, limit.grace);
        let line = format!("{}, then {signal} and {grace} of grace", limit.limit);
        fact(paper, "time limit", &line);
    }
    if !spec.retries.is_none() {
        let retries = &spec.retries;
        let line = format!("{}, first after {}, on {}", retries.limit, retries.delay, retries.on);
        fact(paper, "retries", &line);
    }
    if let Some(most) = spec.max_running {
        fact(paper, "at once", &most.to_string());
    }
    if !spec.after.is_empty() {
        let after: Vec<String> =
            spec.after.iter().map(|after| format!("{} ({})", after.job, after.condition)).collect();
        fact(paper, "after", &after.join(", "));
    }
}

fn files(paper: &mut Paper, spec: &JobSpec) {
    let list = |files: &[FileMap]| {
        let mut texts: Vec<String> =
            files.iter().take(FILES_SHOWN).map(ToString::to_string).collect();
        if files.len() > FILES_SHOWN {
            texts.push(format!("and {} more", files.len() - FILES_SHOWN));
        }
        texts.join(", ")
    };
    for (key, file) in spec.streams() {
        fact(paper, key, file);
    }
    if !spec.inputs.is_empty() {
        fact(paper, "inputs", &list(&spec.inputs));
    }
    if let Some(outputs) = &spec.outputs {
        let mut line = match &outputs.files {
            OutputFiles::New if outputs.renamed.is_empty() => "all that is new or changed".into(),
            OutputFiles::New => {
                format!("all that is new or changed, of it {}", list(&outputs.renamed))
            }
            OutputFiles::Listed(files) => list(files),
        };
        line.extend(outputs.to.iter().flat_map(|to| [", to ", to]));
        if outputs.on == TakenOn::Success {
            line.push_str(", on success");
        }
        fact(paper, "outputs", &line);
    }
    if let Some(file) = &spec.event_log {
        fact(paper, "event log", file);
    }
    if let Some(dir) = &spec.basedir {
        fact(paper, "basedir", dir);
    }
}

/// Expressions may be written over several lines, and hold anything in quotes.
fn single_line(expression: &str) -> String {
    expression.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// As it could be typed: words with anything but plain characters in quotes.
pub(super) fn command(words: &[String]) -> String {
    let plain = |c: char| c.is_alphanumeric() || "._-/=:,+@%{}".contains(c);
    let quoted = |word: &String| {
        if !word.is_empty() && word.chars().all(plain) {
            word.clone()
        } else {
            format!("'{}'", word.replace('\'', r"'\''"))
        }
    };
    let whole = words.iter().map(quoted).collect::<Vec<_>>().join(" ");
    if whole.chars().count() <= COMMAND_WIDTH {
        return whole;
    }
    format!("{}…", whole.chars().take(COMMAND_WIDTH).collect::<String>())
}

fn needs(resources: &Resources) -> String {
    let amounts = resources.amounts();
    let quantities = Kind::ALL.into_iter().map(|kind| kind.quantity(amounts.get(kind)));
    let asked = quantities.filter(|quantity| quantity.raw() > 0);
    let mut parts: Vec<String> = asked.map(|quantity| quantity.to_string()).collect();
    if let Some(gpu) = &resources.gpu {
        parts.push(format!("GPU {gpu}"));
        // Only what the short form does not say.
        if !gpu.capability.is_any() {
            parts.push(format!("compute capability {}", gpu.capability));
        }
        if !gpu.driver.is_any() {
            parts.push(format!("driver {}", gpu.driver));
        }
    }
    parts.extend(resources.named.iter().map(|(name, amount)| format!("{amount} of {name}")));
    parts.join(", ")
}

fn reasons(paper: &mut Paper, job: &JobView, reader: &Reader) {
    if job.reasons.is_empty() {
        return;
    }
    paper.end_line();
    paper.line("It waits because:");
    for (at, reason) in job.reasons.iter().enumerate() {
        paper.line(&format!("  {}. {}", at + 1, sentence(reason, reader)));
    }
}
