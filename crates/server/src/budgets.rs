//! What one user may have the server do and keep, so that the others get their part: look-ups in
//! registries, and bytes of job specifications. Begins anew with the server.
//!
//! Not here: what is counted in the state itself (jobs, tasks, tokens), which the core holds
//! against `model/src/limits.rs`, and logins, which `logins.rs` counts.
#![warn(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unreachable,
    clippy::unwrap_used
)]

use shipway_model::limits::MAX_SPEC_BYTES;
use shipway_model::{ImageRef, Millis, Timestamp, UserName};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Look-ups of one user at the same time: a slow registry must not take all threads that ask.
const LOOK_UPS_AT_ONCE: u32 = 4;
/// Look-ups that may come together, and how often there is another one: far more than people type,
/// and few enough that nobody searches a network with them.
const LOOK_UPS: u64 = 60;
const LOOK_UP_EVERY: Millis = Millis(1_000);
/// What a tag meant a moment ago it means still: a loop of `run` asks once. Short, for whoever
/// pushes an image and runs it.
const ANSWER_KEPT: Millis = Millis(3_000);
/// Answers kept at most; over this many all are asked for anew.
const MOST_ANSWERS: usize = 10_000;
/// Specifications are kept for good. So much may come at once, as room for the largest arrays, and
/// as much again each day: a million ordinary jobs are a few hundred megabytes.
const SPEC_BYTES: u64 = 4 << 30;
/// What is kept of every job beside its specification: rows, its events, its key.
const OF_A_JOB: u64 = 512;
const DAY: Millis = Millis(24 * 3_600 * 1_000);

const _: () = assert!(SPEC_BYTES > 100 * MAX_SPEC_BYTES as u64, "large jobs are not for once");

/// Which budget is spent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Spent {
    #[error("{LOOK_UPS_AT_ONCE} of your look-ups in registries are under way already")]
    LookUpsAtOnce,
    #[error(
        "you have used {LOOK_UPS} look-ups in registries; there is one more each {LOOK_UP_EVERY}"
    )]
    LookUps,
    #[error("you have submitted {} GiB of jobs, the most for one day", SPEC_BYTES >> 30)]
    SpecBytes,
}

impl Spent {
    pub fn hint(self) -> &'static str {
        match self {
            Spent::LookUpsAtOnce | Spent::LookUps => {
                "wait a moment, or name the image by its digest (NAME@sha256:…): that needs none"
            }
            Spent::SpecBytes => "keep large data in files that the tasks read, or go on tomorrow",
        }
    }
}

#[derive(Debug, Default)]
pub struct Budgets {
    users: Arc<Mutex<HashMap<UserName, Budget>>>,
    answers: Mutex<HashMap<(UserName, ImageRef), (Timestamp, ImageRef)>>,
}

#[derive(Debug, Default)]
struct Budget {
    under_way: u32,
    look_ups: Bucket,
    spec_bytes: Bucket,
}

/// What was taken and has not come back yet.
#[derive(Debug, Default)]
struct Bucket {
    taken: u64,
    at: Timestamp,
}

impl Bucket {
    /// Takes if there is room. What was taken comes back, `most` of it in `whole`.
    fn take(&mut self, amount: u64, most: u64, whole: Millis, now: Timestamp) -> bool {
        let since = u128::from(now.since(self.at).0);
        let back = since * u128::from(most) / u128::from(whole.0.max(1));
        self.taken = self.taken.saturating_sub(u64::try_from(back).unwrap_or(u64::MAX));
        // What a moment too short for one brings is not lost.
        self.at = if back > 0 || self.taken == 0 { now } else { self.at };
        let fits = self.taken.saturating_add(amount) <= most;
        self.taken += if fits { amount } else { 0 };
        fits
    }
}

/// One look-up that is under way.
#[derive(Debug)]
pub struct LookUp {
    users: Arc<Mutex<HashMap<UserName, Budget>>>,
    user: UserName,
}

impl Drop for LookUp {
    fn drop(&mut self) {
        if let Some(budget) = held(&self.users).get_mut(&self.user) {
            budget.under_way = budget.under_way.saturating_sub(1);
        }
    }
}

impl Budgets {
    /// A place for a look-up, held until it is over.
    pub fn look_up(&self, user: &UserName, now: Timestamp) -> Result<LookUp, Spent> {
        let mut users = held(&self.users);
        let budget = users.entry(user.clone()).or_default();
        if budget.under_way >= LOOK_UPS_AT_ONCE {
            return Err(Spent::LookUpsAtOnce);
        }
        let whole = Millis(LOOK_UPS * LOOK_UP_EVERY.0);
        if !budget.look_ups.take(1, LOOK_UPS, whole, now) {
            return Err(Spent::LookUps);
        }
        budget.under_way += 1;
        Ok(LookUp { users: Arc::clone(&self.users), user: user.clone() })
    }

    /// What a user's look-up found a moment ago.
    pub fn looked_up(&self, user: &UserName, image: &ImageRef, now: Timestamp) -> Option<ImageRef> {
        let answers = held(&self.answers);
        let (at, answer) = answers.get(&(user.clone(), image.clone()))?;
        (now.since(*at) < ANSWER_KEPT).then(|| answer.clone())
    }

    pub fn keep(&self, user: &UserName, image: &ImageRef, answer: &ImageRef, now: Timestamp) {
        let mut answers = held(&self.answers);
        answers.retain(|_, (at, _)| now.since(*at) < ANSWER_KEPT);
        if answers.len() >= MOST_ANSWERS {
            answers.clear();
        }
        answers.insert((user.clone(), image.clone()), (now, answer.clone()));
    }

    /// Room for jobs that are about to be kept, of so many bytes together.
    pub fn keep_specs(
        &self,
        user: &UserName,
        jobs: usize,
        bytes: usize,
        now: Timestamp,
    ) -> Result<(), Spent> {
        let mut users = held(&self.users);
        let budget = users.entry(user.clone()).or_default();
        let kept = (jobs as u64).saturating_mul(OF_A_JOB).saturating_add(bytes as u64);
        let fits = budget.spec_bytes.take(kept, SPEC_BYTES, DAY, now);
        if fits { Ok(()) } else { Err(Spent::SpecBytes) }
    }
}

fn held<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ada() -> UserName {
        UserName::new("ada").expect("good")
    }

    #[test]
    fn look_ups_are_few_at_once_and_come_back_with_time() {
        let budgets = Budgets::default();
        let now = Timestamp(1_000_000);
        let held: Vec<_> =
            (0..LOOK_UPS_AT_ONCE).map(|_| budgets.look_up(&ada(), now).expect("room")).collect();
        assert_eq!(budgets.look_up(&ada(), now).err(), Some(Spent::LookUpsAtOnce));
        let bob = UserName::new("bob").expect("good");
        assert!(budgets.look_up(&bob, now).is_ok(), "one user's are not another's");
        drop(held);
        for _ in u64::from(LOOK_UPS_AT_ONCE)..LOOK_UPS {
            budgets.look_up(&ada(), now).expect("room");
        }
        assert_eq!(budgets.look_up(&ada(), now).err(), Some(Spent::LookUps));
        let later = now.plus(LOOK_UP_EVERY);
        assert!(budgets.look_up(&ada(), later).is_ok());
        assert_eq!(budgets.look_up(&ada(), later).err(), Some(Spent::LookUps));
    }

    #[test]
    fn an_answer_is_good_for_a_moment_and_for_whoever_asked() {
        let budgets = Budgets::default();
        let tag: ImageRef = "docker://a.example/x:1".parse().expect("good");
        let digest = "0".repeat(64);
        let pinned: ImageRef =
            format!("docker://a.example/x@sha256:{digest}").parse().expect("good");
        let now = Timestamp(5_000);
        budgets.keep(&ada(), &tag, &pinned, now);
        assert_eq!(budgets.looked_up(&ada(), &tag, now), Some(pinned));
        assert_eq!(budgets.looked_up(&ada(), &tag, now.plus(ANSWER_KEPT)), None);
        let bob = UserName::new("bob").expect("good");
        assert_eq!(budgets.looked_up(&bob, &tag, now), None);
    }

    #[test]
    fn specifications_have_room_for_a_day() {
        let budgets = Budgets::default();
        let now = Timestamp(9_000);
        for _ in 0..SPEC_BYTES / (MAX_SPEC_BYTES as u64 + OF_A_JOB) {
            budgets.keep_specs(&ada(), 1, MAX_SPEC_BYTES, now).expect("room");
        }
        let over = budgets.keep_specs(&ada(), 1, MAX_SPEC_BYTES, now);
        assert_eq!(over, Err(Spent::SpecBytes));
        budgets.keep_specs(&ada(), 1, MAX_SPEC_BYTES, now.plus(DAY)).expect("another day");
        let many = usize::try_from(SPEC_BYTES / OF_A_JOB).expect("a number") + 1;
        let over = budgets.keep_specs(&UserName::new("bob").expect("good"), many, 0, now);
        assert_eq!(over, Err(Spent::SpecBytes), "each job counts, however small");
    }
}
