//! Lines of a submit file that do nothing here: commands without a meaning, misspelt ones, macros
//! that nobody uses. None is dropped in silence.

use super::commands::{Fate, fate, nearest, nearest_of};
use super::error::{SourcePosition, SubmitError, Warning, Wrong};
use super::plan::Plan;
use super::reader::Queued;
use std::collections::{BTreeMap, BTreeSet};

/// Set by tools that write submit files, whether or not the file uses them.
const TOLERATED: &[&str] = &["dag_status", "failed_count", "job", "retry", "dagmanjobid"];

/// Commands that cannot be honoured, where they have a value.
pub(super) fn refuse(queued: &[Queued]) -> Result<(), SubmitError> {
    for (key, entry) in queued.iter().flat_map(|queued| queued.macros.iter()) {
        let name = key.strip_prefix("my.").unwrap_or(key);
        let value = entry.value.trim();
        let off = value.is_empty() || value.eq_ignore_ascii_case("false");
        if let Some(Fate::Refused(why)) = fate(name).filter(|_| !off) {
            let wrong = Wrong::Refused { command: entry.name.clone(), why: why.into() };
            return Err(wrong.at(&entry.place));
        }
    }
    Ok(())
}

pub(super) fn warnings(plans: &[Plan]) -> Vec<Warning> {
    // A macro counts as used if any `queue` used it.
    let mut seen: BTreeMap<(String, String), bool> = BTreeMap::new();
    let macros = || plans.iter().flat_map(|plan| plan.queued.macros.iter());
    for (key, entry) in macros() {
        let used = seen.entry((key.to_string(), entry.value.to_string())).or_default();
        *used |= entry.is_used();
    }
    let mut warnings = Vec::new();
    for (key, entry) in macros() {
        let used = seen.get(&(key.to_string(), entry.value.to_string())).copied();
        let used = used.unwrap_or(false);
        let name = key.strip_prefix("my.").unwrap_or(key);
        let what = match fate(name) {
            Some(Fate::NoMeaning(why)) if !entry.value.is_empty() => {
                format!("{} has no meaning here: {why}", entry.name)
            }
            None if !used && !key.contains('.') && !TOLERATED.contains(&key) => unused(entry, key),
            _ => continue,
        };
        warnings.push(Warning { place: entry.place.clone(), what });
    }
    for plan in plans {
        let variables = plan.queued.variables.iter().enumerate();
        for (_, name) in variables.filter(|(at, _)| !plan.uses(*at)) {
            let what = format!("the variable `{name}` of `queue` is not used");
            warnings.push(Warning { place: plan.queued.place.clone(), what });
        }
    }
    warnings
}

/// Names that have no value, where one was asked for.
pub(super) fn unknown(plans: &[Plan], names: BTreeSet<(SourcePosition, String)>) -> Vec<Warning> {
    let known: BTreeSet<&str> = plans.iter().flat_map(known_names).collect();
    let warning = |(place, name): (SourcePosition, String)| {
        let near = nearest_of(&name, known.iter().copied());
        let near = near.map(|near| format!("; did you mean $({near})?")).unwrap_or_default();
        Warning { place, what: format!("$({name}) has no value and is left empty{near}") }
    };
    names.into_iter().map(warning).collect()
}

fn known_names(plan: &Plan) -> impl Iterator<Item = &str> {
    let own = ["Process", "Cluster", "Step", "Row", "ItemIndex"];
    let written = plan.queued.macros.iter().filter(|(key, _)| !key.contains('.'));
    let written = written.map(|(_, entry)| entry.name.as_str());
    written.chain(plan.queued.variables.iter().map(String::as_str)).chain(own)
}

fn unused(entry: &super::macros::Macro, key: &str) -> String {
    let name = &entry.name;
    match nearest(key) {
        Some(near) => format!("{name} is not known and not used; did you mean {near}?"),
        None => format!("{name} is not known and not used"),
    }
}
