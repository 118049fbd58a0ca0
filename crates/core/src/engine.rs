//! One command, all the way: decide, evolve, follow the consequences, react.
//!
//! The events of a step are in the order they happened; the effects are what the outside is to do
//! once those events are on disk, and then whoever asked is told what was done.

use crate::command::Command;
use crate::consequence::{EndsLeft, consequences};
use crate::decide::decide;
use crate::done::{Decided, Done};
use crate::effect::Effect;
use crate::event::{EVENT_VERSION, Event, Recorded};
use crate::evolve::evolve;
use crate::react::react;
use crate::rejection::Rejection;
use crate::state::State;
use shipway_model::Timestamp;
use std::collections::VecDeque;

#[derive(Debug, Default)]
pub struct Step {
    pub events: Vec<Recorded>,
    pub effects: Vec<Effect>,
    pub done: Done,
}

pub fn step(state: &mut State, at: Timestamp, command: &Command) -> Result<Step, Rejection> {
    let at = at.max(state.at());
    let Decided { events, done } = decide(state, at, command)?;
    let mut recorded = Vec::new();
    let effects = apply(state, at, events, &mut |_, event| recorded.push(event));
    Ok(Step { events: recorded, effects, done })
}

/// What was decided becomes true, with all that follows from it. Each event is handed out with the
/// state as it is right after it.
pub fn apply(
    state: &mut State,
    at: Timestamp,
    events: Vec<Event>,
    each: &mut dyn FnMut(&State, Recorded),
) -> Vec<Effect> {
    let mut waiting: VecDeque<Event> = events.into();
    let (mut effects, mut room) = (Vec::new(), EndsLeft::default());
    while let Some(event) = waiting.pop_front() {
        evolve(state, at, &event);
        // Consequences go first: a job must be over before anything later looks at it.
        for consequence in consequences(state, &event, &mut room).into_iter().rev() {
            waiting.push_front(consequence);
        }
        effects.extend(react(state, &event));
        each(state, Recorded { v: EVENT_VERSION, at, event });
    }
    effects
}
