//! Tasks that are alike become one job: what differs between them becomes rows of it.
//!
//! Tasks of equal needs with as many words, variables and files are alike. A text that differs is a
//! column of its own; a variable that stands in several texts is one column for all of them.
#![expect(
    clippy::indexing_slicing,
    reason = "places of groups, texts and slots that this module gives out itself"
)]

use super::error::{ProblemText, SourcePosition, SubmitError, Wrong};
use super::limits::MAX_JOBS;
use super::macros::{FIRST_VARIABLE, PROCESS, ROW, STEP};
use super::plan::Plan;
use super::present::Places;
use super::spec::{Field, job_spec};
use super::task::{Task, write_out};
use super::{CLUSTER, FIRST_MARKER, Setting, marker};
use shipway_model::validate::validate;
use shipway_model::{JobSpec, TextList};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::rc::Rc;

#[derive(Default)]
pub(super) struct Jobs {
    groups: Vec<Group>,
    /// The group of tasks of this shape.
    by_shape: BTreeMap<String, usize>,
    /// The group of the task before, for the many that are like it.
    last: Option<usize>,
}

/// Tasks that are alike.
pub(super) struct Group {
    pub(super) first: Task,
    /// The values of the variables, by slot: that of each task.
    values: Vec<TextList>,
    processes: Vec<u64>,
    place: SourcePosition,
    places: Places,
    /// The names of the variables of its tasks, by slot; all its tasks have the same.
    variables: Vec<String>,
    /// Texts that differ, by their place among all texts: the value of each task.
    columns: BTreeMap<usize, TextList>,
}

impl Jobs {
    pub(super) fn add(&mut self, task: &Task, plan: &Plan, values: &[String]) -> Result<(), Wrong> {
        let same = self.last.filter(|at| self.groups[*at].is_like(task, plan));
        let at = match same {
            Some(at) => at,
            None => self.group_of(task, plan)?,
        };
        self.last = Some(at);
        self.groups[at].add(task, values);
        Ok(())
    }

    fn group_of(&mut self, task: &Task, plan: &Plan) -> Result<usize, Wrong> {
        let Task { program, variables, own_variables, files, needs, .. } = task;
        let names = plan.queued.variables.join("\n");
        let own = &own_variables.shape;
        let parts = [&program.shape, &variables.shape, own, &files.shape, &needs.shape, &names];
        let shape = parts.map(String::as_str).join("\0");
        if let Some(at) = self.by_shape.get(&shape) {
            return Ok(*at);
        }
        if self.groups.len() == MAX_JOBS {
            return Err(Wrong::ManyJobs);
        }
        let at = self.groups.len();
        self.by_shape.insert(shape, at);
        self.groups.push(Group {
            first: task.clone(),
            values: vec![TextList::default(); FIRST_VARIABLE + plan.queued.variables.len()],
            processes: Vec::new(),
            place: plan.queued.place.clone(),
            places: Places::of(plan, task),
            variables: plan.queued.variables.clone(),
            columns: BTreeMap::new(),
        });
        Ok(at)
    }

    pub(super) fn places(&self) -> Vec<Places> {
        self.groups.iter().map(|group| group.places.clone()).collect()
    }

    pub(super) fn finish(self, setting: &Setting) -> Result<Vec<JobSpec>, SubmitError> {
        let finish = |group: Group| {
            let place = group.place.clone();
            let spec = group.finish(setting);
            let problems = validate(&spec).err().unwrap_or_default();
            match problems.into_iter().next() {
                None => Ok(spec),
                Some(problem) => Err(Wrong::Problem(ProblemText::from(problem)).at(&place)),
            }
        };
        self.groups.into_iter().map(finish).collect()
    }
}

impl Group {
    /// Whether a task belongs to it, without a look at the others.
    fn is_like(&self, task: &Task, plan: &Plan) -> bool {
        let first = &self.first;
        first.program.is_like(&task.program)
            && first.variables.is_like(&task.variables)
            && first.own_variables.is_like(&task.own_variables)
            && first.files.is_like(&task.files)
            && first.needs.is_like(&task.needs)
            && self.variables == plan.queued.variables
    }

    fn shares_parts(&self, task: &Task) -> bool {
        Rc::ptr_eq(&self.first.program, &task.program)
            && Rc::ptr_eq(&self.first.variables, &task.variables)
            && Rc::ptr_eq(&self.first.own_variables, &task.own_variables)
            && Rc::ptr_eq(&self.first.files, &task.files)
            && Rc::ptr_eq(&self.first.needs, &task.needs)
    }

    fn add(&mut self, task: &Task, values: &[String]) {
        if !(self.columns.is_empty() && self.shares_parts(task)) {
            self.compare(task, values);
        }
        for (list, value) in self.values.iter_mut().zip(values) {
            list.push(value);
        }
        self.processes.push(task.process);
    }

    /// Texts that differ from those of the first task get a column.
    fn compare(&mut self, task: &Task, values: &[String]) {
        for (at, (common, text)) in texts(&self.first).zip(texts(task)).enumerate() {
            let column = match self.columns.entry(at) {
                Entry::Occupied(entry) => entry.into_mut(),
                Entry::Vacant(_) if Rc::ptr_eq(common, text) || common == text => continue,
                Entry::Vacant(entry) => {
                    let mut column = TextList::default();
                    for row in 0..self.processes.len() {
                        column.push_written(|out| {
                            put(common, out, |slot| self.values.get(slot)?.get(row));
                        });
                    }
                    entry.insert(column)
                }
            };
            column.push_written(|out| put(text, out, |slot| values.get(slot).map(String::as_str)));
        }
    }

    fn finish(mut self, setting: &Setting) -> JobSpec {
        let alone = self.processes.len() == 1;
        if alone {
            // What does not differ from any other needs no row.
            let whole = |text: &Rc<str>| {
                let mut out = String::new();
                put(text, &mut out, |slot| self.values.get(slot)?.get(0));
                Rc::from(out)
            };
            let values: Vec<Rc<str>> = texts(&self.first).map(whole).collect();
            let task = with_texts(&self.first, &values);
            return job_spec(&task, Vec::new(), None, setting);
        }
        let columns = std::mem::take(&mut self.columns);
        let (fields, texts) = self.fields(columns);
        let task = with_texts(&self.first, &texts);
        job_spec(&task, fields, Some(&self.processes), setting)
    }

    /// The columns as fields, and all texts with markers where fields are put in.
    fn fields(&mut self, columns: BTreeMap<usize, TextList>) -> (Vec<Field>, Vec<Rc<str>>) {
        let mut all: Vec<Rc<str>> = texts(&self.first).cloned().collect();
        let mut fields = self.variable_fields(&all, &columns);
        let names = text_names(&self.first);
        let mut next = FIRST_VARIABLE + self.variables.len();
        for (at, values) in columns {
            let pieces = pieces(values);
            let alone = pieces.len() == 1;
            let mut text = String::new();
            for (piece, values) in pieces.into_iter().enumerate() {
                let Some(mark) = marker(next) else { continue };
                next += 1;
                if piece > 0 {
                    text.push(CLUSTER);
                }
                text.push(mark);
                let name = if alone { names[at].clone() } else { format!("{}_{piece}", names[at]) };
                fields.push(Field { marker: mark, name, values });
            }
            all[at] = text.into();
        }
        (fields, all)
    }

    /// The variables that stand in texts that are the same for all.
    fn variable_fields(
        &mut self,
        texts: &[Rc<str>],
        columns: &BTreeMap<usize, TextList>,
    ) -> Vec<Field> {
        let common = || texts.iter().enumerate().filter(|(at, _)| !columns.contains_key(at));
        let slots = FIRST_VARIABLE + self.variables.len();
        let used = |slot: &usize| {
            let mark = marker(*slot);
            common().any(|(_, text)| text.chars().any(|c| Some(c) == mark))
        };
        let names = &self.variables;
        let name = |slot: usize| match slot {
            PROCESS => "Process".to_string(),
            STEP => "Step".to_string(),
            ROW => "Row".to_string(),
            slot => names[slot - FIRST_VARIABLE].clone(),
        };
        let field = |slot: usize| {
            let values = std::mem::take(&mut self.values[slot]);
            Some(Field { marker: marker(slot)?, name: name(slot), values })
        };
        (0..slots).filter(used).filter_map(field).collect()
    }
}

/// All texts of a task that may differ from those of others, always in the same order.
fn texts(task: &Task) -> impl Iterator<Item = &Rc<str>> {
    let variables = task.variables.texts.iter().chain(&task.own_variables.texts);
    task.program.texts.iter().chain(variables).chain(&task.files.texts)
}

/// A name for each of them.
fn text_names(task: &Task) -> Vec<String> {
    let arguments = (1..).map(|at| format!("arg{at}"));
    let program = ["executable".to_string(), "program".to_string()].into_iter().chain(arguments);
    let keys = task.variables.value.keys().chain(task.own_variables.value.keys());
    let variables = keys.map(|name| format!("env_{name}"));
    let files = (0..).map(|at| format!("file{at}"));
    let sizes = (task.program.texts.len(), task.files.texts.len());
    program.take(sizes.0).chain(variables).chain(files.take(sizes.1)).collect()
}

/// The task with other texts.
fn with_texts(task: &Task, texts: &[Rc<str>]) -> Task {
    let mut texts = texts.iter();
    let program = task.program.with(&mut texts);
    let variables = task.variables.with(&mut texts);
    let own_variables = task.own_variables.with(&mut texts);
    let files = task.files.with(&mut texts);
    let needs = task.needs.clone();
    Task { process: task.process, program, variables, own_variables, files, needs }
}

/// A text with the values of a row.
fn put<'v>(text: &str, out: &mut String, value: impl Fn(usize) -> Option<&'v str>) {
    write_out(text, out, |c| {
        let slot = usize::try_from(u32::from(c).checked_sub(FIRST_MARKER)?).ok()?;
        value(slot)
    });
}

/// What stands between the ids of the job, which all of them have as often.
fn pieces(values: TextList) -> Vec<TextList> {
    let count = values.get(0).map_or(1, |value| value.split(CLUSTER).count());
    if count == 1 {
        return vec![values];
    }
    let part = |piece: usize| -> TextList {
        values.iter().map(|value| value.split(CLUSTER).nth(piece).unwrap_or_default()).collect()
    };
    (0..count).map(part).collect()
}
