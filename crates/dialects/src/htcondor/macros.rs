//! The names a submit file has given values to, and those that have one without being asked.
//!
//! Names are the same in any case. Values are kept as written: what stands in them is replaced when
//! they are used (`expand.rs`).

use super::error::SourcePosition;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

#[derive(Debug, Clone)]
pub(super) struct Macro {
    /// As it was written.
    pub(super) name: String,
    pub(super) value: Rc<str>,
    pub(super) place: SourcePosition,
    used: Cell<bool>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Macros {
    table: BTreeMap<String, Macro>,
}

impl Macros {
    pub(super) fn set(&mut self, name: &str, value: &str, place: SourcePosition) {
        let key = name.to_ascii_lowercase();
        let used = self.table.get(&key).is_some_and(|old| old.used.get());
        let entry = Macro { name: name.into(), value: value.into(), place, used: Cell::new(used) };
        self.table.insert(key, entry);
    }

    /// For whoever replaces `$(name)`; it counts as used then.
    pub(super) fn get(&self, name: &str) -> Option<&Macro> {
        let found = if name.bytes().any(|byte| byte.is_ascii_uppercase()) {
            self.table.get(&name.to_ascii_lowercase())
        } else {
            self.table.get(name)
        };
        found.inspect(|entry| entry.used.set(true))
    }

    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    /// In the order of their names, in small letters.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &Macro)> {
        self.table.iter().map(|(key, entry)| (key.as_str(), entry))
    }
}

impl Macro {
    pub(super) fn is_used(&self) -> bool {
        self.used.get()
    }
}

/// What changes from task to task: the numbers of a task, and the variables of `queue`.
#[derive(Debug, Clone, Default)]
pub(super) struct Live {
    /// In small letters, with the slot of its value.
    names: Vec<(String, usize)>,
    pub(super) values: Vec<String>,
    used: Vec<Cell<bool>>,
}

/// Slots of the numbers that every task has.
pub(super) const PROCESS: usize = 0;
pub(super) const STEP: usize = 1;
pub(super) const ROW: usize = 2;
/// The slot of the first variable of `queue`.
pub(super) const FIRST_VARIABLE: usize = 3;

impl Live {
    pub(super) fn new(variables: &[String]) -> Self {
        let numbers = [
            ("process", PROCESS),
            ("procid", PROCESS),
            ("step", STEP),
            ("row", ROW),
            ("itemindex", ROW),
        ];
        // Later ones first: a variable may have the name of a number, and the last one wins.
        let of_queue = variables.iter().enumerate().rev();
        let mut names: Vec<(String, usize)> =
            of_queue.map(|(at, name)| (name.to_ascii_lowercase(), FIRST_VARIABLE + at)).collect();
        names.extend(numbers.map(|(name, slot)| (name.to_string(), slot)));
        let slots = FIRST_VARIABLE + variables.len();
        Live { names, values: vec![String::new(); slots], used: vec![Cell::new(false); slots] }
    }

    /// For whoever puts it in; it counts as used then.
    pub(super) fn slot(&self, name: &str) -> Option<usize> {
        let found = self.names.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, at)| *at).inspect(|at| {
            if let Some(used) = self.used.get(*at) {
                used.set(true);
            }
        })
    }

    pub(super) fn is_used(&self, slot: usize) -> bool {
        self.used.get(slot).is_some_and(Cell::get)
    }
}
