//! The progress of a job of many tasks: a bar on a terminal, plain lines elsewhere. On standard
//! error: it is talk.

use super::talk;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use shipway_api::types::JobView;
use shipway_model::JobCounts;
use std::fmt::Write;
use std::io::{self, IsTerminal};

#[derive(Debug)]
pub struct Progress {
    bar: Option<ProgressBar>,
    last: Option<JobCounts>,
}

impl Progress {
    pub fn new(tasks: u32) -> Self {
        let bar = io::stderr().is_terminal().then(|| bar(tasks));
        Progress { bar, last: None }
    }

    /// Says only what is new.
    pub fn update(&mut self, job: &JobView) {
        if self.last == Some(job.counts) || talk::is_asking() {
            return;
        }
        self.last = Some(job.counts);
        let text = counts_text(job.counts);
        match &self.bar {
            Some(bar) => {
                bar.set_message(text);
                bar.set_position(u64::from(ended(job.counts)));
            }
            None => talk::say(format_args!("job {}: {text}", job.id)),
        }
    }

    /// Takes the bar away, so that the closing line stands alone.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn bar(tasks: u32) -> ProgressBar {
    let target = ProgressDrawTarget::stderr();
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg}");
    let style = style.expect("the template is a constant").progress_chars("=> ");
    ProgressBar::with_draw_target(Some(u64::from(tasks)), target).with_style(style)
}

fn ended(counts: JobCounts) -> u32 {
    counts.succeeded + counts.failed + counts.cancelled
}

pub fn counts_text(counts: JobCounts) -> String {
    let JobCounts { waiting, active, succeeded, failed, cancelled } = counts;
    let mut text = format!("{succeeded} of {} succeeded", counts.total());
    let others = [
        (failed, "failed"),
        (cancelled, "cancelled"),
        (active, "placed or running"),
        (waiting, "waiting"),
    ];
    for (count, word) in others.into_iter().filter(|(count, _)| *count > 0) {
        let _ = write!(text, ", {count} {word}");
    }
    text
}
