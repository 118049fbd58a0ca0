//! The keys a job file may have, and the nearest known one to a key that is not.

use super::{Wrong, quoted};
use serde_json::Value;
use shipway_model::Resources;

const JOB: &[&str] = &[
    "name",
    "command",
    "script",
    "env",
    "workdir",
    "image",
    "binds",
    "network",
    "stdin",
    "stdout",
    "stderr",
    "inputs",
    "sandbox",
    "outputs",
    "event_log",
    "basedir",
    "labels",
    "priority",
    "array",
    "each",
    "after",
    "retries",
    "time_limit",
    "max_running",
    "resources",
    "requirements",
    "rank",
    "tags",
    "log_limit",
];
const GPU: &[&str] =
    &["count", "share", "model", "memory", "capability", "driver", "vendor", "slice"];
const OUTPUTS: &[&str] = &["files", "renamed", "to", "on"];
const RETRIES: &[&str] = &["limit", "delay", "on"];
const TIME_LIMIT: &[&str] = &["limit", "warn", "grace"];

/// Where keys are fixed: how people call the place, the path to it, what is known there.
const PLACES: &[(&str, &[&str], &[&str])] = &[
    ("a job", &[], JOB),
    ("`resources`", &["resources"], Resources::KEYS),
    ("`gpu`", &["resources", "gpu"], GPU),
    ("`outputs`", &["outputs"], OUTPUTS),
    ("`retries`", &["retries"], RETRIES),
    ("`time_limit`", &["time_limit"], TIME_LIMIT),
];

/// Further away than this is not a slip of the fingers.
const FARTHEST: usize = 3;
/// A longer key is no misspelling of ours; the distance costs the product of the lengths.
const LONGEST: usize = 40;

pub(super) fn first_unknown(job: &Value) -> Option<Wrong> {
    PLACES.iter().find_map(|(of, path, known)| {
        let inner = path.iter().try_fold(job, |value, key| value.get(key))?;
        let key = inner.as_object()?.keys().find(|key| !known.contains(&key.as_str()))?;
        Some(Wrong::Key { key: quoted(key), of, known })
    })
}

pub(crate) fn nearest<'k>(key: &str, known: &[&'k str]) -> Option<&'k str> {
    if key.chars().count() > LONGEST {
        return None;
    }
    let key = key.to_ascii_lowercase().replace('-', "_");
    // Of two equally near ones the one it begins with is meant: `gpus` is `gpu`, not `cpus`.
    let near =
        |known: &&'k str| (strsim::osa_distance(&key, known), !key.starts_with(*known), *known);
    let (distance, _, found) = known.iter().map(near).min()?;
    // Half of the letters must be right, or `x` would be near to `on`.
    (distance <= FARTHEST && distance * 2 <= found.len()).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use shipway_model::{JobSpec, Kind};

    #[test]
    fn the_nearest_key_is_found_and_a_far_one_is_not() {
        for (key, expected) in [
            ("comand", Some("command")),
            ("Time-Limit", Some("time_limit")),
            ("retry", Some("retries")),
            ("resource", Some("resources")),
            ("envs", Some("env")),
            ("x", None),
            ("kubernetes", None),
        ] {
            assert_eq!(nearest(key, JOB), expected, "{key}");
        }
    }

    /// The tables above repeat what the types say; this is what notices when they differ.
    #[test]
    fn the_known_keys_are_those_of_the_types() {
        let mut all = serde_json::json!({
            "name": "n", "command": ["c"], "script": "s", "env": {"A": "b"}, "workdir": "/w",
            "image": "host", "binds": ["/a"], "network": "none",
            "stdin": "/i", "stdout": "/o", "stderr": "/e", "inputs": ["/a"], "basedir": "/b",
            "outputs": {"files": "new", "renamed": ["a:b"], "to": "/t", "on": "success"},
            "event_log": "/l", "sandbox": format!("sha256:{}", "0".repeat(64)),
            "labels": {"l": "1"}, "priority": 1, "array": "1-2", "after": ["1:ok"],
            "each": ["a"], "retries": {"limit": 1, "delay": "1s", "on": "75"},
            "time_limit": {"limit": "1h", "warn": "USR1", "grace": "1s"}, "max_running": 1,
            "resources": {"named": {"x": 1}, "gpu": {
                "count": 1, "share": "0.5", "model": ["a"], "memory": "1GB..",
                "capability": "8.0..", "driver": "550..", "vendor": "nvidia", "slice": "1g.10gb"
            }}, "requirements": "true", "rank": "0", "log_limit": 1,
            "tags": ["infiniband"]
        });
        for kind in Kind::ALL {
            all["resources"][kind.row().name] = 1.into();
        }
        let spec: JobSpec = serde_json::from_value(all.clone()).expect("every key is taken");
        let printed = serde_json::to_value(&spec).expect("printed");
        assert!(first_unknown(&printed).is_none(), "{:?}", first_unknown(&printed));
        for (of, path, known) in PLACES {
            let inner = path.iter().fold(&all, |value, key| &value[*key]);
            let mut tested: Vec<&str> =
                inner.as_object().expect("keys").keys().map(String::as_str).collect();
            let mut known = known.to_vec();
            tested.sort_unstable();
            known.sort_unstable();
            assert_eq!(tested, known, "{of}");
        }
    }
}
