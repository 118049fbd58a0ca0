//! The ads that a dry run writes: one attribute a line, a blank line between tasks. What a task has
//! in common with the first one is not written again.

use std::collections::BTreeMap;

#[derive(Debug, Clone, Default)]
pub(crate) struct Ad(BTreeMap<String, String>);

impl Ad {
    pub(crate) fn read_all(text: &str) -> Vec<Ad> {
        let mut common = Ad::default();
        let mut ads = Vec::new();
        for block in text.split("\n\n").filter(|block| !block.trim().is_empty()) {
            let mut own = Ad::default();
            let mut last: Option<String> = None;
            for line in block.trim_start().lines() {
                let pair = line.split_once('=').filter(|(name, _)| is_name(name));
                if let Some((name, value)) = pair {
                    own.0.insert(name.into(), value.into());
                    last = Some(name.into());
                    continue;
                }
                // A text of several lines.
                let text = last.as_ref().and_then(|name| own.0.get_mut(name));
                let text = text.unwrap_or_else(|| panic!("`{line}` follows nothing"));
                text.push('\n');
                text.push_str(line);
            }
            let mut whole = common.clone();
            whole.0.extend(own.0);
            if ads.is_empty() {
                common = whole.clone();
            }
            ads.push(whole);
        }
        ads
    }

    pub(crate) fn expression(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        self.expression(name)?.parse().ok()
    }

    /// A text without its quotes.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        let inside = self.expression(name)?.strip_prefix('"')?.strip_suffix('"')?;
        // A backslash is itself, but before a quote.
        Some(inside.replace("\\\"", "\""))
    }

    /// By a name without regard to case and `_`, with or without quotes.
    pub(crate) fn plain(&self, name: &str) -> Option<String> {
        let same = |known: &&String| known.eq_ignore_ascii_case(&name.replace('_', ""));
        let name = self.0.keys().find(same)?;
        self.text(name).or_else(|| self.expression(name).map(str::to_string))
    }

    /// The words of the task's arguments, however they are written down.
    pub(crate) fn arguments(&self) -> Vec<String> {
        match (self.text("Arguments"), self.text("Args")) {
            (Some(new), _) => split(&new),
            (None, Some(old)) => old.split_whitespace().map(str::to_string).collect(),
            (None, None) => Vec::new(),
        }
    }

    pub(crate) fn variables(&self) -> BTreeMap<String, String> {
        let words = match (self.text("Environment"), self.text("Env")) {
            (Some(new), _) => split(&new),
            (None, Some(old)) => old.split(';').map(str::to_string).collect(),
            (None, None) => Vec::new(),
        };
        let pair = |word: String| {
            let (name, value) = word.split_once('=').expect("a pair");
            (name.to_string(), value.to_string())
        };
        words.into_iter().map(pair).collect()
    }

    /// A list of files.
    pub(crate) fn files(&self, name: &str) -> Vec<String> {
        let text = self.text(name).unwrap_or_default();
        let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
        names.map(str::to_string).collect()
    }
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Blanks separate, single quotes keep them, two of those inside are one.
fn split(text: &str) -> Vec<String> {
    let (mut words, mut word, mut open) = (Vec::new(), None::<String>, false);
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\'' if open && letters.next_if_eq(&'\'').is_some() => {
                word.get_or_insert_default().push('\'');
            }
            '\'' => {
                open = !open;
                word.get_or_insert_default();
            }
            letter if letter.is_ascii_whitespace() && !open => words.extend(word.take()),
            letter => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    words
}
