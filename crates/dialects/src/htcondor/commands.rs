//! What becomes of a command of a submit file: honoured, warned about, or refused. The table itself
//! is `command_table.rs`.

use super::command_table::{HONOURED, Key, NO_MEANING, REFUSED, REFUSED_PREFIXES};

/// What becomes of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is this, here.
    Honoured(&'static str),
    /// A warning says so, with why.
    NoMeaning(&'static str),
    /// An error says so, with why: without it the results would be others.
    Refused(&'static str),
}

impl Key {
    /// The names of the command, HTCondor's own first.
    pub(super) fn names(self) -> impl Iterator<Item = &'static str> {
        let found = HONOURED.iter().find(|(key, ..)| *key == self);
        found.map_or("", |(_, names, _)| names).split(' ')
    }

    pub(super) fn name(self) -> &'static str {
        self.names().next().unwrap_or_default()
    }

    /// What it is here.
    pub(super) fn what(self) -> &'static str {
        HONOURED.iter().find(|(key, ..)| *key == self).map_or("", |(.., what)| what)
    }

    pub(super) fn all() -> impl Iterator<Item = Key> {
        HONOURED.iter().map(|(key, ..)| *key)
    }
}

/// What becomes of the command of this name, in small letters; `None` when there is none.
pub fn fate(name: &str) -> Option<Fate> {
    let is = |names: &str| names.split(' ').any(|known| known == name);
    if let Some((.., what)) = HONOURED.iter().find(|(_, names, _)| is(names)) {
        return Some(Fate::Honoured(what));
    }
    if let Some((why, _)) = NO_MEANING.iter().find(|(_, names)| is(names)) {
        return Some(Fate::NoMeaning(why));
    }
    let listed = REFUSED.iter().find(|(_, names)| is(names)).map(|(why, _)| *why);
    let begun = || {
        let found = REFUSED_PREFIXES.iter().find(|(prefix, _)| name.starts_with(prefix));
        found.map(|(_, why)| *why)
    };
    listed.or_else(begun).map(Fate::Refused)
}

/// Every command by the name HTCondor gives it, in the order of the tables.
pub fn commands() -> Vec<(&'static str, Fate)> {
    let honoured = HONOURED.iter().map(|(key, _, what)| (key.name(), Fate::Honoured(what)));
    let flat = |table: &'static [(&'static str, &'static str)]| {
        table.iter().flat_map(|(why, names)| names.split(' ').map(move |name| (name, *why)))
    };
    let none = flat(NO_MEANING).map(|(name, why)| (name, Fate::NoMeaning(why)));
    let refused = flat(REFUSED).map(|(name, why)| (name, Fate::Refused(why)));
    honoured.chain(none).chain(refused).collect()
}

/// The known command that is nearest to a misspelt one.
pub(super) fn nearest(name: &str) -> Option<&'static str> {
    nearest_of(name, commands().into_iter().map(|(known, _)| known))
}

/// The nearest of some names, if it is near enough to be meant: long ones may have more slips.
pub(super) fn nearest_of<'n>(name: &str, known: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    shipway_classad::nearest_within(name, known, 1 + name.len() / 6)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_command_stands_once() {
        let all = commands();
        let names: BTreeSet<&str> = all.iter().map(|(name, _)| *name).collect();
        assert_eq!(names.len(), all.len());
        assert!(all.iter().all(|(name, _)| fate(name).is_some()));
    }

    #[test]
    fn slips_of_the_hand_are_seen() {
        assert_eq!(nearest("request_memmory"), Some("request_memory"));
        assert_eq!(nearest("exectuable"), Some("executable"));
        assert_eq!(nearest("my_own_thing"), None);
    }
}
