//! Whether the files that a submit file names are there. What is missing is said before anything
//! is submitted, with the line that names it, as `condor_submit` does.
//!
//! Looking is the caller's: what is at a path comes from a function.

use super::command_table::Key;
use super::error::{SourcePosition, SubmitError, Warning, Wrong};
use super::plan::Plan;
use super::task::Task;
use super::{Submit, limits::MAX_LOOKED};
use shipway_model::expand::Placeholders;
use shipway_model::{ImageRef, JobSpec, Ordinal};
use std::collections::BTreeSet;

/// What is at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AtPath {
    File {
        /// Somebody may run it.
        runs: bool,
    },
    Folder,
    /// A pipe, a device, or something that cannot be looked at.
    Other,
}

/// The lines that name the files of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    executable: SourcePosition,
    directory: SourcePosition,
    inputs: SourcePosition,
    input: SourcePosition,
    output: SourcePosition,
    error: SourcePosition,
    log: SourcePosition,
    image: SourcePosition,
    /// The program is a file of the submitter's.
    brings_program: bool,
}

impl Places {
    pub(super) fn of(plan: &Plan, task: &Task) -> Places {
        Places {
            executable: plan.place(Key::Executable),
            directory: plan.place(Key::InitialDir),
            inputs: plan.place(Key::TransferInputFiles),
            input: plan.place(Key::Input),
            output: plan.place(Key::Output),
            error: plan.place(Key::Error),
            log: plan.place(Key::Log),
            image: plan.place(Key::ContainerImage),
            brings_program: task.program.value.transferred,
        }
    }
}

/// What has to be at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Program,
    File,
    /// A file or a folder.
    Any,
    /// The same, that nodes may have and this machine not.
    Image,
    Folder,
    /// The folder that a file is in.
    FolderOf,
    /// The same, where it is made if it is not there.
    FolderMade,
}

struct Want<'a> {
    place: &'a SourcePosition,
    command: &'static str,
    wanted: Wanted,
    /// With placeholders.
    path: &'a str,
}

/// The first thing that is missing, or else what is worth a warning.
pub fn missing(
    submit: &Submit,
    look: &dyn Fn(&str) -> Option<AtPath>,
) -> Result<Vec<Warning>, SubmitError> {
    let mut warnings = BTreeSet::new();
    for (spec, places) in submit.jobs.iter().zip(&submit.places) {
        for want in wants(spec, places) {
            let mut seen = BTreeSet::new();
            for path in paths(spec, want.path) {
                let path = want.looked_at(&path);
                if seen.len() == MAX_LOOKED {
                    break;
                }
                // Where the job's id stands in it, nobody can tell yet.
                if !path.contains("{job}") && seen.insert(path.clone()) {
                    warnings.extend(want.judge(&path, look(&path))?);
                }
            }
        }
    }
    Ok(warnings.into_iter().collect())
}

fn wants<'a>(spec: &'a JobSpec, places: &'a Places) -> Vec<Want<'a>> {
    let want = |place, command, wanted, path| Want { place, command, wanted, path };
    let mut brought: Vec<&str> = spec.inputs.iter().map(|input| input.source.as_str()).collect();
    // Where files are brought, the program is the last of them.
    let own_folder = spec.workdir.is_none();
    let program = match places.brings_program {
        true if own_folder => brought.pop(),
        true => spec.command.first().map(String::as_str),
        false => None,
    };
    let directory = spec.workdir.as_deref();
    let directory = directory.or_else(|| spec.outputs.as_ref().and_then(|it| it.to.as_deref()));
    let directory =
        directory.map(|path| want(&places.directory, "initialdir", Wanted::Folder, path));
    let program = program.map(|path| want(&places.executable, "executable", Wanted::Program, path));
    let inputs = brought
        .into_iter()
        .map(|path| want(&places.inputs, "transfer_input_files", Wanted::Any, path));
    let image = spec.image.as_ref().and_then(ImageRef::place);
    let image = image.map(|path| want(&places.image, "container_image", Wanted::Image, path));
    let streams = [
        (&places.input, "input", Wanted::File, &spec.stdin),
        (&places.output, "output", Wanted::FolderMade, &spec.stdout),
        (&places.error, "error", Wanted::FolderMade, &spec.stderr),
        (&places.log, "log", Wanted::FolderOf, &spec.event_log),
    ];
    let streams = streams.into_iter().filter_map(|(place, command, wanted, path)| {
        Some(want(place, command, wanted, path.as_deref()?))
    });
    directory.into_iter().chain(program).chain(inputs).chain(image).chain(streams).collect()
}

/// A path of each task; one where it is the same for all.
fn paths<'a>(spec: &'a JobSpec, path: &'a str) -> Box<dyn Iterator<Item = String> + 'a> {
    let indices = spec.indices().filter(|_| path.contains('{'));
    let Some(indices) = indices else { return Box::new(std::iter::once(path.to_string())) };
    Box::new((0..indices.len()).filter_map(move |at| {
        let each = spec.each.as_ref();
        let row = each.and_then(|each| each.row(usize::try_from(at).ok()?)).unwrap_or_default();
        let index = indices.index(Ordinal(at))?;
        Some(Placeholders::before_submission(index, &row).fill(path))
    }))
}

impl Want<'_> {
    fn looked_at(&self, path: &str) -> String {
        match self.wanted {
            Wanted::FolderOf | Wanted::FolderMade => {
                let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
                if folder.is_empty() { "/".into() } else { folder.to_string() }
            }
            _ => path.to_string(),
        }
    }

    fn judge(&self, path: &str, found: Option<AtPath>) -> Result<Option<Warning>, SubmitError> {
        let (command, place) = (self.command, self.place);
        let missing = |what| Wrong::Missing { command, what, path: path.into() }.at(place);
        let wrong = |what| Wrong::WrongKind { command, what, path: path.into() }.at(place);
        match (self.wanted, found) {
            (Wanted::FolderMade, None) => {
                let what = format!("{command}: the folder `{path}` is not there and will be made");
                Ok(Some(Warning { place: place.clone(), what }))
            }
            (Wanted::Image, None) => {
                let what = format!("{command}: `{path}` is not on this machine; nodes need it");
                Ok(Some(Warning { place: place.clone(), what }))
            }
            (Wanted::Program | Wanted::File, None) => Err(missing("file")),
            (Wanted::Any, None) => Err(missing("file or folder")),
            (Wanted::Folder | Wanted::FolderOf, None) => Err(missing("folder")),
            (Wanted::Program | Wanted::File, Some(AtPath::Folder)) => Err(wrong("is a folder")),
            (Wanted::Program, Some(AtPath::File { runs: false })) => {
                Err(wrong("is a file that nobody may run"))
            }
            (Wanted::Folder | Wanted::FolderOf | Wanted::FolderMade, Some(AtPath::File { .. })) => {
                Err(wrong("is not a folder"))
            }
            _ => Ok(None),
        }
    }
}

/// What to do about a file that is not there, or is no such thing.
pub(super) fn hint(command: &str, path: &str) -> String {
    match command {
        "executable" => format!(
            "name a program of this machine (`chmod +x {path}` lets a file run), or say \
             transfer_executable = false if it is on the node or in the image"
        ),
        "log" => format!("make the folder first: mkdir -p {path}"),
        "initialdir" => "paths begin in the folder that you submit from".into(),
        _ => "paths begin in the folder that you submit from, or in initialdir".into(),
    }
}
