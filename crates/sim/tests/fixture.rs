//! The events of the oldest home there is, as its journal holds them: they must still fold into a
//! sound state, and an event must still be written as it was then.

use shipway_core::event::Recorded;
use shipway_sim::replay::replay;

const EVENTS: &str = include_str!("../../cli/tests/fixtures/home-1/events.jsonl");

#[test]
fn the_oldest_events_still_fold() {
    let told = replay(EVENTS.lines().map(|line| Ok(line.to_string())), false).expect("a replay");
    let count = EVENTS.lines().count();
    let expected = format!(
        "{count} events, no violation; \
         5 job(s), 3 over; 2 active task(s); 1 of 1 pilot(s) in touch\n"
    );
    assert_eq!(told, expected);
}

#[test]
fn an_event_is_written_as_it_always_was() {
    for line in EVENTS.lines() {
        let recorded: Recorded = serde_json::from_str(line).expect("an event");
        assert_eq!(serde_json::to_string(&recorded).expect("plain data"), line);
    }
}
