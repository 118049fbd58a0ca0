//! Tasks that are alike become one job: what differs between them becomes rows of it.
//!
//! Tasks of equal needs with as many words, variables and files are alike. A text that differs is a
//! column of its own; a variable that stands in several texts is one column for all of them.

use super::error::{Place, ProblemText, SubmitError, Wrong};
use super::limits::MAX_JOBS;
use super::macros::{FIRST_VARIABLE, PROCESS, ROW, STEP};
use super::plan::Plan;
use super::spec::{Field, job_spec};
use super::task::{Task, written};
use super::{CLUSTER, FIRST_MARKER, Setting, marker};
use shipway_model::JobSpec;
use shipway_model::validate::validate;
use std::collections::BTreeMap;
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
    pub(super) rows: Vec<Rc<[Rc<str>]>>,
    processes: Vec<u64>,
    place: Place,
    /// The names of the variables of its tasks, by slot; all its tasks have the same.
    variables: Vec<String>,
    /// Texts that differ, by their place among all texts: the value of each task.
    pub(super) columns: BTreeMap<usize, Vec<Rc<str>>>,
}

impl Jobs {
    pub(super) fn add(
        &mut self,
        task: &Task,
        plan: &Plan,
        values: &[Rc<str>],
    ) -> Result<(), Wrong> {
        let same = self.last.filter(|at| self.groups[*at].shares_parts(task));
        let at = match same {
            Some(at) => at,
            None => self.group_of(task, plan)?,
        };
        self.last = Some(at);
        self.groups[at].add(task, values);
        Ok(())
    }

    fn group_of(&mut self, task: &Task, plan: &Plan) -> Result<usize, Wrong> {
        let Task { program, variables, files, needs, .. } = task;
        let names = plan.queued.variables.join("\n");
        let parts = [&program.shape, &variables.shape, &files.shape, &needs.shape, &names];
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
            rows: Vec::new(),
            processes: Vec::new(),
            place: plan.queued.place.clone(),
            variables: plan.queued.variables.clone(),
            columns: BTreeMap::new(),
        });
        Ok(at)
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
    fn shares_parts(&self, task: &Task) -> bool {
        Rc::ptr_eq(&self.first.program, &task.program)
            && Rc::ptr_eq(&self.first.variables, &task.variables)
            && Rc::ptr_eq(&self.first.files, &task.files)
            && Rc::ptr_eq(&self.first.needs, &task.needs)
    }

    fn add(&mut self, task: &Task, values: &[Rc<str>]) {
        let row: Rc<[Rc<str>]> = values.into();
        if !(self.columns.is_empty() && self.shares_parts(task)) {
            let pairs = texts(&self.first).zip(texts(task)).enumerate();
            let mut changed = Vec::new();
            for (at, (common, text)) in pairs {
                match self.columns.get_mut(&at) {
                    Some(column) => column.push(put(text, &row)),
                    None if Rc::ptr_eq(common, text) || common == text => {}
                    None => changed.push((at, common.clone(), put(text, &row))),
                }
            }
            for (at, common, value) in changed {
                let mut column: Vec<Rc<str>> =
                    self.rows.iter().map(|row| put(&common, row)).collect();
                column.push(value);
                self.columns.insert(at, column);
            }
        }
        self.rows.push(row);
        self.processes.push(task.process);
    }

    fn finish(mut self, setting: &Setting) -> JobSpec {
        let alone = self.rows.len() == 1;
        if alone {
            // What does not differ from any other needs no row.
            let row = self.rows[0].clone();
            let values: Vec<Rc<str>> = texts(&self.first).map(|text| put(text, &row)).collect();
            let task = with_texts(&self.first, &values);
            return job_spec(&task, &[], None, setting);
        }
        let columns = std::mem::take(&mut self.columns);
        let (fields, texts) = self.fields(columns);
        let task = with_texts(&self.first, &texts);
        job_spec(&task, &fields, Some(&self.processes), setting)
    }

    /// The columns as fields, and all texts with markers where fields are put in.
    fn fields(&self, columns: BTreeMap<usize, Vec<Rc<str>>>) -> (Vec<Field>, Vec<Rc<str>>) {
        let mut all: Vec<Rc<str>> = texts(&self.first).cloned().collect();
        let mut fields = self.variable_fields(&all, &columns);
        let names = text_names(&self.first);
        let mut next = FIRST_VARIABLE + self.variables.len();
        for (at, values) in columns {
            let pieces = values.first().map_or(1, |value| value.split(CLUSTER).count());
            let mut text = String::new();
            for piece in 0..pieces {
                let Some(mark) = marker(next) else { continue };
                next += 1;
                if piece > 0 {
                    text.push(CLUSTER);
                }
                text.push(mark);
                let part =
                    |value: &Rc<str>| Rc::from(value.split(CLUSTER).nth(piece).unwrap_or_default());
                let values = values.iter().map(part).collect();
                let name =
                    if pieces == 1 { names[at].clone() } else { format!("{}_{piece}", names[at]) };
                fields.push(Field { marker: mark, name, values });
            }
            all[at] = text.into();
        }
        (fields, all)
    }

    /// The variables that stand in texts that are the same for all.
    fn variable_fields(
        &self,
        texts: &[Rc<str>],
        columns: &BTreeMap<usize, Vec<Rc<str>>>,
    ) -> Vec<Field> {
        let common = || texts.iter().enumerate().filter(|(at, _)| !columns.contains_key(at));
        let slots = FIRST_VARIABLE + self.variables.len();
        let used = |slot: &usize| {
            let mark = marker(*slot);
            common().any(|(_, text)| text.chars().any(|c| Some(c) == mark))
        };
        let name = |slot: usize| match slot {
            PROCESS => "Process".to_string(),
            STEP => "Step".to_string(),
            ROW => "Row".to_string(),
            slot => self.variables[slot - FIRST_VARIABLE].clone(),
        };
        let field = |slot: usize| {
            let values = self.rows.iter().map(|row| row[slot].clone()).collect();
            Some(Field { marker: marker(slot)?, name: name(slot), values })
        };
        (0..slots).filter(used).filter_map(field).collect()
    }
}

/// All texts of a task that may differ from those of others, always in the same order.
fn texts(task: &Task) -> impl Iterator<Item = &Rc<str>> {
    task.program.texts.iter().chain(&task.variables.texts).chain(&task.files.texts)
}

/// A name for each of them.
fn text_names(task: &Task) -> Vec<String> {
    let arguments = (1..).map(|at| format!("arg{at}"));
    let program = ["executable".to_string(), "program".to_string()].into_iter().chain(arguments);
    let variables = task.variables.value.keys().map(|name| format!("env_{name}"));
    let files = (0..).map(|at| format!("file{at}"));
    let sizes = (task.program.texts.len(), task.files.texts.len());
    program.take(sizes.0).chain(variables).chain(files.take(sizes.1)).collect()
}

/// The task with other texts.
fn with_texts(task: &Task, texts: &[Rc<str>]) -> Task {
    let mut texts = texts.iter();
    let program = task.program.with(&mut texts);
    let variables = task.variables.with(&mut texts);
    let files = task.files.with(&mut texts);
    Task { process: task.process, program, variables, files, needs: task.needs.clone() }
}

/// A text with the values of a row.
fn put(text: &str, row: &[Rc<str>]) -> Rc<str> {
    written(text, |c| {
        let at = usize::try_from(u32::from(c).checked_sub(FIRST_MARKER)?).ok()?;
        row.get(at).cloned()
    })
}
