//! The words of one line: taken in order, or by name wherever they stand.

use crate::node::Kind;
use shipway_model::{Bytes, Cores, Millis, Resources};
use std::str::FromStr;

pub(super) struct Words<'a> {
    words: Vec<&'a str>,
}

impl<'a> Words<'a> {
    pub(super) fn new(line: &'a str) -> Self {
        Words { words: line.split_whitespace().collect() }
    }

    pub(super) fn next(&mut self, wanted: &str) -> Result<&'a str, String> {
        if self.words.is_empty() {
            return Err(format!("{wanted} is missing"));
        }
        Ok(self.words.remove(0))
    }

    pub(super) fn rest(&mut self) -> String {
        std::mem::take(&mut self.words).join(" ")
    }

    pub(super) fn end(&self) -> Result<(), String> {
        self.words.first().map_or(Ok(()), |word| Err(format!("`{word}` is not known here")))
    }

    pub(super) fn expect(&mut self, word: &str) -> Result<(), String> {
        let found = self.next(word)?;
        if found == word { Ok(()) } else { Err(format!("`{found}` stands where `{word}` should")) }
    }

    /// Whether this word stands anywhere; it is taken out.
    pub(super) fn flag(&mut self, name: &str) -> bool {
        let at = self.words.iter().position(|word| *word == name);
        at.map(|at| self.words.remove(at)).is_some()
    }

    /// The value of `name=value`, wherever it stands; it is taken out.
    pub(super) fn value(&mut self, name: &str) -> Option<String> {
        let named = |word: &&str| word.split_once('=').is_some_and(|(key, _)| key == name);
        let at = self.words.iter().position(named)?;
        self.words.remove(at).split_once('=').map(|(_, value)| value.to_string())
    }

    pub(super) fn parsed<T: FromStr>(&mut self, name: &str) -> Result<Option<T>, String> {
        let Some(text) = self.value(name) else { return Ok(None) };
        text.parse().map(Some).map_err(|_| format!("`{text}` is no {name}"))
    }

    pub(super) fn number<T: FromStr>(&mut self, wanted: &str) -> Result<T, String> {
        let text = self.next(wanted)?;
        text.parse().map_err(|_| format!("`{text}` is not {wanted}"))
    }

    pub(super) fn span(&mut self, wanted: &str) -> Result<u64, String> {
        self.number::<Millis>(wanted).map(|span| span.0)
    }

    pub(super) fn span_of(&mut self, name: &str) -> Result<Option<u64>, String> {
        Ok(self.parsed::<Millis>(name)?.map(|span| span.0))
    }

    pub(super) fn codes(&mut self, name: &str) -> Result<Option<Vec<i32>>, String> {
        let Some(text) = self.value(name) else { return Ok(None) };
        let codes: Result<Vec<i32>, _> = text.split(',').map(str::parse).collect();
        codes.map(Some).map_err(|_| format!("`{text}` is no list of {name}"))
    }

    pub(super) fn kind(&mut self) -> Result<Kind, String> {
        let cpus = self.parsed("cpus")?.unwrap_or(4);
        Ok(Kind {
            memory: self.parsed("memory")?.unwrap_or(Bytes(16_000_000_000)),
            gpus: self.parsed("gpus")?.unwrap_or(0),
            model: match self.value("model").as_deref() {
                None | Some("A100") => "NVIDIA A100",
                Some("T4") => "Tesla T4",
                Some(other) => return Err(format!("`{other}` is no model known here (A100, T4)")),
            },
            gpu_memory: Bytes(40 << 30),
            ..Kind::plain(cpus, 0)
        })
    }

    pub(super) fn resources(&mut self) -> Result<Resources, String> {
        Ok(Resources {
            cpus: self.parsed("cpus")?.unwrap_or(Cores::whole(1)),
            memory: self.parsed("memory")?.unwrap_or(Bytes(0)),
            gpu: self.parsed("gpus")?,
            ..Resources::default()
        })
    }
}
