//! The files of a job: which are brought to a task before it starts, which are taken from it when
//! it has ended, and where its streams lead. Texts as users write them, parsed and printed back.
//!
//! Nothing here looks at a file. Paths may hold placeholders (`expand`), so what they lead to is
//! known only where a task is made.

use crate::as_text::as_text;
use crate::limits::MAX_FILES;
use crate::reading::{elements, list, parse};
use crate::spec::JobSpec;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;
use std::str::FromStr;

/// `SOURCE[:TARGET]`. A colon that belongs to a name is written `\:`, a backslash `\\`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileMap {
    pub source: String,
    /// The name of the source unless given; with a slash at its end, a folder that it is put into.
    pub target: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadFileMap {
    #[error("`{0}` names no file (SOURCE[:TARGET])")]
    Empty(String),
    #[error("`{0}` has more than one colon (SOURCE[:TARGET]; write \\: for one in a name)")]
    Colons(String),
    #[error("a file's name cannot contain a NUL byte")]
    Nul,
}

impl FileMap {
    pub fn plain(source: impl Into<String>) -> FileMap {
        FileMap { source: source.into(), target: None }
    }

    pub fn to(source: impl Into<String>, target: impl Into<String>) -> FileMap {
        FileMap { source: source.into(), target: Some(target.into()) }
    }
}

impl FromStr for FileMap {
    type Err = BadFileMap;

    fn from_str(text: &str) -> Result<Self, BadFileMap> {
        let shown = || text.chars().take(200).collect::<String>();
        if text.contains('\0') {
            return Err(BadFileMap::Nul);
        }
        let (mut parts, mut part) = (Vec::new(), String::new());
        let mut letters = text.chars();
        while let Some(letter) = letters.next() {
            match letter {
                ':' => parts.push(std::mem::take(&mut part)),
                '\\' => part.push(letters.next().unwrap_or('\\')),
                letter => part.push(letter),
            }
        }
        parts.push(part);
        if parts.iter().any(String::is_empty) {
            return Err(BadFileMap::Empty(shown()));
        }
        let mut parts = parts.into_iter();
        match (parts.next(), parts.next(), parts.next()) {
            (Some(source), target, None) => Ok(FileMap { source, target }),
            _ => Err(BadFileMap::Colons(shown())),
        }
    }
}

impl fmt::Display for FileMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let written = |name: &str| name.replace('\\', "\\\\").replace(':', "\\:");
        f.write_str(&written(&self.source))?;
        self.target.as_deref().map_or(Ok(()), |target| write!(f, ":{}", written(target)))
    }
}

as_text!(FileMap);

/// What is taken from a task's work directory when it has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Outputs {
    /// `new`, or a list of `NAME[:TARGET]`.
    #[cfg_attr(feature = "schema", schema(value_type = Vec<String>))]
    pub files: OutputFiles,
    /// Of those that are `new`, which go elsewhere: `NAME:TARGET`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schema(value_type = Vec<String>))]
    pub renamed: Vec<FileMap>,
    /// The folder that they are put into: `basedir` unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    #[serde(skip_serializing_if = "TakenOn::is_exit")]
    pub on: TakenOn,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OutputFiles {
    /// Every file at the top of the work directory that is new or was changed.
    New,
    Listed(Vec<FileMap>),
}

/// The word for [`OutputFiles::New`]; a file of that name is `./new`.
pub const NEW: &str = "new";

/// After which ends outputs are taken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum TakenOn {
    /// Whatever its exit code, or the signal that ended it.
    #[default]
    Exit,
    Success,
}

impl TakenOn {
    pub const fn as_str(self) -> &'static str {
        match self {
            TakenOn::Exit => "exit",
            TakenOn::Success => "success",
        }
    }

    #[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature serde asks for")]
    fn is_exit(&self) -> bool {
        *self == TakenOn::Exit
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an end after which outputs are taken (exit or success)")]
pub struct BadTakenOn(String);

impl FromStr for TakenOn {
    type Err = BadTakenOn;

    fn from_str(text: &str) -> Result<Self, BadTakenOn> {
        match text {
            "exit" => Ok(TakenOn::Exit),
            "success" => Ok(TakenOn::Success),
            _ => Err(BadTakenOn(text.chars().take(200).collect())),
        }
    }
}

impl Outputs {
    pub fn listed(files: Vec<FileMap>) -> Outputs {
        Outputs { files: OutputFiles::Listed(files), ..Outputs::new_ones() }
    }

    pub fn new_ones() -> Outputs {
        let (renamed, on) = (Vec::new(), TakenOn::default());
        Outputs { files: OutputFiles::New, renamed, to: None, on }
    }

    /// Those that are named.
    pub fn names(&self) -> &[FileMap] {
        match &self.files {
            OutputFiles::New => &self.renamed,
            OutputFiles::Listed(files) => files,
        }
    }
}

impl Serialize for OutputFiles {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            OutputFiles::New => to.serialize_str(NEW),
            OutputFiles::Listed(files) => to.collect_seq(files),
        }
    }
}

impl<'de> Deserialize<'de> for OutputFiles {
    /// `new`, one file, or a list of files.
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Written;
        impl<'de> de::Visitor<'de> for Written {
            type Value = OutputFiles;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`new`, a file or a list of files")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<OutputFiles, E> {
                match text {
                    NEW => Ok(OutputFiles::New),
                    file => Ok(OutputFiles::Listed(vec![parse(file)?])),
                }
            }
            fn visit_seq<A: de::SeqAccess<'de>>(self, list: A) -> Result<OutputFiles, A::Error> {
                elements::<MAX_FILES, _, _>(list).map(OutputFiles::Listed)
            }
        }
        from.deserialize_any(Written)
    }
}

impl<'de> Deserialize<'de> for Outputs {
    /// The files alone, or keys with `files`.
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Long {
            files: OutputFiles,
            #[serde(default, deserialize_with = "list::<MAX_FILES, _, _>")]
            renamed: Vec<FileMap>,
            to: Option<String>,
            #[serde(default)]
            on: TakenOn,
        }
        struct Written;
        impl<'de> de::Visitor<'de> for Written {
            type Value = Outputs;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("files, or keys with `files`")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Outputs, E> {
                let files = OutputFiles::deserialize(de::value::StrDeserializer::new(text))?;
                Ok(Outputs { files, ..Outputs::new_ones() })
            }
            fn visit_seq<A: de::SeqAccess<'de>>(self, list: A) -> Result<Outputs, A::Error> {
                elements::<MAX_FILES, _, _>(list).map(Outputs::listed)
            }
            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<Outputs, A::Error> {
                let long = Long::deserialize(de::value::MapAccessDeserializer::new(map))?;
                let Long { files, renamed, to, on } = long;
                Ok(Outputs { files, renamed, to, on })
            }
        }
        from.deserialize_any(Written)
    }
}

impl JobSpec {
    /// Whether it says anything of files, so that a folder for relative paths is of use.
    pub fn names_files(&self) -> bool {
        self.streams().next().is_some()
            || self.event_log.is_some()
            || !self.inputs.is_empty()
            || (self.outputs.is_some() && self.sandbox.is_none())
    }

    /// Where its streams lead, by the names of the keys.
    pub fn streams(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let named = [("stdin", &self.stdin), ("stdout", &self.stdout), ("stderr", &self.stderr)];
        named.into_iter().filter_map(|(key, file)| Some((key, file.as_deref()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_reads_back() {
        for text in ["/a", "/a/", "a:b", "in/{line}:x/", r"a\:b:c", r"a\\b", "{job}.{index}"] {
            let parsed: FileMap = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(parsed.to_string(), text);
        }
        assert_eq!(r"a\:b:c".parse(), Ok(FileMap::to("a:b", "c")));
        for text in ["", ":", "a:", ":b", "a:b:c", "a\0b"] {
            assert!(text.parse::<FileMap>().is_err(), "{text}");
        }
    }

    #[test]
    fn outputs_are_written_short_or_long() {
        let read = |json: &str| serde_json::from_str::<Outputs>(json);
        let one = Outputs::listed(vec![FileMap::to("a", "b")]);
        for (json, expected) in [
            (r#""new""#, Outputs::new_ones()),
            (r#""a:b""#, one.clone()),
            (r#"["a:b"]"#, one.clone()),
            (r#"{"files":["a:b"]}"#, one),
            (
                r#"{"files":"new","to":"/t","on":"success"}"#,
                Outputs { to: Some("/t".into()), on: TakenOn::Success, ..Outputs::new_ones() },
            ),
        ] {
            let outputs = read(json).unwrap_or_else(|error| panic!("{json}: {error}"));
            assert_eq!(outputs, expected, "{json}");
            let printed = serde_json::to_string(&outputs).expect("plain");
            assert_eq!(read(&printed).expect("back"), expected);
        }
        for json in ["7", r#"{"to":"/t"}"#, r#"["a:"]"#, r#"{"files":"new","on":"sunday"}"#] {
            assert!(read(json).is_err(), "{json}");
        }
    }
}
