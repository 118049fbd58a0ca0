//! Server, pilot and guard killed with -9 at random moments while an array runs: alone, and pilot
//! and guard at once. Whatever dies, no command completes twice and no two attempts overlap.
//!
//! `SHIPWAY_KILLS` and `SHIPWAY_KILL_TASKS` make it longer: 60 and 3000 take some minutes.

use crate::common::{World, kill, pause, quick, wait_for};
use crate::kills::Dice;
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

/// A command in an array: it says when it starts and, as its very last act, when it ends. It holds
/// a lock for as long as any process of it lives.
///
/// Between its last line and its exit are some microseconds in which it can be killed, and has not
/// completed although it said so. The last line is written by a program that does nothing more,
/// so that this is less than one in a hundred runs of the long test.
const TASK: &str = r#"exec 9>>locks/$SHIPWAY_INDEX
    me="$SHIPWAY_INDEX $SHIPWAY_ATTEMPT"
    flock -n 9 || echo "overlap $me" >> lines
    echo "start $me" >> lines
    echo "output of $SHIPWAY_INDEX"
    sleep 0.$((SHIPWAY_INDEX % 4 + 1))
    exec /usr/bin/printf 'end %s\n' "$me" >> lines"#;

/// So many run at once, on any machine.
const AT_ONCE: &str = "8";

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Victim {
    Server,
    Pilot,
    Guard,
    PilotAndGuard,
}

use Victim::{Guard, Pilot, PilotAndGuard, Server};

/// In containers, as tasks run unless somebody says otherwise.
#[test]
fn no_command_completes_twice_whoever_is_killed() {
    check(&World::new(), &in_containers(), &[Server, Pilot, Guard, PilotAndGuard]);
}

/// Tasks run in containers, and as nobody in particular.
pub(crate) fn in_containers() -> Vec<&'static str> {
    let mut options = vec!["--default-image", "host"];
    if rustix::process::geteuid().is_root() {
        options.extend(["--accounts", "*=nobody"]);
    }
    options
}

/// Of plain processes a guard sees how they ended; without one nobody does.
#[test]
fn no_plain_command_completes_twice_while_its_guard_lives() {
    check(&World::new(), &[], &[Server, Pilot, Pilot]);
}

fn size(name: &str, usual: u64, small: u64) -> u64 {
    let given = std::env::var(name).ok().map(|text| text.parse().expect("a number"));
    given.unwrap_or(if quick() { small } else { usual })
}

fn check(world: &World, options: &[&str], victims: &[Victim]) {
    let (kills, tasks) = (size("SHIPWAY_KILLS", 12, 5), size("SHIPWAY_KILL_TASKS", 300, 100));
    open_to_all(world);
    world.up_with(options, |_| {});
    let array = format!("1-{tasks}");
    let words = ["--cpus", "0.01", "--max-running", AT_ONCE, "--array", &array];
    let job = world.submit(&[&words[..], &["--", "sh", "-c", TASK]].concat());
    let killed = keep_killing(world, options, victims, (kills, tasks));
    assert_eq!(world.cli(&["wait", &job]).code, 0, "{}", world.ok(&["show", &job]));
    let lost = check_account(world, &job, tasks);
    let starts = check_lines(world, tasks);
    check_output(world, &job, tasks);
    eprintln!("killed {killed:?}: {tasks} tasks completed once each, {starts} starts, {lost} lost");
    // One without a guard would outlive this test.
    if world.guard_if_any().is_none() {
        kill(world.pilot_pid());
        wait_for("a pilot that has a guard", || world.guard_if_any().is_some());
    }
}

/// Tasks may run under another account.
pub(crate) fn open_to_all(world: &World) {
    let work = world.work();
    let open = |path: &std::path::Path, mode| {
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(path, mode).expect("our own");
    };
    std::fs::create_dir(work.join("locks")).expect("a folder");
    std::fs::write(work.join("lines"), "").expect("a file");
    open(work.parent().expect("a parent"), 0o755);
    for path in [work.join("locks"), work.join("lines"), work] {
        open(&path, 0o777);
    }
}

/// A line that is being written just now is left out: one that lies on two pages of the file is
/// seen in part for a moment.
fn lines(world: &World) -> Vec<(String, u64, u64)> {
    let mut text = std::fs::read_to_string(world.work().join("lines")).expect("a file");
    text.truncate(text.rfind('\n').map_or(0, |end| end + 1));
    let line = |line: &str| {
        let mut words = line.split(' ');
        let what = words.next()?.to_owned();
        Some((what, words.next()?.parse().ok()?, words.next()?.parse().ok()?))
    };
    text.lines().map(|text| line(text).unwrap_or_else(|| panic!("a line says {text:?}"))).collect()
}

/// Kills at moments spread over the array's whole run; who was killed how often.
fn keep_killing(
    world: &World,
    options: &[&str],
    victims: &[Victim],
    (kills, tasks): (u64, u64),
) -> BTreeMap<Victim, u32> {
    let mut dice = Dice::thrown();
    let mut moments: Vec<u64> = (0..kills).map(|_| dice.below(tasks * 9 / 10)).collect();
    moments.sort_unstable();
    let mut killed = BTreeMap::new();
    for moment in moments {
        wait_for("the array goes on", || {
            let ended = lines(world).iter().filter(|(what, ..)| what == "end").count();
            ended as u64 >= moment
        });
        pause(Duration::from_millis(dice.below(300)));
        let pick = usize::try_from(dice.below(victims.len() as u64)).unwrap_or(0);
        let mut victim = victims[pick];
        if victim == Guard && world.guard_if_any().is_none() {
            victim = Pilot;
        }
        match victim {
            Server => {
                world.kill_server();
                world.up_with(options, |_| {});
            }
            Pilot => kill(world.pilot_pid()),
            Guard => kill(world.guard_pid()),
            PilotAndGuard => {
                let (pilot, guard) = (world.pilot_pid(), world.guard_if_any());
                guard.into_iter().for_each(kill);
                kill(pilot);
            }
        }
        *killed.entry(victim).or_default() += 1;
    }
    killed
}

/// By the server's account each has succeeded once; how many attempts were lost.
fn check_account(world: &World, job: &str, tasks: u64) -> i64 {
    let shown = world.json(&["show", job, "--limit", "1"]);
    assert_eq!(shown["job"]["counts"]["succeeded"], tasks, "{shown:#}");
    let history = rusqlite::Connection::open(world.home().join("shipway.db")).expect("history");
    let ask = |what: &str| -> i64 {
        let query = format!("SELECT {what} FROM attempts WHERE job = ?1");
        history.query_row(&query, [job], |row| row.get(0)).expect("attempts")
    };
    assert_eq!(ask("count(*) FILTER (WHERE state = 'succeeded')"), tasks.cast_signed());
    assert_eq!(ask("count(DISTINCT idx)"), tasks.cast_signed());
    assert_eq!(ask("count(*) FILTER (WHERE state NOT IN ('succeeded', 'retried'))"), 0);
    ask("count(*) FILTER (WHERE state = 'retried')")
}

/// By what the commands themselves have written; how often they were started.
fn check_lines(world: &World, tasks: u64) -> usize {
    let mut of_index: BTreeMap<u64, Vec<(String, u64)>> = BTreeMap::new();
    for (what, index, attempt) in lines(world) {
        of_index.entry(index).or_default().push((what, attempt));
    }
    assert_eq!(of_index.len() as u64, tasks, "every one has run");
    for (index, said) in &of_index {
        let ends: Vec<_> = said.iter().filter(|(what, _)| what == "end").collect();
        assert_eq!(ends.len(), 1, "task {index} completed {} times: {said:?}", ends.len());
        assert!(said.iter().all(|(what, _)| what != "overlap"), "task {index}: {said:?}");
        // What stands before its end is its own start; nothing stands behind it.
        let own = [("start".to_owned(), ends[0].1), ("end".to_owned(), ends[0].1)];
        assert!(said.ends_with(&own), "task {index}: {said:?}");
    }
    of_index.values().flatten().filter(|(what, _)| what == "start").count()
}

/// Whoever reported the end, the output is there.
fn check_output(world: &World, job: &str, tasks: u64) {
    for index in (1..=tasks).step_by(usize::try_from(tasks / 10).unwrap_or(1).max(1)) {
        let printed = world.ok(&["logs", &format!("{job}/{index}")]);
        assert!(printed.starts_with(&format!("output of {index}\n")), "{index}: {printed}");
    }
}
