//! What is handed in to slurmrestd for an allocation: the script, and what `sbatch` is told by
//! options in the words of each version. Pure.
//!
//! The engine warns a script only as `sbatch` asks it to (`--signal=B:…`), which v0.0.38 cannot be
//! asked for: so the script warns itself.

use super::super::options;
use super::super::script::{self, BadOrder};
use super::Version;
use crate::batch::{Naming, Order, OrderedGpus};
use serde_json::{Map, Value, json};
use shipway_model::GpuOption;
use std::collections::BTreeMap;

/// What a site's lines may ask for: the option by its long name and its letter, and the key.
const SAID: [(&str, Option<char>, &str); 11] = [
    ("account", Some('A'), "account"),
    ("comment", None, "comment"),
    ("constraint", Some('C'), "constraints"),
    ("gpus", Some('G'), GPUS),
    ("gres", None, GRES),
    ("hold", Some('H'), "hold"),
    ("licenses", Some('L'), "licenses"),
    ("nice", None, "nice"),
    ("qos", Some('q'), "qos"),
    ("reservation", None, "reservation"),
    ("wckey", None, "wckey"),
];
/// As v0.0.38 names them.
const GRES: &str = "gres";
const GPUS: &str = "gpus";
/// That of an account which has just logged in: slurmrestd wants one, and has none to pass on.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";
const MIB: u64 = 1 << 20;

pub(super) fn body(
    order: &Order,
    naming: &Naming,
    user: &str,
    version: Version,
) -> Result<Vec<u8>, BadOrder> {
    let script = script::warning_itself(order)?;
    let mut job = Map::new();
    for line in &order.submit_lines {
        said(line, version, &mut job)?;
    }
    let name = naming.of(&order.allocation);
    job.insert("name".into(), script::word("name", &name)?.into());
    if let Some(partition) = &order.partition {
        job.insert("partition".into(), script::word("partition", partition)?.into());
    }
    if let Some(gpus) = &order.gpus {
        of_gpus(gpus, version, &mut job)?;
    }
    let cpus = script::some("processors", order.cpus.milli.div_ceil(1000))?;
    // Nought would be all the memory of a node.
    let memory = script::some("memory", order.memory.0.div_ceil(MIB))?;
    let environment = [("PATH", PATH), ("USER", user), ("LOGNAME", user)];
    let both = [
        ("tasks", json!(1)),
        ("cpus_per_task", json!(cpus)),
        // The folder it is submitted from need not be there on a node; a pilot has its own log.
        ("current_working_directory", json!("/")),
        ("standard_output", json!("/dev/null")),
        ("standard_error", json!("/dev/null")),
    ];
    // What is lost is asked for again, with other credentials: it is not to be queued again.
    let own = if version.is_plain() {
        [
            ("nodes", json!([1, 1])),
            ("memory_per_node", json!(memory)),
            ("time_limit", json!(script::minutes(order))),
            // It takes no `false` for `requeue`.
            ("no_requeue", json!(true)),
            ("environment", json!(BTreeMap::from(environment))),
        ]
    } else {
        let set = |number: u64| json!({"set": true, "infinite": false, "number": number});
        let environment = environment.map(|(name, value)| format!("{name}={value}"));
        [
            ("minimum_nodes", json!(1)),
            ("memory_per_node", set(memory)),
            ("time_limit", set(script::minutes(order))),
            ("requeue", json!(false)),
            ("environment", json!(environment)),
        ]
    };
    job.extend(both.into_iter().chain(own).map(|(key, value)| (key.to_owned(), value)));
    Ok(json!({"script": script, "job": job}).to_string().into_bytes())
}

/// One line of the site's, as the version has it.
fn said(line: &str, version: Version, job: &mut Map<String, Value>) -> Result<(), BadOrder> {
    let words = options::words(line)?;
    let (option, value) = option_and_value(&words);
    let known = SAID.iter().find(|(long, short, _)| match option.strip_prefix("--") {
        Some(name) => name == *long,
        None => short.is_some_and(|short| option.chars().nth(1) == Some(short)),
    });
    let unknown = || BadOrder::Unsaid { option: option.chars().take(80).collect() };
    let (_, _, key) = known.ok_or_else(unknown)?;
    let value = match (*key, value) {
        ("hold", None) => json!(true),
        ("nice", Some(value)) => json!(value.parse::<i64>().map_err(|_| unknown())?),
        ("hold" | "nice", _) | (_, None) => return Err(unknown()),
        (_, Some(value)) => json!(value),
    };
    insert(key, value, version, job);
    Ok(())
}

/// `--name=value`, `--name value`, `-X value`, `-Xvalue`.
fn option_and_value(words: &[String]) -> (&str, Option<&str>) {
    let option = words.first().map_or("", String::as_str);
    let next = words.get(1).map(String::as_str);
    if option.starts_with("--") {
        return option.split_once('=').map_or((option, next), |(name, value)| (name, Some(value)));
    }
    let letter = option.char_indices().nth(2).map_or(option.len(), |(at, _)| at);
    let (option, rest) = option.split_at(letter);
    (option, Some(rest).filter(|rest| !rest.is_empty()).or(next))
}

fn of_gpus(
    gpus: &OrderedGpus,
    version: Version,
    job: &mut Map<String, Value>,
) -> Result<(), BadOrder> {
    let count = script::some("GPUs", gpus.count.into())?;
    let kind = match &gpus.kind {
        Some(kind) => format!("{}:", script::gpu_kind(kind)?),
        None => String::new(),
    };
    match gpus.request {
        Some(GpuOption::None) => {}
        Some(GpuOption::Gpus) => insert(GPUS, json!(format!("{kind}{count}")), version, job),
        None | Some(GpuOption::Gres) => {
            insert(GRES, json!(format!("gpu:{kind}{count}")), version, job);
        }
    }
    Ok(())
}

/// Later versions name devices as accounting does.
fn insert(key: &str, value: Value, version: Version, job: &mut Map<String, Value>) {
    let (key, value) = match (key, value) {
        (GRES, Value::String(list)) if !version.is_plain() => {
            let each: Vec<String> = list.split(',').map(|one| format!("gres/{one}")).collect();
            ("tres_per_node", json!(each.join(",")))
        }
        (GPUS, Value::String(gpus)) if !version.is_plain() => {
            ("tres_per_job", json!(format!("gres/gpu:{gpus}")))
        }
        other => other,
    };
    job.insert(key.to_owned(), value);
}

/// For people who wrote another.
pub(in super::super) fn what_can_be_said() -> String {
    SAID.map(|(long, _, _)| format!("--{long}")).join(", ")
}

#[cfg(test)]
mod tests;
