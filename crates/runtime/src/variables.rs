//! The environment of a task on its way through a helper. It is no environment of the helper's:
//! what a loader, an allocator or a library reads there it would do with the helper's rights.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// Names and values; of a name that is there twice the last counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Variables(pub Vec<(OsString, OsString)>);

impl Variables {
    pub(crate) fn value(&self, name: &str) -> Option<&OsStr> {
        let found = self.0.iter().rev().find(|(found, _)| found == name);
        found.map(|(_, value)| value.as_os_str())
    }
}

/// Most are text; what a pilot was started with need not be.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Word<'a> {
    Text(Cow<'a, str>),
    Bytes(Cow<'a, [u8]>),
}

impl<'a> Word<'a> {
    fn of(word: &'a OsStr) -> Self {
        match word.to_str() {
            Some(text) => Self::Text(text.into()),
            None => Self::Bytes(word.as_bytes().into()),
        }
    }

    fn into_word(self) -> OsString {
        match self {
            Self::Text(text) => text.into_owned().into(),
            Self::Bytes(bytes) => OsString::from_vec(bytes.into_owned()),
        }
    }
}

impl Serialize for Variables {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let pairs = self.0.iter().map(|(name, value)| (Word::of(name), Word::of(value)));
        serializer.collect_seq(pairs)
    }
}

impl<'de> Deserialize<'de> for Variables {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let pairs = Vec::<(Word<'_>, Word<'_>)>::deserialize(deserializer)?;
        let pairs = pairs.into_iter().map(|(name, value)| (name.into_word(), value.into_word()));
        Ok(Self(pairs.collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_a_variable_holds_arrives() {
        let pair = |name: &str, value: &[u8]| (name.into(), OsString::from_vec(value.to_vec()));
        let sent = Variables(vec![
            pair("A", "ü\n\"".as_bytes()),
            pair("PATH", b"/a"),
            pair("B", b"\xFF\0x"),
            pair("PATH", b"/b"),
        ]);
        let text = serde_json::to_string(&sent).unwrap();
        let arrived: Variables = serde_json::from_str(&text).unwrap();
        assert_eq!(arrived, sent);
        assert_eq!(arrived.value("PATH"), Some(OsStr::new("/b")));
        assert_eq!(arrived.value("C"), None);
    }
}
