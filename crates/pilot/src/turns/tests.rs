//! Whose turn it is, without threads; and that threads do it.

use super::*;
use std::sync::mpsc;

const FEW: AtOnce = AtOnce { all: 4, each: 2 };

fn turns(entries: &[(&str, u32)]) -> Turns<u32> {
    let mut turns = Turns::new(FEW);
    for (owner, entry) in entries {
        turns.add(owner, *entry);
    }
    turns
}

/// Everything that may begin now, by its owner.
fn begun(turns: &mut Turns<u32>) -> Vec<String> {
    std::iter::from_fn(|| turns.next()).map(|(owner, entry)| format!("{owner}{entry}")).collect()
}

#[test]
fn one_person_has_a_part_and_keeps_the_order() {
    let mut turns = turns(&[("a", 1), ("a", 2), ("a", 3)]);
    assert_eq!(begun(&mut turns), ["a1", "a2"]);
    turns.done("a");
    assert_eq!(begun(&mut turns), ["a3"]);
}

#[test]
fn who_has_nothing_under_way_begins_at_once() {
    let mut turns = turns(&[("a", 1), ("a", 2), ("b", 1), ("b", 2), ("b", 3)]);
    assert_eq!(begun(&mut turns), ["a1", "b1", "a2", "b2"]);
    // Nothing of theirs ever ends: the others are served all the same, each in turn.
    for round in 0..3 {
        turns.add("c", round);
        turns.add("d", round);
        assert_eq!(begun(&mut turns), [format!("c{round}"), format!("d{round}")]);
        turns.add("c", 9);
        assert_eq!(begun(&mut turns), [] as [&str; 0], "one of theirs is enough meanwhile");
        turns.withdraw("c", |entry| *entry == 9).expect("it waits");
        turns.done("c");
        turns.done("d");
    }
}

#[test]
fn turns_go_round() {
    let mut turns = Turns::new(AtOnce { all: 1, each: 1 });
    for entry in 0..3 {
        turns.add("many", entry);
    }
    assert_eq!(begun(&mut turns), ["many0"]);
    turns.add("few", 0);
    turns.add("few", 1);
    assert_eq!(begun(&mut turns), ["few0"]);
    let mut order = Vec::new();
    let mut going = ["many", "few"].map(str::to_owned).to_vec();
    while let Some(owner) = going.pop() {
        turns.done(&owner);
        while let Some((owner, entry)) = turns.next() {
            order.push(format!("{owner}{entry}"));
            going.push(owner);
        }
    }
    assert_eq!(order, ["few1", "many1", "many2"]);
    assert!(turns.owners.is_empty() && turns.going == 0, "nobody is remembered for nothing");
}

#[test]
fn what_is_withdrawn_never_begins() {
    let mut turns = turns(&[("a", 1), ("b", 7)]);
    assert_eq!(turns.withdraw("b", |entry| *entry == 1), None, "that is somebody else's");
    assert_eq!(turns.withdraw("b", |entry| *entry == 7), Some(7));
    assert_eq!(begun(&mut turns), ["a1"]);
    assert_eq!(turns.withdraw("a", |_| true), None, "it has begun");
}

/// One person's work never ends; everybody else's is done.
#[test]
fn threads_are_never_all_taken() {
    let (say, said) = mpsc::channel();
    let (_until, hangs) = mpsc::channel::<()>();
    let hangs = Mutex::new(Some(hangs));
    let workers = Workers::new("tested", FEW, move |entry: u32| match entry {
        0 => {
            let hangs = hangs.lock().unwrap().take().expect("once");
            say.send(0).unwrap();
            let _ = hangs.recv();
        }
        entry => say.send(entry).unwrap(),
    });
    workers.add("hangs", 0);
    assert_eq!(said.recv(), Ok(0));
    for entry in 1..100 {
        workers.add(if entry % 2 == 0 { "even" } else { "odd" }, entry);
    }
    let mut done: Vec<u32> = said.iter().take(99).collect();
    done.sort_unstable();
    assert!(done.into_iter().eq(1..100));
}
