//! Shapes: what a task needs, interned, so that a million equal jobs share one; and what is known
//! of how long tasks of each shape run.

use serde::{Deserialize, Serialize};
use shipway_model::reason::CONTAINERS_WORK;
use shipway_model::{JobSpec, Millis, Resources, UserName};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a task needs of a node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Shape {
    pub resources: Resources,
    /// The longest it may hold them: its time limit with the grace after it. Whether it can go
    /// before a reservation depends on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most: Option<Millis>,
    #[serde(default, skip_serializing_if = "Expressions::are_none")]
    pub expressions: Expressions,
}

/// ClassAd expressions about the node; see `requirements/`.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Expressions {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requirements: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<String>,
    /// Whose job it is, where the expressions ask for it: otherwise jobs of all users share one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<UserName>,
}

impl Expressions {
    fn of(spec: &JobSpec, owner: &UserName) -> Expressions {
        let (requirements, rank) = (requirements_of(spec), spec.rank.clone());
        let names_owner = |text: &String| {
            let text = text.to_ascii_lowercase();
            text.contains("owner") || text.contains("user")
        };
        let asks = requirements.iter().chain(&rank).any(names_owner);
        Expressions { requirements, rank, owner: asks.then(|| owner.clone()) }
    }

    pub fn are_none(&self) -> bool {
        self.requirements.is_none() && self.rank.is_none()
    }
}

/// A job with an image asks for a node that has not found that containers fail there. Otherwise
/// such a node would take one task after the other, and fail them.
fn requirements_of(spec: &JobSpec) -> Option<String> {
    match (&spec.requirements, spec.image.is_some()) {
        (own, false) => own.clone(),
        (None, true) => Some(CONTAINERS_WORK.to_owned()),
        (Some(own), true) => Some(format!("{CONTAINERS_WORK} && ({own})")),
    }
}

impl Shape {
    pub fn of(spec: &JobSpec, owner: &UserName) -> Shape {
        let limit = spec.time_limit.as_ref();
        let at_most = limit.map(|limit| Millis(limit.limit.0.saturating_add(limit.grace.0)));
        let expressions = Expressions::of(spec, owner);
        Shape { resources: spec.resources.clone(), at_most, expressions }
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

/// Shapes by id and ids by shape. Ids are never reused, so an id in a snapshot stays true.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Shapes {
    by_id: Vec<Arc<Shape>>,
    #[serde(default)]
    paces: Vec<Pace>,
    #[serde(skip)]
    ids: BTreeMap<Arc<Shape>, ShapeId>,
}

impl Shapes {
    pub fn intern(&mut self, shape: Shape) -> ShapeId {
        if let Some(id) = self.ids.get(&shape) {
            return *id;
        }
        let id = ShapeId(u32::try_from(self.by_id.len()).unwrap_or(u32::MAX));
        let shape = Arc::new(shape);
        self.by_id.push(Arc::clone(&shape));
        self.paces.push(Pace::default());
        self.ids.insert(shape, id);
        id
    }

    #[expect(clippy::indexing_slicing, reason = "an id is made with its shape, and both stay")]
    pub fn get(&self, id: ShapeId) -> &Shape {
        &self.by_id[id.at()]
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

    /// The reverse index is not stored; it follows from the list.
    pub(crate) fn rebuild(&mut self) {
        self.paces.resize(self.by_id.len(), Pace::default());
        let ids = self.by_id.iter().zip(0u32..);
        self.ids = ids.map(|(shape, id)| (Arc::clone(shape), ShapeId(id))).collect();
    }
}
