//! Which terms of a job's requirements do not hold for a node, and what they found.

use super::{Choice, MAX_MATCH_STEPS, ads};
use shipway_classad::{
    Ad, Context, Looked, Sides, Value, nearest_name, readable_value, terms, unparse,
};
use shipway_model::reason::{Attribute, FailedTerm};
use std::sync::Arc;

/// Kinds of devices of one class of nodes that are looked at for what fails.
const MAX_KINDS: usize = 8;

const NOT_ASKED: &str = "it takes too many steps for all kinds of nodes and GPUs together";

impl Choice {
    /// The terms that do not hold, in their order; of several ads those of the one that comes
    /// nearest, of those for which they do not hold.
    pub(crate) fn failed<'a>(&self, ads: impl Iterator<Item = &'a Arc<Ad>>) -> Vec<FailedTerm> {
        let all =
            ads.take(MAX_KINDS).map(|ad| self.failed_for(ad)).filter(|failed| !failed.is_empty());
        all.min_by_key(Vec::len).unwrap_or_else(|| self.not_asked())
    }

    /// Asked of each kind alone they hold: then no steps were left for one of them when all kinds
    /// were asked, and what is not known counts as not so.
    fn not_asked(&self) -> Vec<FailedTerm> {
        let all = self.requirements.iter().map(|requirements| FailedTerm {
            found: Vec::new(),
            is_error: true,
            beyond: Some(NOT_ASKED.into()),
            term: unparse(requirements),
            of_image: false,
        });
        all.collect()
    }

    fn failed_for(&self, node: &Arc<Ad>) -> Vec<FailedTerm> {
        let Some(requirements) = &self.requirements else { return Vec::new() };
        let sides = Sides::new(Arc::clone(&self.job), Arc::clone(node));
        let terms = terms(requirements, &sides, &Context::default(), MAX_MATCH_STEPS);
        let failing = terms.into_iter().filter(|term| !term.holds());
        let found = failing.map(|term| FailedTerm {
            found: term.looked.iter().map(|looked| attribute(looked, &term.looked, node)).collect(),
            is_error: term.value.is_error(),
            beyond: term.exceeded.map(|limit| limit.to_string()),
            term: term.text,
            of_image: false,
        });
        found.collect()
    }
}

fn attribute(looked: &Looked, beside: &[Looked], node: &Ad) -> Attribute {
    let value = Some(&looked.value).filter(|value| !matches!(value, Value::Undefined));
    let nearest = || nearest(looked, node).or_else(|| without_quotes(looked, beside));
    Attribute {
        name: looked.name.clone(),
        value: value.map(|value| short(&readable_value(value))),
        nearest: if value.is_none() { nearest() } else { None },
    }
}

/// Letters of a value that are shown: a text may have millions.
const SHOWN: usize = 200;

fn short(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
    }
}

fn nearest(looked: &Looked, node: &Ad) -> Option<String> {
    let bare = looked.name.rsplit('.').next().unwrap_or(&looked.name);
    let names = node.iter().map(|(name, _)| name.to_text());
    nearest_name(bare, names.chain(ads::PER_NODE.iter().map(ToString::to_string)))
}

/// `Arch == X86_64`: where a text stands beside it, its quotes were forgotten.
fn without_quotes(looked: &Looked, beside: &[Looked]) -> Option<String> {
    let is_beside_text = beside.iter().any(|other| matches!(other.value, Value::String(_)));
    let is_word = !looked.name.contains('.');
    (is_word && is_beside_text).then(|| format!("\"{}\" in quotes", looked.name))
}
