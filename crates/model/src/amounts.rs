//! The countable resources: each kind is named here, once, with its unit, how it is shown and what
//! is made of it; and the vector in which their amounts are added up and compared.
//!
//! Where people and files say them they have types (`Resources`, `Capacity`). Devices are not among
//! them: each is one of its own, of some model, and may be used in parts (`gpu.rs`); nor is what a
//! site counts by names of its own (`counts.rs`).

use crate::units::{Bytes, Cores, Millis};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A countable resource; its place in the vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Cpus,
    Memory,
    Disk,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Thousandths of a core.
    Cores,
    Bytes,
}

/// What is known of a kind.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// In job files and answers.
    pub name: &'static str,
    /// On the command line.
    pub option: &'static str,
    pub unit: Unit,
    /// It differs a little from node to node, so that nodes are alike whatever they have of it.
    pub is_nodes_own: bool,
    /// So much is charged as one core. Without: it is not charged.
    pub per_core: Option<u64>,
    /// Its name in ClassAds, and its unit there.
    pub ad: &'static str,
    pub ad_unit: u64,
}

impl Kind {
    pub const COUNT: usize = 3;
    pub const ALL: [Kind; Kind::COUNT] = [Kind::Cpus, Kind::Memory, Kind::Disk];

    #[inline]
    pub const fn row(self) -> Row {
        match self {
            Kind::Cpus => Row {
                name: "cpus",
                option: "--cpus",
                unit: Unit::Cores,
                is_nodes_own: false,
                per_core: Some(1_000),
                ad: "Cpus",
                ad_unit: 1_000,
            },
            Kind::Memory => Row {
                name: "memory",
                option: "--memory",
                unit: Unit::Bytes,
                is_nodes_own: false,
                per_core: Some(4 << 30),
                ad: "Memory",
                ad_unit: 1 << 20,
            },
            Kind::Disk => Row {
                name: "disk",
                option: "--disk",
                unit: Unit::Bytes,
                is_nodes_own: true,
                per_core: None,
                ad: "Disk",
                ad_unit: 1 << 10,
            },
        }
    }

    pub fn quantity(self, amount: u64) -> Quantity {
        match self {
            Kind::Cpus => Quantity::Cpus { amount: Cores { milli: amount } },
            Kind::Memory => Quantity::Memory { amount: Bytes(amount) },
            Kind::Disk => Quantity::Disk { amount: Bytes(amount) },
        }
    }
}

const SECOND: u64 = 1_000;

/// An amount of something, in that something's unit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(tag = "resource", rename_all = "snake_case")]
pub enum Quantity {
    Cpus {
        #[cfg_attr(feature = "schema", schema(value_type = f64))]
        amount: Cores,
    },
    Memory {
        amount: Bytes,
    },
    Disk {
        amount: Bytes,
    },
    /// `request` says which GPUs count.
    Gpus {
        amount: u32,
        request: String,
    },
    Named {
        name: String,
        amount: u64,
    },
    /// How long one task may take, on a node that is lent for so long.
    Time {
        #[cfg_attr(feature = "schema", schema(value_type = String))]
        amount: Millis,
    },
}

impl Quantity {
    /// What it is of, if that is a kind, and how much in its own unit.
    fn counted(&self) -> (Option<Kind>, u64) {
        match self {
            Quantity::Cpus { amount } => (Some(Kind::Cpus), amount.milli),
            Quantity::Memory { amount } => (Some(Kind::Memory), amount.0),
            Quantity::Disk { amount } => (Some(Kind::Disk), amount.0),
            Quantity::Gpus { amount, .. } => (None, u64::from(*amount)),
            Quantity::Named { amount, .. } => (None, *amount),
            Quantity::Time { amount } => (None, amount.0),
        }
    }

    /// The amount in its own unit, to compare quantities of one kind.
    pub fn raw(&self) -> u64 {
        self.counted().1
    }

    /// Another amount of the same thing.
    #[must_use]
    pub fn with(&self, amount: u64) -> Quantity {
        match self {
            Quantity::Gpus { request, .. } => {
                let amount = u32::try_from(amount).unwrap_or(u32::MAX);
                Quantity::Gpus { amount, request: request.clone() }
            }
            Quantity::Named { name, .. } => Quantity::Named { name: name.clone(), amount },
            Quantity::Time { .. } => Quantity::Time { amount: Millis(amount) },
            counted => {
                counted.counted().0.map_or_else(|| self.clone(), |kind| kind.quantity(amount))
            }
        }
    }

    /// The bare amount, for "found" beside a "wanted" that names the thing.
    pub fn amount(&self) -> String {
        if let Quantity::Time { amount } = self {
            return Millis(amount.0 / SECOND * SECOND).to_string();
        }
        match self.counted() {
            (Some(kind), amount) => kind.row().unit.show(amount),
            (None, amount) => amount.to_string(),
        }
    }

    /// The option by which it is asked for.
    pub fn option(&self) -> &'static str {
        match self {
            Quantity::Gpus { .. } => "--gpus",
            Quantity::Named { .. } => "--resource",
            Quantity::Time { .. } => "--time-limit",
            counted => counted.counted().0.map_or("--resource", |kind| kind.row().option),
        }
    }
}

impl Unit {
    fn show(self, amount: u64) -> String {
        match self {
            Unit::Cores => Cores { milli: amount }.to_string(),
            Unit::Bytes => Bytes(amount).to_string(),
        }
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Quantity::Cpus { amount } if amount.milli == 1_000 => write!(f, "1 core"),
            Quantity::Cpus { amount } => write!(f, "{amount} cores"),
            Quantity::Gpus { amount, request } => {
                write!(f, "{amount} {}", if *amount == 1 { "GPU" } else { "GPUs" })?;
                // A request that is a bare number says nothing more.
                let says_more = request.parse::<u32>().is_err();
                if says_more { write!(f, " ({request})") } else { Ok(()) }
            }
            Quantity::Named { name, amount } => write!(f, "{amount} of {name}"),
            Quantity::Time { .. } => write!(f, "{} of time", self.amount()),
            counted => {
                let name = counted.counted().0.map_or("", |kind| kind.row().name);
                write!(f, "{} of {name}", self.amount())
            }
        }
    }
}

/// How much of each kind, in its unit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Amounts([u64; Kind::COUNT]);

#[expect(clippy::indexing_slicing, reason = "a kind is a place in the vector")]
impl Amounts {
    #[inline]
    pub fn of(amount: impl Fn(Kind) -> u64) -> Amounts {
        Amounts(Kind::ALL.map(amount))
    }
    #[inline]
    pub fn get(&self, kind: Kind) -> u64 {
        self.0[kind as usize]
    }
    pub fn cpus(&self) -> Cores {
        Cores { milli: self.get(Kind::Cpus) }
    }
    pub fn memory(&self) -> Bytes {
        Bytes(self.get(Kind::Memory))
    }
    pub fn disk(&self) -> Bytes {
        Bytes(self.get(Kind::Disk))
    }

    #[inline]
    fn with(self, other: Amounts, both: impl Fn(u64, u64) -> u64) -> Amounts {
        Amounts::of(|kind| both(self.get(kind), other.get(kind)))
    }
    #[inline]
    fn all(&self, other: &Amounts, holds: impl Fn(u64, u64) -> bool) -> bool {
        Kind::ALL.iter().all(|kind| holds(self.get(*kind), other.get(*kind)))
    }

    /// Whether there is room for all of it.
    #[inline]
    pub fn fits(&self, room: &Amounts) -> bool {
        self.all(room, |wanted, free| wanted <= free)
    }
    #[inline]
    #[must_use]
    pub fn plus(self, more: Amounts) -> Amounts {
        self.with(more, u64::saturating_add)
    }
    #[inline]
    #[must_use]
    pub fn minus(self, less: Amounts) -> Amounts {
        self.with(less, u64::saturating_sub)
    }
    #[inline]
    #[must_use]
    pub fn times(self, count: u64) -> Amounts {
        Amounts::of(|kind| self.get(kind).saturating_mul(count))
    }
    /// The larger of each.
    #[inline]
    #[must_use]
    pub fn max(self, other: Amounts) -> Amounts {
        self.with(other, u64::max)
    }
    /// What all nodes of a class have alike; nothing of the rest.
    #[must_use]
    pub fn alike(self) -> Amounts {
        Amounts::of(|kind| if kind.row().is_nodes_own { 0 } else { self.get(kind) })
    }

    /// How often it fits; without end if nothing is wanted.
    pub fn times_in(&self, room: &Amounts) -> u64 {
        let often = |kind| room.get(kind).checked_div(self.get(kind)).unwrap_or(u64::MAX);
        Kind::ALL.map(often).into_iter().fold(u64::MAX, u64::min)
    }

    /// Whether others can have this much without taking anything of what is waited for.
    pub fn is_beside(&self, waiting: &Amounts, free: &Amounts) -> bool {
        Kind::ALL.iter().all(|kind| {
            let (mine, theirs) = (self.get(*kind), waiting.get(*kind));
            mine == 0 || theirs == 0 || mine.saturating_add(theirs) <= free.get(*kind)
        })
    }

    /// The first kind of which there is too little, as (wanted, free).
    pub fn lacks(&self, free: &Amounts) -> Option<(Quantity, Quantity)> {
        let kind = Kind::ALL.into_iter().find(|kind| self.get(*kind) > free.get(*kind))?;
        Some((kind.quantity(self.get(kind)), kind.quantity(free.get(kind))))
    }

    /// What it is charged each millisecond, in thousandths of a core: the largest part counts.
    #[inline]
    pub fn charge(&self) -> u64 {
        let charge =
            |kind: Kind| kind.row().per_core.map(|per_core| thousandths(self.get(kind), per_core));
        Kind::ALL.into_iter().filter_map(charge).max().unwrap_or(0)
    }
}

/// How much of the whole a part is. Asked of every node there is, and the division of long numbers
/// is many times as slow as that of short ones.
#[inline]
pub fn thousandths(part: u64, whole: u64) -> u64 {
    let whole = whole.max(1);
    if let Some(part) = part.checked_mul(1_000) {
        return part / whole;
    }
    let part = u128::from(part).saturating_mul(1_000) / u128::from(whole);
    u64::try_from(part).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_stands_at_its_place_and_is_named_alike_everywhere() {
        for (at, kind) in Kind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, at);
            let (quantity, row) = (kind.quantity(7), kind.row());
            assert_eq!(quantity.counted(), (Some(kind), 7));
            let written = serde_json::to_value(&quantity).expect("json");
            assert_eq!(written["resource"], row.name);
            assert_eq!(row.option.strip_prefix("--"), Some(row.name));
            let (need, read) = (crate::Resources::default(), crate::Capacity::default());
            let one = serde_json::json!({ row.name: "7" });
            let read_need: crate::Resources = serde_json::from_value(one).expect("a key of a job");
            assert_ne!(read_need.amounts().get(kind), need.amounts().get(kind), "{}", row.name);
            let shown = serde_json::to_value(&read).expect("json");
            assert!(shown.get(row.name).is_some(), "{} of a node", row.name);
            let all = Amounts::of(|other| if other == kind { 7 } else { 0 });
            assert_eq!(crate::Capacity::of(all).amounts(), all);
        }
    }

    #[test]
    fn nothing_is_less_than_none_or_more_than_all() {
        let [few, many] = [1, u64::MAX].map(|amount| Amounts::of(|_| amount));
        assert_eq!(few.minus(many), Amounts::default());
        assert_eq!(many.plus(few), many);
        assert_eq!(many.times(3), many);
        assert!(few.fits(&many) && !many.fits(&few));
        assert_eq!(few.lacks(&many), None);
        let (wanted, free) = many.lacks(&few).expect("too much");
        assert_eq!((wanted.raw(), free.raw()), (u64::MAX, 1));
        assert_eq!((few.times_in(&many), Amounts::default().times_in(&few)), (u64::MAX, u64::MAX));
    }

    #[test]
    fn one_kind_that_is_short_is_enough() {
        let room = Amounts::of(|_| 5);
        for kind in Kind::ALL {
            let large = Amounts::of(|other| if other == kind { 6 } else { 1 });
            assert!(!large.fits(&room) && large.lacks(&room).is_some(), "{kind:?}");
            assert_eq!(large.times_in(&room), 0);
            let half = Amounts::of(|other| if other == kind { 3 } else { 0 });
            assert!(half.is_beside(&Amounts::of(|_| 2), &room));
            assert!(!half.is_beside(&Amounts::of(|_| 3), &room));
            assert!(half.is_beside(&Amounts::default(), &room));
        }
    }

    #[test]
    fn one_is_said_as_one() {
        let cores = |milli| Quantity::Cpus { amount: Cores { milli } }.to_string();
        assert_eq!([1_000, 2_000, 500].map(cores), ["1 core", "2 cores", "0.5 cores"]);
        let gpus = |amount, request: &str| Quantity::Gpus { amount, request: request.into() };
        let said = [gpus(1, "1"), gpus(2, "a100:2")].map(|gpus| gpus.to_string());
        assert_eq!(said, ["1 GPU", "2 GPUs (a100:2)"]);
    }

    #[test]
    fn parts_of_numbers_that_are_long_are_as_right() {
        assert_eq!([thousandths(1, 2), thousandths(3, 0)], [500, 3_000]);
        assert_eq!(thousandths(1 << 62, 1 << 63), 500);
        assert_eq!(thousandths(u64::MAX, 1), u64::MAX);
    }
}
