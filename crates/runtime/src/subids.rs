//! Subordinate ids: which of them an account was given, which one a person gets, and in words what
//! is missing where people cannot be kept apart by them. It reads texts and decides; making the
//! user namespace that holds the ids is `native/keeper.rs`.

use crate::plan::Person;
use std::fmt::Write as _;
use std::num::NonZeroU32;
use std::ops::RangeInclusive;

/// Most ranges that are used of one account: the kernel takes 340 lines in a map, and nobody has
/// been seen with more than a few.
const RANGES: usize = 64;

/// Where suggested ranges begin unless others are there already, as `useradd` does it.
const USUAL_FIRST: u32 = 100_000;
/// How many ids are suggested, as `useradd` does it: one for each person there will ever be.
const USUAL_COUNT: u32 = 65_536;

/// Which ones of its ids are high, and yet users of the account's own containers, in which they are
/// counted from 1 on: `nonroot` and `nobody` of many images, and no user at all in sixteen bits.
const IN_IMAGES: RangeInclusive<u32> = 65_532..=65_535;

/// Ids that follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    pub first: u32,
    pub count: u32,
}

impl Range {
    fn has(self, id: u32) -> bool {
        id.checked_sub(self.first).is_some_and(|above| above < self.count)
    }

    fn meets(self, other: Self) -> bool {
        self.has(other.first) || other.has(self.first)
    }

    /// All its ids are numbers, none is root's or stands for "no id".
    fn is_sound(self) -> bool {
        let last = self.count.checked_sub(1).and_then(|more| self.first.checked_add(more));
        self.first > 0 && last.is_some_and(|last| last < u32::MAX)
    }
}

/// The account that the ids were given to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    pub name: String,
    pub uid: u32,
    pub gid: u32,
}

/// What one account was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    pub holder: Holder,
    uids: Vec<Range>,
    gids: Vec<Range>,
}

impl Given {
    /// From the texts of `/etc/subuid` and `/etc/subgid`: lines of a name or a number, the first
    /// id and how many there are.
    pub fn read(holder: Holder, subuid: &str, subgid: &str) -> Self {
        let uids = usable(lines_of(subuid, &holder), holder.uid);
        let gids = usable(lines_of(subgid, &holder), holder.gid);
        Self { holder, uids, gids }
    }

    /// How many people can have an id of their own.
    pub fn people(&self) -> u32 {
        let all = |ranges: &[Range]| {
            parts(ranges).fold(0_u32, |sum, part| sum.saturating_add(part.for_people()))
        };
        all(&self.uids).min(all(&self.gids))
    }

    /// What is not there at all.
    pub fn missing(&self) -> Option<Missing> {
        let name = self.holder.name.clone();
        match (self.uids.is_empty(), self.gids.is_empty()) {
            (true, _) => Some(Missing::Uids { holder: name }),
            (false, true) => Some(Missing::Gids { holder: name }),
            (false, false) => None,
        }
    }

    /// Who somebody is, by the number that they are counted by: the same each time, also when
    /// another range was given behind these, or one of the usual size made longer.
    ///
    /// Of each range, or of each part of the usual size, the last id comes first. From the first on
    /// they are the users of whatever containers the account has of its own (podman, buildah),
    /// whose files are not for others.
    pub fn person(&self, number: NonZeroU32) -> Option<Person> {
        Some(Person { uid: place(&self.uids, number)?, gid: place(&self.gids, number)? })
    }

    /// Uid and gid of a person on this node.
    pub fn ids(&self, person: Person) -> Option<(u32, u32)> {
        Some((nth(&self.uids, person.uid.get() - 1)?, nth(&self.gids, person.gid.get() - 1)?))
    }

    /// What `newuidmap` is told behind the number of a process: the account is 0, and its ids
    /// follow from 1 on.
    pub fn uid_map(&self) -> Vec<String> {
        map(self.holder.uid, &self.uids)
    }

    /// The same for `newgidmap`.
    pub fn gid_map(&self) -> Vec<String> {
        map(self.holder.gid, &self.gids)
    }

    /// The ids as people write them.
    pub fn written(&self) -> String {
        let mut text = String::new();
        for range in &self.uids {
            let between = if text.is_empty() { "" } else { ", " };
            let last = range.first + (range.count - 1);
            let _text_takes_all = write!(text, "{between}{}-{last}", range.first);
        }
        text
    }
}

fn lines_of(text: &str, holder: &Holder) -> Vec<Range> {
    let number = holder.uid.to_string();
    let lines = text.lines().filter_map(|line| {
        let fields: Vec<&str> = line.trim().split(':').collect();
        let [whose, first, count] = fields[..] else { return None };
        let is_holders = whose == holder.name || whose == number;
        is_holders.then_some(Range { first: first.parse().ok()?, count: count.parse().ok()? })
    });
    lines.collect()
}

/// Those that can stand in one map together with the account's own id.
fn usable(ranges: Vec<Range>, own: u32) -> Vec<Range> {
    let mut kept: Vec<Range> = Vec::new();
    for range in ranges.into_iter().filter(|range| range.is_sound() && !range.has(own)) {
        if kept.len() < RANGES && !kept.iter().any(|other| other.meets(range)) {
            kept.push(range);
        }
    }
    kept
}

fn nth(ranges: &[Range], mut at: u32) -> Option<u32> {
    for range in ranges {
        match at.checked_sub(range.count) {
            None => return range.first.checked_add(at),
            Some(left) => at = left,
        }
    }
    None
}

/// Where the ids of a range, or of a part of it, stand among all of an account's.
#[derive(Debug, Clone, Copy)]
struct Part {
    /// How many come before.
    before: u32,
    last: u32,
}

/// What could not be counted is left out.
fn parts(ranges: &[Range]) -> impl Iterator<Item = Part> {
    let sizes = |range: &Range| {
        let count = range.count;
        (0..count).step_by(USUAL_COUNT as usize).map(move |at| (count - at).min(USUAL_COUNT))
    };
    ranges.iter().flat_map(sizes).scan(0_u32, |before, size| {
        let part = Part { before: *before, last: before.checked_add(size)? };
        *before = part.last;
        Some(part)
    })
}

impl Part {
    /// How many of those that nobody gets are in it, and the last of them.
    fn left_out(self) -> (u32, u32) {
        let last = self.last.min(*IN_IMAGES.end());
        let before = self.before.max(*IN_IMAGES.start() - 1);
        (last.saturating_sub(before), last)
    }

    fn for_people(self) -> u32 {
        self.last - self.before - self.left_out().0
    }

    /// From the last one on; `at` is less than what there is for people.
    fn nth_last(self, at: u32) -> u32 {
        let (place, (count, last)) = (self.last - at, self.left_out());
        if count > 0 && place <= last { place - count } else { place }
    }
}

/// Which one of an account's ids somebody has, counted from 1.
fn place(ranges: &[Range], number: NonZeroU32) -> Option<NonZeroU32> {
    let mut at = number.get() - 1;
    for part in parts(ranges) {
        match at.checked_sub(part.for_people()) {
            None => return NonZeroU32::new(part.nth_last(at)),
            Some(left) => at = left,
        }
    }
    None
}

fn map(own: u32, ranges: &[Range]) -> Vec<String> {
    let mut words = vec![0, own, 1];
    let mut inside = 1_u32;
    for range in ranges {
        words.extend([inside, range.first, range.count]);
        inside = inside.saturating_add(range.count);
    }
    words.iter().map(ToString::to_string).collect()
}

/// Why people are not kept apart by subordinate ids.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Missing {
    #[error("{program} is not installed")]
    Program { program: &'static str },
    #[error("{holder} has no subordinate ids")]
    Uids { holder: String },
    #[error("{holder} has subordinate user ids but no group ids")]
    Gids { holder: String },
    #[error(
        "{program} may not map ids: its set-user-id bit is lost, its file system is nosuid, or \
         the service has NoNewPrivileges="
    )]
    MayNotMap { program: &'static str },
    #[error("{program} failed: {said}")]
    Map { program: &'static str, said: String },
    #[error("cannot tell which subordinate ids there are: {why}")]
    Unasked { why: String },
    #[error("people had subordinate ids here until now, and {now}")]
    Gone { now: String },
    #[error("a user namespace cannot be made: {why}")]
    Namespace { why: String },
    #[error("a container cannot be made as another user: {why}")]
    Container { why: String },
}

impl Missing {
    /// What a program said that could not map ids.
    pub fn said_by(program: &'static str, holder: &Holder, said: &str) -> Self {
        let name = holder.name.clone();
        match program {
            "newgidmap" if said.contains("not allowed") => Self::Gids { holder: name },
            _ if said.contains("not allowed") => Self::Uids { holder: name },
            _ if said.contains("Operation not permitted") => Self::MayNotMap { program },
            _ => Self::Map { program, said: said.trim().into() },
        }
    }

    /// Whether the node is made so. What else went wrong may be the doing of whoever's tasks are
    /// to be kept apart.
    pub fn is_of_the_node(&self) -> bool {
        match self {
            Self::Program { .. }
            | Self::Uids { .. }
            | Self::Gids { .. }
            | Self::MayNotMap { .. } => true,
            Self::Map { .. }
            | Self::Unasked { .. }
            | Self::Gone { .. }
            | Self::Namespace { .. }
            | Self::Container { .. } => false,
        }
    }

    /// What helps; `free` is a range that nobody has yet.
    pub fn fix(&self, free: Range) -> String {
        let span = format!("{}-{}", free.first, free.first + (free.count - 1));
        match self {
            Self::Program { .. } => "as root: apt install uidmap (elsewhere shadow-utils)".into(),
            Self::Uids { holder } => {
                format!("as root: usermod --add-subuids {span} --add-subgids {span} {holder}")
            }
            Self::Gids { holder } => format!("as root: usermod --add-subgids {span} {holder}"),
            Self::MayNotMap { program } => {
                format!("as root: chmod u+s $(command -v {program}); no NoNewPrivileges=")
            }
            Self::Map { .. }
            | Self::Unasked { .. }
            | Self::Gone { .. }
            | Self::Namespace { .. }
            | Self::Container { .. } => {
                "newuidmap and newgidmap of the package uidmap, ids in /etc/subuid and \
                 /etc/subgid, and user namespaces for ordinary users"
                    .into()
            }
        }
    }
}

/// A range above all that are given.
pub fn free_range(subuid: &str, subgid: &str) -> Range {
    let end = |line: &str| {
        let mut numbers = line.trim().split(':').skip(1).map(str::parse::<u32>);
        let (first, count) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
        first.checked_add(count)
    };
    let ends = subuid.lines().chain(subgid.lines()).filter_map(end);
    let first = ends.max().unwrap_or(0).max(USUAL_FIRST);
    Range { first: first.min(u32::MAX - USUAL_COUNT), count: USUAL_COUNT }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn svc() -> Holder {
        Holder { name: "svc".into(), uid: 990, gid: 980 }
    }

    fn ids(given: &Given, number: u32) -> Option<(u32, u32)> {
        given.ids(given.person(NonZeroU32::new(number).unwrap())?)
    }

    #[test]
    fn a_person_gets_the_same_ids_each_time_and_nobody_elses() {
        let subuid = "ada:100000:65536\nsvc:600000:2\n990:700000:10\nsvc:broken\n";
        let given = Given::read(svc(), subuid, "svc:500000:5\n");
        assert_eq!(given.people(), 5, "as many as there are of both");
        assert_eq!(ids(&given, 1), Some((600_001, 500_004)), "the last of each");
        assert_eq!(ids(&given, 2), Some((600_000, 500_003)));
        assert_eq!(ids(&given, 3), Some((700_009, 500_002)), "the second range");
        assert_eq!(ids(&given, 5), Some((700_007, 500_000)));
        assert_eq!(ids(&given, 6), None);
        let words = ["0", "990", "1", "1", "600000", "2", "3", "700000", "10"];
        assert_eq!(given.uid_map(), words);
        assert_eq!(given.written(), "600000-600001, 700000-700009");
        assert_eq!(given.missing(), None);
    }

    /// Podman and others count the same ids as users 1, 2, 3 and so on of their containers.
    #[test]
    fn nobody_is_a_user_that_images_have() {
        let given = Given::read(svc(), "svc:600000:65536\n", "svc:600000:65536\n");
        assert_eq!(given.people(), 65_532);
        let users: Vec<u32> = (1..=given.people())
            .map(|number| given.person(NonZeroU32::new(number).unwrap()).unwrap().uid.get())
            .collect();
        assert_eq!(users[..3], [65_536, 65_531, 65_530], "neither nobody nor nonroot");
        assert!(users.is_sorted_by(|one, next| one > next), "each is another, down to the first");
        assert_eq!((users.last(), ids(&given, 65_533)), (Some(&1), None));
        let uids: Vec<_> = [1, 2].map(|number| ids(&given, number).unwrap().0).into();
        assert_eq!(uids, [665_535, 665_530]);
    }

    #[test]
    fn another_range_moves_nobody() {
        let few = Given::read(svc(), "svc:600000:10\n", "svc:600000:10\n");
        let lines = "svc:600000:10\nsvc:900000:70000\n";
        let more = Given::read(svc(), lines, lines);
        for number in 1..=10 {
            assert_eq!(ids(&few, number), ids(&more, number));
        }
        assert_eq!((ids(&few, 11), ids(&more, 11)), (None, Some((965_535, 965_535))));
        assert_eq!((more.people(), ids(&more, 70_007)), (70_006, None));
        let all: BTreeSet<_> = (1..=70_006).filter_map(|number| ids(&more, number)).collect();
        assert_eq!(all.len(), 70_006, "nobody has another's");
    }

    #[test]
    fn a_longer_range_of_the_usual_size_moves_nobody() {
        let of = |count: u32| {
            let line = format!("svc:600000:{count}\n");
            Given::read(svc(), &line, &line)
        };
        let (usual, longer) = (of(65_536), of(200_000));
        for number in 1..=usual.people() {
            assert_eq!(ids(&usual, number), ids(&longer, number));
        }
    }

    #[test]
    fn ids_that_are_somebodys_already_are_left_out() {
        let read = |lines: &str| Given::read(svc(), lines, "svc:500000:5\n").uids;
        assert_eq!(read("svc:0:5\n"), [], "root's");
        assert_eq!(read("svc:980:20\n"), [], "its own");
        assert_eq!(read("svc:4294967290:100\nsvc:4294967290:6\nsvc:5:0\n"), []);
        let one = Range { first: 600_000, count: 10 };
        assert_eq!(read("svc:600000:10\nsvc:600005:10\nsvc:599999:2\n"), [one]);
    }

    #[test]
    fn what_is_missing_is_named_with_what_helps() {
        let none = Given::read(svc(), "", "").missing().unwrap();
        let free = free_range("ada:100000:65536\n", "bob:165536:65536\n");
        assert_eq!(none.to_string(), "svc has no subordinate ids");
        let fix = "as root: usermod --add-subuids 231072-296607 --add-subgids 231072-296607 svc";
        assert_eq!(none.fix(free), fix);
        let no_gids = Given::read(svc(), "svc:600000:9\n", "").missing().unwrap();
        assert_eq!(no_gids, Missing::Gids { holder: "svc".into() });
        let said = "newuidmap: uid range [1-65537) -> [600000-665536) not allowed\n";
        assert_eq!(Missing::said_by("newuidmap", &svc(), said), none);
        let said = "newuidmap: write to uid_map failed: Operation not permitted\n";
        let lost = Missing::said_by("newuidmap", &svc(), said);
        assert_eq!(lost, Missing::MayNotMap { program: "newuidmap" });
        assert_eq!(free_range("", "").first, USUAL_FIRST);
        assert!(free_range("x:4294967000:200\n", "").first < u32::MAX - USUAL_COUNT + 1);
    }
}
