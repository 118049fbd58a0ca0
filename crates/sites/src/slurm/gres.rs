//! Generic resources as Slurm writes them: `gpu:a100:4(S:0-1),shard:8`. Only whole GPUs count here.

use super::hosts::split_outside;
use crate::batch::EngineGpus;

/// Kinds of GPU in one node; a longer list is no list of GPUs.
const MAX_KINDS: usize = 32;

/// In the order of their kinds, each once. `(null)`, shards, MPS shares and licences are none.
pub(super) fn gpus(text: &str) -> Vec<EngineGpus> {
    let mut found: Vec<EngineGpus> = Vec::new();
    for (kind, count) in split_outside(text).filter_map(gpu).filter(|(_, count)| *count > 0) {
        let kind = kind.map(String::from);
        if let Some(known) = found.iter_mut().find(|known| known.kind == kind) {
            known.count = known.count.saturating_add(count);
        } else if found.len() < MAX_KINDS {
            found.push(EngineGpus { kind, count, memory: None, capability: None });
        }
    }
    found.sort();
    found
}

/// `gpu:4`, `gpu:a100`, `gpu:1g.10gb:7(IDX:0-6)`.
fn gpu(entry: &str) -> Option<(Option<&str>, u32)> {
    // Sockets or indexes.
    let entry = entry.split_once('(').map_or(entry, |(entry, _)| entry);
    let rest = match entry.trim().strip_prefix("gpu")? {
        "" => return Some((None, 1)),
        rest => rest.strip_prefix(':')?,
    };
    match rest.rsplit_once(':') {
        Some((kind, amount)) => Some((Some(kind), number(amount)?)),
        None if digits(rest) => Some((None, number(rest)?)),
        None => Some((Some(rest), 1)),
    }
}

fn digits(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

fn number(text: &str) -> Option<u32> {
    digits(text).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpus_are_told_from_what_is_none() {
        let table = [
            ("gpu:a100:4(S:0-1)", "a100 4"),
            ("gpu:4", "- 4"),
            ("gpu", "- 1"),
            ("gpu:a100", "a100 1"),
            ("gpu:a100:2,gpu:k40:1", "a100 2, k40 1"),
            ("gpu:tesla:2(S:0,2-3),gpu:a100:1(S:1)", "a100 1, tesla 2"),
            ("gpu:a100:2(S:0),gpu:a100:2(S:1)", "a100 4"),
            ("gpu:1g.10gb:7(IDX:0-6)", "1g.10gb 7"),
            ("gpu:a100_2g.20gb:3,gpu:a100_3g.40gb:1", "a100_2g.20gb 3, a100_3g.40gb 1"),
            ("(null)", ""),
            ("", ""),
            ("gpu:a100:0", ""),
            ("shard:a100:16,mps:400,nic:2,gpumem:80G", ""),
            ("gpu:a100:4,shard:16", "a100 4"),
            ("gpu:a100:lots", ""),
            ("gpu:99999999999", ""),
        ];
        for (text, expected) in table {
            let shown: Vec<String> = gpus(text)
                .iter()
                .map(|it| format!("{} {}", it.kind.as_deref().unwrap_or("-"), it.count))
                .collect();
            assert_eq!(shown.join(", "), expected, "{text}");
        }
    }

    #[test]
    fn kinds_have_a_bound() {
        let many: Vec<String> = (0..1000).map(|kind| format!("gpu:k{kind}:1")).collect();
        assert_eq!(gpus(&many.join(",")).len(), MAX_KINDS);
    }
}
