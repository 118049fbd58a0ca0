//! Ends that the controller has forgotten, at a site that keeps accounts.

use crate::ended;
use crate::engine::{Engine, until};
use crate::pilot::{Stand, seen_as};
use shipway_sites::batch::{AllocationEnd, BatchSystem as _, Seen, SeenPhase};
use shipway_sites::slurm::Slurm;

/// What only the database says: the queue adds a reason.
fn from_accounts(slurm: &Slurm, allocation: &str, words: &str) -> Seen {
    until(allocation, || {
        let all = slurm.look().expect("it answers");
        let ours = |seen: &Seen| seen.allocation.as_str() == allocation && seen.words == words;
        all.into_iter().find(ours)
    })
}

#[test]
fn what_the_controller_forgot_is_in_the_accounts() {
    let Some(engine) = Engine::with_accounts() else { return };
    let (slurm, stand) = (engine.slurm("accounts"), Stand::new(&engine, "accounts"));
    let order = stand.order("cancelled");
    let first = slurm.submit(&order).expect("it takes it");
    seen_as(&slurm, "cancelled", |phase| phase == SeenPhase::Running);
    until("the pilot's start", || stand.file("0.start"));
    slurm.cancel(std::slice::from_ref(&first)).expect("it is cancelled");
    let mut fails = stand.order("fails");
    fails.pilot.options.push("--then=fail".into());
    let second = slurm.submit(&fails).expect("it takes it");
    // Nobody looks until the controller has forgotten both.
    let empty = || engine.type_in("squeue --noheader --states=all").is_empty().then_some(());
    until("an empty queue", empty);

    // One that saw it run, and one that has just been made.
    let seen = from_accounts(&slurm, "cancelled", "CANCELLED by 0");
    assert_eq!(seen.phase, SeenPhase::Ended(AllocationEnd::Cancelled));
    assert_eq!(seen.id, first);
    until("the database", || {
        let said = engine.type_in("sacct --noheader --allocations --format=JobName%40,State");
        said.contains("FAILED").then_some(())
    });
    let later = engine.slurm("accounts");
    let seen = from_accounts(&later, "fails", "FAILED (exit code 3)");
    assert_eq!((seen.phase, seen.id), (SeenPhase::Ended(AllocationEnd::Failed), second));
    from_accounts(&later, "cancelled", "CANCELLED by 0");
    assert!(engine.slurm("others").look().expect("it answers").is_empty());

    engine.type_in(&format!("kill $(cat {}/run/slurmdbd.pid)", engine.dir().display()));
    until("an end of the database", || {
        let said = engine.type_in("sacct --noheader 2>&1 || true");
        said.contains("Problem talking to the database").then_some(())
    });
    let third = slurm.submit(&stand.order("third")).expect("it takes it");
    for slurm in [&engine.slurm("accounts"), &slurm] {
        let seen = seen_as(slurm, "third", |phase| !ended(phase));
        assert_eq!(seen.id, third, "who lives is known without it");
    }
    slurm.cancel(&[third]).expect("it is cancelled");
}
