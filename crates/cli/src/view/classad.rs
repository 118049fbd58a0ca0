//! What a ClassAd expression gave, and why two ads do not match.

use super::View;
use super::paper::{Paper, Tone};
use serde::Serialize;

#[derive(Debug, Serialize)]
pub struct EvalView {
    /// As HTCondor prints it; reads back as the same.
    pub value: String,
    #[serde(skip)]
    pub readable: String,
    pub kind: &'static str,
    /// The limit that it went beyond; it is an error then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exceeded: Option<String>,
    /// What is wrong with it where it is an error, if that can be seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mistake: Option<String>,
}

impl View for EvalView {
    fn text(&self, paper: &mut Paper) {
        match self.exceeded.as_ref().or(self.mistake.as_ref()) {
            Some(why) => paper.line(&format!("{} ({why})", self.readable)),
            None => paper.line(&self.readable),
        }
    }
}

#[derive(Debug, Serialize)]
pub struct MatchView {
    pub matches: bool,
    /// Terms of the job's requirements that do not hold.
    pub job: Vec<TermView>,
    /// Terms of the node's requirements that do not hold.
    pub node: Vec<TermView>,
    /// What the job's `Rank` gives for the node.
    pub rank: f64,
}

#[derive(Debug, Serialize)]
pub struct TermView {
    pub term: String,
    /// `false`, `undefined` or `error`.
    pub value: &'static str,
    /// The attributes it looked at.
    pub found: Vec<(String, String)>,
}

impl View for MatchView {
    fn text(&self, paper: &mut Paper) {
        if self.matches {
            paper.write(Tone::Good, "match");
            paper.write(Tone::Plain, &format!(", rank {}", self.rank));
            return paper.end_line();
        }
        paper.write(Tone::Bad, "no match");
        paper.end_line();
        for (whose, terms) in [("job", &self.job), ("node", &self.node)] {
            for term in terms {
                let found = term.found.iter().map(|(name, value)| format!("{name} is {value}"));
                let found: Vec<String> = found.collect();
                let why = if found.is_empty() {
                    String::new()
                } else {
                    format!(": {}", found.join(", "))
                };
                paper.line(&format!("  {whose}: {} is {}{why}", term.term, term.value));
            }
        }
    }
}
