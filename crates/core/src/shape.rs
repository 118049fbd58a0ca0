//! Shapes: what a task needs, interned, so that a million equal jobs share one.

use serde::{Deserialize, Serialize};
use shipway_model::Resources;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a task needs of a node. The image and constraints join here when they exist.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Shape {
    pub resources: Resources,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ShapeId(u32);

/// Shapes by id and ids by shape. Ids are never reused, so an id in a snapshot stays true.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Shapes {
    by_id: Vec<Arc<Shape>>,
    #[serde(skip)]
    ids: BTreeMap<Arc<Shape>, ShapeId>,
}

impl Shapes {
    pub fn intern(&mut self, shape: Shape) -> ShapeId {
        if let Some(id) = self.ids.get(&shape) {
            return *id;
        }
        let id = ShapeId(u32::try_from(self.by_id.len()).expect("fewer shapes than jobs"));
        let shape = Arc::new(shape);
        self.by_id.push(Arc::clone(&shape));
        self.ids.insert(shape, id);
        id
    }

    pub fn get(&self, id: ShapeId) -> &Shape {
        &self.by_id[id.0 as usize]
    }

    /// The reverse index is not stored; it follows from the list.
    pub(crate) fn rebuild(&mut self) {
        let ids = self.by_id.iter().zip(0u32..);
        self.ids = ids.map(|(shape, id)| (Arc::clone(shape), ShapeId(id))).collect();
    }
}
