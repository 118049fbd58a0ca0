//! Why a job waits: every reason, what stands between it and its start, and what would help.

use super::View;
use super::advice::Advice;
use super::paper::{Paper, Tone};
use super::reason::sentence;
use super::time::Reader;
use serde::Serialize;
use shipway_api::types::Why;
use shipway_model::JobState;

#[derive(Debug, Serialize)]
#[serde(transparent)]
pub struct WhyView {
    pub why: Why,
    #[serde(skip)]
    pub reader: Reader,
}

impl View for WhyView {
    fn text(&self, paper: &mut Paper) {
        let Why { job, state, reasons, prospect } = &self.why;
        paper.write(Tone::Strong, &format!("Job {job} is {state}"));
        if reasons.is_empty() {
            let more = match state {
                JobState::Failed | JobState::Cancelled => {
                    format!("; `shipway show {job}` says how, `shipway retry {job}` runs it again.")
                }
                JobState::Succeeded => format!("; `shipway show {job}` has the details."),
                JobState::Held | JobState::Waiting | JobState::Running => {
                    "; it waits for nothing.".into()
                }
            };
            return paper.line(&more);
        }
        let waits = matches!(state, JobState::Held | JobState::Waiting);
        paper.line(if waits { " because:" } else { "; what of it waits does so because:" });
        for (at, reason) in reasons.iter().enumerate() {
            let tone = if reason.is_hopeless() { Tone::Bad } else { Tone::Plain };
            paper.write(tone, &format!("  {}. {}", at + 1, sentence(reason, &self.reader)));
            paper.end_line();
        }
        let changes = prospect.as_ref().map(|prospect| prospect.changes.as_slice());
        let advice = Advice::of(reasons, changes.unwrap_or_default());
        match prospect {
            Some(prospect) => super::prospect::write(paper, prospect, &advice, &self.reader),
            None => advice.write(paper),
        }
    }
}
