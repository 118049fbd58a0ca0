//! HTCondor's submit files: the text, and what it asks of its surroundings, in; jobs out.
//!
//! `reader.rs` goes through the lines, `expand.rs` replaces macros, `plan.rs` prepares each `queue`
//! statement, `task.rs` makes its tasks and `jobs.rs` puts those that are alike into jobs. What
//! each command means is a table (`command_table.rs`); docs/htcondor.md shows it to users.

mod command_table;
mod commands;
mod conditions;
mod error;
mod evaluate;
mod expand;
mod file_parts;
mod functions;
mod gpus;
mod jobs;
pub mod limits;
mod lines;
mod macros;
mod needs;
mod number_format;
mod plan;
mod present;
mod program;
mod quantity;
mod queue;
mod quoting;
mod reader;
mod scan;
mod spec;
mod statement;
mod task;
mod task_files;
mod template;
mod unused;

pub use commands::{Fate, commands, fate};
pub use error::{ProblemText, SourcePosition, SubmitError, Warning, Wrong};
pub use needs::Needs;
pub use present::{AtPath, Places, missing};
pub use program::{Program, Variables};
pub use queue::Matching;
pub use task::{Part, Task};
pub use task_files::{Files, Taken, Transfer};

use expand::Scope;
use plan::{Mode, Plan};
use reader::{Queued, Reader};
use shipway_model::JobSpec;
use std::collections::BTreeSet;
use std::rc::Rc;
use task::Maker;

/// What a submit file may ask of its surroundings.
pub trait Outside {
    /// A variable of the caller's environment.
    fn variable(&self, name: &str) -> Option<String>;
    /// All of them that are text.
    fn variables(&self) -> Vec<(String, String)>;
    /// A file that is included, or that lists items; `None` when there is none. `from` is the
    /// file that names it.
    fn read(&self, name: &str, from: &str) -> Result<Option<FoundFile>, String>;
    /// What a pattern matches, in order; folders end with a slash.
    fn matching(&self, pattern: &str, kind: Matching) -> Result<Vec<String>, String>;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundFile {
    /// As messages should call it.
    pub name: String,
    pub text: String,
}

/// What is known at the time of submission.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Setting {
    /// As the user named it.
    pub submit_file: String,
    /// The current directory; absolute.
    pub directory: String,
    /// Seconds since 1970.
    pub seconds: u64,
    /// Year, month and day, where the user is.
    pub date: (i16, u8, u8),
    /// What `$RANDOM_CHOICE()` and `$RANDOM_INTEGER()` follow from.
    pub seed: u64,
    /// What HTCondor would call this processor: `X86_64`.
    pub architecture: String,
    /// Set before each `queue`, over what the file says.
    pub overrides: Vec<(String, String)>,
    /// `None`: not known before submission.
    pub cluster: Option<u64>,
}

impl Setting {
    /// Names that have a value although no file gives it.
    fn value(&self, name: &str) -> Option<Rc<str>> {
        let (year, month, day) = self.date;
        let text: String = match name.to_ascii_lowercase().as_str() {
            "cluster" | "clusterid" => {
                self.cluster.map_or_else(|| CLUSTER.to_string(), |cluster| cluster.to_string())
            }
            "jobid" => "$(Cluster).$(Process)".into(),
            "submit_file" => self.submit_file.clone(),
            "submit_time" => self.seconds.to_string(),
            "year" => year.to_string(),
            "month" => format!("{month:02}"),
            "day" => format!("{day:02}"),
            "arch" => self.architecture.clone(),
            "opsys" => "LINUX".into(),
            "islinux" => "1".into(),
            "iswindows" => "0".into(),
            _ => return None,
        };
        Some(text.into())
    }
}

/// Stands for the id of the job until it is known. From a plane of Unicode that no text uses; a
/// file that has it is refused.
const CLUSTER: char = '\u{ffffd}';
/// Stands for the first variable of tasks; others follow.
const FIRST_MARKER: u32 = 0xf_0000;
const MARKERS: usize = 0xfff0;

fn is_marker(c: char) -> bool {
    u32::from(c) >= FIRST_MARKER && u32::from(c) <= u32::from(CLUSTER)
}

/// The marker of a variable.
fn marker(at: usize) -> Option<char> {
    let at = u32::try_from(at).ok().filter(|_| at < MARKERS)?;
    char::from_u32(FIRST_MARKER + at)
}

/// A submit file that was understood.
#[derive(Debug, Clone, PartialEq)]
pub struct Submit {
    pub jobs: Vec<JobSpec>,
    /// Where the files of each job are named.
    pub places: Vec<Places>,
    pub tasks: u64,
    pub warnings: Vec<Warning>,
}

/// The jobs of a submit file.
pub fn read(text: &str, setting: &Setting, outside: &dyn Outside) -> Result<Submit, SubmitError> {
    let setting = Setting { cluster: None, ..setting.clone() };
    let mut jobs = jobs::Jobs::default();
    let mut tasks = 0;
    let warnings = walk(text, &setting, outside, Mode::Marked, &mut |task, plan, values| {
        tasks += 1;
        jobs.add(&task, plan, values)
    })?;
    let places = jobs.places();
    Ok(Submit { jobs: jobs.finish(&setting)?, places, tasks, warnings })
}

/// Every task with all its values, as HTCondor would have it; `setting` knows the cluster.
pub fn tasks(
    text: &str,
    setting: &Setting,
    outside: &dyn Outside,
) -> Result<(Vec<Task>, Vec<Warning>), SubmitError> {
    let mut all = Vec::new();
    let warnings = walk(text, setting, outside, Mode::Written, &mut |task, _, _| {
        all.push(task);
        Ok(())
    })?;
    Ok((all, warnings))
}

/// What is done with each task: with its plan, and the values of its variables.
type Visit<'a> = dyn FnMut(Task, &Plan, &[String]) -> Result<(), Wrong> + 'a;

fn walk(
    text: &str,
    setting: &Setting,
    outside: &dyn Outside,
    mode: Mode,
    visit: &mut Visit<'_>,
) -> Result<Vec<Warning>, SubmitError> {
    let mut reader = Reader::new(setting, outside);
    reader.read(text)?;
    let queued: Vec<Queued> = std::mem::take(&mut reader.queued);
    let mut warnings = std::mem::take(&mut reader.warnings);
    unused::refuse(&queued)?;
    let mut first = 0;
    let mut plans = Vec::with_capacity(queued.len());
    for queued in queued {
        let scope = reader.scope();
        let plan = Plan::new(queued, first, mode, &scope)?;
        first += plan.tasks();
        plans.push(plan);
    }
    for plan in &plans {
        let scope = Scope { macros: &plan.queued.macros, ..reader.scope() };
        let mut maker = Maker::new(plan, scope);
        for row in plan.rows() {
            let made = maker.make(row, &mut warnings);
            let task = made.map_err(|error| {
                let item = plan.item_of(&error.place, row);
                SubmitError { item, ..error }
            })?;
            let added = visit(task, plan, maker.values());
            added.map_err(|wrong| wrong.at(&plan.queued.place))?;
        }
    }
    warnings.extend(unused::warnings(&plans));
    warnings.extend(unused::unknown(&plans, reader.unknown.take()));
    // One of each, in the order of the file.
    let unique: BTreeSet<Warning> = warnings.into_iter().collect();
    Ok(unique.into_iter().collect())
}
