//! What a user submits: the job file, as data. Checked by `validate`, expanded by `expand`.

use crate::bind::{BindMount, Network};
use crate::each::Each;
use crate::files::{FileMap, Outputs};
use crate::ids::{BadId, JobId};
use crate::image_ref::{Digest, ImageRef};
use crate::indices::IndexSet;
use crate::limits::{
    DEFAULT_LOG_LIMIT, MAX_ARGS_READ, MAX_BINDS, MAX_DEPENDENCIES, MAX_FILES, MAX_LABELS,
    MAX_NAME_BYTES, MAX_TAGS, MAX_VARIABLES_READ,
};
use crate::reading::{elements, list, map, text_or_whole};
use crate::resources::Resources;
use crate::retry::RetryPolicy;
use crate::time_limit::TimeLimit;
use crate::units::Bytes;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct JobSpec {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Program and arguments; with a script, the script's arguments. One text is run by `sh -c`.
    #[serde(deserialize_with = "words_or_shell", skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// A whole script, run by its `#!` line or by `sh`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub script: Option<String>,
    #[serde(
        deserialize_with = "map::<MAX_VARIABLES_READ, _, _>",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub env: BTreeMap<String, String>,
    /// Where the task runs; a fresh directory of its own when not named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workdir: Option<String>,
    /// The file tree that the tasks stand on, each in a container of its own. Without one it is
    /// what the node has for such tasks: usually its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub image: Option<ImageRef>,
    /// Folders of the node that are seen inside: `SOURCE[:TARGET][:rw]`.
    #[serde(deserialize_with = "list::<MAX_BINDS, _, _>", skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schema(value_type = Vec<String>))]
    pub binds: Vec<BindMount>,
    #[serde(skip_serializing_if = "Network::is_host")]
    pub network: Network,
    /// What the task reads: a file of the node. Empty unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdin: Option<String>,
    /// Files of the node that get what the task prints, when it has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdout: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stderr: Option<String>,
    /// Files and folders of the node that are copied into the task's own work directory before it
    /// starts: `SOURCE[:TARGET]`. A slash at the end of a source means what is in that folder.
    #[serde(deserialize_with = "list::<MAX_FILES, _, _>", skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schema(value_type = Vec<String>))]
    pub inputs: Vec<FileMap>,
    /// The files that travel with the job: the digest of a list of them, which was uploaded before
    /// with all it names. They are put into the task's own work directory before the inputs are,
    /// and outputs are kept by the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub sandbox: Option<Digest>,
    /// What is taken from there when it has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outputs: Option<Outputs>,
    /// A file that gets HTCondor's job event log of this job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_log: Option<String>,
    /// Where relative paths of files above begin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub basedir: Option<String>,
    #[serde(
        deserialize_with = "map::<MAX_LABELS, _, _>",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub labels: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "is_zero")]
    pub priority: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub array: Option<IndexSet>,
    /// One task per row; a row's fields are `{name}` in the command and variables of the task.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<Vec<BTreeMap<String, String>>>))]
    pub each: Option<Each>,
    #[serde(
        deserialize_with = "list::<MAX_DEPENDENCIES, _, _>",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[cfg_attr(feature = "schema", schema(value_type = Vec<String>))]
    pub after: Vec<After>,
    #[serde(skip_serializing_if = "RetryPolicy::is_default")]
    pub retries: RetryPolicy,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_limit: Option<TimeLimit>,
    /// Tasks of this job that may run at the same time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_running: Option<u32>,
    pub resources: Resources,
    /// A ClassAd expression that has to hold for the node's ad.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requirements: Option<String>,
    /// A ClassAd expression: of the nodes that will do, those where it gives more come first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank: Option<String>,
    /// Words that the site it runs at has to have.
    #[serde(deserialize_with = "list::<MAX_TAGS, _, _>", skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Bytes kept of each output stream of each task.
    pub log_limit: Bytes,
}

impl Default for JobSpec {
    fn default() -> Self {
        JobSpec {
            name: String::new(),
            command: Vec::new(),
            script: None,
            env: BTreeMap::new(),
            workdir: None,
            image: None,
            binds: Vec::new(),
            network: Network::default(),
            stdin: None,
            stdout: None,
            stderr: None,
            inputs: Vec::new(),
            sandbox: None,
            outputs: None,
            event_log: None,
            basedir: None,
            labels: BTreeMap::new(),
            priority: 0,
            array: None,
            each: None,
            after: Vec::new(),
            retries: RetryPolicy::default(),
            time_limit: None,
            max_running: None,
            resources: Resources::default(),
            requirements: None,
            rank: None,
            tags: Vec::new(),
            log_limit: DEFAULT_LOG_LIMIT,
        }
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature serde asks for")]
fn is_zero(number: &i32) -> bool {
    *number == 0
}

impl JobSpec {
    /// The indices of its tasks; `None` only for a specification that `validate` refuses.
    pub fn indices(&self) -> Option<IndexSet> {
        match (&self.array, &self.each) {
            (None, None) => Some(IndexSet::single()),
            (Some(array), None) => Some(array.clone()),
            (None, Some(each)) => IndexSet::count(u32::try_from(each.len()).ok()?).ok(),
            (Some(_), Some(_)) => None,
        }
    }

    pub fn is_array(&self) -> bool {
        self.array.is_some() || self.each.is_some()
    }
}

/// `[program, argument…]`, or one text for the shell.
fn words_or_shell<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    struct Words;
    impl<'de> de::Visitor<'de> for Words {
        type Value = Vec<String>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list of words, or one text for the shell")
        }
        fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
            Ok(vec!["/bin/sh".into(), "-c".into(), text.to_string()])
        }
        // Each word is asked for as a text, so that `[sleep, 5]` in YAML keeps its 5 as written.
        fn visit_seq<A: de::SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
            elements::<MAX_ARGS_READ, _, _>(list)
        }
    }
    from.deserialize_any(Words)
}

/// `--after JOB[:ok|:failed|:any]`
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct After {
    pub job: JobId,
    pub condition: Condition,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Condition {
    Ok,
    Failed,
    Any,
}

impl FromStr for After {
    type Err = BadId;
    fn from_str(text: &str) -> Result<Self, BadId> {
        let bad =
            || BadId { text: text.into(), wanted: "dependency (JOB, JOB:ok, JOB:failed, JOB:any)" };
        let (job, condition) = text.split_once(':').unwrap_or((text, "ok"));
        let condition = Condition::of(condition).ok_or_else(bad)?;
        Ok(After { job: job.parse().map_err(|_| bad())?, condition })
    }
}

impl Condition {
    fn of(word: &str) -> Option<Condition> {
        [Condition::Ok, Condition::Failed, Condition::Any]
            .into_iter()
            .find(|condition| condition.to_string() == word)
    }
}

/// A job that has no id yet, by its name: `NAME[:ok|:failed|:any]`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct AfterNamed {
    pub name: String,
    pub condition: Condition,
}

impl FromStr for AfterNamed {
    type Err = BadId;
    fn from_str(text: &str) -> Result<Self, BadId> {
        // A name may have a colon in it.
        let ends =
            text.rsplit_once(':').and_then(|(name, word)| Some((name, Condition::of(word)?)));
        let (name, condition) = ends.unwrap_or((text, Condition::Ok));
        if name.is_empty() || name.len() > MAX_NAME_BYTES {
            let text = text.chars().take(80).collect();
            return Err(BadId {
                text,
                wanted: "name of a job (NAME, NAME:ok, NAME:failed, NAME:any)",
            });
        }
        Ok(AfterNamed { name: name.into(), condition })
    }
}

impl Serialize for AfterNamed {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&format_args!("{}:{}", self.name, self.condition))
    }
}

impl<'de> Deserialize<'de> for AfterNamed {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        text_or_whole("the name of a job such as prepare or prepare:any", from)
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Condition::Ok => "ok",
            Condition::Failed => "failed",
            Condition::Any => "any",
        })
    }
}

impl Serialize for After {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&format_args!("{}:{}", self.job, self.condition))
    }
}

impl<'de> Deserialize<'de> for After {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        text_or_whole("a job such as 12 or 12:any", from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_file_reads_and_prints_the_same() {
        let json = r#"{"name":"fit","command":["python","fit.py","{seed}"],
            "each":[{"seed":1},{"seed":2}],"after":[12,"13:any"],"retries":2,"time_limit":"1h",
            "resources":{"cpus":0.5,"memory":"2GB","gpu":"A100:2"}}"#;
        let spec: JobSpec = serde_json::from_str(json).expect("good");
        assert_eq!(spec.indices().expect("set").len(), 2);
        assert_eq!(spec.after[1].condition, Condition::Any);
        let text = serde_json::to_string(&spec).expect("json");
        assert_eq!(serde_json::from_str::<JobSpec>(&text).expect("back"), spec);
    }

    #[test]
    fn a_text_is_a_shell_command_and_lines_are_rows() {
        let json = r#"{"command":"echo $line","each":["a","b c"]}"#;
        let spec: JobSpec = serde_json::from_str(json).expect("good");
        assert_eq!(spec.command, ["/bin/sh", "-c", "echo $line"]);
        assert_eq!(spec.each.expect("rows").row(1).expect("row")["line"], "b c");
    }

    #[test]
    fn an_unknown_field_is_an_error() {
        let error = serde_json::from_str::<JobSpec>(r#"{"comand":["x"]}"#).expect_err("refused");
        assert!(error.to_string().contains("unknown field `comand`"));
    }
}
