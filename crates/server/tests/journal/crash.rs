//! Kills a writing process at any moment. What it said was committed must be there afterwards.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;
use std::time::Duration;

use shipway_server::journal::{EventSeq, JobFilter, Journal as _, RecoveryKind, RecoveryNote};

use crate::support::{append, check_events, child, child_home, open};

const ROUNDS: u64 = 20;

#[test]
fn nothing_confirmed_is_lost_by_kill_9() {
    let home = tempfile::tempdir().unwrap();
    let mut seed = u64::from(std::process::id());
    println!("seed {seed}");
    for round in 0..ROUNDS {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let (after_acks, pause) = (1 + (seed >> 33) % 60, Duration::from_micros(seed >> 52));
        let mut process = child("crash::child_appends_until_killed", home.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut acks = lines.map_while(Result::ok).filter_map(|line| ack(&line));
        let mut last = None;
        for _ in 0..after_acks {
            last = acks.next().or(last);
        }
        // tidy: allow(sleep-in-test) because the moment of the kill is to be a random one
        std::thread::sleep(pause);
        process.kill().unwrap();
        process.wait().unwrap();
        let confirmed = acks.last().or(last).expect("the child committed something");

        let mut journal = open(home.path());
        let ordinary = |note: &RecoveryNote| {
            matches!(note.kind, RecoveryKind::Unfinished { .. } | RecoveryKind::TornTail { .. })
        };
        assert!(journal.notes().iter().all(ordinary), "{:?}", journal.notes());
        let from = journal.load_snapshot().unwrap().map_or(0, |snapshot| snapshot.seq.0);
        let tip = check_events(&mut journal, from).unwrap();
        assert!(tip >= confirmed, "round {round}: {confirmed} was confirmed, {tip} is there");
        let reader = journal.history().unwrap();
        let newest = reader.job_ids(&JobFilter::default()).unwrap()[0];
        assert!(newest <= tip, "a history row without its commit");
    }
}

fn ack(line: &str) -> Option<u64> {
    line.strip_prefix("ack ")?.parse().ok()
}

#[test]
// tidy: allow(ignored-test) because it is the process that the test above starts and kills
#[ignore = "the process that the test above kills"]
fn child_appends_until_killed() {
    let Some(home) = child_home() else { return };
    let mut journal = open(&home);
    let mut out = std::io::stdout();
    loop {
        // Mostly small, sometimes large enough that the log is checkpointed within a round.
        let tip = journal.tip().0;
        let last = append(&mut journal, if tip.is_multiple_of(9) { 6_000 } else { 1 + tip % 7 });
        writeln!(out, "\nack {}", last.unwrap()).unwrap();
        out.flush().unwrap();
        if tip.is_multiple_of(5) {
            journal.save_snapshot(EventSeq(tip), b"state").unwrap();
            journal.prune().unwrap();
        }
    }
}
