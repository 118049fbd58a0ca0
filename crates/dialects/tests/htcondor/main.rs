//! Submit files through the public door: what becomes of them, and what hostile ones end in. That
//! they mean what they mean to HTCondor itself is checked in the command line's tests.

mod hostile;
mod jobs;
mod messages;
mod table;

use shipway_dialects::htcondor::{
    FoundFile, Matching, Outside, Setting, Submit, SubmitError, read,
};
use std::collections::BTreeMap;

/// Files and variables that exist for a test only.
#[derive(Default)]
struct World {
    files: BTreeMap<&'static str, String>,
}

impl Outside for World {
    fn variable(&self, name: &str) -> Option<String> {
        (name == "HOME").then(|| "/home/me".to_string())
    }

    fn variables(&self) -> Vec<(String, String)> {
        vec![("HOME".into(), "/home/me".into()), ("LANG".into(), "C".into())]
    }

    fn read(&self, name: &str, _: &str) -> Result<Option<FoundFile>, String> {
        let found = |text: &String| FoundFile { name: name.into(), text: text.clone() };
        Ok(self.files.get(name).map(found))
    }

    fn matching(&self, pattern: &str, _: Matching) -> Result<Vec<String>, String> {
        let listed =
            self.files.keys().filter(|name| name.starts_with(pattern.trim_end_matches('*')));
        Ok(listed.map(|name| (*name).to_string()).collect())
    }
}

fn setting() -> Setting {
    Setting {
        submit_file: "x.sub".into(),
        directory: "/home/ada".into(),
        seconds: 1_700_000_000,
        date: (2023, 11, 14),
        seed: 1,
        architecture: "X86_64".into(),
        ..Setting::default()
    }
}

fn submit_with(world: &World, text: &str) -> Result<Submit, SubmitError> {
    read(text, &setting(), world)
}

fn submit(text: &str) -> Result<Submit, SubmitError> {
    submit_with(&World::default(), text)
}

/// What is said of a file that is refused.
fn refusal(text: &str) -> String {
    submit(text).expect_err("it should be refused").to_string()
}
