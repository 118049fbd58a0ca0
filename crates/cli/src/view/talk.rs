//! Talk: lines on standard error for the person at the terminal. Nobody parses them, and when
//! standard error is gone there is nobody left to tell.

use super::paper::clean;
use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

pub fn say(line: fmt::Arguments<'_>) {
    let line = clean(&line.to_string());
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// Set while a question stands open: nothing else is written over it.
static ASKING: AtomicBool = AtomicBool::new(false);

pub fn is_asking() -> bool {
    ASKING.load(Ordering::Relaxed)
}

/// A question, with the cursor left behind it. There is at most one, and then the command ends.
pub fn ask(question: &str) {
    ASKING.store(true, Ordering::Relaxed);
    let mut err = io::stderr().lock();
    let _ = write!(err, "{question} ").and_then(|()| err.flush());
}

/// Whether somebody is there who can be asked.
pub fn somebody_is_there() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}
