//! The only source of chance. The same seed gives the same throws.

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};

#[derive(Debug)]
pub struct Dice(ChaCha8Rng);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Dice(ChaCha8Rng::seed_from_u64(seed))
    }

    /// From 0 to just below `n`; 0 when there is no choice.
    pub fn below(&mut self, n: u64) -> u64 {
        if n <= 1 { 0 } else { self.0.next_u64() % n }
    }

    /// Both ends may come up.
    pub fn between(&mut self, (low, high): (u64, u64)) -> u64 {
        low + self.below(high.saturating_sub(low) + 1)
    }

    /// True this many times in a thousand. Certain things cost no throw.
    pub fn chance(&mut self, in_thousand: u64) -> bool {
        in_thousand > 0 && self.below(1_000) < in_thousand
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        let at = usize::try_from(self.below(from.len() as u64)).ok()?;
        from.get(at)
    }
}
