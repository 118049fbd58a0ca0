//! The table of commands in docs/htcondor.md is the one in the code.

use std::fmt::Write;

use shipway_dialects::htcondor::{Fate, commands};

const GUIDE: &str = include_str!("../../../../docs/htcondor.md");

#[test]
fn the_guide_lists_every_command() {
    let mut wanted = String::new();
    for (name, fate) in commands() {
        let (word, why) = match fate {
            Fate::Honoured(what) => ("yes", what),
            Fate::NoMeaning(why) => ("warning", why),
            Fate::Refused(why) => ("error", why),
        };
        writeln!(wanted, "| `{name}` | {word} | {why} |").expect("a text");
    }
    assert!(
        GUIDE.contains(&wanted),
        "the table in docs/htcondor.md is not this one; put it there:\n{wanted}"
    );
}
