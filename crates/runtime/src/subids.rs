//! Subordinate ids: which of them an account was given, which one a person gets, and in words what
//! is missing where people cannot be kept apart by them. It reads texts and decides; making the
//! user namespace that holds the ids is `native/keeper.rs`.

use crate::plan::Person;
use std::fmt::Write as _;

/// Most ranges that are used of one account: the kernel takes 340 lines in a map, and nobody has
/// been seen with more than a few.
const RANGES: usize = 64;

/// Where suggested ranges begin unless others are there already, as `useradd` does it.
const USUAL_FIRST: u32 = 100_000;
/// How many ids are suggested, as `useradd` does it: one for each person there will ever be.
const USUAL_COUNT: u32 = 65_536;

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
        let all = |ranges: &[Range]| ranges.iter().map(|it| u64::from(it.count)).sum::<u64>();
        u32::try_from(all(&self.uids).min(all(&self.gids))).unwrap_or(u32::MAX)
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

    /// Uid and gid of a person on this node.
    pub fn ids(&self, person: Person) -> Option<(u32, u32)> {
        let at = person.0.get() - 1;
        Some((nth(&self.uids, at)?, nth(&self.gids, at)?))
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
            Self::Map { .. } | Self::Namespace { .. } | Self::Container { .. } => {
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
    use std::num::NonZeroU32;

    fn svc() -> Holder {
        Holder { name: "svc".into(), uid: 990, gid: 980 }
    }

    fn person(number: u32) -> Person {
        Person(NonZeroU32::new(number).unwrap())
    }

    #[test]
    fn a_person_gets_the_same_ids_each_time_and_nobody_elses() {
        let subuid = "ada:100000:65536\nsvc:600000:2\n990:700000:10\nsvc:broken\n";
        let given = Given::read(svc(), subuid, "svc:500000:5\n");
        assert_eq!(given.people(), 5, "as many as there are of both");
        assert_eq!(given.ids(person(1)), Some((600_000, 500_000)));
        assert_eq!(given.ids(person(2)), Some((600_001, 500_001)));
        assert_eq!(given.ids(person(3)), Some((700_000, 500_002)), "the second range");
        assert_eq!(given.ids(person(6)), None);
        let words = ["0", "990", "1", "1", "600000", "2", "3", "700000", "10"];
        assert_eq!(given.uid_map(), words);
        assert_eq!(given.written(), "600000-600001, 700000-700009");
        assert_eq!(given.missing(), None);
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
