//! The server killed with -9 again and again while an array runs and a client submits.

use crate::common::{World, pause, quick, wait_for};
use crate::tasks::{SMALL, numbers};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Kills in the middle of a start: one in this many.
const EARLY_KILL_EVERY: usize = 8;

/// Random numbers from a seed that is printed, so that a failure can be looked at again.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn thrown() -> Self {
        let given = std::env::var("SHIPWAY_TEST_SEED").ok();
        let mut bytes = [0; 8];
        getrandom::fill(&mut bytes).expect("randomness");
        let seed = given.map_or(u64::from_ne_bytes(bytes), |text| text.parse().expect("a seed"));
        eprintln!("kills: SHIPWAY_TEST_SEED={seed}");
        Dice(seed | 1)
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

#[test]
fn nothing_is_lost_or_run_twice_when_the_server_is_killed() {
    let (kills, tasks) = if quick() { (5, 2_000) } else { (50, 20_000) };
    let world = World::started();
    let pilot = world.pilot_pid();
    let indices = format!("1-{tasks}");
    let script = "echo $SHIPWAY_INDEX >> indices";
    let array = ["--array", &indices, "--", "sh", "-c", script];
    let array = world.submit(&[&SMALL[..], &array].concat());
    let over = AtomicBool::new(false);
    let (acknowledged, mut recoveries) = std::thread::scope(|scope| {
        let client = scope.spawn(|| keep_submitting(&world, &over));
        let recoveries = keep_killing(&world, kills, tasks, &client);
        assert_eq!(world.cli(&["wait", &array]).code, 0, "{}", world.ok(&["show", &array]));
        over.store(true, Ordering::Relaxed);
        (client.join().expect("the client"), recoveries)
    });
    assert_eq!(world.pilot_pid(), pilot, "the pilot outlives every server");
    check_array(&world, &array, tasks);
    check_submissions(&world, &acknowledged);
    recoveries.sort_unstable();
    eprintln!(
        "kills: {kills} kills, {tasks} tasks once each, {} acknowledged jobs all there; \
         kill to ready min {:?} median {:?} max {:?}",
        acknowledged.len(),
        recoveries[0],
        recoveries[recoveries.len() / 2],
        recoveries[recoveries.len() - 1],
    );
}

#[test]
fn a_server_killed_while_it_starts_leaves_one_pilot_in_the_end() {
    let mut dice = Dice::thrown();
    let world = World::new();
    for _ in 0..if quick() { 5 } else { 30 } {
        world.launch(&[], |_| {});
        pause(Duration::from_millis(dice.below(250)));
        world.kill_server();
    }
    world.up();
    assert_eq!(world.ok(&["run", "--", "echo", "hello"]), "hello\n");
    let nodes = world.json(&["nodes"]);
    let connected = |node: &&serde_json::Value| node["link"] == "connected";
    let nodes = nodes["nodes"].as_array().expect("nodes").iter().filter(connected).count();
    assert_eq!(nodes, 1, "{}", world.ok(&["nodes"]));
}

/// Kills at moments spread over the array's whole run; the time from each kill until ready.
fn keep_killing<T>(
    world: &World,
    kills: usize,
    tasks: u64,
    client: &std::thread::ScopedJoinHandle<'_, T>,
) -> Vec<Duration> {
    let mut dice = Dice::thrown();
    let mut moments: Vec<u64> = (0..kills).map(|_| dice.below(tasks * 9 / 10)).collect();
    moments.sort_unstable();
    let mut recoveries = Vec::new();
    for (at, moment) in moments.into_iter().enumerate() {
        wait_for("the array goes on", || {
            assert!(!client.is_finished(), "the client stopped before the end");
            numbers(world, "indices").len() as u64 >= moment
        });
        pause(Duration::from_millis(dice.below(200)));
        let began = Instant::now();
        world.kill_server();
        if at % EARLY_KILL_EVERY == 0 {
            world.launch(&[], |_| {});
            pause(Duration::from_millis(dice.below(100)));
            world.kill_server();
        }
        world.up();
        recoveries.push(began.elapsed());
    }
    recoveries
}

/// Submits small jobs, each twice with the same key, and notes those that were acknowledged.
fn keep_submitting(world: &World, over: &AtomicBool) -> BTreeMap<String, String> {
    let mut acknowledged = BTreeMap::new();
    for number in 0.. {
        let key = format!("key-{number}");
        let label = format!("key={key}");
        let words = ["run", "-d", "--key", &key, "--label", &label, "--cpus", "0.01", "--", "true"];
        let submit = || loop {
            let ran = world.cli(&words);
            match ran.code {
                0 => return Some(ran.stdout.trim().to_string()),
                _ if over.load(Ordering::Relaxed) => return None,
                // Nobody there, or on its way out.
                3 | 4 => pause(Duration::from_millis(20)),
                _ => panic!("{words:?}: {ran:?}"),
            }
        };
        let Some(id) = submit() else { break };
        assert!(submit().is_none_or(|again| again == id), "{key} was job {id} first");
        acknowledged.insert(key, id);
        if over.load(Ordering::Relaxed) {
            break;
        }
    }
    acknowledged
}

fn check_array(world: &World, array: &str, tasks: u64) {
    let shown = world.json(&["show", array, "--limit", "1"]);
    assert_eq!(shown["job"]["counts"]["succeeded"], tasks, "{shown:#}");
    let mut written = numbers(world, "indices");
    written.sort_unstable();
    let expected: Vec<u32> = (1..).take(written.len()).collect();
    assert_eq!((written.len() as u64, written == expected), (tasks, true), "once each");
    let history = rusqlite::Connection::open(world.home().join("shipway.db")).expect("history");
    let count = "SELECT count(*), max(attempt) FROM attempts WHERE job = ?1";
    let counted = history.query_row(count, [array], |row| Ok((row.get(0)?, row.get(1)?)));
    assert_eq!(counted.expect("attempts"), (tasks.cast_signed(), 1), "one attempt each");
}

fn check_submissions(world: &World, acknowledged: &BTreeMap<String, String>) {
    assert!(!acknowledged.is_empty());
    let mut found: BTreeMap<String, String> = BTreeMap::new();
    let mut before = None;
    loop {
        let older = before.iter().flat_map(|id: &String| ["--before", id.as_str()]);
        let words: Vec<&str> = ["jobs", "--limit", "500"].into_iter().chain(older).collect();
        let page = world.json(&words);
        for job in page["jobs"].as_array().expect("jobs") {
            let Some(key) = job["labels"]["key"].as_str() else { continue };
            let twice = found.insert(key.to_string(), job["id"].to_string());
            assert_eq!(twice, None, "one job for {key}");
        }
        let Some(next) = page["next"].as_u64() else { break };
        before = Some(next.to_string());
    }
    for (key, id) in acknowledged {
        assert_eq!(found.get(key), Some(id), "{key} was acknowledged");
        assert_eq!(world.cli(&["wait", id]).code, 0, "{key}");
    }
    assert!(found.len() <= acknowledged.len() + 1, "only the last may be unknown to the client");
}
