//! One task, in parts. A part that is the same for all tasks of a `queue` statement is made once
//! and shared.

use super::command_table::Key;
use super::error::{SubmitError, Warning};
use super::expand::Scope;
use super::macros::Live;
use super::needs::{self, Needs};
use super::plan::{Plan, Row, Values};
use super::program::{self, OWN_VARIABLES, PROGRAM, Program, VARIABLES, Variables};
use super::task_files::{self, FILES, Files};
use super::{CLUSTER, is_marker};
use std::fmt::Write;
use std::rc::Rc;

#[derive(Debug, Clone)]
pub struct Task {
    pub process: u64,
    pub program: Rc<Part<Program>>,
    /// Those that the file names.
    pub variables: Rc<Part<Variables>>,
    /// Those of the caller that `getenv` takes along; the others go over them.
    pub own_variables: Rc<Part<Variables>>,
    pub files: Rc<Part<Files>>,
    pub needs: Rc<Part<Needs>>,
}

impl Task {
    /// All its variables.
    pub fn environment(&self) -> Variables {
        let mut all = self.own_variables.value.clone();
        all.extend(self.variables.value.clone());
        all
    }
}

/// A part, the texts in it that may differ between tasks of one job, and what may not.
#[derive(Debug)]
pub struct Part<T> {
    pub value: T,
    pub(super) texts: Vec<Rc<str>>,
    pub(super) shape: String,
}

/// Most shapes are shorter.
const SHAPE_BYTES: usize = 256;

/// What has texts that may differ between tasks of one job.
pub trait Texts {
    fn texts_mut(&mut self) -> Vec<&mut String>;
}

impl Texts for Program {
    fn texts_mut(&mut self) -> Vec<&mut String> {
        let Program { executable, name, arguments, transferred: _ } = self;
        [executable, name].into_iter().chain(arguments).collect()
    }
}

impl Texts for Variables {
    fn texts_mut(&mut self) -> Vec<&mut String> {
        self.values_mut().collect()
    }
}

impl Texts for Files {
    fn texts_mut(&mut self) -> Vec<&mut String> {
        let Files { directory, input, output, error, log, inputs, outputs, remaps, .. } = self;
        let streams = [input, output, error, log].into_iter().flatten();
        let remapped = remaps.iter_mut().flat_map(|(name, path)| [name, path]);
        let listed = inputs.iter_mut().chain(outputs.iter_mut().flatten());
        [directory].into_iter().chain(streams).chain(listed).chain(remapped).collect()
    }
}

impl Texts for Needs {
    fn texts_mut(&mut self) -> Vec<&mut String> {
        Vec::new()
    }
}

impl<T: Texts + std::fmt::Debug> Part<T> {
    fn new(mut value: T) -> Rc<Part<T>> {
        let taken: Vec<String> = value.texts_mut().into_iter().map(std::mem::take).collect();
        for (place, text) in value.texts_mut().into_iter().zip(&taken) {
            // How often the id of the job stands in it must be the same: it is filled in later.
            let ids = text.matches(CLUSTER).count();
            if ids > 0 {
                *place = ids.to_string();
            }
        }
        let mut shape = String::with_capacity(SHAPE_BYTES);
        // A text takes all.
        let _ = write!(shape, "{value:?}");
        let texts = taken.iter().map(|text| Rc::from(text.as_str())).collect();
        for (place, text) in value.texts_mut().into_iter().zip(taken) {
            *place = text;
        }
        Rc::new(Part { value, texts, shape })
    }
}

impl<T: Texts + Clone + std::fmt::Debug> Part<T> {
    /// Whether both may be of one job.
    pub(super) fn is_like(self: &Rc<Self>, other: &Rc<Self>) -> bool {
        Rc::ptr_eq(self, other) || self.shape == other.shape
    }

    /// The same with the next texts of these.
    pub(super) fn with<'t>(&self, texts: &mut impl Iterator<Item = &'t Rc<str>>) -> Rc<Part<T>> {
        let mut value = self.value.clone();
        for (text, other) in value.texts_mut().into_iter().zip(texts) {
            *text = other.to_string();
        }
        Part::new(value)
    }
}

/// Makes the tasks of one plan.
pub(super) struct Maker<'a> {
    plan: &'a Plan,
    scope: Scope<'a>,
    live: Live,
    program: Cached<Program>,
    variables: Cached<Variables>,
    own_variables: Cached<Variables>,
    files: Cached<Files>,
    needs: Cached<Needs>,
}

/// A part, and whether it serves every task.
struct Cached<T> {
    known: bool,
    part: Option<Rc<Part<T>>>,
}

impl<T: Texts + Clone + std::fmt::Debug> Cached<T> {
    fn new(known: bool) -> Self {
        Cached { known, part: None }
    }

    fn get(
        &mut self,
        make: impl FnOnce() -> Result<T, SubmitError>,
    ) -> Result<Rc<Part<T>>, SubmitError> {
        if let Some(part) = self.part.as_ref().filter(|_| self.known) {
            return Ok(part.clone());
        }
        let part = Part::new(make()?);
        self.part = Some(part.clone());
        Ok(part)
    }
}

impl<'a> Maker<'a> {
    pub(super) fn new(plan: &'a Plan, scope: Scope<'a>) -> Self {
        let known = |keys: &[Key]| plan.is_known(keys);
        Maker {
            plan,
            scope,
            live: plan.live(),
            program: Cached::new(known(PROGRAM)),
            variables: Cached::new(known(VARIABLES)),
            own_variables: Cached::new(known(OWN_VARIABLES)),
            files: Cached::new(known(FILES)),
            needs: Cached::new(needs::is_fixed(plan)),
        }
    }

    pub(super) fn make(
        &mut self,
        row: Row<'_>,
        warnings: &mut Vec<Warning>,
    ) -> Result<Task, SubmitError> {
        row.fill(&mut self.live);
        let macros = &self.plan.queued.macros;
        let scope = Scope { macros, live: Some(&self.live), ..self.scope };
        let values = Values { plan: self.plan, scope, marked: true };
        let written = Values { marked: false, ..values };
        Ok(Task {
            process: row.process,
            program: self.program.get(|| program::program(&values))?,
            variables: self.variables.get(|| program::variables(&values))?,
            own_variables: self.own_variables.get(|| program::own_variables(&values))?,
            files: self.files.get(|| task_files::files(&values, warnings))?,
            needs: self.needs.get(|| needs::needs(&written, warnings))?,
        })
    }

    /// The values of the last task, by slot.
    pub(super) fn values(&self) -> &[String] {
        &self.live.values
    }
}

/// Adds a text with its variables in the place of their markers; the job's id stays marked.
pub(super) fn write_out<'v>(text: &str, out: &mut String, value: impl Fn(char) -> Option<&'v str>) {
    // Markers are of four bytes, and nothing else in most texts is.
    if text.is_ascii() {
        return out.push_str(text);
    }
    for c in text.chars() {
        match Some(c).filter(|c| is_marker(*c)).and_then(&value) {
            Some(value) => out.push_str(value),
            None => out.push(c),
        }
    }
}
