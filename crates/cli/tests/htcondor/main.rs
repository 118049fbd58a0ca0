//! Submit files as HTCondor itself reads them: every file of the corpus goes through the real
//! `condor_submit -dry-run` and through ours, and what comes out must be the same.
//!
//! Needs root, for the root of HTCondor (`xtask/src/test/htcondor.sh`). Elsewhere it is a skip that
//! is counted; in CI a failure.

mod ad;
#[path = "../common/mod.rs"]
mod common;
mod compare;
mod engine;
mod ours;
mod running;

use std::path::{Path, PathBuf};

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/htcondor/corpus")
}

fn submit_files() -> Vec<String> {
    let listed = std::fs::read_dir(corpus()).expect("the corpus");
    let names = listed.map(|entry| entry.expect("an entry").file_name().into_string());
    let mut names: Vec<String> = names.map(|name| name.expect("a text")).collect();
    names.retain(|name| Path::new(name).extension().is_some_and(|ending| ending == "sub"));
    names.sort();
    names
}

#[test]
fn every_file_means_what_it_means_to_htcondor() {
    let names = submit_files();
    assert!(names.len() >= 60, "{} files", names.len());
    let Some(answers) = engine::answers(&corpus(), &names) else { return };
    let mut wrong = Vec::new();
    for (name, theirs) in names.iter().zip(&answers.files) {
        let ours = ours::read(&corpus(), &answers.inside, name, theirs.submitted);
        wrong
            .extend(compare::file(name, theirs, &ours).into_iter().map(|w| format!("{name}: {w}")));
    }
    let found = wrong.len();
    assert!(wrong.is_empty(), "{found} differences:\n{}", wrong.join("\n"));
}

/// What is submitted, put together again by the placeholders of each task, is what was read.
#[test]
fn jobs_hold_the_tasks_that_were_read() {
    let mut files = 0;
    for name in submit_files() {
        let Ok(tasks) = ours::read(&corpus(), "/home/ada", &name, 0).tasks else { continue };
        let jobs = ours::jobs(&corpus(), "/home/ada", &name).expect(&name);
        let mut filled: Vec<_> = jobs.iter().flat_map(ours::filled).collect();
        let mut read: Vec<_> = tasks.iter().map(ours::Seen::of).collect();
        filled.sort();
        read.sort();
        assert_eq!(filled, read, "{name}");
        files += 1;
    }
    assert!(files > 60, "{files} files were good");
}
