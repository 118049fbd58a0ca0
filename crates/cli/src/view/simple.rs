//! Views of a line or two: an id, a version, the ends of jobs, a document of somebody else's.

use super::View;
use super::paper::{Paper, Tone};
use serde::{Serialize, Serializer};
use serde_json::json;
use shipway_api::types::{JobView, Submitted};
use shipway_model::Outcome;
use shipway_relay::Added;

/// The ids of what was submitted, each alone on its line, so that scripts can take them.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum SubmittedIds {
    One(Submitted),
    Many(Vec<Submitted>),
}

impl View for SubmittedIds {
    fn text(&self, paper: &mut Paper) {
        let all = match self {
            SubmittedIds::One(one) => std::slice::from_ref(one),
            SubmittedIds::Many(many) => many,
        };
        for submitted in all {
            paper.line(&submitted.id.to_string());
        }
    }
}

/// How jobs ended.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub struct Ends {
    pub jobs: Vec<JobView>,
}

impl View for Ends {
    fn text(&self, paper: &mut Paper) {
        for job in &self.jobs {
            paper.write(Tone::Plain, &format!("{} ", job.id));
            paper.write(Tone::of_job(job.state), job.state.as_str());
            // An end whose state says it all needs no more words.
            let plain = |end: &&Outcome| end.is_success() || **end == Outcome::Cancelled;
            if let Some(outcome) = job.outcome.as_ref().filter(|end| !plain(end)) {
                paper.write(Tone::Plain, &format!(" ({outcome})"));
            }
            paper.end_line();
        }
    }
}

/// Images on a relay's shelf, as jobs name them.
#[derive(Debug)]
pub struct AddedToRelay {
    pub added: Vec<Added>,
}

impl Serialize for AddedToRelay {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let row = |one: &Added| json!({"image": one.image, "bytes": one.bytes});
        to.collect_seq(self.added.iter().map(row))
    }
}

impl View for AddedToRelay {
    fn text(&self, paper: &mut Paper) {
        for one in &self.added {
            paper.line(&one.image.to_string());
        }
    }
}

#[derive(Debug, Serialize)]
pub struct Version {
    pub version: &'static str,
}

impl View for Version {
    fn text(&self, paper: &mut Paper) {
        paper.line(&format!("shipway {}", self.version));
    }
}
