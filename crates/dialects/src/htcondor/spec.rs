//! From a task with marked texts to the specification of a job.

use super::needs::Needs;
use super::task::Task;
use super::task_files::{Files, Taken, Transfer};
use super::{CLUSTER, Setting, is_marker};
use shipway_model::expand::WORKDIR;
use shipway_model::files::{FileMap, OutputFiles, Outputs, TakenOn};
use shipway_model::{BindMount, Each, IndexSet, JobSpec, TextList};
use std::collections::{BTreeMap, BTreeSet};

/// Something that differs from task to task.
#[derive(Debug)]
pub(super) struct Field {
    /// Stands where its value is put in.
    pub(super) marker: char,
    /// As it would best be called.
    pub(super) name: String,
    pub(super) values: TextList,
}

/// A field whose value is a brace, for texts that say `{index}` and mean it.
const BRACE: &str = "brace";
/// What stands for the id of the job, the index of the task and its folder.
const RESERVED: [&str; 3] = ["job", "index", WORKDIR];
/// Where HTCondor's tasks find their own folder.
const SCRATCH: &str = "_CONDOR_SCRATCH_DIR";

/// `processes` are the numbers of its tasks, when there are several.
pub(super) fn job_spec(
    task: &Task,
    fields: Vec<Field>,
    processes: Option<&[u64]>,
    setting: &Setting,
) -> JobSpec {
    let mut spec = plain_spec(task, setting);
    let names = Names::new(&fields, processes);
    let mut braced = false;
    for text in texts_mut(&mut spec) {
        *text = names.write(text, &mut braced);
    }
    spec.env.entry(SCRATCH.into()).or_insert_with(|| format!("{{{WORKDIR}}}"));
    let named = fields.into_iter().filter_map(|field| {
        let name = names.of(field.marker).filter(|name| *name != "index")?;
        Some((name.to_string(), field.values))
    });
    let mut columns: Vec<(String, TextList)> = named.collect();
    if columns.is_empty() && !braced {
        spec.array = processes.and_then(array);
        return spec;
    }
    let count = processes.map_or(1, <[u64]>::len);
    if braced {
        columns.push((BRACE.into(), std::iter::repeat_n("{", count).collect()));
    }
    spec.each = Some(Each::from_columns(count, columns));
    spec
}

/// Tasks that follow each other; others are told apart by rows.
fn array(processes: &[u64]) -> Option<IndexSet> {
    let (first, last) = (processes.first()?, processes.last()?);
    if follow_each_other(processes) {
        return format!("{first}-{last}").parse().ok();
    }
    IndexSet::count(u32::try_from(processes.len()).ok()?).ok()
}

fn follow_each_other(processes: &[u64]) -> bool {
    processes.is_sorted_by(|one, next| one.checked_add(1) == Some(*next))
}

/// What the fields are called in this job.
struct Names {
    by_marker: BTreeMap<char, String>,
    all: BTreeSet<String>,
}

impl Names {
    fn new(fields: &[Field], processes: Option<&[u64]>) -> Names {
        let mut names = Names { by_marker: BTreeMap::new(), all: BTreeSet::new() };
        names.all.extend(RESERVED.iter().chain([&BRACE]).map(|name| (*name).to_string()));
        let lone = fields.len() == 1;
        for field in fields {
            // The number of a task is its index, where the two are the same.
            let numbered = field.name == "Process"
                && processes.is_some_and(|processes| {
                    let from = if lone { processes.first().copied().unwrap_or(0) } else { 0 };
                    processes.first() == Some(&from) && follow_each_other(processes)
                });
            let name = if numbered { "index".to_string() } else { names.free(&field.name) };
            names.all.insert(name.clone());
            names.by_marker.insert(field.marker, name);
        }
        names
    }

    /// A name that no other has; fields are variables of the task too, so none is written as
    /// variables usually are.
    fn free(&self, wish: &str) -> String {
        let letter = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
        let mut name: String = wish.chars().map(letter).collect();
        if !name.bytes().any(|byte| byte.is_ascii_lowercase()) {
            name = format!("item_{name}");
        }
        while self.all.contains(&name) {
            name.push('_');
        }
        name
    }

    fn of(&self, marker: char) -> Option<&str> {
        self.by_marker.get(&marker).map(String::as_str)
    }

    /// A text with `{name}` for markers, and braces that mean nothing else.
    #[expect(clippy::string_slice, reason = "behind a brace, which has one byte")]
    fn write(&self, text: &str, braced: &mut bool) -> String {
        if !text.contains('{') && !text.chars().any(is_marker) {
            return text.to_string();
        }
        let mut out = String::with_capacity(text.len() + 16);
        for (at, c) in text.char_indices() {
            if c == CLUSTER {
                out.push_str("{job}");
            } else if let Some(name) = self.of(c) {
                out.push('{');
                out.push_str(name);
                out.push('}');
            } else if c == '{' && self.is_placeholder(&text[at + 1..]) {
                *braced = true;
                out.push('{');
                out.push_str(BRACE);
                out.push('}');
            } else {
                out.push(c);
            }
        }
        out
    }

    /// Whether a brace before this would be taken for a placeholder.
    fn is_placeholder(&self, rest: &str) -> bool {
        rest.split_once('}').is_some_and(|(name, _)| self.all.contains(name))
    }
}

/// Every text of a job in which placeholders are filled in.
fn texts_mut(spec: &mut JobSpec) -> Vec<&mut String> {
    fn of_map(file: &mut FileMap) -> impl Iterator<Item = &mut String> {
        [&mut file.source].into_iter().chain(&mut file.target)
    }
    let JobSpec { command, env, workdir, stdin, stdout, stderr, inputs, outputs, .. } = spec;
    let streams = [workdir, stdin, stdout, stderr, &mut spec.event_log].into_iter().flatten();
    let taken = outputs.iter_mut().flat_map(|outputs| {
        let files = match &mut outputs.files {
            OutputFiles::New => outputs.renamed.as_mut_slice(),
            OutputFiles::Listed(files) => files.as_mut_slice(),
        };
        files.iter_mut().flat_map(of_map).chain(&mut outputs.to)
    });
    let words = command.iter_mut().chain(env.values_mut());
    words.chain(streams).chain(inputs.iter_mut().flat_map(of_map)).chain(taken).collect()
}

fn plain_spec(task: &Task, setting: &Setting) -> JobSpec {
    let needs = &task.needs.value;
    let files = &task.files.value;
    let own_folder = has_own_folder(files, needs);
    let mut spec = JobSpec {
        name: needs.name.clone(),
        env: task.environment(),
        image: needs.image.clone(),
        network: needs.network,
        stdin: files.input.clone(),
        stdout: files.output.clone(),
        stderr: files.error.clone(),
        event_log: files.log.clone(),
        labels: needs.labels.clone(),
        requirements: needs.requirements.clone(),
        rank: needs.rank.clone(),
        priority: needs.priority,
        retries: needs.retries.clone(),
        time_limit: needs.time_limit.clone(),
        max_running: needs.max_running,
        resources: needs.resources.clone(),
        basedir: Some(setting.directory.clone()),
        ..JobSpec::default()
    };
    if own_folder {
        spec.inputs = files.inputs.iter().map(FileMap::plain).collect();
        spec.outputs = outputs(files);
    } else {
        spec.workdir = Some(files.directory.clone());
        if needs.image.is_some() {
            let (source, target) = (files.directory.clone(), files.directory.clone());
            spec.binds.push(BindMount { source, target, writable: true });
        }
    }
    words(&mut spec, task, own_folder);
    surroundings(&mut spec, files);
    spec
}

/// In a container, and where files are brought or taken, a task has a folder of its own; else it
/// runs where its files are.
fn has_own_folder(files: &Files, needs: &Needs) -> bool {
    let named = !files.inputs.is_empty() || files.outputs.is_some() || !files.remaps.is_empty();
    match files.transfer {
        Transfer::Yes => true,
        Transfer::No => false,
        Transfer::IfNeeded => named || needs.image.is_some(),
    }
}

fn words(spec: &mut JobSpec, task: &Task, own_folder: bool) {
    let program = &task.program.value;
    let brought = program.transferred && own_folder;
    if brought {
        spec.inputs.push(FileMap::plain(program.executable.clone()));
    }
    let first = if brought { format!("./{}", program.name) } else { program.executable.clone() };
    spec.command = [first].into_iter().chain(program.arguments.iter().cloned()).collect();
}

fn outputs(files: &Files) -> Option<Outputs> {
    let on = match files.taken {
        Taken::OnExit => TakenOn::Exit,
        Taken::OnSuccess => TakenOn::Success,
    };
    let to = Some(files.directory.clone());
    let remapped = |(name, path): &(String, String)| FileMap::to(name, path);
    let Some(names) = &files.outputs else {
        let renamed = files.remaps.iter().map(remapped).collect();
        return Some(Outputs { files: OutputFiles::New, renamed, to, on });
    };
    let file = |name: &String| {
        let elsewhere = files.remaps.iter().find(|(from, _)| from == name);
        elsewhere.map_or_else(|| FileMap::plain(name), remapped)
    };
    let listed: Vec<FileMap> = names.iter().map(file).collect();
    let files = OutputFiles::Listed(listed);
    (!names.is_empty()).then_some(Outputs { files, renamed: Vec::new(), to, on })
}

/// Variables of HTCondor that scripts look at; those of the user's own win.
fn surroundings(spec: &mut JobSpec, files: &Files) {
    let cores = spec.resources.cpus.milli.div_ceil(1_000).to_string();
    let usual = [
        ("BATCH_SYSTEM", "HTCondor".to_string()),
        ("OMP_NUM_THREADS", cores),
        ("_CONDOR_JOB_IWD", files.directory.clone()),
    ];
    for (name, value) in usual {
        spec.env.entry(name.to_string()).or_insert(value);
    }
}
