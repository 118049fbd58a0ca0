//! One queue: jobs in the order they are to be served, with a count of how many stand before one.
//!
//! Sorted pieces of bounded size rather than a tree: a waiting job costs its rank and little more,
//! and "how many before me" adds up pieces instead of walking jobs.
#![expect(
    clippy::indexing_slicing,
    reason = "places that this module gives out itself, asked for very often"
)]

use shipway_model::JobId;
use std::cmp::Ordering;

/// In bytes: large enough that pieces are few, small enough that moving half of one is nothing.
const PIECE: usize = 8 << 10;

/// Smaller is sooner. Waiting and priority are one measure here, so that the order of two jobs
/// never changes while they wait; see `ready::rank`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rank {
    key: i64,
    /// Its number, and in the last two bits its kind.
    job: u64,
}

/// What is known of a waiting job without a look at it: whoever serves many of a million finds
/// each of them far away in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// One task, at index 0, that was never placed.
    Fresh,
    /// One task.
    Single,
    Array,
}

impl Rank {
    pub fn new(key: i64, job: JobId, kind: Kind) -> Rank {
        // Numbers are given out one by one; none comes near the bits that are lost here.
        Rank { key, job: job.0 << 2 | kind as u64 }
    }
    pub fn job(self) -> JobId {
        JobId(self.job >> 2)
    }
    pub fn kind(self) -> Kind {
        match self.job & 3 {
            0 => Kind::Fresh,
            1 => Kind::Single,
            _ => Kind::Array,
        }
    }
}

/// The kind has no part in it: it may have changed since the job was queued.
impl Ord for Rank {
    fn cmp(&self, other: &Rank) -> Ordering {
        (self.key, self.job()).cmp(&(other.key, other.job()))
    }
}
impl PartialOrd for Rank {
    fn partial_cmp(&self, other: &Rank) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl PartialEq for Rank {
    fn eq(&self, other: &Rank) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for Rank {}

/// What has a place in a queue.
pub trait Ranked: Copy {
    fn rank(&self) -> Rank;
}

impl Ranked for Rank {
    fn rank(&self) -> Rank {
        *self
    }
}

#[derive(Debug, Clone)]
pub struct Ranks<T = Rank> {
    pieces: Vec<Vec<T>>,
    len: usize,
}

impl<T> Default for Ranks<T> {
    fn default() -> Self {
        Ranks { pieces: Vec::new(), len: 0 }
    }
}

/// The jobs after the first of a queue are known to whoever sees it, so many of them: in one plan
/// hardly more of one queue have their turn, and the queue itself is far away in memory.
pub const AHEAD: usize = 3;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ahead {
    ranks: [Rank; AHEAD],
    len: u8,
}

impl Ahead {
    pub fn get(&self, at: usize) -> Option<Rank> {
        self.ranks[..usize::from(self.len)].get(at).copied()
    }
    /// Whether there may be more than these.
    pub fn is_full(&self) -> bool {
        usize::from(self.len) == AHEAD
    }
}

/// A queue, or what is left of it, best first.
#[derive(Debug, Clone)]
pub struct Following<'a, T = Rank> {
    /// Empty only at the end.
    piece: &'a [T],
    pieces: &'a [Vec<T>],
}

impl<'a, T> Following<'a, T> {
    pub fn peek(&self) -> Option<&'a T> {
        self.piece.first()
    }
}

impl<'a, T> Iterator for Following<'a, T> {
    type Item = &'a T;

    fn next(&mut self) -> Option<&'a T> {
        let (first, rest) = self.piece.split_first()?;
        self.piece = rest;
        if let ([], Some((piece, pieces))) = (rest, self.pieces.split_first()) {
            (self.piece, self.pieces) = (piece, pieces);
        }
        Some(first)
    }
}

impl Ranks {
    /// The first one, and those after it.
    pub fn firsts(&self) -> Option<(Rank, Ahead)> {
        let mut all = self.following();
        let first = *all.next()?;
        let mut ahead = Ahead::default();
        for (place, rank) in ahead.ranks.iter_mut().zip(all) {
            *place = *rank;
            ahead.len += 1;
        }
        Some((first, ahead))
    }
    /// What comes after the first and those ahead.
    pub fn after_firsts(&self) -> Following<'_> {
        let mut all = self.following();
        all.nth(AHEAD);
        all
    }
}

impl Ranks {
    /// All of them, piece by piece: for whoever counts a million.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = &[Rank]> {
        self.pieces.iter().map(Vec::as_slice)
    }
}

impl<T: Ranked> Ranks<T> {
    pub fn len(&self) -> usize {
        self.len
    }
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// Whether it comes after all that are here.
    pub fn ends_before(&self, rank: Rank) -> bool {
        self.pieces.last().and_then(|piece| piece.last()).is_none_or(|last| last.rank() < rank)
    }
    pub fn get(&self, rank: Rank) -> Option<&T> {
        let piece = self.pieces.get(self.piece(rank))?;
        place_in(piece, rank).ok().map(|place| &piece[place])
    }
    pub fn contains(&self, rank: Rank) -> bool {
        self.get(rank).is_some()
    }

    /// How many stand before this one.
    pub fn before(&self, rank: Rank) -> usize {
        let at = self.piece(rank);
        let whole: usize = self.pieces[..at].iter().map(Vec::len).sum();
        whole
            + self
                .pieces
                .get(at)
                .map_or(0, |piece| piece.partition_point(|other| other.rank() < rank))
    }

    pub fn following(&self) -> Following<'_, T> {
        match self.pieces.split_first() {
            Some((piece, pieces)) => Following { piece, pieces },
            None => Following { piece: &[], pieces: &[] },
        }
    }

    /// The piece that holds this rank or would.
    fn piece(&self, rank: Rank) -> usize {
        self.pieces.partition_point(|piece| piece[piece.len() - 1].rank() < rank)
    }

    const PIECE: usize = PIECE / size_of::<T>();

    /// Whether it is new here; it takes the place of one of the same rank.
    pub(crate) fn insert(&mut self, new: T) -> bool {
        let at = self.piece(new.rank());
        let Some(piece) = self.pieces.get_mut(at) else {
            self.append(new);
            return true;
        };
        let place = match place_in(piece, new.rank()) {
            Ok(place) => {
                piece[place] = new;
                return false;
            }
            Err(place) => place,
        };
        piece.insert(place, new);
        if piece.len() > Self::PIECE {
            let rest = piece.split_off(Self::PIECE / 2);
            self.pieces.insert(at + 1, rest);
        }
        self.len += 1;
        true
    }

    /// Most jobs come last; they fill pieces to the brim.
    fn append(&mut self, new: T) {
        match self.pieces.last_mut().filter(|piece| piece.len() < Self::PIECE) {
            Some(piece) => piece.push(new),
            None => self.pieces.push(vec![new]),
        }
        self.len += 1;
    }

    pub(crate) fn remove(&mut self, rank: Rank) -> bool {
        let at = self.piece(rank);
        let Some(piece) = self.pieces.get_mut(at) else { return false };
        let Ok(place) = place_in(piece, rank) else { return false };
        piece.remove(place);
        if piece.is_empty() {
            self.pieces.remove(at);
        }
        self.len -= 1;
        true
    }
}

/// Where this rank is in a piece, or would be.
fn place_in<T: Ranked>(piece: &[T], rank: Rank) -> Result<usize, usize> {
    piece.binary_search_by(|other| other.rank().cmp(&rank))
}

/// By what they hold: how it is cut into pieces depends on the order it came in.
impl<T: Ranked + PartialEq> PartialEq for Ranks<T> {
    fn eq(&self, other: &Ranks<T>) -> bool {
        self.len == other.len && self.following().eq(other.following())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn rank(key: i64) -> Rank {
        Rank::new(key, JobId(key.unsigned_abs()), Kind::Single)
    }

    #[test]
    fn a_million_in_order_fill_their_pieces() {
        let mut ranks = Ranks::default();
        for key in 0..100_000 {
            assert!(ranks.insert(rank(key)));
        }
        assert_eq!(ranks.pieces.len(), 100_000usize.div_ceil(Ranks::<Rank>::PIECE));
        assert_eq!(ranks.before(rank(70_001)), 70_001);
        assert_eq!(ranks.following().nth(512), Some(&rank(512)), "the first of the second piece");
    }

    proptest! {
        #[test]
        fn it_is_what_a_sorted_set_would_be(
            steps in prop::collection::vec((0i64..2_000, prop::bool::weighted(0.7)), 0..3_000),
        ) {
            let mut ranks = Ranks::default();
            let mut plain = BTreeSet::new();
            for (key, put) in steps {
                let (ours, theirs) = if put {
                    (ranks.insert(rank(key)), plain.insert(rank(key)))
                } else {
                    (ranks.remove(rank(key)), plain.remove(&rank(key)))
                };
                prop_assert_eq!(ours, theirs);
            }
            prop_assert!(ranks.following().eq(&plain));
            prop_assert_eq!(ranks.len(), plain.len());
            for key in (0..2_000).step_by(97) {
                prop_assert_eq!(ranks.before(rank(key)), plain.range(..rank(key)).count());
                prop_assert_eq!(ranks.contains(rank(key)), plain.contains(&rank(key)));
            }
        }
    }
}
