//! Files that were made to hurt: each ends in an error that names the place.

use super::{World, refusal, submit, submit_with};
use shipway_dialects::htcondor::limits::{MAX_LINE_BYTES, MAX_TASKS};
use std::fmt::Write;

const EXECUTABLE: &str = "executable = /bin/true\n";

#[test]
fn macros_that_refer_to_each_other_end() {
    let said =
        refusal(&format!("{EXECUTABLE}a = $(b)\nb = $(c)\nc = $(a)\narguments = $(a)\nqueue\n"));
    assert!(said.starts_with("x.sub, line 5: the macros of `arguments` have no end"), "{said}");
    let said =
        refusal(&format!("{EXECUTABLE}arguments = $(no:$(x))\nx = $Fn(y)$(y)\ny = $(x)\nqueue\n"));
    assert!(said.contains("no end") || said.contains("longer than"), "{said}");
}

#[test]
fn macros_that_double_end() {
    let mut text = format!("{EXECUTABLE}m0 = aaaaaaaaaaaaaaaa\n");
    for level in 1..64 {
        let below = level - 1;
        writeln!(text, "m{level} = $(m{below})$(m{below})").expect("a text");
    }
    let said = refusal(&(text + "arguments = $(m63)\nqueue\n"));
    assert!(said.contains("becomes longer than") || said.contains("no end"), "{said}");
    let mut text = format!("{EXECUTABLE}a = x\n");
    for _ in 0..64 {
        text.push_str("a = $(a)$(a)\n");
    }
    let said = refusal(&(text + "queue\n"));
    assert!(said.contains("the value of `a` becomes longer than"), "{said}");
}

#[test]
fn open_brackets_without_end_end() {
    for opening in ["$(", "$INT(", "$(a:$(", "$F(", "$$(", "$$(["] {
        let many = opening.repeat(1_000_000 / opening.len());
        let text = format!("{EXECUTABLE}arguments = {many}\nqueue 2\n");
        // Text that is no macro is text; what takes too long is said to.
        match submit(&text) {
            Ok(submit) => assert_eq!(submit.tasks, 2, "{opening}"),
            Err(error) => assert!(error.to_string().starts_with("x.sub, line"), "{error}"),
        }
    }
}

#[test]
fn files_that_include_themselves_end() {
    let mut world = World::default();
    world.files.insert("a.inc", "include : b.inc\n".into());
    world.files.insert("b.inc", "include : a.inc\n".into());
    let error = submit_with(&world, &format!("{EXECUTABLE}include : a.inc\nqueue\n"));
    let said = error.expect_err("a circle").to_string();
    assert!(said.contains("b.inc") && said.contains("include itself"), "{said}");
    // Twice each time: as many files as a tree has leaves.
    world.files.insert("c.inc", "include : c.inc\n".repeat(2));
    let error = submit_with(&world, &format!("{EXECUTABLE}include : c.inc\nqueue\n"));
    assert!(error.expect_err("a tree").to_string().contains("itself"));
}

#[test]
fn more_tasks_than_can_be_are_refused() {
    let said = refusal(&format!("{EXECUTABLE}queue 1000000000000\n"));
    assert_eq!(
        said,
        format!("x.sub, line 2: 1000000000000 tasks; at most {MAX_TASKS} in one file")
    );
    let said = refusal(&format!("{EXECUTABLE}queue 999999999999999999999999\n"));
    assert!(said.contains("tasks"), "{said}");
    let items = "x ".repeat(2_000);
    let said = refusal(&format!("{EXECUTABLE}queue 1000 v in ({items})\n"));
    assert!(said.contains("2000000 tasks"), "{said}");
}

#[test]
fn bytes_that_are_no_text_are_refused() {
    let said = refusal(&format!("{EXECUTABLE}arguments = a\0b\nqueue\n"));
    assert!(said.starts_with("x.sub") && said.contains("U+0000"), "{said}");
    let said = refusal(&format!("{EXECUTABLE}arguments = \u{ffffd}\nqueue\n"));
    assert!(said.contains("U+FFFFD"), "{said}");
}

#[test]
fn long_lines_and_many_names_are_refused() {
    let long = "a".repeat(MAX_LINE_BYTES * 10);
    let said = refusal(&format!("{EXECUTABLE}arguments = {long}\nqueue\n"));
    assert!(said.starts_with("x.sub, line 2: the line is longer than"), "{said}");
    let continued = "a \\\n".repeat(MAX_LINE_BYTES);
    let said = refusal(&format!("{EXECUTABLE}arguments = {continued}\nqueue\n"));
    assert!(said.contains("the line is longer than"), "{said}");
    let many = (0..10_000).fold(String::new(), |text, at| text + &format!("n{at} = 1\n"));
    assert!(refusal(&format!("{EXECUTABLE}{many}queue\n")).contains("names have values"));
    let queues = "queue\n".repeat(2_000);
    assert!(refusal(&format!("{EXECUTABLE}{queues}")).contains("`queue` statements"));
    let ifs = "if true\n".repeat(100);
    assert!(refusal(&format!("{EXECUTABLE}{ifs}queue\n")).contains("too deep"));
}

#[test]
fn tasks_that_all_differ_are_refused() {
    let items = (1..=3_000).fold(String::new(), |text, at| text + &format!("{at}\n"));
    let text = format!("{EXECUTABLE}request_memory = $(m)\nqueue m from (\n{items})\n");
    assert!(refusal(&text).contains("more than 1000 jobs"));
}

#[test]
fn a_format_cannot_ask_for_much() {
    let text = format!("{EXECUTABLE}arguments = $INT(n,%999999999d)\nn = 1\nqueue\n");
    assert!(refusal(&text).contains("is not a format"));
}
