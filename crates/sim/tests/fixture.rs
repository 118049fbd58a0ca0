//! The events of homes that earlier versions wrote, as their journals hold them: they must still
//! fold into a sound state. How events are written today is in the core's `tests/encoding.rs`.

use shipway_sim::replay::replay;

const HOME_1: &str = include_str!("../../cli/tests/fixtures/home-1/events.jsonl");
const HOME_2: &str = include_str!("../../cli/tests/fixtures/home-2/events.jsonl");

#[test]
fn events_of_earlier_versions_still_fold() {
    folds(HOME_1);
    folds(HOME_2);
}

fn folds(events: &str) {
    let told = replay(events.lines().map(|line| Ok(line.to_string())), false).expect("a replay");
    let count = events.lines().count();
    let expected = format!(
        "{count} events, no violation; \
         5 job(s), 3 over; 2 active task(s); 1 of 1 pilot(s) in touch\n"
    );
    assert_eq!(told, expected);
}
