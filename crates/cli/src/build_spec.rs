//! From the options of `run` to a job's specification. Files and the caller's environment are
//! read here; whether the specification makes sense is asked of `model`.

use crate::args::files::FilesArgs;
use crate::args::run::{CountedResource, EndsArgs, EnvArg, NeedsArgs, ProgramArgs, RunArgs};
use crate::each_file::{self, BadRow};
use crate::failure::Failure;
use crate::input;
use shipway_model::files::NEW;
use shipway_model::validate::Problem;
use shipway_model::{
    Digest, FileMap, ImageRef, JobSpec, OutputFiles, Outputs, Resources, RetryPolicy, TimeLimit,
};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

/// `--workdir private`: a fresh directory for each task. `./private` is the directory of that name.
const PRIVATE: &str = "private";
/// In place of the digest of what travels, until that is known.
const NOTHING_YET: Digest = Digest([0; 32]);
/// Where our own settings are kept; a task has no use for its owner's token.
pub(crate) const OWN_VARIABLES: &str = "SHIPWAY_";

#[derive(Debug, thiserror::Error)]
pub enum BadArguments {
    #[error("--script and --each cannot both be read from standard input")]
    StdinTwice,
    #[error("cannot read the rows of {}", .file.display())]
    Each {
        file: PathBuf,
        #[source]
        source: BadRow,
    },
    #[error("--env {name}: you have no such variable")]
    NoVariable { name: String },
    #[error("--env {name}: your value is not UTF-8")]
    VariableNotText { name: String },
    #[error("--output {NEW} takes all that is new: name no other output beside it")]
    NewAndOthers,
    #[error("--resource {name} is given twice")]
    ResourceTwice { name: String },
    #[error("--set is for HTCondor submit files, and this is a job file")]
    SetInJobFile,
    #[error("cannot tell the current directory")]
    CurrentDirectory(#[source] io::Error),
    #[error("the directory {} has a name that is not UTF-8", .0.display())]
    DirectoryNotText(PathBuf),
    #[error("this is not a job that can run: {}", problems_text(.0))]
    Problems(Vec<Problem>),
}

fn problems_text(problems: &[Problem]) -> String {
    problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("; ")
}

impl BadArguments {
    pub fn hint(&self) -> Option<String> {
        match self {
            BadArguments::NoVariable { name } => {
                Some(format!("set it, or give a value: --env {name}=VALUE"))
            }
            BadArguments::CurrentDirectory(_) | BadArguments::DirectoryNotText(_) => {
                Some("name another with --workdir DIR, or --workdir private".into())
            }
            BadArguments::Each { .. } => {
                Some("each line is a task: plain text, or one JSON object per line".into())
            }
            BadArguments::ResourceTwice { name } => {
                Some(format!("write all that a task needs of it once: --resource {name}=N"))
            }
            BadArguments::NewAndOthers => {
                Some(format!("a file of that name is written --output ./{NEW}"))
            }
            BadArguments::SetInJobFile => {
                Some("change the file, or say what it is with --format htcondor".into())
            }
            BadArguments::StdinTwice => Some("write one of them to a file".into()),
            BadArguments::VariableNotText { name } => {
                Some(format!("give a value: --env {name}=VALUE"))
            }
            BadArguments::Problems(_) => Some("`shipway run --help` lists the options".into()),
        }
    }
}

/// What of the caller's surroundings a job may take over.
#[derive(Debug)]
pub struct Caller {
    pub variables: Vec<(OsString, OsString)>,
    pub directory: io::Result<PathBuf>,
}

impl Caller {
    pub fn of_this_process() -> Self {
        Caller { variables: std::env::vars_os().collect(), directory: std::env::current_dir() }
    }
}

pub fn build(mut args: RunArgs, caller: Caller) -> Result<JobSpec, Failure> {
    let dash = |file: &Option<PathBuf>| file.as_deref().is_some_and(input::is_standard_input);
    if dash(&args.program.script) && dash(&args.tasks.each) {
        return Err(BadArguments::StdinTwice.into());
    }
    let script = args.program.script.as_deref().map(input::read_text).transpose()?;
    let each = match &args.tasks.each {
        None => None,
        Some(file) => {
            let rows = each_file::parse(&input::read_text(file)?);
            let named = |source| BadArguments::Each { file: file.clone(), source };
            Some(rows.map_err(named)?)
        }
    };
    let travels = args.files.sandbox;
    let outputs = outputs(&args.files)?;
    let own_directory = travels || outputs.is_some() || !args.files.inputs.is_empty();
    // They travel with the rest, which is looked at when the job is submitted.
    let inputs = if travels { Vec::new() } else { args.files.inputs };
    let usual = own_directory.then_some(PRIVATE);
    let basedir = own_files_begin(None, &caller.directory);
    let mut spec = JobSpec {
        name: args.name.unwrap_or_default(),
        command: args.command,
        script,
        env: environment(&args.program, &caller.variables)?,
        image: args.program.image.map(|image| absolute(image, &caller.directory)).transpose()?,
        workdir: workdir(args.program.workdir.as_deref().or(usual), caller.directory)?,
        binds: args.program.binds,
        network: args.program.network.unwrap_or_default(),
        stdin: args.files.stdin,
        stdout: args.files.stdout,
        stderr: args.files.stderr,
        inputs,
        sandbox: travels.then_some(NOTHING_YET),
        outputs,
        event_log: args.files.event_log,
        basedir: None,
        labels: args.labels.into_iter().map(|pair| (pair.key, pair.value)).collect(),
        priority: args.priority,
        array: args.tasks.array,
        each,
        after: args.tasks.after,
        retries: retries(&args.ends),
        time_limit: time_limit(&args.ends),
        max_running: args.tasks.max_running,
        requirements: args.needs.requirements.take(),
        rank: args.needs.rank.take(),
        tags: std::mem::take(&mut args.needs.tags),
        resources: resources(args.needs)?,
        log_limit: args.program.log_limit.unwrap_or(JobSpec::default().log_limit),
    };
    if spec.names_files() {
        spec.basedir = Some(basedir?);
    }
    let problems = crate::expressions::problems(&spec);
    if !problems.is_empty() {
        return Err(BadArguments::Problems(problems).into());
    }
    Ok(spec)
}

fn environment(
    args: &ProgramArgs,
    variables: &[(OsString, OsString)],
) -> Result<BTreeMap<String, String>, BadArguments> {
    let mut env = BTreeMap::new();
    if args.export_all {
        let texts = variables.iter().filter_map(|(name, value)| Some((name.to_str()?, value)));
        let others = texts.filter(|(name, _)| !name.starts_with(OWN_VARIABLES));
        // What is not text cannot travel in JSON, and nobody named it.
        env.extend(others.filter_map(|(name, value)| Some((name.into(), value.to_str()?.into()))));
    }
    for EnvArg { name, value } in &args.env {
        let value = match value {
            Some(value) => value.clone(),
            None => copied(name, variables)?,
        };
        env.insert(name.clone(), value);
    }
    Ok(env)
}

fn copied(name: &str, variables: &[(OsString, OsString)]) -> Result<String, BadArguments> {
    let (_, value) = variables
        .iter()
        .find(|(found, _)| found == name)
        .ok_or_else(|| BadArguments::NoVariable { name: name.into() })?;
    let not_text = || BadArguments::VariableNotText { name: name.into() };
    value.to_str().map(str::to_string).ok_or_else(not_text)
}

/// The named directory, or the current one: a relative path means what it means to the caller.
pub fn workdir(
    named: Option<&str>,
    current: io::Result<PathBuf>,
) -> Result<Option<String>, BadArguments> {
    let named = match named {
        Some(PRIVATE) => return Ok(None),
        Some(dir) if Path::new(dir).is_absolute() => return Ok(Some(dir.into())),
        other => other,
    };
    let mut dir = current.map_err(BadArguments::CurrentDirectory)?;
    if let Some(named) = named.filter(|named| *named != ".") {
        dir.push(named);
    }
    let text = dir.into_os_string().into_string();
    text.map(Some).map_err(|dir| BadArguments::DirectoryNotText(dir.into()))
}

/// An image in a file or folder is where it is seen from here.
pub fn absolute(image: ImageRef, current: &io::Result<PathBuf>) -> Result<ImageRef, BadArguments> {
    let Some(place) = image.place().filter(|place| !place.starts_with('/')) else {
        return Ok(image);
    };
    let current = current.as_ref().map_err(|error| io::Error::from(error.kind()));
    let dir = current.map_err(BadArguments::CurrentDirectory)?.join(place);
    let text = dir.into_os_string().into_string();
    text.map(|place| image.at(place)).map_err(|dir| BadArguments::DirectoryNotText(dir.into()))
}

/// Where relative paths of files begin: in the named folder, or where the caller stands.
pub fn own_files_begin(
    named: Option<&str>,
    current: &io::Result<PathBuf>,
) -> Result<String, BadArguments> {
    if let Some(named) = named.filter(|named| named.starts_with('/')) {
        return Ok(named.into());
    }
    let current = current.as_ref().map_err(|error| io::Error::from(error.kind()));
    let mut dir = current.map_err(BadArguments::CurrentDirectory)?.clone();
    dir.extend(named.filter(|named| *named != "."));
    dir.into_os_string().into_string().map_err(|dir| BadArguments::DirectoryNotText(dir.into()))
}

fn outputs(args: &FilesArgs) -> Result<Option<Outputs>, BadArguments> {
    let is_new = |file: &FileMap| file.source == NEW && file.target.is_none();
    let files = match &args.outputs[..] {
        [] if args.sandbox => OutputFiles::New,
        [] => return Ok(None),
        [word] if is_new(word) => OutputFiles::New,
        files if files.iter().any(is_new) => return Err(BadArguments::NewAndOthers),
        files => OutputFiles::Listed(files.to_vec()),
    };
    let on = args.output_on.unwrap_or_default();
    // Of what travels, the folder is one of this machine.
    let to = args.output_dir.clone().filter(|_| !args.sandbox);
    Ok(Some(Outputs { files, renamed: Vec::new(), to, on }))
}

fn retries(args: &EndsArgs) -> RetryPolicy {
    let usual = RetryPolicy::default();
    RetryPolicy {
        limit: args.retries,
        delay: args.retry_delay.unwrap_or(usual.delay),
        on: args.retry_on.clone().unwrap_or(usual.on),
    }
}

fn time_limit(args: &EndsArgs) -> Option<TimeLimit> {
    let usual = TimeLimit::new(args.time_limit?);
    Some(TimeLimit {
        warn: args.warn_signal.unwrap_or(usual.warn),
        grace: args.grace.unwrap_or(usual.grace),
        ..usual
    })
}

fn resources(args: NeedsArgs) -> Result<Resources, BadArguments> {
    let usual = Resources::default();
    let mut named = BTreeMap::new();
    for CountedResource { name, amount } in args.resources {
        if named.contains_key(&name) {
            return Err(BadArguments::ResourceTwice { name });
        }
        named.insert(name, amount);
    }
    Ok(Resources {
        cpus: args.cpus.unwrap_or(usual.cpus),
        memory: args.memory.unwrap_or(usual.memory),
        disk: args.disk.unwrap_or(usual.disk),
        gpu: args.gpus,
        named,
    })
}

#[cfg(test)]
mod tests;
