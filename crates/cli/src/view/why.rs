//! Why a job waits: every reason, and for those that waiting will not end, what to do.

use super::View;
use super::paper::{Paper, Tone};
use super::time::Reader;
use serde::Serialize;
use shipway_api::types::Why;
use shipway_model::{JobState, Quantity, Reason};

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
            paper.write(tone, &format!("  {}. {reason}", at + 1));
            paper.end_line();
        }
        if let Some(prospect) = prospect {
            super::prospect::write(paper, prospect, &self.reader);
        }
        // One node class that is too small does not matter while another one is merely busy.
        if reasons.iter().any(|reason| !reason.is_hopeless()) {
            return;
        }
        paper.end_line();
        paper.line("Waiting alone will not start it. What would:");
        for advice in advice(reasons) {
            paper.line(&format!("  - {advice}"));
        }
    }
}

/// A plain sentence for each hopeless reason, said once.
fn advice(reasons: &[Reason]) -> Vec<String> {
    let mut said: Vec<String> = Vec::new();
    for reason in reasons {
        let advice = match reason {
            Reason::NoNodes => {
                "connect a node: `shipway up` without --no-pilot runs tasks on this \
                machine, `shipway pilot` on another"
                    .to_string()
            }
            Reason::TooSmall { wanted, found, .. } => {
                let option = option_of(wanted);
                let less = match found.amount().as_str() {
                    "0" | "0B" => format!("ask for none (no {option})"),
                    most => format!("ask for at most {most} ({option})"),
                };
                format!("{less}, or connect a node that has {wanted}")
            }
            _ => continue,
        };
        if !said.contains(&advice) {
            said.push(advice);
        }
    }
    said
}

fn option_of(quantity: &Quantity) -> &'static str {
    match quantity {
        Quantity::Cpus { .. } => "--cpus",
        Quantity::Memory { .. } => "--memory",
        Quantity::Disk { .. } => "--disk",
        Quantity::Gpus { .. } => "--gpus",
        Quantity::Named { .. } => "--resource",
    }
}
