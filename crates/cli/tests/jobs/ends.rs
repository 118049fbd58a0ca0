//! How a task can end, each told apart from the others.

use super::common::{World, wait_for};
use super::{job, write};

/// A shell command, its options, the exit code of `run`, and the outcome's kind.
fn check(world: &World, options: &[&str], text: &str, code: i32, kind: &str) -> String {
    let ran = world.cli(&[&["run"], options, &["--", "sh", "-c", text]].concat());
    let newest = world.json(&["jobs", "--limit", "1"])["jobs"][0]["id"].to_string();
    let outcome = job(world, &newest)["outcome"].clone();
    assert_eq!((ran.code, outcome["kind"].as_str()), (code, Some(kind)), "{text}: {}", ran.stderr);
    format!("{outcome} {}", ran.stderr)
}

#[test]
fn codes_and_signals_are_told_apart() {
    let world = World::started();
    check(&world, &[], "exit 0", 0, "exit");
    check(&world, &[], "exit 7", 7, "exit");
    assert!(check(&world, &[], "exit 143", 143, "exit").contains("143"));
    assert!(check(&world, &[], "kill -TERM $$", 143, "signal").contains("signal 15"));
    check(&world, &[], "kill -KILL $$", 137, "signal");
    check(&world, &[], "kill -SEGV $$", 139, "signal");
}

#[test]
fn a_time_limit_warns_and_then_kills() {
    let world = World::started();
    let limit = ["--time-limit", "300ms", "--grace", "1m"];
    let tidy = "trap 'echo saved; exit 0' TERM; while :; do sleep 0.05; done";
    check(&world, &limit, tidy, 0, "exit");
    assert_eq!(world.ok(&["logs", "--stdout", "1"]), "saved\n", "it had time to");
    let usr1 = "trap 'echo usr1; exit 0' USR1; while :; do sleep 0.05; done";
    check(&world, &[&limit[..], &["--warn-signal", "USR1"]].concat(), usr1, 0, "exit");
    assert_eq!(world.ok(&["logs", "--stdout", "2"]), "usr1\n");
    let deaf = "trap '' TERM; while :; do sleep 0.05; done";
    let short = ["--time-limit", "300ms", "--grace", "300ms"];
    let said = check(&world, &short, deaf, 124, "timed_out");
    assert!(said.contains("over its time limit of 300ms"), "{said}");
    check(&world, &short, "sleep 1000", 124, "timed_out");
}

#[test]
fn too_much_memory_is_its_own_end() {
    let world = World::started();
    // `tail` has to keep a line without an end; then it waits for more.
    let text = "{ head -c 400000000 /dev/zero; sleep 1000; } | tail -n 1 > /dev/null";
    let said = check(&world, &["--memory", "100MB"], text, 137, "out_of_memory");
    assert!(said.contains("out of memory"), "{said}");
    assert!(said.contains("100MB"), "the limit is named: {said}");
}

#[test]
fn a_program_that_cannot_start_says_why() {
    let world = World::started();
    write(&world, "plain", "echo hi\n");
    write(&world, "orphan", "#!/no/such/interpreter\n");
    let orphan = world.work().join("orphan");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(orphan, mode).expect("a mode");
    for (words, said) in [
        (&["--", "no-such-program"][..], "no such program"),
        (&["--", "./no-such-file"], "./no-such-file"),
        (&["--", "./plain"], "not executable"),
        (&["--", "./orphan"], "interpreter"),
        (&["--workdir", "/no/such/dir", "--", "true"], "working directory /no/such/dir"),
    ] {
        let ran = world.cli(&[&["run"], words].concat());
        assert_eq!(ran.code, 127, "{words:?}: {}", ran.stderr);
        assert!(ran.stderr.contains("could not start"), "{words:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(said), "{words:?}: {}", ran.stderr);
    }
}

/// Whatever its job asks for. An ordinary user has no cgroup of version 1: there somebody looks.
#[test]
fn the_number_of_processes_is_held_without_being_asked_for() {
    let groups = std::fs::read_to_string("/proc/self/cgroup").expect("of any process");
    let version_1 = groups.lines().any(|line| line.contains(":pids:"));
    if !rustix::process::geteuid().is_root() || !version_1 {
        return super::common::cannot("root, and the controller of processes in version 1");
    }
    let world = World::started();
    for options in [&[][..], &["--image", "host"]] {
        // Asked from outside: a container does not know where it stands.
        let sleep = format!("1000.{}", std::process::id());
        let script = format!("echo up; exec sleep {sleep}");
        let task = ["--", "sh", "-c", &script];
        let id = world.ok(&[&["run", "-d"], options, &task].concat()).trim().to_owned();
        wait_for("the task runs", || world.cli(&["logs", &id]).stdout == "up\n");
        let held = processes_of(&format!("sleep\0{sleep}\0")).into_iter().find_map(|pid| {
            let groups = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
            let group = groups.lines().find_map(|line| line.split_once(":pids:"))?.1.to_owned();
            let limit = format!("/sys/fs/cgroup/pids{group}/pids.max");
            group.contains("/shipway-").then(|| std::fs::read_to_string(limit).ok())?
        });
        world.ok(&["cancel", &id]);
        assert_eq!(held.as_deref(), Some("16384\n"), "{options:?}");
    }
    let key = std::fs::read_to_string(world.home().join("pilot/node-key")).expect("a key");
    drop(world);
    let left = || {
        let groups = std::fs::read_dir("/sys/fs/cgroup/pids").expect("listed").flatten();
        let names = groups.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.filter(|name| name.contains(&key[..8])).collect::<Vec<_>>()
    };
    wait_for("no group is left behind", || left().is_empty());
}

/// Processes of this command line, anywhere.
fn processes_of(line: &str) -> Vec<String> {
    let entries = std::fs::read_dir("/proc").expect("listed").flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let is_it = |pid: &String| {
        std::fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|found| found == line)
    };
    names.filter(is_it).collect()
}
