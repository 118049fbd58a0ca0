//! Submit files of HTCondor: whatever is written, reading ends, and what is submitted are the tasks
//! that were read.

#![no_main]

use libfuzzer_sys::fuzz_target;
use shipway_dialects::htcondor::{
    AtPath, FoundFile, Matching, Outside, Setting, missing, read, tasks,
};

/// Includes and lists of items are the file itself, which is the worst that they can be.
struct Itself<'a>(&'a str);

impl Outside for Itself<'_> {
    fn variable(&self, name: &str) -> Option<String> {
        (name == "HOME").then(|| "/home/somebody".to_string())
    }

    fn variables(&self) -> Vec<(String, String)> {
        vec![("HOME".into(), "/home/somebody".into()), ("A_B".into(), "c d".into())]
    }

    fn read(&self, name: &str, _: &str) -> Result<Option<FoundFile>, String> {
        let found = FoundFile { name: name.into(), text: self.0.into() };
        Ok((!name.contains("none")).then_some(found))
    }

    fn matching(&self, pattern: &str, _: Matching) -> Result<Vec<String>, String> {
        Ok(vec![format!("{pattern}/a b"), "$(Process)".into(), "x".into()])
    }
}

fuzz_target!(|text: &str| {
    let setting = Setting {
        submit_file: "x.sub".into(),
        directory: "/home/ada".into(),
        seed: 1,
        cluster: Some(1),
        ..Setting::default()
    };
    let outside = Itself(text);
    // Many tasks take their time, and have nothing that few have not.
    if text.lines().any(|line| line.bytes().filter(u8::is_ascii_digit).count() > 3) {
        return;
    }
    let Ok(submit) = read(text, &setting, &outside) else {
        return;
    };
    // Whatever is found there, looking ends.
    let _ = missing(&submit, &|path| match path.len() % 4 {
        0 => None,
        1 => Some(AtPath::Folder),
        2 => Some(AtPath::Other),
        _ => Some(AtPath::File { runs: true }),
    });
    let Ok((all, _)) = tasks(text, &setting, &outside) else {
        return;
    };
    assert_eq!(submit.tasks, all.len() as u64);
    let submitted: u64 = submit
        .jobs
        .iter()
        .map(|job| u64::from(job.indices().expect("a checked job").len()))
        .sum();
    assert_eq!(submitted, submit.tasks);
});
