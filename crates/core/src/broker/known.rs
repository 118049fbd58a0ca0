//! Which kinds of pilots would do for which shapes, from look to look: asking requirements is what
//! a look costs. So much is asked in one look, of each user's shapes in turn; what is left waits
//! for the next one, and for no others' pilots.

use super::expected::Expected;
use crate::guard::guarded;
use crate::schedule::needs::Need;
use crate::shape::{Shape, ShapeId};
use shipway_model::Timestamp;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Steps of one look: some half a second of one thread, in which everybody else is answered.
const MAX_STEPS: u64 = 4_000_000;
/// Numbers that are kept, of all shapes together.
const MAX_KEPT: usize = if cfg!(test) { 4_096 } else { 4 << 20 };
/// What a shape takes beside its own.
const SHAPE: usize = 4;

/// A shape that somebody waits with.
pub(super) trait Waits {
    fn id(&self) -> ShapeId;
    fn shape(&self) -> &Arc<Shape>;
    /// Those of a lower number are worked out first.
    fn turn(&self) -> usize;
}

/// What was found out in earlier looks.
#[derive(Debug, Default)]
pub struct Known {
    /// Of the kinds that there were then.
    expected: Option<Arc<Expected>>,
    shapes: BTreeMap<ShapeId, Found>,
    is_behind: bool,
}

#[derive(Debug)]
struct Found {
    /// Ids are given again to other shapes.
    of: Arc<Shape>,
    /// How many tasks an empty pilot of each model runs at a time, whichever site it is of. None,
    /// where no model would do.
    slots: Box<[u64]>,
}

impl Known {
    /// There was more to work out than one look does.
    pub fn is_behind(&self) -> bool {
        self.is_behind
    }

    pub(super) fn slots(&self, waiting: &impl Waits) -> Option<&[u64]> {
        let found = self.shapes.get(&waiting.id())?;
        Arc::ptr_eq(&found.of, waiting.shape()).then_some(&found.slots)
    }

    /// Works out what is not known yet, and forgets what nobody waits with any more. The first
    /// shapes of each user come first, for what is worked out and for what is kept.
    pub(super) fn follow(&mut self, expected: &Arc<Expected>, waiting: &[impl Waits]) {
        self.is_behind = false;
        if !self.expected.as_ref().is_some_and(|known| Arc::ptr_eq(known, expected)) {
            *self = Known { expected: Some(Arc::clone(expected)), ..Known::default() };
        }
        let mut before = std::mem::take(&mut self.shapes);
        let mut line: Vec<_> = waiting.iter().collect();
        line.sort_by_key(|one| one.turn());
        let (mut steps, mut kept) = (0_u64, 0);
        for one in line {
            if kept >= MAX_KEPT {
                break;
            }
            let known = before.remove(&one.id());
            let found = match known.filter(|found| Arc::ptr_eq(&found.of, one.shape())) {
                Some(found) => found,
                None if steps >= MAX_STEPS => {
                    self.is_behind = true;
                    continue;
                }
                None => {
                    let (found, taken) = learn(expected, one.shape());
                    steps = steps.saturating_add(taken);
                    found
                }
            };
            kept += found.slots.len() + SHAPE;
            self.shapes.insert(one.id(), found);
        }
    }
}

/// In how many steps. A mistake over one shape costs its own tasks their pilots, and no others
/// theirs.
fn learn(expected: &Expected, of: &Arc<Shape>) -> (Found, u64) {
    let (slots, steps) = guarded(|| slots(of, expected)).unwrap_or_default();
    (Found { of: Arc::clone(of), slots }, steps)
}

fn slots(shape: &Shape, expected: &Expected) -> (Box<[u64]>, u64) {
    let models = expected.alike();
    let open = Shape { kept_from: Vec::new(), ..shape.clone() };
    let need = Need::of(&open, models);
    let of = |at| {
        // What is told of each node apart, a pilot that is thought of is asked too: for one that
        // could never run it none is asked for.
        let node = models.class(at).members.nodes().first().copied();
        let groups = node.and_then(|node| {
            need.on_node(models, (node, Timestamp(0)), || expected.alike_pilot(node))
        });
        if groups.is_some() { need.times_in(models.class(at)) } else { 0 }
    };
    let slots: Vec<u64> = models.class_places().map(of).collect();
    let steps = need.steps().saturating_add(slots.len() as u64);
    let would_do = slots.iter().any(|slots| *slots > 0);
    (if would_do { slots.into() } else { Box::default() }, steps)
}
