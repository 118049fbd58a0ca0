//! Of which kind of call there is one at a time: a greeting of each pilot, and a call for output
//! beside each connection. What a call has sent is in memory before anything of it can be judged,
//! up to a whole message: whoever holds credentials could send that on every stream of theirs.

use crate::locks::Locked;
use std::collections::HashSet;
use std::hash::Hash;
use std::sync::{Arc, Mutex};

/// Those whose call is under way.
#[derive(Debug)]
pub(super) struct OneEach<K: Eq + Hash>(Arc<Mutex<HashSet<K>>>);

impl<K: Eq + Hash> Default for OneEach<K> {
    fn default() -> Self {
        OneEach(Arc::default())
    }
}

impl<K: Eq + Hash + Clone> OneEach<K> {
    /// `None`: theirs is under way already.
    pub(super) fn begin(&self, whose: K) -> Option<UnderWay<K>> {
        let begins = self.0.locked().insert(whose.clone());
        begins.then(|| UnderWay { all: Arc::clone(&self.0), whose })
    }
}

/// A call, until this is dropped: answered, refused or broken off.
#[derive(Debug)]
#[must_use]
pub(super) struct UnderWay<K: Eq + Hash> {
    all: Arc<Mutex<HashSet<K>>>,
    whose: K,
}

impl<K: Eq + Hash> Drop for UnderWay<K> {
    fn drop(&mut self) {
        self.all.locked().remove(&self.whose);
    }
}

#[cfg(test)]
#[path = "calls_tests.rs"]
mod tests;
