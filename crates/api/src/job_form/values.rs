//! What each value of a job must be. Whether one is, is asked of the type that reads it, so that
//! this table cannot disagree with it.

use super::{Language, Wrong, quoted};
use serde::de::DeserializeOwned;
use serde_json::Value;
use shipway_model::amounts::Unit;
use shipway_model::retry::RetryPolicy;
use shipway_model::time_limit::{Signal, TimeLimit};
use shipway_model::{
    After, BindMount, Bytes, Cores, Digest, Each, FileMap, GpuRequest, ImageRef, IndexSet, JobSpec,
    Kind, Millis, Network, OutputFiles, Outputs, Resources, TakenOn,
};
use std::collections::BTreeMap;

type Read = fn(&Value) -> Result<(), String>;

const COMMAND: &str = "a list of words, or one text for the shell";
/// A place, what belongs there, and who reads it. Inner places come before the outer ones.
const PLACES: &[(&[&str], &str, Read)] = &[
    (&["name"], TEXT, read::<String>),
    (&["command"], COMMAND, command),
    (&["script"], TEXT, read::<Option<String>>),
    (&["env"], TEXTS, read::<BTreeMap<String, String>>),
    (&["workdir"], "the path of a directory", read::<Option<String>>),
    (&["image"], "an image such as docker://ubuntu:24.04 or host", read::<Option<ImageRef>>),
    (&["binds"], "a list of folders such as /data or /data:/inside:rw", read::<Vec<BindMount>>),
    (&["network"], "host, none or private", read::<Network>),
    (&["stdin"], FILE, read::<Option<String>>),
    (&["stdout"], FILE, read::<Option<String>>),
    (&["stderr"], FILE, read::<Option<String>>),
    (&["inputs"], "a list of files such as data.txt or data/:in", read::<Vec<FileMap>>),
    (&["sandbox"], "the digest of a list of uploaded files (sha256:…)", read::<Option<Digest>>),
    (&["outputs", "files"], FILES_TAKEN, read::<OutputFiles>),
    (&["outputs", "renamed"], "a list of files such as a.txt:b.txt", read::<Vec<FileMap>>),
    (&["outputs", "to"], "the path of a folder", read::<Option<String>>),
    (&["outputs", "on"], "exit or success", read::<TakenOn>),
    (&["outputs"], FILES_TAKEN, read::<Option<Outputs>>),
    (&["event_log"], FILE, read::<Option<String>>),
    (&["basedir"], "the path of a folder", read::<Option<String>>),
    (&["labels"], TEXTS, read::<BTreeMap<String, String>>),
    (&["priority"], "a whole number", read::<i32>),
    (&["array"], "indices such as 1-1000, 0-99:3 or 1,5,9", read::<Option<IndexSet>>),
    (&["each"], "a list of lines, or of rows with plain values", read::<Option<Each>>),
    (&["after"], "a list of jobs such as 12 or 12:any", read::<Vec<After>>),
    (&["retries", "limit"], WHOLE, read::<u32>),
    (&["retries", "delay"], SPAN, read::<Millis>),
    (&["retries", "on"], "ends such as any, 75, 10-20, signal, oom or timeout", retry_on),
    (&["retries"], "a whole number from 0, or keys and values", read::<RetryPolicy>),
    (&["time_limit", "limit"], SPAN, read::<Millis>),
    (&["time_limit", "warn"], "a signal such as TERM or USR1", read::<Signal>),
    (&["time_limit", "grace"], SPAN, read::<Millis>),
    (
        &["time_limit"],
        "a time such as 90s or 1h30m, or keys with `limit`",
        read::<Option<TimeLimit>>,
    ),
    (&["max_running"], WHOLE, read::<Option<u32>>),
    (&["resources", "gpu"], "GPUs such as 2, A100:40GB..:2 or 0.25", read::<Option<GpuRequest>>),
    (&["resources", "named"], "names with whole numbers", read::<BTreeMap<String, u64>>),
    (&["resources"], "keys and values", read::<Resources>),
    (&["requirements"], EXPRESSION, read::<Option<String>>),
    (&["rank"], EXPRESSION, read::<Option<String>>),
    (&["log_limit"], SIZE, read::<Bytes>),
];

const FILE: &str = "the path of a file";
const FILES_TAKEN: &str = "new, or a list of files such as result.txt or a.txt:b.txt";
const TEXT: &str = "a text";
const EXPRESSION: &str = "a ClassAd expression in quotes, such as \"CUDACapability >= 8.0\"";
const TEXTS: &str = "names with texts";
const WHOLE: &str = "a whole number from 0";
const SIZE: &str = "a size such as 500MB or 16GB";
const SPAN: &str = "a time such as 90s or 1h30m";

fn read<T: DeserializeOwned>(value: &Value) -> Result<(), String> {
    T::deserialize(value).map(drop).map_err(|error| error.to_string())
}

/// The command has a reader of its own inside the job.
fn command(value: &Value) -> Result<(), String> {
    read::<JobSpec>(&serde_json::json!({ "command": value }))
}

fn retry_on(value: &Value) -> Result<(), String> {
    read::<RetryPolicy>(&serde_json::json!({ "limit": 1, "on": value }))
}

/// How much of what is countable.
fn amount(unit: Unit) -> (&'static str, Read) {
    match unit {
        Unit::Cores => ("a number of cores such as 4 or 0.5", read::<Cores>),
        Unit::Bytes => (SIZE, read::<Bytes>),
    }
}

pub(super) fn first_wrong(job: &Value, language: Language) -> Option<Wrong> {
    let mut kinds = Kind::ALL.into_iter().map(Kind::row);
    let amount = kinds.find_map(|row| {
        let (wanted, read) = amount(row.unit);
        wrong_at(job, &(&["resources", row.name], wanted, read), language)
    });
    amount.or_else(|| PLACES.iter().find_map(|place| wrong_at(job, place, language)))
}

fn wrong_at(
    job: &Value,
    (path, wanted, read): &(&[&str], &'static str, Read),
    language: Language,
) -> Option<Wrong> {
    let value = path.iter().try_fold(job, |value, key| value.get(key))?;
    let is_text = [TEXT, TEXTS].contains(wanted);
    let told = if is_text && language == Language::Yaml { texts(value) } else { value.clone() };
    let error = read(&told).err()?;
    let whole = path.join(".");
    let (path, value) = one_of_many(whole.clone(), value, is_text, language);
    let plain = matches!(value, Value::Bool(_) | Value::Number(_));
    let text_wanted = is_text || *wanted == COMMAND;
    Some(Wrong::Value {
        wanted: if path == whole { wanted } else { TEXT },
        path,
        found: found(value),
        said: ours(&error),
        quote: plain && text_wanted,
    })
}

/// YAML gives a text for any plain value where one is asked for.
fn texts(value: &Value) -> Value {
    match value {
        Value::Bool(_) | Value::Number(_) => value.to_string().into(),
        Value::Object(map) => {
            let pairs = map.iter().map(|(key, value)| match value {
                Value::Object(_) => (key.clone(), value.clone()),
                _ => (key.clone(), texts(value)),
            });
            Value::Object(pairs.collect())
        }
        Value::Null | Value::String(_) | Value::Array(_) => value.clone(),
    }
}

/// Of names with texts, the one that has none.
fn one_of_many(path: String, value: &Value, is_text: bool, language: Language) -> (String, &Value) {
    let Some(map) = value.as_object().filter(|_| is_text) else { return (path, value) };
    let plain = |value: &Value| match value {
        Value::String(_) => true,
        Value::Bool(_) | Value::Number(_) => language == Language::Yaml,
        Value::Null | Value::Array(_) | Value::Object(_) => false,
    };
    match map.iter().find(|(_, value)| !plain(value)) {
        Some((key, inner)) => (format!("{path}.{}", quoted(key)), inner),
        None => (path, value),
    }
}

fn found(value: &Value) -> String {
    match value {
        Value::Null => "nothing".into(),
        Value::Bool(flag) => format!("the yes-or-no value {flag}"),
        Value::Number(number) => format!("the number {number}"),
        Value::String(text) => format!("the text `{}`", quoted(text)),
        Value::Array(_) => "such a list".into(),
        Value::Object(_) => "such keys and values".into(),
    }
}

/// Complaints of our own types are sentences already; serde's begin with its own words.
fn ours(error: &str) -> Option<String> {
    const SERDES: [&str; 9] = [
        "invalid type",
        "invalid value",
        "invalid length",
        "data did not match",
        "missing field",
        "unknown field",
        "unknown variant",
        "duplicate field",
        "number out of range",
    ];
    let serdes = SERDES.iter().any(|start| error.starts_with(start));
    (!serdes).then(|| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn complaint(job: &Value, language: Language) -> String {
        let wrong = first_wrong(job, language).unwrap_or_else(|| panic!("{job} is right"));
        let hint = wrong.hint().map(|hint| format!(" | {hint}")).unwrap_or_default();
        format!("{wrong}{hint}")
    }

    #[test]
    fn each_place_says_what_belongs_there() {
        use Language::{Json, Yaml};
        for (job, language, expected) in [
            (
                json!({"command": true}),
                Yaml,
                "`command` must be a list of words, or one text for the shell, not the yes-or-no \
                 value true | put it in quotes to make it a text",
            ),
            (
                json!({"priority": "high"}),
                Yaml,
                "`priority` must be a whole number, not the text `high`",
            ),
            (
                json!({"resources": {"memory": "lots"}}),
                Yaml,
                "`resources.memory`: `lots` is not a size (write 500MB, 16GB or 16GiB)",
            ),
            (json!({"env": {"A": 1, "B": [1]}}), Yaml, "`env.B` must be a text, not such a list"),
            (
                json!({"env": {"A": 1}}),
                Json,
                "`env.A` must be a text, not the number 1 | put it in quotes to make it a text",
            ),
            (
                json!({"max_running": -1}),
                Json,
                "`max_running` must be a whole number from 0, not the number -1",
            ),
            (
                json!({"retries": {"limit": 1, "delay": {}}}),
                Json,
                "`retries.delay` must be a time such as 90s or 1h30m, not such keys and values",
            ),
        ] {
            assert_eq!(complaint(&job, language), expected);
        }
        assert_eq!(first_wrong(&json!({"name": 5, "env": {"A": true}}), Yaml), None);
    }

    /// No value of a wrong kind gets by, whatever its place.
    #[test]
    fn every_place_refuses_some_kind() {
        for (path, ..) in PLACES {
            let wrap = |inner: Value| path.iter().rev().fold(inner, |v, key| json!({ *key: v }));
            let kinds = [json!(null), json!(true), json!(-1.5), json!([[1]]), json!({"?": {}})];
            let refused = kinds
                .iter()
                .filter(|kind| first_wrong(&wrap((*kind).clone()), Language::Json).is_some());
            assert!(refused.count() >= 3, "{path:?}");
        }
    }
}
