//! The server away while tasks run, and an orderly stop, which ends them.

use crate::common::{World, is_alive, pause, quick, wait_for};
use crate::tasks::{SLEEPER, SMALL, WITH_DAEMON, numbers, submit_script, task, wait_for_numbers};
use std::time::{Duration, Instant};

#[test]
fn what_ends_while_the_server_is_away_is_reported_and_not_run_again() {
    let away = Duration::from_secs(if quick() { 5 } else { 30 });
    let world = World::started();
    let pilot = world.pilot_pid();
    let script = "echo $$ >> pids; while [ ! -e go ]; do sleep 0.05; done
        echo $SHIPWAY_INDEX >> indices; exit $SHIPWAY_INDEX";
    let array = ["--array", "0-7", "--", "sh", "-c", script];
    let job = world.submit(&[&SMALL[..], &array].concat());
    wait_for_numbers(&world, "pids", 8);

    world.kill_server();
    let gone = Instant::now();
    std::fs::write(world.work().join("go"), "").expect("a file");
    let processes = wait_for_numbers(&world, "pids", 8);
    wait_for_numbers(&world, "indices", 8);
    wait_for("all tasks have ended", || processes.iter().all(|process| !is_alive(*process)));
    pause(away.saturating_sub(gone.elapsed()));
    world.up();

    assert_eq!(world.cli(&["wait", &job]).code, 1, "one of them failed");
    assert_eq!(world.pilot_pid(), pilot, "the same pilot");
    for index in 0..8 {
        let shown = task(&world, &format!("{job}/{index}"));
        assert_eq!((&shown["attempt"], &shown["outcome"]["code"]), (&1.into(), &index.into()));
    }
    let mut indices = numbers(&world, "indices");
    indices.sort_unstable();
    assert_eq!(indices, [0, 1, 2, 3, 4, 5, 6, 7], "once each");
}

#[test]
fn an_orderly_stop_leaves_nothing_and_the_next_start_tries_again() {
    let world = World::started();
    let jobs = [submit_script(&world, SLEEPER), submit_script(&world, WITH_DAEMON)];
    wait_for_numbers(&world, "pids-1", 3);

    let status = world.stop_server();
    assert!(status.success(), "{status}: {}", world.server_log());
    assert_eq!(world.processes(), Vec::<u32>::new(), "nothing is left");
    assert!(!world.home().join("server.json").exists());
    assert_eq!(world.cli(&["jobs"]).code, 4, "no server");

    world.up();
    wait_for_numbers(&world, "pids-2", 3);
    for job in jobs {
        let id = format!("{job}/0");
        wait_for("attempt 2 runs", || task(&world, &id)["state"] == "running");
        let shown = task(&world, &id);
        assert_eq!(shown["attempt"], 2, "{shown:#}");
        assert_eq!(shown["attempts"][0]["outcome"]["kind"], "lost", "{shown:#}");
    }
}
