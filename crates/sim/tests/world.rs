//! The modest share of the simulation that runs with every test: some seeds, every scenario.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use shipway_sim::{replay, scenario, seeds};
use std::path::{Path, PathBuf};

const SEEDS: u64 = 10;

fn home() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn check_seed(seed: u64) {
    let report = seeds::run(seed);
    let log = report.log.join("\n");
    assert_eq!(report.violation, None, "seed {seed}\n{log}");
}

#[test]
fn random_worlds_keep_every_promise() {
    (1..=SEEDS).for_each(check_seed);
}

/// All the rest is worth little if this is not found.
#[test]
fn a_reply_that_leaves_before_its_write_is_found() {
    let found: Vec<String> =
        (1..=SEEDS).filter_map(|seed| seeds::run_mistaken(seed).violation).collect();
    let is_it = |what: &&String| what.contains("was accepted and") || what.contains("answered by");
    let found_it = found.iter().filter(is_it).count();
    assert!(found_it > 0, "of {SEEDS} seeds none finds it: {found:?}");
}

/// Seeds that once found something.
#[test]
fn seeds_that_failed_before_pass() {
    let text = std::fs::read_to_string(home().join("seeds.txt")).unwrap();
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    lines.filter(|line| !line.is_empty()).for_each(|line| check_seed(line.parse().unwrap()));
}

#[test]
fn the_same_seed_gives_the_same_world() {
    let (first, second) = (seeds::run(3), seeds::run(3));
    assert_eq!((first.trace, first.totals), (second.trace, second.totals));
    assert_ne!(first.trace, seeds::run(4).trace);
}

#[test]
fn every_scenario_shows_what_it_showed() {
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    let mut found: Vec<PathBuf> =
        std::fs::read_dir(home().join("scenarios")).unwrap().map(|e| e.unwrap().path()).collect();
    found.retain(|path| path.extension().is_some_and(|kind| kind == "txt"));
    found.sort();
    assert!(found.len() >= 6, "the scenarios are gone");
    for path in found {
        let shown = scenario::run(&std::fs::read_to_string(&path).unwrap());
        assert!(!shown.failed, "{}\n{}", path.display(), shown.text);
        let golden = path.with_extension("out");
        if update {
            std::fs::write(&golden, &shown.text).unwrap();
        }
        let expected = std::fs::read_to_string(&golden).unwrap_or_default();
        assert_eq!(shown.text, expected, "{} (UPDATE_GOLDEN=1 rewrites it)", path.display());
    }
}

#[test]
fn a_wrong_expectation_and_an_unknown_word_fail() {
    for text in ["pilot a\nsubmit j1\nadvance 10s\nexpect j1 failed", "pilot a colour=red", "fly"] {
        let shown = scenario::run(text);
        assert!(shown.failed && shown.text.contains("FAILED"), "{}", shown.text);
    }
}

#[test]
fn a_replay_names_the_line_that_breaks() {
    let line = |text: &str| Ok(text.to_string());
    let started = r#"{"v":1,"at":1,"type":"server_started"}"#;
    let story = replay::replay([line(started)].into_iter(), true).unwrap();
    assert!(story.contains("1 events, no violation"), "{story}");
    let ended = r#"{"v":1,"at":2,"type":"attempt_ended"}"#;
    let error = replay::replay([line(started), line(ended)].into_iter(), false).unwrap_err();
    assert!(error.to_string().contains("line 2"), "{error}");
}
