//! What we make of a file: its tasks, and the jobs that would be submitted.

use crate::engine::VARIABLES;
use shipway_cli::submit_file::Surroundings;
use shipway_dialects::htcondor::{self, Setting, SubmitError, Task, Warning};
use shipway_model::expand::Placeholders;
use shipway_model::{JobId, JobSpec, TaskIndex};
use std::collections::BTreeMap;
use std::path::Path;

/// The number HTCondor gives to a dry run.
const CLUSTER: u64 = 1;

pub(crate) struct Read {
    pub(crate) tasks: Result<Vec<Task>, SubmitError>,
    pub(crate) warnings: Vec<Warning>,
}

fn setting(inside: &str, name: &str, seconds: u64) -> Setting {
    Setting {
        submit_file: name.into(),
        directory: inside.into(),
        seconds,
        date: (2026, 1, 1),
        seed: 7,
        architecture: "X86_64".into(),
        overrides: Vec::new(),
        cluster: Some(CLUSTER),
    }
}

fn outside(corpus: &Path) -> Surroundings {
    let text = |(name, value): (&str, &str)| (name.to_string(), value.to_string());
    Surroundings { directory: corpus.into(), variables: VARIABLES.map(text).to_vec() }
}

fn text(corpus: &Path, name: &str) -> String {
    std::fs::read_to_string(corpus.join(name)).expect(name)
}

pub(crate) fn read(corpus: &Path, inside: &str, name: &str, seconds: u64) -> Read {
    let setting = setting(inside, name, seconds);
    match htcondor::tasks(&text(corpus, name), &setting, &outside(corpus)) {
        Ok((tasks, warnings)) => Read { tasks: Ok(tasks), warnings },
        Err(error) => Read { tasks: Err(error), warnings: Vec::new() },
    }
}

pub(crate) fn jobs(corpus: &Path, inside: &str, name: &str) -> Result<Vec<JobSpec>, SubmitError> {
    let setting = setting(inside, name, 0);
    htcondor::read(&text(corpus, name), &setting, &outside(corpus)).map(|submit| submit.jobs)
}

/// What can be compared of a task that was read and one that was submitted.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Seen {
    arguments: Vec<String>,
    variables: BTreeMap<String, String>,
    streams: [Option<String>; 4],
    inputs: Vec<String>,
    memory: u64,
    cpus: u64,
}

/// What the corpus runs.
const PROGRAMS: [&str; 2] = ["run.sh", "/bin/cat"];

/// Variables that every job of a submit file has.
const ADDED: [&str; 4] =
    ["BATCH_SYSTEM", "OMP_NUM_THREADS", "_CONDOR_JOB_IWD", "_CONDOR_SCRATCH_DIR"];

impl Seen {
    pub(crate) fn of(task: &Task) -> Seen {
        let files = &task.files.value;
        let resources = &task.needs.value.resources;
        Seen {
            arguments: task.program.value.arguments.clone(),
            variables: task.environment(),
            streams: [&files.input, &files.output, &files.error, &files.log].map(Clone::clone),
            inputs: files.inputs.clone(),
            memory: resources.memory.0,
            cpus: resources.cpus.milli,
        }
    }
}

/// The tasks of a job, as a pilot would fill them in.
pub(crate) fn filled(spec: &JobSpec) -> Vec<Seen> {
    let indices = spec.indices().expect("a good job");
    let tasks = 0..indices.len();
    tasks
        .map(|at| {
            let ordinal = shipway_model::Ordinal(at);
            let index: TaskIndex = indices.index(ordinal).expect("one of them");
            let row = spec.each.as_ref().and_then(|each| each.row(at as usize)).unwrap_or_default();
            let places = Placeholders::of(JobId(CLUSTER).task(index), &row);
            let stream = |text: &Option<String>| text.as_ref().map(|text| places.fill(text));
            let own = spec.env.iter().filter(|(name, _)| !ADDED.contains(&name.as_str()));
            let brought = spec.inputs.iter().map(|input| places.fill(&input.source));
            Seen {
                arguments: spec.command.iter().skip(1).map(|word| places.fill(word)).collect(),
                variables: own.map(|(name, value)| (name.clone(), places.fill(value))).collect(),
                streams: [&spec.stdin, &spec.stdout, &spec.stderr, &spec.event_log].map(stream),
                // The program is one of them.
                inputs: brought
                    .filter(|name| !PROGRAMS.iter().any(|it| name.ends_with(it)))
                    .collect(),
                memory: spec.resources.memory.0,
                cpus: spec.resources.cpus.milli,
            }
        })
        .collect()
}
