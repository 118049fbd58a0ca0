//! Of which kind of call there is one at a time: a greeting of each pilot, and a call for output
//! beside each connection. What a call has sent is in memory before anything of it can be judged,
//! up to a whole message: whoever holds credentials could send that on every stream of theirs.

use crate::locks::Locked;
use std::collections::{HashMap, HashSet};
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

/// How many calls of a kind are under way for each.
#[derive(Debug)]
pub(super) struct FewEach<K: Eq + Hash>(Arc<Mutex<HashMap<K, usize>>>);

impl<K: Eq + Hash> Default for FewEach<K> {
    fn default() -> Self {
        FewEach(Arc::default())
    }
}

impl<K: Eq + Hash + Clone> FewEach<K> {
    /// `None`: theirs are as many as may be already.
    pub(super) fn begin(&self, whose: K, most: usize) -> Option<OneOfFew<K>> {
        let mut all = self.0.locked();
        let count = all.entry(whose.clone()).or_default();
        if *count >= most {
            return None;
        }
        *count += 1;
        Some(OneOfFew { all: Arc::clone(&self.0), whose })
    }
}

/// A call, until this is dropped.
#[derive(Debug)]
#[must_use]
pub(super) struct OneOfFew<K: Eq + Hash> {
    all: Arc<Mutex<HashMap<K, usize>>>,
    pub(super) whose: K,
}

impl<K: Eq + Hash> Drop for OneOfFew<K> {
    fn drop(&mut self) {
        let mut all = self.all.locked();
        if let Some(count) = all.get_mut(&self.whose) {
            *count -= 1;
            if *count == 0 {
                all.remove(&self.whose);
            }
        }
    }
}

#[cfg(test)]
#[path = "calls_tests.rs"]
mod tests;
