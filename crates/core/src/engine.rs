//! One command, all the way: decide, evolve, follow the consequences, react.
//!
//! The events of a step are in the order they happened; the effects are what the outside is to do
//! once those events are on disk.

use crate::command::Command;
use crate::consequence::{Room, consequences};
use crate::decide::decide;
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
}

pub fn step(state: &mut State, at: Timestamp, command: &Command) -> Result<Step, Rejection> {
    let at = at.max(state.at());
    let events = decide(state, at, command)?;
    Ok(apply(state, at, events))
}

/// What was decided becomes true, with all that follows from it.
pub fn apply(state: &mut State, at: Timestamp, events: Vec<Event>) -> Step {
    let mut waiting: VecDeque<Event> = events.into();
    let (mut done, mut room) = (Step::default(), Room::default());
    while let Some(event) = waiting.pop_front() {
        evolve(state, at, &event);
        // Consequences go first: a job must be over before anything later looks at it.
        for consequence in consequences(state, &event, &mut room).into_iter().rev() {
            waiting.push_front(consequence);
        }
        done.effects.extend(react(state, &event));
        done.events.push(Recorded { v: EVENT_VERSION, at, event });
    }
    done
}
