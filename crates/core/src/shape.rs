//! Shapes: what a task needs, interned, so that a million equal jobs share one; and what is known
//! of how long tasks of each shape run.

use serde::{Deserialize, Serialize};
use shipway_classad::parse_expression;
use shipway_model::reason::FailedTerm;
use shipway_model::{JobSpec, Millis, Ordinal, Resources, UserName};
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::sync::{Arc, LazyLock};

/// Shapes that no job in memory has, remembered for how long their tasks ran: whoever submits the
/// same each day finds an estimate.
/// Few in tests, so that ids come to stand for other shapes there.
const REMEMBERED: usize = if cfg!(test) { 3 } else { 1_000 };

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
#[serde(from = "Written")]
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
struct Written {
    requirements: Option<String>,
    rank: Option<String>,
    owner: Option<UserName>,
    in_container: Option<bool>,
}

impl From<Written> for Expressions {
    fn from(written: Written) -> Expressions {
        let Written { requirements, rank, owner, in_container } = written;
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
        Shape { resources: spec.resources.clone(), at_most, expressions, gang }
    }
}

#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct ShapeId(u32);

impl ShapeId {
    pub(crate) fn at(self) -> usize {
        self.0 as usize
    }
}

/// How long tasks of one shape have run, as a moving average.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pace {
    pub tasks: u32,
    pub mean: Millis,
}

impl Pace {
    /// Each counts for an eighth, so that a change is followed within a few tasks.
    const WEIGHT: u64 = 8;

    fn learn(&mut self, ran: Millis) {
        let first = self.tasks == 0;
        let mean = (u128::from(self.mean.0) * u128::from(Self::WEIGHT - 1) + u128::from(ran.0))
            / u128::from(Self::WEIGHT);
        self.mean = if first { ran } else { Millis(u64::try_from(mean).unwrap_or(u64::MAX)) };
        self.tasks = self.tasks.saturating_add(1);
    }
}

/// Shapes by id and ids by shape, and how many jobs in memory have each.
///
/// What nobody has any more is remembered for a while, for how long its tasks ran; then its id is
/// given to another shape. Which ids are free follows from what is stored, so that a state that was
/// read back goes on as the one that was written.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Shapes {
    /// `None`: the id is free.
    by_id: Vec<Option<Arc<Shape>>>,
    #[serde(default)]
    paces: Vec<Pace>,
    #[serde(skip)]
    ids: BTreeMap<Arc<Shape>, ShapeId>,
    /// How many jobs in memory have each.
    #[serde(skip)]
    jobs: Vec<u32>,
    #[serde(skip)]
    unused: BTreeSet<ShapeId>,
    #[serde(skip)]
    free: BTreeSet<ShapeId>,
}

/// What an id without a shape stands for: nothing that any job in memory has.
static NOTHING: LazyLock<Shape> = LazyLock::new(|| Shape {
    resources: Resources::default(),
    at_most: None,
    expressions: Expressions::default(),
    gang: Gang::default(),
});

impl Shapes {
    /// The id of a shape that one job more has.
    pub(crate) fn intern(&mut self, shape: Shape) -> ShapeId {
        let id = self.find(&shape).unwrap_or_else(|| self.insert(Arc::new(shape)));
        if let Some(jobs) = self.jobs.get_mut(id.at()) {
            *jobs = jobs.saturating_add(1);
        }
        self.unused.remove(&id);
        id
    }

    fn insert(&mut self, shape: Arc<Shape>) -> ShapeId {
        let next = ShapeId(u32::try_from(self.by_id.len()).unwrap_or(u32::MAX));
        let id = self.free.pop_first().unwrap_or(next);
        if self.by_id.len() <= id.at() {
            self.by_id.resize(id.at() + 1, None);
            self.paces.resize(id.at() + 1, Pace::default());
            self.jobs.resize(id.at() + 1, 0);
        }
        if let Some(place) = self.by_id.get_mut(id.at()) {
            *place = Some(Arc::clone(&shape));
        }
        self.ids.insert(shape, id);
        id
    }

    /// One job fewer has it. The ids that are free from now on.
    pub(crate) fn release(&mut self, id: ShapeId) -> Vec<ShapeId> {
        let Some(jobs) = self.jobs.get_mut(id.at()) else { return Vec::new() };
        *jobs = jobs.saturating_sub(1);
        if *jobs == 0 {
            self.unused.insert(id);
        }
        self.forget_surplus()
    }

    fn forget_surplus(&mut self) -> Vec<ShapeId> {
        let mut freed = Vec::new();
        while self.unused.len() > REMEMBERED
            && let Some(id) = self.unused.pop_first()
        {
            let shape = self.by_id.get_mut(id.at()).and_then(Option::take);
            if let Some(shape) = shape {
                self.ids.remove(&shape);
            }
            if let Some(pace) = self.paces.get_mut(id.at()) {
                *pace = Pace::default();
            }
            self.free.insert(id);
            freed.push(id);
        }
        freed
    }

    pub fn get(&self, id: ShapeId) -> &Shape {
        self.by_id.get(id.at()).and_then(Option::as_deref).unwrap_or(&NOTHING)
    }

    pub fn find(&self, shape: &Shape) -> Option<ShapeId> {
        self.ids.get(shape).copied()
    }

    pub fn pace(&self, id: ShapeId) -> Pace {
        self.paces.get(id.at()).copied().unwrap_or_default()
    }

    pub(crate) fn learn(&mut self, id: ShapeId, ran: Millis) {
        if let Some(pace) = self.paces.get_mut(id.at()) {
            pace.learn(ran);
        }
    }

    /// What is not stored follows from the list and from the jobs there are.
    pub(crate) fn rebuild(&mut self, of_jobs: impl Iterator<Item = ShapeId>) {
        self.paces.resize(self.by_id.len(), Pace::default());
        self.jobs = vec![0; self.by_id.len()];
        for id in of_jobs {
            if let Some(jobs) = self.jobs.get_mut(id.at()) {
                *jobs = jobs.saturating_add(1);
            }
        }
        (self.ids, self.unused, self.free) = Default::default();
        for ((shape, jobs), id) in self.by_id.iter().zip(&self.jobs).zip((0..).map(ShapeId)) {
            match shape {
                Some(shape) => {
                    self.ids.insert(Arc::clone(shape), id);
                    if *jobs == 0 {
                        self.unused.insert(id);
                    }
                }
                None => {
                    self.free.insert(id);
                }
            }
        }
        self.forget_surplus();
    }
}

#[cfg(test)]
impl Shapes {
    /// How many are in memory, and how many places for them there are.
    pub(crate) fn len_and_places(&self) -> (usize, usize) {
        (self.ids.len(), self.by_id.len())
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
