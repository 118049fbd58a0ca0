//! Idempotency keys that were used: which job each one made.
//!
//! Kept by their digest, so that a long key costs no more than a short one. They expire together
//! now and then rather than one by one: a day is a long time for a repeat.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use shipway_model::limits::IDEMPOTENCY_KEPT;
use shipway_model::{JobId, Millis, Timestamp, UserName};
use std::collections::BTreeMap;

/// Keys that are out of date are looked for at most this often.
const EXPIRE_EVERY: Millis = Millis(10 * 60 * 1_000);

/// The owner and the key, as half of a SHA-256: nobody can find another that is the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyDigest([u8; 16]);

impl KeyDigest {
    /// One key per owner: two users may use the same word.
    pub fn of(owner: &UserName, key: &str) -> KeyDigest {
        Self::of_text(&format!("{owner} {key}"))
    }

    /// Of the owner and the key with a space between.
    pub(crate) fn of_text(text: &str) -> KeyDigest {
        let whole: [u8; 32] = Sha256::digest(text.as_bytes()).into();
        let half = whole.first_chunk::<16>().copied().unwrap_or_default();
        KeyDigest(half)
    }

    pub(crate) fn number(self) -> u128 {
        u128::from_be_bytes(self.0)
    }
    pub(crate) fn from_number(number: u128) -> KeyDigest {
        KeyDigest(number.to_be_bytes())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsedKey {
    pub job: JobId,
    /// Of the submission: a repeat is the same in all respects.
    pub digest: u64,
    pub at: Timestamp,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Keys {
    used: BTreeMap<KeyDigest, UsedKey>,
    /// No key is older than this.
    oldest: Option<Timestamp>,
}

impl Keys {
    pub fn len(&self) -> usize {
        self.used.len()
    }

    pub fn is_empty(&self) -> bool {
        self.used.is_empty()
    }

    pub fn get(&self, key: KeyDigest) -> Option<UsedKey> {
        self.used.get(&key).copied()
    }

    pub(crate) fn insert(&mut self, key: KeyDigest, used: UsedKey) {
        self.oldest = Some(self.oldest.map_or(used.at, |oldest| oldest.min(used.at)));
        if self.used.insert(key, used).is_some() {
            // Somebody who has the name of a removed user has used the same word.
            self.oldest = self.used.values().map(|used| used.at).min();
        }
    }

    pub(crate) fn expire(&mut self, before: Timestamp) {
        self.used.retain(|_, used| used.at >= before);
        self.oldest = self.used.values().map(|used| used.at).min();
    }

    /// When some are to be forgotten.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        // A key is kept through the last moment of its time, so it is looked at after it.
        self.oldest.map(|at| at.plus(Millis(IDEMPOTENCY_KEPT.0 + EXPIRE_EVERY.0)))
    }

    pub fn iter(&self) -> impl Iterator<Item = (KeyDigest, UsedKey)> + '_ {
        self.used.iter().map(|(key, used)| (*key, *used))
    }
}
