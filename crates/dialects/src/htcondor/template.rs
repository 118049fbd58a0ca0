//! A value of which all is replaced that is the same for every task: what is left to do for one
//! task is putting pieces together.

use super::error::Wrong;
use super::expand::Scope;
use super::macros::Live;
use super::scan::{Function, Meter, next_macro};
use super::{CLUSTER, marker};
use std::rc::Rc;

#[derive(Debug, Clone)]
pub(super) enum Template {
    /// The same for every task.
    Fixed(Rc<str>),
    /// Texts and the values of variables.
    Pieces(Vec<Piece>),
    /// Functions of variables, names made of variables: to be replaced for each task.
    Whole(String),
}

#[derive(Debug, Clone)]
pub(super) enum Piece {
    Text(String),
    Slot(usize),
}

impl Template {
    /// The scope knows which names are variables, not their values.
    #[expect(clippy::string_slice, reason = "cut where macros begin and end")]
    pub(super) fn new(scope: &Scope<'_>, what: &str, text: &str) -> Result<Template, Wrong> {
        let early = Scope { early: true, ..*scope };
        let text = early.expand(what, text)?;
        let late = Scope { early: false, ..*scope };
        let Some(live) = scope.live else {
            return Ok(Template::Fixed(late.expand(what, &text)?.into()));
        };
        let meter = Meter::new(scope.work);
        let mut pieces = Vec::new();
        let mut at = 0;
        while let Some(found) = next_macro(&text, at, meter, |_| false, &mut None) {
            let slot = live
                .slot(found.name)
                .filter(|_| found.function == Function::Value && found.default.is_none());
            let Some(slot) = slot else {
                // `$(DOLLAR)` alone needs no task.
                let fixed = !uses_live(&text, live, meter);
                return Ok(if fixed {
                    Template::Fixed(late.expand(what, &text)?.into())
                } else {
                    Template::Whole(text)
                });
            };
            pieces.push(Piece::Text(text[at..found.start].into()));
            pieces.push(Piece::Slot(slot));
            at = found.end;
        }
        meter.check(what)?;
        if pieces.is_empty() {
            return Ok(Template::Fixed(text.into()));
        }
        pieces.push(Piece::Text(text[at..].into()));
        // A `$` beside a variable may become a macro with it.
        let suspicious = |piece: &Piece| matches!(piece, Piece::Text(text) if text.contains('$'));
        if pieces.iter().any(suspicious) {
            return Ok(Template::Whole(text));
        }
        Ok(Template::Pieces(pieces))
    }

    /// With markers for variables; `None` when it takes a task to know. Only variables with plain
    /// values can be marked: others could change how the value is split.
    pub(super) fn marked(&self, plain: &[bool]) -> Option<Rc<str>> {
        let pieces = match self {
            Template::Fixed(text) => return Some(text.clone()),
            Template::Whole(_) => return None,
            Template::Pieces(pieces) => pieces,
        };
        let mut out = String::new();
        for piece in pieces {
            match piece {
                Piece::Text(text) => out.push_str(text),
                Piece::Slot(slot) if plain.get(*slot) == Some(&true) => out.push(marker(*slot)?),
                Piece::Slot(_) => return None,
            }
        }
        Some(out.into())
    }

    pub(super) fn fixed(&self) -> Option<Rc<str>> {
        match self {
            Template::Fixed(text) => Some(text.clone()),
            Template::Pieces(_) | Template::Whole(_) => None,
        }
    }

    /// For the task whose values the scope has.
    pub(super) fn of_task(&self, scope: &Scope<'_>, what: &str) -> Result<Rc<str>, Wrong> {
        let values = scope.live.map_or(&[][..], |live| live.values.as_slice());
        match self {
            Template::Fixed(text) => Ok(text.clone()),
            Template::Whole(text) => Ok(scope.expand(what, text)?.into()),
            Template::Pieces(pieces) => {
                let mut out = String::with_capacity(64);
                for piece in pieces {
                    match piece {
                        Piece::Text(text) => out.push_str(text),
                        Piece::Slot(slot) => {
                            out.push_str(values.get(*slot).map_or("", String::as_str));
                        }
                    }
                }
                scope.work.set(scope.work.get() + out.len() as u64);
                // A value may have macros of its own.
                if out.contains('$') {
                    return Ok(scope.expand(what, &out)?.into());
                }
                Ok(out.into())
            }
        }
    }
}

/// Whether any variable or function that waits for a task is left.
fn uses_live(text: &str, live: &Live, meter: Meter<'_>) -> bool {
    let settled = |found: &super::scan::Found<'_>| {
        found.function == Function::Value && live.slot(found.name).is_none()
    };
    next_macro(text, 0, meter, settled, &mut None).is_some()
        || text.contains("$(") && nested(text, live)
}

/// `$(a$(Process))`: the outer name is known when the inner one is.
fn nested(text: &str, live: &Live) -> bool {
    text.split("$(").skip(1).any(|rest| {
        let name = rest.split([')', ':']).next().unwrap_or_default();
        live.slot(name).is_some()
    })
}

/// A value that can stand in any text without changing how it is split, or where a path begins.
pub(super) fn is_plain(value: &str) -> bool {
    let safe = |c: char| {
        c.is_ascii_alphanumeric() || "_.-+/:@%^~".contains(c) || (!c.is_ascii() && c != CLUSTER)
    };
    !value.is_empty()
        && !value.starts_with('/')
        && !value.ends_with('/')
        && !value.contains("://")
        && !value.split('/').any(|part| matches!(part, "" | "." | ".."))
        && value.chars().all(safe)
}
