//! Whose request is started next, when many of one person's wait.

use super::*;
use std::sync::{Mutex, PoisonError};

/// Of one person's, before the other comes.
const MANY: u64 = 100;
const OTHERS: u64 = MANY;

/// The first of another's is started behind what is under way and one of the many.
#[test]
fn people_take_turns_at_being_started() {
    let gate = Arc::new(Mutex::new(()));
    let at_gate = Arc::clone(&gate);
    let mut world = world();
    let (sender, events) = mpsc::channel();
    let sink = Arc::new(move |event| {
        drop(at_gate.lock().unwrap_or_else(PoisonError::into_inner));
        drop(sender.send(event));
    });
    world.pool = Pool::new(2, "test-node", Arc::clone(&world.logs), sink).unwrap();
    world.events = events;
    // Nothing more is started than what is under way until all of them wait.
    let closed = gate.lock().unwrap();
    for ticket in 0..MANY {
        world.pool.start(world.request(ticket, &["true"])).unwrap();
    }
    let others = Request { user: "bob".into(), ..world.request(OTHERS, &["true"]) };
    world.pool.start(others).unwrap();
    drop(closed);

    let (mut order, mut ended) = (Vec::new(), 0);
    while ended <= MANY {
        match world.next() {
            ProcessEvent::Started { ticket, .. } => order.push(ticket.0),
            ProcessEvent::Ended(_) => ended += 1,
            ProcessEvent::NotStarted { error, .. } => panic!("{error}"),
        }
    }
    let before = order.iter().position(|ticket| *ticket == OTHERS).unwrap();
    // Two under way and one turn; threads may be heard in another order than they began.
    assert!(before <= 6, "{before} of one person were started before another's: {order:?}");
}
