//! Lines of a submit file that do nothing here: commands without a meaning, misspelt ones, macros
//! that nobody uses. None is dropped in silence.

use super::commands::{Fate, fate, nearest};
use super::error::{SubmitError, Warning, Wrong};
use super::plan::Plan;
use super::reader::Queued;
use std::collections::BTreeMap;

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
        let used = seen[&(key.to_string(), entry.value.to_string())];
        let name = key.strip_prefix("my.").unwrap_or(key);
        let what = match fate(name) {
            Some(Fate::NoMeaning(why)) if !entry.value.is_empty() => {
                format!("{} has no meaning here: {why}", entry.name)
            }
            None if !used && !key.contains('.') && !TOLERATED.contains(&key) => unknown(entry, key),
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

fn unknown(entry: &super::macros::Macro, key: &str) -> String {
    let name = &entry.name;
    match nearest(key) {
        Some(near) => format!("{name} is not known and not used; did you mean {near}?"),
        None => format!("{name} is not known and not used"),
    }
}
