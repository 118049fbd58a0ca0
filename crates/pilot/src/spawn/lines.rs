//! What waits for a thread that starts it: everybody has a line of their own, and lines take turns.
//!
//! However many wait in one person's line, the first of another's waits for one of each line.
//! Within a line the order is kept. Not here: locks, threads, and what is tried again later.

use std::collections::VecDeque;

/// Something that is somebody's.
pub(super) trait Owned {
    fn person(&self) -> &str;
}

#[derive(Debug)]
pub(super) struct Lines<T> {
    /// Who is next first. None of them is empty: so the first in each says whose it is.
    people: VecDeque<VecDeque<T>>,
    /// In all lines together.
    len: usize,
    /// The memory of the line that was used up last: whoever has one request after the other would
    /// need some for each.
    spare: VecDeque<T>,
}

impl<T> Default for Lines<T> {
    fn default() -> Self {
        Lines { people: VecDeque::new(), len: 0, spare: VecDeque::new() }
    }
}

impl<T: Owned> Lines<T> {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// How many wait in one person's line.
    pub(super) fn len_of(&self, person: &str) -> usize {
        self.people.iter().find(|line| is_of(line, person)).map_or(0, VecDeque::len)
    }

    /// Behind everything of the same person's.
    pub(super) fn push(&mut self, one: T) {
        self.len += 1;
        if let Some(line) = self.people.iter_mut().find(|line| is_of(line, one.person())) {
            return line.push_back(one);
        }
        let mut line = std::mem::take(&mut self.spare);
        line.push_back(one);
        self.people.push_back(line);
    }

    /// The first in the line of whoever is next.
    pub(super) fn pop(&mut self) -> Option<T> {
        let mut line = self.people.pop_front()?;
        let one = line.pop_front()?;
        self.len -= 1;
        if line.is_empty() {
            self.spare = line;
        } else {
            self.people.push_back(line);
        }
        Some(one)
    }

    /// Takes one out of its line.
    pub(super) fn remove(&mut self, is_it: impl Fn(&T) -> bool) -> Option<T> {
        let found = |(number, line): (usize, &VecDeque<T>)| {
            line.iter().position(&is_it).map(|at| (number, at))
        };
        let (number, at) = self.people.iter().enumerate().find_map(found)?;
        let line = self.people.get_mut(number)?;
        let removed = line.remove(at)?;
        self.len -= 1;
        if line.is_empty() {
            self.people.remove(number);
        }
        Some(removed)
    }
}

fn is_of<T: Owned>(line: &VecDeque<T>, person: &str) -> bool {
    line.front().is_some_and(|first| first.person() == person)
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Owned for (&str, u32) {
        fn person(&self) -> &str {
            self.0
        }
    }

    fn lines(of: &[(&'static str, u32)]) -> Lines<(&'static str, u32)> {
        let mut lines = Lines::default();
        for (name, count) in of {
            (0..*count).for_each(|number| lines.push((*name, number)));
        }
        lines
    }

    fn all<T: Owned>(lines: &mut Lines<T>) -> Vec<T> {
        std::iter::from_fn(|| lines.pop()).collect()
    }

    #[test]
    fn people_take_turns_however_many_of_one_wait() {
        let mut lines = lines(&[("eve", 1_000), ("bob", 3), ("ada", 1)]);
        assert_eq!((lines.len(), lines.len_of("eve"), lines.len_of("bob")), (1_004, 1_000, 3));
        let taken = all(&mut lines);
        let first: Vec<&str> = taken.iter().take(8).map(|(name, _)| *name).collect();
        assert_eq!(first, ["eve", "bob", "ada", "eve", "bob", "eve", "bob", "eve"]);
        for name in ["eve", "bob"] {
            let numbers = taken.iter().filter(|one| one.0 == name).map(|(_, number)| *number);
            assert!(numbers.is_sorted(), "the order of {name}'s is kept");
        }
        assert_eq!(taken.len(), 1_004, "nothing is lost");
        assert!(
            lines.len() == 0 && lines.people.is_empty(),
            "lines that are used up are forgotten"
        );
    }

    #[test]
    fn whoever_comes_again_at_once_does_not_come_before_others() {
        let mut lines = lines(&[("eve", 1), ("bob", 1)]);
        assert_eq!(lines.pop(), Some(("eve", 0)));
        lines.push(("eve", 1));
        assert_eq!(all(&mut lines), [("bob", 0), ("eve", 1)]);
    }

    #[test]
    fn what_is_removed_leaves_the_others_where_they_are() {
        let mut lines = lines(&[("eve", 3), ("bob", 1), ("ada", 1)]);
        assert_eq!(lines.remove(|one| *one == ("eve", 1)), Some(("eve", 1)));
        assert_eq!(lines.remove(|one| *one == ("bob", 0)), Some(("bob", 0)));
        assert_eq!(lines.remove(|one| *one == ("bob", 0)), None);
        assert_eq!(lines.len(), 3);
        assert_eq!(all(&mut lines), [("eve", 0), ("ada", 0), ("eve", 2)]);
    }
}
