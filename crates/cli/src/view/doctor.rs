//! What was found of a node: a line for each check; under those that are not good, what was wanted
//! and what helps.

use super::View;
use super::paper::{Paper, Tone};
use serde::Serialize;
use shipway_pilot::proof::{Check, State};
use unicode_width::UnicodeWidthStr;

#[derive(Debug, Serialize)]
pub struct DoctorView {
    pub fit: bool,
    pub checks: Vec<Check>,
}

impl DoctorView {
    pub fn new(checks: Vec<Check>) -> Self {
        let fit = !checks.iter().any(Check::is_failed);
        DoctorView { fit, checks }
    }

    fn count(&self, state: State) -> usize {
        self.checks.iter().filter(|check| check.state == state).count()
    }
}

impl View for DoctorView {
    fn text(&self, paper: &mut Paper) {
        let widths = self.checks.iter().map(|check| check.name.width());
        let name = widths.max().unwrap_or_default().max("CHECK".len());
        let state = self.checks.iter().map(|check| word(check.state).0.len());
        let state = state.max().unwrap_or_default().max("STATE".len());
        let pad = |text: &str, width: usize| " ".repeat(width - text.width() + GAP);
        for (text, width) in [("CHECK", name), ("STATE", state)] {
            paper.write(Tone::Strong, text);
            paper.write(Tone::Plain, &pad(text, width));
        }
        paper.write(Tone::Strong, "FOUND");
        paper.end_line();
        for check in &self.checks {
            let (text, tone) = word(check.state);
            paper.write(Tone::Plain, &format!("{}{}", check.name, pad(&check.name, name)));
            paper.write(tone, text);
            paper.write(Tone::Plain, &format!("{}{}", pad(text, state), check.found));
            paper.end_line();
            if let Some(fix) = &check.fix {
                let margin = " ".repeat(name + state + 2 * GAP);
                paper.line(&format!("{margin}wanted: {}", check.wanted));
                paper.line(&format!("{margin}fix: {fix}"));
            }
        }
        paper.end_line();
        self.verdict(paper);
    }
}

/// Between two columns.
const GAP: usize = 2;

impl DoctorView {
    fn verdict(&self, paper: &mut Paper) {
        let several = |count: usize, word: &str| match count {
            1 => format!("1 {word}"),
            many => format!("{many} {word}s"),
        };
        let warnings = match self.count(State::Warning) {
            0 => String::new(),
            some => format!(", with {}", several(some, "warning")),
        };
        match self.count(State::Failed) {
            0 => paper.write(Tone::Good, &format!("This node is fit{warnings}.")),
            some => {
                let failed = several(some, "check");
                paper
                    .write(Tone::Bad, &format!("This node is not fit: {failed} failed{warnings}."));
            }
        }
        paper.end_line();
    }
}

fn word(state: State) -> (&'static str, Tone) {
    match state {
        State::Ok => ("ok", Tone::Good),
        State::Warning => ("warning", Tone::Busy),
        State::Failed => ("failed", Tone::Bad),
        State::NotApplicable => ("-", Tone::Faint),
    }
}
