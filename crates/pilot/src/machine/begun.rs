//! How many tasks of each person are being started: from when that is asked for until their
//! process runs.
//!
//! Each of these has its own copy of all that it is started from, and some take long (an image to
//! fetch, files to copy). So a person's next one waits while many of theirs are on the way.

use std::collections::BTreeMap;

/// Enough to keep every core of a node busy with starts.
pub(super) const MOST: usize = 64;

#[derive(Debug, Default)]
pub(super) struct Begun {
    /// Only those who have one.
    people: BTreeMap<String, usize>,
}

impl Begun {
    pub(super) fn has_room(&self, user: &str) -> bool {
        self.people.get(user).is_none_or(|count| *count < MOST)
    }

    pub(super) fn add(&mut self, user: &str) {
        if let Some(count) = self.people.get_mut(user) {
            *count += 1;
        } else {
            self.people.insert(user.to_owned(), 1);
        }
    }

    /// Whether the person could not begin another until now.
    pub(super) fn remove(&mut self, user: &str) -> bool {
        let Some(count) = self.people.get_mut(user) else { return false };
        let was_full = *count >= MOST;
        *count -= 1;
        if *count == 0 {
            self.people.remove(user);
        }
        was_full
    }
}
