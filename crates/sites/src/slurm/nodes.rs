//! What `sinfo` and `scontrol` say of the nodes, alike ones of a partition together.
//!
//! `sinfo` says what this account may see and use, a row for each node and partition. What a node
//! keeps for itself (MemSpecLimit, CPUEfctv) only `scontrol show node` tells; without it a job that
//! asks for all of a node would wait for ever.

use super::gres::gpus;
use super::rows::{format, rows};
use super::words::{cut, unreadable};
use crate::batch::{EngineError, EngineNodes};
use shipway_model::{Bytes, Cores, Millis};
use std::collections::BTreeMap;

/// Node, partition, availability, state, CPUs, MB, gres, features, time limit, reason. The reason
/// is last: people write it, and it may have line breaks.
const FIELDS: [&str; 10] = ["%N", "%R", "%a", "%T", "%c", "%m", "%G", "%f", "%l", "%E"];

pub(super) const ACT: &str = "list nodes";

/// Names that are shown of alike nodes.
const MAX_NAMES: usize = 32;
/// Reasons that are shown of alike nodes.
const MAX_REASONS: usize = 16;
/// Kinds of nodes; more are none of a machine people could reason about.
const MAX_KINDS: usize = 4_096;
const MAX_FEATURES: usize = 128;
const MIB: u64 = 1 << 20;

pub(super) fn command() -> Vec<String> {
    let format = format!("--format={}", format(&FIELDS));
    vec!["env", "-u", "SINFO_PARTITION", "sinfo", "--noheader", "--Node", "--states=all", &format]
        .into_iter()
        .map(String::from)
        .collect()
}

pub(super) const KEPT_COMMAND: [&str; 4] = ["scontrol", "--oneliner", "show", "node"];

/// What of a node jobs may have, where that is less than it has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Kept {
    cpus: Option<u64>,
    memory_mib: u64,
}

/// By node. The first time a key stands in a line counts: what people wrote comes last.
fn kept(answer: &str) -> BTreeMap<&str, Kept> {
    let mut all = BTreeMap::new();
    for line in answer.lines().filter_map(|line| line.trim().strip_prefix("NodeName=")) {
        let name = line.split_whitespace().next().unwrap_or_default();
        let number = |key: &str| -> Option<u64> {
            let value = line.split_whitespace().find_map(|word| word.strip_prefix(key))?;
            value.strip_prefix('=')?.parse().ok()
        };
        let memory_mib = number("MemSpecLimit").unwrap_or(0);
        all.insert(name, Kept { cpus: number("CPUEfctv"), memory_mib });
    }
    all
}

/// What makes two nodes alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Kind<'a> {
    pub(super) partition: &'a str,
    pub(super) cpus: u64,
    pub(super) memory_mib: u64,
    pub(super) gres: &'a str,
    /// With commas between them.
    pub(super) features: &'a str,
    /// The longest a job may run there.
    pub(super) limit: Option<Millis>,
}

/// Nodes, alike ones together.
#[derive(Debug, Default)]
pub(super) struct Kinds<'a>(BTreeMap<Kind<'a>, EngineNodes>);

impl<'a> Kinds<'a> {
    /// One node as one partition has it. `open` is the partition's state, and `up` where it takes
    /// jobs.
    pub(super) fn add(
        &mut self,
        kind: Kind<'a>,
        name: &str,
        (open, state): (&str, &str),
        reason: &str,
    ) {
        if self.0.len() < MAX_KINDS || self.0.contains_key(&kind) {
            let nodes = self.0.entry(kind).or_insert_with(|| none_of(&kind));
            count(nodes, name, &State::of(open, state), reason);
        }
    }

    pub(super) fn all(self) -> Vec<EngineNodes> {
        self.0.into_values().collect()
    }
}

pub(super) fn parse(sinfo: &str, scontrol: &str) -> Result<Vec<EngineNodes>, EngineError> {
    let kept = kept(scontrol);
    let mut kinds = Kinds::default();
    let mut read = false;
    for [name, partition, open, state, cpus, memory, gres, features, limit, reason] in rows(sinfo) {
        let (Some(cpus), Some(memory)) = (amount(cpus), amount(memory)) else { continue };
        read = true;
        let kept = kept.get(name).copied().unwrap_or_default();
        let cpus = kept.cpus.filter(|usable| *usable > 0).map_or(cpus, |usable| usable.min(cpus));
        let memory_mib = memory.saturating_sub(kept.memory_mib);
        let limit = time_limit(limit);
        let kind = Kind { partition, cpus, memory_mib, gres, features, limit };
        kinds.add(kind, name, (open, state), reason);
    }
    if !read && !sinfo.trim().is_empty() {
        return Err(unreadable(ACT, sinfo));
    }
    Ok(kinds.all())
}

fn none_of(kind: &Kind) -> EngineNodes {
    let features = kind.features.split(',').map(str::trim);
    let features = features.filter(|feature| !matches!(*feature, "" | "(null)"));
    EngineNodes {
        partition: Some(cut(kind.partition)),
        names: Vec::new(),
        count: 0,
        up: 0,
        idle: 0,
        cpus: Cores { milli: kind.cpus.saturating_mul(1000) },
        memory: Bytes(kind.memory_mib.saturating_mul(MIB)),
        gpus: gpus(kind.gres),
        features: features.take(MAX_FEATURES).map(cut).collect(),
        longest: kind.limit,
        down: Vec::new(),
    }
}

fn count(nodes: &mut EngineNodes, name: &str, state: &State, reason: &str) {
    nodes.count = nodes.count.saturating_add(1);
    nodes.up = nodes.up.saturating_add(state.up.into());
    nodes.idle = nodes.idle.saturating_add((state.up && state.idle).into());
    if nodes.names.len() < MAX_NAMES {
        nodes.names.push(cut(name));
    }
    let words = match reason {
        "" | "none" | "None" | "(null)" => state.words.clone(),
        reason => cut(&format!("{}: {reason}", state.words)),
    };
    if !state.up && nodes.down.len() < MAX_REASONS && !nodes.down.contains(&words) {
        nodes.down.push(words);
    }
}

struct State {
    up: bool,
    idle: bool,
    words: String,
}

impl State {
    /// Of the partition and the node. Signs after a state: `~` asleep and `#`, `%` on its way up
    /// or down and `^`, `@` it is or will be started anew, `-` planned for another: all these
    /// serve when it is their turn, as idle or mixed ones do. `*` does not answer, `$` is under
    /// maintenance, `!` is being switched off.
    fn of(open: &str, state: &str) -> State {
        let base = state.trim_end_matches(['*', '~', '#', '!', '%', '$', '@', '^', '-', '+']);
        let signs = state.get(base.len()..).unwrap_or_default();
        // Newer versions may say several: `idle+drain`, `mixed+reserved`.
        let mut parts = base.split('+').map(str::to_ascii_lowercase);
        let serves = parts.clone().all(|part| {
            matches!(
                part.as_str(),
                "idle"
                    | "mixed"
                    | "allocated"
                    | "completing"
                    | "planned"
                    | "cloud"
                    | "dynamic_norm"
                    | "alloc"
                    | "mix"
                    | "comp"
                    | "plnd"
                    | "powered_down"
                    | "power_down"
                    | "powering_up"
                    | "power_up"
                    | "powering_down"
                    | "reboot"
                    | "reboot_requested"
                    | "reboot_issued"
            )
        });
        let is_open = open == "up";
        let idle = matches!(parts.next().as_deref(), Some("idle" | "planned" | "plnd"));
        let words = if is_open { cut(state) } else { format!("partition {}", cut(open)) };
        State { up: is_open && serves && !signs.contains(['*', '$']), idle, words }
    }
}

/// `8000`, `8000+` where a row stands for several.
fn amount(text: &str) -> Option<u64> {
    text.trim_end_matches('+').parse().ok()
}

/// `1-12:00:00`, `2:00`, `infinite`.
fn time_limit(text: &str) -> Option<Millis> {
    let (days, rest) = match text.split_once('-') {
        Some((days, rest)) => (days.parse::<u64>().ok()?, rest),
        None => (0, text),
    };
    let mut seconds = 0_u64;
    for part in rest.split(':') {
        seconds = seconds.checked_mul(60)?.checked_add(part.parse().ok()?)?;
    }
    let seconds = days.checked_mul(24 * 60 * 60)?.checked_add(seconds)?;
    seconds.checked_mul(1000).map(Millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `sinfo` and `scontrol` of one engine in the same state, as its versions tell it.
    const ANSWERS: [(&str, &str); 3] = [
        (
            include_str!("../../tests/fixtures/slurm/22.05.8/sinfo.txt"),
            include_str!("../../tests/fixtures/slurm/22.05.8/scontrol-node.txt"),
        ),
        (
            include_str!("../../tests/fixtures/slurm/24.11.5/sinfo.txt"),
            include_str!("../../tests/fixtures/slurm/24.11.5/scontrol-node.txt"),
        ),
        (
            include_str!("../../tests/fixtures/slurm/26.05.5/sinfo.txt"),
            include_str!("../../tests/fixtures/slurm/26.05.5/scontrol-node.txt"),
        ),
    ];

    fn of<'a>(all: &'a [EngineNodes], partition: &str, name: &str) -> &'a EngineNodes {
        let found = all.iter().find(|nodes| {
            nodes.partition.as_deref() == Some(partition) && nodes.names.iter().any(|it| it == name)
        });
        found.unwrap_or_else(|| panic!("{partition} {name} in {all:?}"))
    }

    #[test]
    fn real_nodes_stand_together_with_those_that_are_alike() {
        for (sinfo, scontrol) in ANSWERS {
            check_real(&parse(sinfo, scontrol).expect("readable"));
        }
    }

    fn check_real(all: &[EngineNodes]) {
        let fast = of(all, "gpu", "n1");
        assert_eq!((fast.names.as_slice(), fast.count), (&["n1".into(), "n2".into()][..], 2));
        assert_eq!((fast.up, fast.idle), (1, 0), "n1 is mixed, n2 is not: {fast:?}");
        assert_eq!(fast.down, ["draining: bad PSU | x"]);
        assert_eq!((fast.cpus, fast.memory), (Cores::whole(16), Bytes(8000 << 20)));
        assert_eq!((fast.gpus[0].kind.as_deref(), fast.gpus[0].count), (Some("a100"), 4));
        assert_eq!(fast.features, ["gpu", "a100"]);
        assert_eq!(fast.longest, Some(Millis((7 * 24 + 12) * 3_600_000)));
        let slow = of(all, "main", "n3");
        assert_eq!(slow.memory, Bytes(7000 << 20), "1000 MB are the node's own");
        assert_eq!((slow.gpus[0].kind.as_deref(), slow.gpus[0].count), (Some("k40"), 2));
        assert_eq!((slow.up, slow.down[0].as_str()), (0, "reserved"));
        let plain = of(all, "short", "n4");
        assert_eq!((plain.gpus.as_slice(), plain.longest), (&[][..], Some(Millis(120_000))));
        assert_eq!((plain.up, plain.down[0].as_str()), (0, "down: two"), "the first line of it");
        assert_eq!(of(all, "closed", "n4").down[0], "partition down: two");
        assert_eq!(of(all, "main", "n4").longest, None);
    }

    #[test]
    fn nodes_that_serve_are_told_from_those_that_do_not() {
        let serve = [
            ("idle", true),
            ("idle~", true),
            ("idle#", true),
            ("planned", true),
            ("mixed", false),
            ("mixed-", false),
            ("allocated@", false),
            ("completing", false),
            ("IDLE+CLOUD+POWERED_DOWN", true),
        ];
        for (state, idle) in serve {
            let state = State::of("up", state);
            assert_eq!((state.up, state.idle), (true, idle), "{}", state.words);
        }
        for state in [
            "down",
            "down*",
            "idle*",
            "drained",
            "draining@",
            "drained$",
            "maint",
            "reserved",
            "fail",
            "failing!",
            "future",
            "inval",
            "unknown",
            "perfctrs",
            "idle+drain",
            "mixed+reserved",
            "idle$",
            "blocked",
            "",
        ] {
            assert!(!State::of("up", state).up, "{state}");
        }
        for open in ["down", "drain", "inact"] {
            assert!(!State::of(open, "idle").up, "{open}");
        }
    }

    #[test]
    fn time_limits_have_their_ways() {
        let table = [
            ("infinite", None),
            ("n/a", None),
            ("30", Some(30)),
            ("2:00", Some(120)),
            ("1:00:00", Some(3600)),
            ("2-00:00:00", Some(172_800)),
            ("99999999999999999999", None),
            ("9999999999999999-00:00:00", None),
        ];
        for (text, seconds) in table {
            assert_eq!(time_limit(text), seconds.map(|it| Millis(it * 1000)), "{text}");
        }
    }

    #[test]
    fn nonsense_is_told_and_a_silent_scontrol_is_not_missed() {
        assert!(parse("sinfo: what?", "").is_err());
        assert_eq!(parse("", "").expect("no nodes"), []);
        let all = parse(ANSWERS[0].0, "").expect("readable");
        assert_eq!(of(&all, "main", "n3").memory, Bytes(8000 << 20));
    }
}
