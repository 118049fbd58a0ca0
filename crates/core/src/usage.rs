//! Fair share: what each user has been using, with the past counting less and less.
//!
//! A user's usage is the sum, over everything that ran, of what it held times how long, halved
//! with every half-life that has passed since. What runs now is added up exactly, so a long task
//! counts from its first second and not only when it ends. All integers: the same history gives
//! the same order on every machine.

use serde::{Deserialize, Serialize};
use shipway_model::{GpuShare, Millis, Resources, Timestamp, UserName};
use std::collections::BTreeMap;

/// The past fades in steps of this part of a half-life, at the same moments for all users.
const STEPS_PER_HALF_LIFE: u64 = 32;
/// 2^(-1/32) in 32 binary digits after the point: what is left after one step.
const LEFT_AFTER_STEP: u128 = 4_202_935_003;
/// After this many steps nothing that a person would notice is left.
const FORGOTTEN_AFTER: u64 = 64 * STEPS_PER_HALF_LIFE;

/// What counts as so many cores; the largest part of what a task holds is what it is charged.
const CORES_PER_GPU: u64 = 16;

/// What runs now counts as if it had run for this long already. Without it, users who start from
/// nothing would be alike until somebody's first task ends, and the first would take all.
const LOOKAHEAD: Millis = Millis(60_000);
/// And never for more than this part of a half-life, or the past would have no say.
const LOOKAHEAD_PART: u64 = 32;

/// A core for a second, in the unit of usage.
const CORE_SECOND: u128 = 1_000 * 1_000;

pub const DEFAULT_HALF_LIFE: Millis = Millis(7 * 24 * 3_600 * 1_000);
pub const DEFAULT_SHARE: u32 = 100;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FairShare {
    half_life: Millis,
    users: BTreeMap<UserName, Usage>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// In thousandths of a core times milliseconds, as of `since`.
    past: u128,
    since: Timestamp,
    /// What all running tasks are charged each millisecond.
    #[serde(skip)]
    rate: u64,
    share: u32,
}

/// Where a user stands: the smaller, the sooner served.
#[derive(Debug, Clone, Copy)]
pub struct Standing {
    usage: u128,
    share: u32,
    lookahead: u64,
}

impl Standing {
    /// By usage for each part of the share; compared crosswise, so that nothing is rounded.
    pub fn order(self, other: Standing) -> std::cmp::Ordering {
        if self.share == other.share {
            return self.usage.cmp(&other.usage);
        }
        let (mine, theirs) = (u128::from(other.share), u128::from(self.share));
        self.usage.saturating_mul(mine).cmp(&other.usage.saturating_mul(theirs))
    }

    #[must_use]
    pub fn with(self, more_rate: u64) -> Standing {
        let usage = self.usage + u128::from(more_rate) * u128::from(self.lookahead);
        Standing { usage, ..self }
    }
}

/// What one task of this need is charged each millisecond.
pub fn charge(need: &Resources) -> u64 {
    let gpus = need.gpu.as_ref().map_or(0, |gpu| {
        u64::from(gpu.count) * u64::from(gpu.share.0) * CORES_PER_GPU * 1_000
            / u64::from(GpuShare::WHOLE.0)
    });
    need.amounts().charge().max(gpus).max(1)
}

impl Default for FairShare {
    fn default() -> Self {
        FairShare { half_life: DEFAULT_HALF_LIFE, users: BTreeMap::new() }
    }
}

impl FairShare {
    pub fn half_life(&self) -> Millis {
        self.half_life
    }
    pub fn share(&self, user: &UserName) -> u32 {
        self.users.get(user).map_or(DEFAULT_SHARE, |usage| usage.share)
    }
    pub fn users(&self) -> impl Iterator<Item = &UserName> {
        self.users.keys()
    }

    /// The one copy of this user's name.
    pub(crate) fn name(&mut self, user: &UserName, at: Timestamp) -> UserName {
        if let Some((name, _)) = self.users.get_key_value(user) {
            return name.clone();
        }
        let fresh = Usage { past: 0, since: at, rate: 0, share: DEFAULT_SHARE };
        self.users.insert(user.clone(), fresh);
        user.clone()
    }

    pub fn standing(&self, user: &UserName, at: Timestamp) -> Standing {
        let lookahead = LOOKAHEAD.0.min(self.half_life.0 / LOOKAHEAD_PART);
        let Some(usage) = self.users.get(user) else {
            return Standing { usage: 0, share: DEFAULT_SHARE, lookahead };
        };
        let past = usage.past_at(at, self.half_life);
        Standing { usage: past, share: usage.share.max(1), lookahead }.with(usage.rate)
    }

    /// What a user has used up to now, what runs included.
    pub fn used(&self, user: &UserName, at: Timestamp) -> u128 {
        self.users.get(user).map_or(0, |usage| usage.past_at(at, self.half_life))
    }

    /// The same in core-seconds.
    pub fn used_core_seconds(&self, user: &UserName, at: Timestamp) -> u64 {
        u64::try_from(self.used(user, at) / CORE_SECOND).unwrap_or(u64::MAX)
    }

    pub(crate) fn add(&mut self, user: &UserName, at: Timestamp, rate: u64) {
        self.settle(user, at, |usage| usage.rate += rate);
    }

    pub(crate) fn remove(&mut self, user: &UserName, at: Timestamp, rate: u64) {
        self.settle(user, at, |usage| usage.rate = usage.rate.saturating_sub(rate));
    }

    pub(crate) fn set_share(&mut self, user: &UserName, at: Timestamp, share: u32) {
        self.settle(user, at, |usage| usage.share = share);
    }

    /// The name is nobody's now: whoever gets it next begins like everybody else. What still runs
    /// goes on counting until it has ended.
    pub(crate) fn start_anew(&mut self, user: &UserName, at: Timestamp) {
        if let Some(usage) = self.users.get_mut(user) {
            (usage.past, usage.since) = (0, usage.since.max(at));
            usage.share = DEFAULT_SHARE;
        }
    }

    pub(crate) fn set_half_life(&mut self, at: Timestamp, half_life: Millis) {
        for usage in self.users.values_mut() {
            usage.past = usage.past_at(at, self.half_life);
            usage.since = usage.since.max(at);
        }
        self.half_life = half_life;
    }

    fn settle(&mut self, user: &UserName, at: Timestamp, change: impl FnOnce(&mut Usage)) {
        if !self.users.contains_key(user) {
            self.name(user, at);
        }
        let Some(usage) = self.users.get_mut(user) else { return };
        usage.past = usage.past_at(at, self.half_life);
        usage.since = usage.since.max(at);
        change(usage);
    }

    pub(crate) fn forget_rates(&mut self) {
        self.users.values_mut().for_each(|usage| usage.rate = 0);
    }
    pub(crate) fn restore_rate(&mut self, user: &UserName, rate: u64) {
        if let Some(usage) = self.users.get_mut(user) {
            usage.rate += rate;
        }
    }
}

impl Usage {
    fn past_at(&self, at: Timestamp, half_life: Millis) -> u128 {
        let step = (half_life.0 / STEPS_PER_HALF_LIFE).max(1);
        let (mut past, mut since) = (self.past, self.since.0);
        let steps = (at.0 / step).saturating_sub(since / step);
        if steps > FORGOTTEN_AFTER {
            past = 0;
            since = (at.0 / step - FORGOTTEN_AFTER) * step;
        }
        while since / step < at.0 / step {
            let next = (since / step + 1) * step;
            past += u128::from(self.rate) * u128::from(next - since);
            past = (past * LEFT_AFTER_STEP) >> 32;
            since = next;
        }
        past + u128::from(self.rate) * u128::from(at.0.saturating_sub(since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &str) -> UserName {
        UserName::new(name).expect("good")
    }

    #[test]
    fn the_past_is_halved_with_every_half_life() {
        let mut fair = FairShare::default();
        let (ada, half) = (user("ada"), DEFAULT_HALF_LIFE.0);
        fair.add(&ada, Timestamp(0), 1_000);
        fair.remove(&ada, Timestamp(1_000), 1_000);
        let now = fair.used(&ada, Timestamp(1_000));
        assert_eq!(now, 1_000_000);
        let later = fair.used(&ada, Timestamp(1_000 + half));
        assert!((499_900..=500_000).contains(&later), "{later}");
        assert_eq!(fair.used(&ada, Timestamp(half * 100)), 0);
    }

    #[test]
    fn what_runs_counts_while_it_runs_and_never_without_end() {
        let mut fair = FairShare::default();
        let ada = user("ada");
        fair.add(&ada, Timestamp(0), 1_000);
        assert_eq!(fair.used(&ada, Timestamp(500)), 500_000);
        // One core for ever comes to the half-life over the logarithm of 2, in core-time.
        let settled = fair.used(&ada, Timestamp(DEFAULT_HALF_LIFE.0 * 200));
        let limit = u128::from(DEFAULT_HALF_LIFE.0) * 1_000 * 1_4427 / 10_000;
        assert!(settled > limit * 97 / 100 && settled < limit * 103 / 100, "{settled} {limit}");
    }

    #[test]
    fn a_larger_share_may_use_more() {
        let mut fair = FairShare::default();
        let (ada, bob) = (user("ada"), user("bob"));
        fair.add(&ada, Timestamp(0), 2_000);
        fair.add(&bob, Timestamp(0), 1_000);
        let order = |fair: &FairShare| {
            let at = Timestamp(1_000_000);
            fair.standing(&ada, at).order(fair.standing(&bob, at))
        };
        assert_eq!(order(&fair), std::cmp::Ordering::Greater);
        fair.set_share(&ada, Timestamp(0), 2 * DEFAULT_SHARE);
        assert_eq!(order(&fair), std::cmp::Ordering::Equal);
        fair.set_share(&ada, Timestamp(0), 3 * DEFAULT_SHARE);
        assert_eq!(order(&fair), std::cmp::Ordering::Less);
    }

    #[test]
    fn the_largest_part_is_what_is_charged() {
        let mut need = Resources { cpus: shipway_model::Cores::whole(2), ..Resources::default() };
        assert_eq!(charge(&need), 2_000);
        need.memory = shipway_model::Bytes(16 << 30);
        assert_eq!(charge(&need), 4_000);
        need.gpu = Some(shipway_model::GpuRequest::devices(2));
        assert_eq!(charge(&need), 32_000);
    }
}
