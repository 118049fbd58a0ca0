//! All that is counted: the kinds that every node has, and things by the names that a site gives
//! them, such as licences. Added up and compared here, for the scheduler, its checks and the pilot.

use crate::amounts::{Amounts, Quantity};
use crate::node::Capacity;
use crate::resources::Resources;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

pub type Named = BTreeMap<String, u64>;

/// What says how much: a task of what it needs, a node of what it has.
pub trait Counted {
    fn amounts(&self) -> Amounts;
    fn named(&self) -> &Named;
}

impl Counted for Resources {
    fn amounts(&self) -> Amounts {
        Resources::amounts(self)
    }
    fn named(&self) -> &Named {
        &self.named
    }
}

impl Counted for Capacity {
    fn amounts(&self) -> Amounts {
        Capacity::amounts(self)
    }
    fn named(&self) -> &Named {
        &self.named
    }
}

impl Counted for Counts {
    fn amounts(&self) -> Amounts {
        self.amounts
    }
    fn named(&self) -> &Named {
        &self.named
    }
}

/// A sum of such. Written down as what a node has.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "Capacity", into = "Capacity")]
pub struct Counts {
    pub amounts: Amounts,
    /// None of which there is nothing.
    pub named: Named,
}

impl Counts {
    pub fn add(&mut self, more: &impl Counted) {
        self.amounts = self.amounts.plus(more.amounts());
        self.add_named(more.named());
    }

    #[inline]
    pub fn add_named<'a>(&mut self, more: impl IntoIterator<Item = (&'a String, &'a u64)>) {
        for (name, amount) in more.into_iter().filter(|(_, amount)| **amount > 0) {
            let sum = self.named.entry(name.clone()).or_default();
            *sum = sum.saturating_add(*amount);
        }
    }

    pub fn take(&mut self, less: &impl Counted) {
        self.amounts = self.amounts.minus(less.amounts());
        self.take_named(less.named());
    }

    #[inline]
    pub fn take_named(&mut self, less: &Named) {
        for (name, amount) in less {
            let Some(sum) = self.named.get_mut(name) else { continue };
            *sum = sum.saturating_sub(*amount);
            if *sum == 0 {
                self.named.remove(name);
            }
        }
    }

    /// With so much in use, the first thing that is missing for one more, as (wanted, free).
    pub fn lacks(&self, has: &impl Counted, need: &impl Counted) -> Option<(Quantity, Quantity)> {
        let free = has.amounts().minus(self.amounts);
        need.amounts().lacks(&free).or_else(|| self.lacks_named(has.named(), need.named()))
    }

    #[inline]
    pub fn lacks_named(&self, has: &Named, need: &Named) -> Option<(Quantity, Quantity)> {
        need.iter().find_map(|(name, wanted)| {
            let of = |named: &Named| named.get(name).copied().unwrap_or(0);
            let free = of(has).saturating_sub(of(&self.named));
            let quantity = |amount| Quantity::Named { name: name.clone(), amount };
            (*wanted > free).then(|| (quantity(*wanted), quantity(free)))
        })
    }
}

impl From<Capacity> for Counts {
    fn from(capacity: Capacity) -> Counts {
        Counts { amounts: capacity.amounts(), named: capacity.named }
    }
}

impl From<Counts> for Capacity {
    fn from(Counts { amounts, named }: Counts) -> Capacity {
        Capacity { named, ..Capacity::of(amounts) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(amount: u64, named: &[(&str, u64)]) -> Counts {
        let named = named.iter().map(|(name, amount)| ((*name).to_owned(), *amount)).collect();
        Counts { amounts: Amounts::of(|_| amount), named }
    }

    #[test]
    fn what_was_added_can_be_taken_again() {
        let (mut used, one) = (Counts::default(), counts(2, &[("licences", 3), ("none", 0)]));
        used.add(&one);
        used.add(&one);
        assert_eq!(used, counts(4, &[("licences", 6)]));
        used.take(&one);
        assert_eq!(used, counts(2, &[("licences", 3)]));
        used.take(&one);
        used.take(&one);
        assert_eq!(used, Counts::default());
    }

    #[test]
    fn what_is_missing_is_said_by_name() {
        let (has, used) = (counts(4, &[("licences", 5)]), counts(1, &[("licences", 3)]));
        let lacks = |need: &Counts| {
            let found = used.lacks(&has, need)?;
            Some((found.0.to_string(), found.1.amount()))
        };
        assert_eq!(lacks(&counts(3, &[("licences", 2), ("none", 0)])), None);
        assert_eq!(
            lacks(&counts(3, &[("licences", 3)])),
            Some(("3 of licences".into(), "2".into()))
        );
        assert_eq!(lacks(&counts(3, &[("seats", 1)])), Some(("1 of seats".into(), "0".into())));
        assert!(lacks(&counts(4, &[])).is_some());
    }
}
