//! Shapes: what a task needs, interned (`table.rs`), so that a million equal jobs share one.

mod table;

pub(crate) use table::cut;
pub use table::{Pace, ShapeId, Shapes};

use serde::{Deserialize, Serialize};
use shipway_classad::parse_expression;
use shipway_model::reason::FailedTerm;
use shipway_model::{JobSpec, Millis, Ordinal, Resources, SiteName, UserName};
use std::num::NonZeroU32;

/// What a task needs of a node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Shape {
    pub resources: Resources,
    /// The longest it may hold them: its time limit with the grace after it. Whether it can go
    /// before a reservation depends on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most: Option<Millis>,
    #[serde(default, skip_serializing_if = "Expressions::is_nothing")]
    pub expressions: Expressions,
    #[serde(default, skip_serializing_if = "Gang::is_one")]
    pub gang: Gang,
    /// Sites where it may not run, whatever they have; see `reach.rs`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept_from: Vec<SiteName>,
    /// It has no need of the GPUs of sites' nodes, and others could run it; see `guests.rs`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_guest: bool,
}

/// How many tasks of a job are placed together, or none of them: the first so many, the next, and
/// so on. One for most jobs: each for itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Gang(NonZeroU32);

impl Default for Gang {
    fn default() -> Self {
        Gang(NonZeroU32::MIN)
    }
}

impl Gang {
    pub fn of(tasks: NonZeroU32) -> Self {
        Gang(tasks)
    }
    pub fn is_one(&self) -> bool {
        self.0 == NonZeroU32::MIN
    }
    pub fn size(self) -> u32 {
        self.0.get()
    }
    /// The tasks that are placed together with this one, itself among them.
    pub fn around(self, task: Ordinal) -> impl Iterator<Item = Ordinal> + Clone {
        let first = task.0 - task.0 % self.0;
        (first..first.saturating_add(self.size())).map(Ordinal)
    }
}

/// What is asked of the node beside amounts: ClassAd expressions (see `requirements/`), and that
/// containers work there.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "StoredExpressions")]
pub struct Expressions {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requirements: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank: Option<String>,
    /// Whose job it is, where the expressions ask for it: otherwise jobs of all users share one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<UserName>,
    /// It has an image: a node that has found that containers fail there is not for it. Otherwise
    /// such a node would take one task after the other, and fail them.
    pub in_container: bool,
}

/// The same as it is stored.
#[derive(Deserialize, Default)]
#[serde(default)]
struct StoredExpressions {
    requirements: Option<String>,
    rank: Option<String>,
    owner: Option<UserName>,
    in_container: Option<bool>,
}

impl From<StoredExpressions> for Expressions {
    fn from(written: StoredExpressions) -> Expressions {
        let StoredExpressions { requirements, rank, owner, in_container } = written;
        let (requirements, in_container) = match in_container {
            Some(in_container) => (requirements, in_container),
            None => without_image(requirements),
        };
        Expressions { requirements, rank, owner, in_container }
    }
}

/// What an image needs once stood as a text before the job's own requirements. Without it, and
/// whether it was there.
fn without_image(text: Option<String>) -> (Option<String>, bool) {
    match text.as_ref().and_then(|text| text.strip_prefix(FailedTerm::CONTAINERS_WORK)) {
        Some("") => return (None, true),
        Some(rest) => {
            let own = rest.strip_prefix(" && (").and_then(|own| own.strip_suffix(')'));
            if let Some(own) = own.filter(|own| parse_expression(own).is_ok()) {
                return (Some(own.to_owned()), true);
            }
        }
        None => {}
    }
    (text, false)
}

impl Expressions {
    fn of(spec: &JobSpec, owner: &UserName) -> Expressions {
        let (requirements, rank) = (spec.requirements.clone(), spec.rank.clone());
        let names_owner = |text: &String| {
            let text = text.to_ascii_lowercase();
            text.contains("owner") || text.contains("user")
        };
        let asks = requirements.iter().chain(&rank).any(names_owner);
        let (owner, in_container) = (asks.then(|| owner.clone()), spec.image.is_some());
        Expressions { requirements, rank, owner, in_container }
    }

    pub(crate) fn is_nothing(&self) -> bool {
        *self == Expressions::default()
    }

    pub fn are_none(&self) -> bool {
        self.requirements.is_none() && self.rank.is_none()
    }
}

impl Shape {
    pub fn of(spec: &JobSpec, owner: &UserName, gang: Gang) -> Shape {
        let limit = spec.time_limit.as_ref();
        let at_most = limit.map(|limit| Millis(limit.limit.0.saturating_add(limit.grace.0)));
        let expressions = Expressions::of(spec, owner);
        let resources = spec.resources.clone();
        let (kept_from, is_guest) = (Vec::new(), false);
        Shape { resources, at_most, expressions, gang, kept_from, is_guest }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_image_needs_is_read_where_it_stood_as_a_text() {
        for (stored, own, in_container) in [
            (r#"{"requirements":"HasContainer =!= false"}"#, None, true),
            (r#"{"requirements":"HasContainer =!= false && (A > (1))"}"#, Some("A > (1)"), true),
            (r#"{"requirements":"A > 1","in_container":true}"#, Some("A > 1"), true),
            (r#"{"requirements":"A > 1"}"#, Some("A > 1"), false),
            (r#"{"requirements":"HasContainer"}"#, Some("HasContainer"), false),
            (
                r#"{"requirements":"HasContainer =!= false && (A) || (B)"}"#,
                Some("HasContainer =!= false && (A) || (B)"),
                false,
            ),
        ] {
            let read: Expressions = serde_json::from_str(stored).expect(stored);
            assert_eq!((read.requirements.as_deref(), read.in_container), (own, in_container));
            let again = serde_json::to_string(&read).expect("json");
            assert_eq!(serde_json::from_str::<Expressions>(&again).expect(&again), read);
        }
    }
}
