//! What tasks use, from the node to whoever asks: processors and memory beside what the task itself
//! was told by the kernel, a GPU by an imitation of its driver.

use super::common::{World, kill, wait_for, wait_some};
use super::imitated::driver;
use serde_json::Value;

/// Burns a few seconds and holds some memory, then prints what the shell knows of its time.
const BURN: &str = "x=$(head -c 60000000 /dev/zero | tr '\\0' a); i=0; \
    while [ $i -lt $1 ]; do i=$((i+1)); done; times; head -c 3000000 /dev/zero > big; sync big";
const ROUNDS: &str = "4000000";

/// Milliseconds of all that `times` prints: `0m1.50s 0m0.25s`, its own and its children's.
fn told(times: &str) -> u64 {
    let span = |word: &str| -> Option<u64> {
        let (minutes, seconds) = word.strip_suffix('s')?.split_once('m')?;
        let (whole, part) = seconds.split_once('.')?;
        let part: u64 = format!("{part:0<3}").get(..3)?.parse().ok()?;
        Some(minutes.parse::<u64>().ok()? * 60_000 + whole.parse::<u64>().ok()? * 1_000 + part)
    };
    times.split_whitespace().filter_map(span).sum()
}

fn usage(world: &World, task: &str) -> Value {
    world.json(&["show", task])["task"]["usage"].clone()
}

fn number(usage: &Value, name: &str) -> u64 {
    usage[name].as_u64().unwrap_or_else(|| panic!("no {name} in {usage}"))
}

/// With a cgroup of its own where the node delegates one, and by its processes.
#[test]
fn what_a_task_burns_is_what_the_kernel_told_it() {
    let world = World::started();
    let burn = ["--cpus", "0.5", "--", "sh", "-c", BURN, "burn", ROUNDS];
    let plain = world.submit(&burn);
    let bounded = world.submit(&[&["--memory", "1GB"], &burn[..]].concat());
    let nothing = world.submit(&["--cpus", "0.1", "--", "true"]);
    for job in [&plain, &bounded] {
        assert_eq!(world.cli(&["wait", job]).code, 0);
        let (told, used) = (told(&world.ok(&["logs", job])), usage(&world, &format!("{job}/0")));
        let cpu = number(&used, "cpu_ms");
        // What starts it and what writes the file is not in the shell's own account.
        assert!(cpu + 20 >= told && cpu <= told + told / 10 + 300, "{cpu}, told {told}: {used}");
        assert!(number(&used, "wall_ms") * 2 + 500 >= cpu, "{used}");
        let memory = number(&used, "memory");
        assert!((60_000_000..400_000_000).contains(&memory), "{used}");
        assert!(number(&used, "looks") >= 1, "{used}");
    }
    world.cli(&["wait", &nothing]);
    let used = usage(&world, &format!("{nothing}/0"));
    assert!(number(&used, "cpu_ms") < 1_000 && used["memory"].is_null(), "{used}");
    let shown = world.ok(&["show", &format!("{plain}/0")]);
    assert!(shown.contains("cores on average") && shown.contains("at most"), "{shown}");
}

fn with_gpu(world: &World, driver: &std::path::Path, now: &str) {
    std::fs::write(world.work().join("gpu"), now).expect("written");
    world.up_with(&[], |command| {
        command.env("LD_LIBRARY_PATH", driver).env("IMITATE", "right");
        command.env("IMITATE_USES", world.work().join("uses"));
        command.env("IMITATE_GPU", world.work().join("gpu"));
    });
}

/// What the device does, beside what is said of it.
#[test]
fn a_gpu_of_its_own_is_seen_with_all_it_does() {
    let dir = tempfile::tempdir().expect("a directory");
    let Some(driver) = driver(dir.path()) else { return };
    let world = World::new();
    // 64: heat; 1: nothing to do, which is no trouble.
    with_gpu(&world, &driver, "80 35 300000 61 65");
    let job = world.submit(&["--gpus", "1", "--cpus", "0.1", "--", "sleep", "1000"]);
    let task = format!("{job}/0");
    // Told after ten seconds, while it runs.
    let running = wait_some("it is told of", || {
        let shown = world.json(&["show", &task])["task"].clone();
        (shown["state"] == "running" && shown["usage"].is_object()).then_some(shown)
    });
    assert_eq!(running["usage"]["gpu_busy"], 8_000, "{running:#}");
    world.ok(&["cancel", &job]);
    world.cli(&["wait", &job]);
    let shown = world.json(&["show", &task]);
    let used = &shown["task"]["usage"];
    for (name, expected) in [
        ("gpus", 1),
        ("gpus_idle", 0),
        ("gpu_busy", 8_000),
        ("gpu_busy_max", 8_000),
        ("gpu_memory_busy", 3_500),
        ("gpu_memory", 0),
        ("gpu_memory_of", 8_000_000_000),
        ("power_max_mw", 300_000),
        ("temperature_max", 61),
        ("throttle_reasons", 64),
        ("ecc_errors", 0),
    ] {
        assert_eq!(number(used, name), expected, "{name}: {used:#}");
    }
    // 300 W all the time, and the device all its own.
    let (wall, energy) = (number(used, "wall_ms"), number(used, "energy_mj"));
    assert!(energy.abs_diff(wall * 300) <= wall * 300 / 20, "{used:#}");
    assert!(number(used, "gpu_given_ms").abs_diff(wall) <= 500, "{used:#}");
    let series = &shown["series"];
    let points = series["gpu_busy"].as_array().expect("points");
    assert!(points.len() >= 10 && points[1..].iter().all(|it| *it == 8_000), "{series:#}");
    assert!(world.ok(&["show", &task]).contains("  gpu         80 % busy, 80 % at most"));
}

#[test]
fn two_tasks_on_one_card_have_figures_of_their_own() {
    let dir = tempfile::tempdir().expect("a directory");
    let Some(driver) = driver(dir.path()) else { return };
    let world = World::new();
    with_gpu(&world, &driver, "90 50 400000 70 0");
    let share = |share: &str, line: &str| {
        let script = format!("sleep 1000 & echo $! {line} >> uses; wait");
        world.submit(&["--gpus", share, "--cpus", "0.1", "--", "sh", "-c", &script])
    };
    let (small, large) = (share("0.25", "1000000000 20"), share("0.5", "3000000000 65"));
    for job in [&small, &large] {
        let task = format!("{job}/0");
        wait_for("it is told of", || usage(&world, &task)["gpu_busy"].as_u64() > Some(0));
        world.ok(&["cancel", job]);
        world.cli(&["wait", job]);
    }
    for (job, busy, memory, power) in
        [(&small, 2_000, 1_000_000_000, 100_000), (&large, 6_500, 3_000_000_000, 200_000)]
    {
        let used = usage(&world, &format!("{job}/0"));
        assert_eq!(number(&used, "gpu_busy_max"), busy, "{used:#}");
        assert_eq!(number(&used, "gpu_memory"), memory, "{used:#}");
        assert_eq!(number(&used, "power_max_mw"), power, "{used:#}");
        // It takes a moment until the imitation is told of it.
        assert!(number(&used, "gpu_busy").abs_diff(busy) <= busy / 5, "{used:#}");
    }
}

/// The sums by the journal, and how it went by what the server keeps of that.
#[test]
fn what_was_told_of_a_task_is_not_lost_with_its_pilot() {
    let dir = tempfile::tempdir().expect("a directory");
    let Some(driver) = driver(dir.path()) else { return };
    let world = World::new();
    with_gpu(&world, &driver, "40 10 200000 50 0");
    let job = world.submit(&["--gpus", "1", "--cpus", "0.1", "--", "sleep", "1000"]);
    let task = format!("{job}/0");
    wait_for("it is told of", || usage(&world, &task).is_object());
    let before = usage(&world, &task);
    // Nobody can say anything more of it.
    let pilot = world.pilot_pid();
    world.kill_server();
    kill(pilot);
    with_gpu(&world, &driver, "40 10 200000 50 0");
    let first = wait_some("the attempt is given up", || {
        let shown = world.json(&["show", &task])["task"].clone();
        shown["attempts"].get(0).cloned()
    });
    assert_eq!(first["outcome"]["kind"], "lost", "{first:#}");
    let kept = &first["usage"];
    for name in ["gpu_busy", "looks", "energy_mj", "gpus"] {
        assert!(number(kept, name) >= number(&before, name), "{name}: {kept:#}");
    }
    world.ok(&["cancel", &job]);
}
