//! One `queue` statement, ready to be turned into tasks: each command's value, prepared once.

use super::command_table::Key;
use super::error::{SourcePosition, SubmitError, Warning, Wrong};
use super::evaluate;
use super::expand::Scope;
use super::macros::{FIRST_VARIABLE, Live, PROCESS, ROW, STEP};
use super::queue::fields;
use super::reader::Queued;
use super::template::{Template, is_plain};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::rc::Rc;

/// A command as it stands in the file.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) place: SourcePosition,
    template: Template,
    /// What is known of it without a task.
    known: Option<Rc<str>>,
    /// Written as `+Name`, where texts are quoted.
    attribute: bool,
}

#[derive(Debug)]
pub(super) struct Plan {
    pub(super) queued: Queued,
    pub(super) entries: BTreeMap<Key, Entry>,
    /// `request_NAME` of things that a site counts.
    pub(super) named: Vec<(String, Entry)>,
    /// `+Name = value` that is no command.
    pub(super) attributes: Vec<(String, Entry)>,
    /// The number of its first task.
    pub(super) first: u64,
    names: Live,
    /// Variables that are marked, not put in.
    pub(super) marked: Vec<bool>,
}

/// Whether variables become markers, so that one value serves all tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Marked,
    Written,
}

const ATTRIBUTE: &str = "my.";
const REQUEST: &str = "request_";

impl Plan {
    pub(super) fn new(
        queued: Queued,
        first: u64,
        mode: Mode,
        scope: &Scope<'_>,
    ) -> Result<Plan, SubmitError> {
        let names = Live::new(&queued.variables);
        let marked = if mode == Mode::Marked {
            plain_slots(&queued)
        } else {
            vec![false; names.values.len()]
        };
        let (entries, named, attributes) = (BTreeMap::new(), Vec::new(), Vec::new());
        let mut plan = Plan { queued, entries, named, attributes, first, names, marked };
        plan.prepare(scope)?;
        Ok(plan)
    }

    fn prepare(&mut self, scope: &Scope<'_>) -> Result<(), SubmitError> {
        let scope = Scope { macros: &self.queued.macros, live: Some(&self.names), ..*scope };
        for key in Key::all() {
            // HTCondor puts an attribute of the job's ad over the command.
            let attribute = key.names().map(|name| format!("{ATTRIBUTE}{name}"));
            let names = attribute.chain(key.names().map(str::to_string));
            for name in names {
                let Some(entry) = entry(&scope, &name, &self.marked)? else { continue };
                if entry.known.as_deref() != Some("") {
                    self.entries.insert(key, entry);
                    break;
                }
            }
        }
        for (key, _) in self.queued.macros.iter() {
            let named = key.strip_prefix(REQUEST).filter(|name| name.len() > 1);
            let known = |name: &str| super::commands::fate(name).is_some();
            if let Some(name) = named.filter(|_| !known(key)) {
                let entry = entry(&scope, key, &self.marked)?;
                self.named.extend(entry.map(|entry| (name.to_string(), entry)));
            }
            let own = key.strip_prefix(ATTRIBUTE).filter(|name| !known(name));
            if let Some(name) = own {
                let entry = entry(&scope, key, &self.marked)?;
                self.attributes.extend(entry.map(|entry| (name.to_string(), entry)));
            }
        }
        Ok(())
    }

    /// Tasks in order: their numbers, and the values of their variables.
    pub(super) fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        let count = self.queued.count;
        self.queued.items.iter().enumerate().flat_map(move |(at, (position, text))| {
            (0..count).map(move |step| Row {
                process: self.first + at as u64 * count + step,
                step,
                item: *position,
                text,
            })
        })
    }

    pub(super) fn tasks(&self) -> u64 {
        self.queued.count * self.queued.items.len() as u64
    }

    /// With room for the values of a task.
    pub(super) fn live(&self) -> Live {
        self.names.clone()
    }

    /// Whether all of these are known without a task.
    pub(super) fn is_known(&self, keys: &[Key]) -> bool {
        keys.iter().all(|key| self.entries.get(key).is_none_or(|entry| entry.known.is_some()))
    }

    /// Whether all of these are the same for every task.
    pub(super) fn is_fixed(&self, keys: &[Key]) -> bool {
        let entries = keys.iter().filter_map(|key| self.entries.get(key));
        let own = self.named.iter().chain(&self.attributes).map(|(_, entry)| entry);
        entries.chain(own).all(|entry| entry.template.fixed().is_some())
    }

    /// The item of a task, where what is written in this line differs between items.
    pub(super) fn item_of(&self, place: &SourcePosition, row: Row<'_>) -> Option<String> {
        let own = self.named.iter().chain(&self.attributes).map(|(_, entry)| entry);
        let mut written = self.entries.values().chain(own).filter(|entry| entry.place == *place);
        let differs = written.any(|entry| entry.template.fixed().is_none());
        (differs && !self.queued.variables.is_empty()).then(|| row.text.to_string())
    }

    /// Whether a value depends on this variable of `queue`.
    pub(super) fn uses(&self, variable: usize) -> bool {
        self.names.is_used(FIRST_VARIABLE + variable)
    }

    pub(super) fn has(&self, key: Key) -> bool {
        self.entries.contains_key(&key)
    }

    pub(super) fn place(&self, key: Key) -> SourcePosition {
        self.entries.get(&key).map_or_else(|| self.queued.place.clone(), |e| e.place.clone())
    }
}

/// One task of a plan.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row<'a> {
    pub(super) process: u64,
    pub(super) step: u64,
    /// The position of its item.
    pub(super) item: usize,
    pub(super) text: &'a str,
}

impl Row<'_> {
    /// Puts its values where macros find them. What does not change is left as it is.
    pub(super) fn fill(&self, live: &mut Live) {
        let number = |value: &mut String, number: u64| {
            value.clear();
            // A text takes all.
            let _ = write!(value, "{number}");
        };
        let numbers = [(PROCESS, self.process), (STEP, self.step), (ROW, self.item as u64)];
        for (slot, of) in numbers {
            if let Some(value) = live.values.get_mut(slot) {
                number(value, of);
            }
        }
        let variables = live.values.get_mut(FIRST_VARIABLE..).unwrap_or_default();
        if !variables.is_empty() && self.step == 0 {
            let fields = fields(self.text, variables.len());
            for (value, field) in variables.iter_mut().zip(fields) {
                value.clear();
                value.push_str(field);
            }
        }
    }
}

fn entry(scope: &Scope<'_>, name: &str, marked: &[bool]) -> Result<Option<Entry>, SubmitError> {
    let Some(found) = scope.macros.get(name) else { return Ok(None) };
    let place = found.place.clone();
    let asking = Scope { asker: Some(&place), ..*scope };
    let template =
        Template::new(&asking, &found.name, &found.value).map_err(|wrong| wrong.at(&place))?;
    let known = template.marked(marked);
    let attribute = name.starts_with(ATTRIBUTE);
    Ok(Some(Entry { name: found.name.clone(), place, template, known, attribute }))
}

/// Which slots have plain values in every task: numbers always.
fn plain_slots(queued: &Queued) -> Vec<bool> {
    let variables = queued.variables.len();
    let mut plain = vec![true; FIRST_VARIABLE + variables];
    if variables > 0 {
        for (_, text) in &queued.items {
            let slots = plain.iter_mut().skip(FIRST_VARIABLE);
            for (plain, field) in slots.zip(fields(text, variables)) {
                *plain &= is_plain(field);
            }
        }
    }
    plain
}

/// The values of one task.
#[derive(Clone, Copy)]
pub(super) struct Values<'a> {
    pub(super) plan: &'a Plan,
    pub(super) scope: Scope<'a>,
    /// Variables may stand as markers; otherwise every value is that of the task.
    pub(super) marked: bool,
}

impl Values<'_> {
    /// A command's value; an empty one is as good as none.
    pub(super) fn get(&self, key: Key) -> Result<Option<Rc<str>>, SubmitError> {
        let Some(entry) = self.plan.entries.get(&key) else { return Ok(None) };
        let value = self.of(entry)?;
        Ok(Some(value).filter(|value| !value.is_empty()))
    }

    pub(super) fn of(&self, entry: &Entry) -> Result<Rc<str>, SubmitError> {
        let value = self.raw(entry)?;
        match entry.attribute.then(|| evaluate::text(&value)).flatten() {
            Some(text) => Ok(text.into()),
            None => without_machine(value, entry),
        }
    }

    /// An attribute with its quotes.
    pub(super) fn raw(&self, entry: &Entry) -> Result<Rc<str>, SubmitError> {
        if let Some(known) = entry.known.as_ref().filter(|_| self.marked) {
            return Ok(known.clone());
        }
        let asking = Scope { asker: Some(&entry.place), ..self.scope };
        let made = entry.template.of_task(&asking, &entry.name);
        made.map_err(|wrong| wrong.at(&entry.place))
    }

    pub(super) fn truth(&self, key: Key, usual: bool) -> Result<bool, SubmitError> {
        let Some(text) = self.get(key)? else { return Ok(usual) };
        let wrong = || self.wrong(key, format!("`{text}` is neither true nor false"));
        evaluate::truth(&text).ok_or_else(wrong)
    }

    pub(super) fn whole(&self, key: Key) -> Result<Option<i64>, SubmitError> {
        let Some(text) = self.get(key)? else { return Ok(None) };
        let wrong = || self.wrong(key, format!("`{text}` is not a whole number"));
        evaluate::whole(&text).map(Some).ok_or_else(wrong)
    }

    pub(super) fn wrong(&self, key: Key, what: impl Into<String>) -> SubmitError {
        Wrong::value(&self.name(key), what).at(&self.plan.place(key))
    }

    pub(super) fn refused(&self, key: Key, why: impl Into<String>) -> SubmitError {
        let wrong = Wrong::Refused { command: self.name(key), why: why.into() };
        wrong.at(&self.plan.place(key))
    }

    pub(super) fn warning(&self, key: Key, what: impl std::fmt::Display) -> Warning {
        Warning { place: self.plan.place(key), what: format!("{} {what}", self.name(key)) }
    }

    /// As the user wrote it.
    fn name(&self, key: Key) -> String {
        let entry = self.plan.entries.get(&key);
        entry.map_or_else(|| key.name().to_string(), |entry| entry.name.clone())
    }
}

/// `$$(name)` is for the machine a task runs on, which is not known before it starts.
fn without_machine(value: Rc<str>, entry: &Entry) -> Result<Rc<str>, SubmitError> {
    if !value.contains("$$(") {
        return Ok(value);
    }
    let why = "`$$(…)` is a value of the machine, which is known only when a task starts; \
               the task finds such things in its environment";
    Err(Wrong::Refused { command: entry.name.clone(), why: why.into() }.at(&entry.place))
}
