//! Replacing macros: `$(name)`, `$(name:default)` and functions such as `$Fn(name)`.
//!
//! It is replacing of text, as with HTCondor: what was put in is looked at again, together with
//! what follows it, and the innermost macro goes first. `$$(…)` is for the machine and stays.

use super::error::{SourcePosition, Wrong};
use super::functions;
use super::limits::{MAX_MACRO_DEPTH, MAX_VALUE_BYTES};
use super::macros::{Live, Macros};
use super::scan::{Found, Function, Meter, next_macro};
use super::{Outside, Setting};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

/// All that a value may depend on.
#[derive(Clone, Copy)]
pub(super) struct Scope<'a> {
    pub(super) macros: &'a Macros,
    pub(super) live: Option<&'a Live>,
    pub(super) setting: &'a Setting,
    pub(super) outside: &'a dyn Outside,
    pub(super) chance: &'a Chance,
    /// Work done so far, of all values.
    pub(super) work: &'a Cell<u64>,
    /// Leave what differs between tasks for later.
    pub(super) early: bool,
    /// Functions inside of what functions look at.
    pub(super) depth: usize,
    /// Of the value that all of them are for.
    pub(super) meter: Option<Meter<'a>>,
    /// The line whose value is asked for, if it is to hear of names that nobody gave a value.
    pub(super) asker: Option<&'a SourcePosition>,
    pub(super) unknown: &'a Unknown,
}

/// Names without a value that were asked for, each with the line that did.
#[derive(Debug, Default)]
pub(super) struct Unknown(RefCell<BTreeSet<(SourcePosition, String)>>);

/// Names that are remembered; nobody reads more warnings.
const MAX_UNKNOWN: usize = 100;

impl Unknown {
    pub(super) fn take(&self) -> BTreeSet<(SourcePosition, String)> {
        self.0.take()
    }
}

/// Numbers that look like chance, from the caller's seed.
#[derive(Debug)]
pub(super) struct Chance(Cell<u64>);

impl Chance {
    pub(super) fn new(seed: u64) -> Self {
        Chance(Cell::new(seed))
    }

    /// The generator known as SplitMix64: one word of state, and every word of it comes up once.
    pub(super) fn draw(&self) -> u64 {
        let state = self.0.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.0.set(state);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

/// What a step costs that moves no byte: looking up a name.
const STEP_WORK: usize = 100;

/// The name that stands for a `$` of its own.
const DOLLAR: &str = "dollar";

impl<'a> Scope<'a> {
    /// The text with its macros replaced; `what` is named when they have no end.
    pub(super) fn expand(&self, what: &str, text: &str) -> Result<String, Wrong> {
        let mut value = self.replace(what, text.to_string())?;
        if !self.early {
            self.dollars(what, &mut value)?;
        }
        Ok(value)
    }

    /// All but `$(DOLLAR)`.
    fn replace(&self, what: &str, mut value: String) -> Result<String, Wrong> {
        let meter = self.meter.unwrap_or_else(|| Meter::new(self.work));
        let mut from = 0;
        loop {
            meter.charge(STEP_WORK);
            let mut skipped = None;
            let skip = |found: &Found<'_>| {
                let later = found.name.eq_ignore_ascii_case(DOLLAR) || self.is_later(found);
                found.function == Function::Value && later
                    || found.function != Function::Value && self.early && self.waits(found, meter)
            };
            let Some(found) = next_macro(&value, from, meter, skip, &mut skipped) else {
                return meter.check(what).map(|()| value);
            };
            let put = functions::value(&self.deeper(what, meter)?, &found)?;
            let (start, end) = (found.start, found.end);
            // Text before it that was no macro may have become one by what was put in.
            from = skipped.unwrap_or(start).min(start);
            value.replace_range(start..end, &put);
            if value.len() > MAX_VALUE_BYTES {
                return Err(Wrong::LongValue(what.into()));
            }
            meter.charge(value.len() - start);
            meter.check(what)?;
        }
    }

    /// Only what refers to the name itself: `PATHS = $(PATHS):/more`.
    pub(super) fn expand_self(&self, own: &str, text: &str) -> Result<String, Wrong> {
        let mut value = text.to_string();
        let meter = self.meter.unwrap_or_else(|| Meter::new(self.work));
        let other = |found: &Found<'_>| {
            let replaced = matches!(found.function, Function::Value | Function::File);
            !replaced || !found.name.eq_ignore_ascii_case(own)
        };
        while let Some(found) = next_macro(&value, 0, meter, other, &mut None) {
            let put = functions::value(&self.deeper(own, meter)?, &found)?;
            let (start, end) = (found.start, found.end);
            value.replace_range(start..end, &put);
            if value.len() > MAX_VALUE_BYTES {
                return Err(Wrong::LongValue(own.into()));
            }
            meter.charge(value.len() + STEP_WORK);
            meter.check(own)?;
        }
        Ok(value)
    }

    /// For the values that a macro looks at.
    fn deeper(&self, what: &str, meter: Meter<'a>) -> Result<Self, Wrong> {
        if self.depth == MAX_MACRO_DEPTH {
            return Err(Wrong::Endless(what.into()));
        }
        Ok(Scope { depth: self.depth + 1, meter: Some(meter), ..*self })
    }

    fn is_later(&self, found: &Found<'_>) -> bool {
        self.early && self.live.is_some_and(|live| live.slot(found.name).is_some())
    }

    /// Whether a function cannot be worked out before the task is known.
    fn waits(&self, found: &Found<'_>, meter: Meter<'a>) -> bool {
        if matches!(found.function, Function::RandomChoice | Function::RandomInteger) {
            return true;
        }
        let Ok(inner) = self.deeper(found.name, meter) else { return true };
        let named = found.name.split(',').map(str::trim);
        named.filter(|name| !name.is_empty()).any(|name| {
            self.live.is_some_and(|live| live.slot(name).is_some())
                || self.macros.get(name).is_some_and(|entry| {
                    // What cannot be replaced now will say why when its task comes.
                    inner.replace(name, entry.value.to_string()).map_or(true, |text| {
                        let mut skipped = None;
                        next_macro(&text, 0, meter, |_| false, &mut skipped).is_some()
                    })
                })
        })
    }

    /// The value of a name as it is written, before anything in it is replaced.
    pub(super) fn look_up(&self, name: &str) -> Option<std::rc::Rc<str>> {
        if let Some(live) = self.live
            && let Some(slot) = live.slot(name)
        {
            // It is used, should the file also give it a value.
            self.macros.get(name);
            return live.values.get(slot).map(|value| value.as_str().into());
        }
        self.macros.get(name).map(|entry| entry.value.clone()).or_else(|| self.setting.value(name))
    }

    /// The name has no value, and nothing is put in for it.
    pub(super) fn note_unknown(&self, name: &str) {
        let Some(place) = self.asker else { return };
        let mut unknown = self.unknown.0.borrow_mut();
        if unknown.len() < MAX_UNKNOWN {
            unknown.insert((place.clone(), name.to_string()));
        }
    }

    /// A name's value with all of it replaced, or the text itself where it is no name.
    pub(super) fn named(&self, text: &str) -> Result<String, Wrong> {
        match self.look_up(text) {
            Some(value) => self.replace(text, value.to_string()),
            None => Ok(text.to_string()),
        }
    }

    fn dollars(&self, what: &str, value: &mut String) -> Result<(), Wrong> {
        if !value.contains("$(") {
            return Ok(());
        }
        let meter = Meter::new(self.work);
        let mut from = 0;
        let other = |found: &Found<'_>| {
            found.function != Function::Value || !found.name.eq_ignore_ascii_case(DOLLAR)
        };
        while let Some(found) = next_macro(value, from, meter, other, &mut None) {
            let (start, end) = (found.start, found.end);
            value.replace_range(start..end, "$");
            meter.charge(value.len() - start);
            from = start + 1;
        }
        meter.check(what)
    }
}
