//! HTCondor's job event log: written as things happen, over restarts, read by HTCondor itself.

use crate::common::{World, wait_for, wait_some};
use crate::condor::Condor;
use std::path::PathBuf;

fn log_of(world: &World) -> PathBuf {
    world.work().join("all.log")
}

/// The events in a log, each as its number and job: `005 (001.000.000)`.
fn events(world: &World) -> Vec<String> {
    // Whoever reads while it is written may find the first part of what is being written.
    let text = wait_some("the log ends with a whole event", || {
        let text = std::fs::read_to_string(log_of(world)).unwrap_or_default();
        (text.is_empty() || text.ends_with("...\n")).then_some(text)
    });
    let blocks: Vec<&str> = text.split_inclusive("...\n").collect();
    blocks.iter().map(|block| block.chars().take(17).collect()).collect()
}

fn wait_for_events(world: &World, expected: &[&str]) {
    wait_for("the log has them all", || {
        let mut found = events(world);
        let mut expected: Vec<String> = expected.iter().map(ToString::to_string).collect();
        found.sort();
        expected.sort();
        found == expected
    });
}

fn submit(world: &World, words: &[&str]) -> String {
    world.submit(&[&["--event-log", "all.log"], words].concat())
}

#[test]
fn htcondors_own_tools_read_it() {
    let world = World::started();
    let shell = |line: &'static str| ["--", "sh", "-c", line];
    submit(&world, &shell("true"));
    submit(&world, &shell("exit 3"));
    submit(&world, &shell("kill -11 $$"));
    submit(&world, &shell("exec sleep 1000"));
    submit(&world, &["--array", "0-2", "--", "sh", "-c", "exit {index}"]);
    submit(&world, &["--retries", "1", "--retry-delay", "10ms", "--", "sh", "-c", "exit 5"]);
    submit(&world, &["--input", "missing", "--", "true"]);
    let waiting = submit(&world, &["--after", "4:any", "--", "true"]);
    world.ok(&["cancel", &waiting]);
    wait_for("it runs", || world.json(&["show", "4/0"])["task"]["state"] == "running");
    let condor = Condor::find();
    if let Some(condor) = &condor {
        let waited = condor.tool(&log_of(&world), "condor_wait", &["-wait", "1"]);
        assert_eq!(waited.code, 1, "not all have ended: {waited:?}");
    }
    world.ok(&["cancel", "4"]);
    wait_for("all have ended", || {
        (1..=8).all(|job| world.json(&["show", &job.to_string()])["job"]["ended"].is_u64())
    });
    let of = |number: &str, job: &str| format!("{number} ({job}.000)");
    let mut expected: Vec<String> = Vec::new();
    for (job, numbers) in [
        ("001.000", &["000", "001", "005"][..]),
        ("002.000", &["000", "001", "005"]),
        ("003.000", &["000", "001", "005"]),
        ("004.000", &["000", "001", "004", "009"]),
        ("005.000", &["000", "001", "005"]),
        ("005.001", &["000", "001", "005"]),
        ("005.002", &["000", "001", "005"]),
        ("006.000", &["000", "001", "004", "001", "005"]),
        ("007.000", &["000", "009"]),
        ("008.000", &["000", "009"]),
    ] {
        expected.extend(numbers.iter().map(|number| of(number, job)));
    }
    wait_for_events(&world, &expected.iter().map(String::as_str).collect::<Vec<_>>());
    if let Some(condor) = condor {
        judge(&condor, &log_of(&world));
    }
}

fn judge(condor: &Condor, log: &std::path::Path) {
    let waited = condor.tool(log, "condor_wait", &["-wait", "20", "-status"]);
    assert_eq!(waited.code, 0, "{waited:?}");
    assert!(waited.stdout.contains("5.1.0 completed"), "{waited:?}");
    assert!(waited.stdout.contains("4.0.0 aborted"), "{waited:?}");
    assert!(waited.stdout.ends_with("All jobs done.\n"), "{waited:?}");
    let checked = condor.tool(log, "condor_check_userlogs", &[]);
    assert!(checked.stdout.contains("Log(s) are okay"), "{checked:?}");
    let table = condor.tool(log, "condor_userlog", &[]);
    assert!(table.code == 0 && table.stdout.contains("Host/Job"), "{table:?}");
    for job in ["1.0", "2.0", "3.0", "4.0", "5.0", "5.1", "5.2", "6.0"] {
        assert!(table.stdout.contains(&format!("\n{job} ")), "{job}: {table:?}");
    }
    let Some(read) = condor.events(log) else { return };
    for line in [
        "0 1.0\n",
        "5 1.0 0\n",
        "5 2.0 3\n",
        "5 3.0 11\n",
        "9 4.0 via shipway cancel\n",
        "5 5.2 2\n",
        "4 6.0 5 True\n",
        "5 6.0 5\n",
        "9 8.0 via shipway cancel\n",
    ] {
        assert!(read.contains(line), "no {line:?} in {read}");
    }
    let missing = read.lines().find(|line| line.starts_with("9 7.0 ")).expect("its reason");
    assert!(missing.contains("could not start") && missing.contains("missing"), "{missing}");
}

/// Nothing is lost and nothing is written twice, however often the server dies.
#[test]
fn a_killed_server_goes_on_where_it_was() {
    let world = World::started();
    let rounds: u64 = 8;
    for round in 1..=rounds {
        submit(&world, &["--array", "0-19", "--", "sh", "-c", "sleep 0.0{index}"]);
        // At another moment each time: before anything is written, in the middle, at the end.
        let enough = usize::try_from((round - 1) * 60 + round * 7).expect("small");
        wait_for("some of it is written", || events(&world).len() >= enough);
        world.kill_server();
        world.up();
    }
    let mut expected = Vec::new();
    for job in 1..=rounds {
        assert_eq!(world.cli(&["wait", &job.to_string()]).code, 0);
        for number in ["000", "001", "005"] {
            expected.extend((0..20).map(|proc| format!("{number} ({job:03}.{proc:03}.000)")));
        }
    }
    wait_for_events(&world, &expected.iter().map(String::as_str).collect::<Vec<_>>());
    world.stop_server();
    world.up();
    assert_eq!(events(&world).len(), expected.len(), "an orderly restart adds nothing");
}

#[test]
fn trouble_with_a_log_is_said_and_the_job_goes_on() {
    let world = World::started();
    let work = world.work();
    std::os::unix::fs::symlink("/etc/passwd", work.join("link")).expect("a link");
    let pipe = std::process::Command::new("mkfifo").arg(work.join("pipe")).status();
    assert!(pipe.expect("mkfifo").success());
    for (log, words) in [
        // Where nobody can look before the job has an id.
        ("no/{job}/log", "No such file"),
        ("link", "it is a link"),
        ("pipe", "not a plain file"),
        ("/dev/full", "not a plain file"),
        (".", "directory"),
    ] {
        let job = world.submit(&["--event-log", log, "--", "true"]);
        assert_eq!(world.cli(&["wait", &job]).code, 0, "{log}");
        let said = wait_some("it is said on show", || {
            let job = &world.json(&["show", &job])["job"];
            job["event_log_problem"].as_str().map(ToString::to_string)
        });
        assert!(said.contains(words), "{log}: {said}");
        assert!(world.ok(&["show", &job]).contains(&said), "{said}");
        assert!(world.server_log().contains(&said), "{}", world.server_log());
    }
}

/// A site's list of folders is for logs too, and what the server keeps is no place for one.
#[test]
fn a_log_is_only_where_files_may_be_written() {
    let world = World::new();
    let open = world.work().join("open");
    std::fs::create_dir(&open).expect("a folder");
    std::os::unix::fs::symlink(world.work(), open.join("link")).expect("a link");
    world.up_with(&["--binds", &format!("{}:rw", open.display())], |_| {});
    let kept = world.home().join("log").display().to_string();
    for (log, words) in [
        ("all.log", "does not offer"),
        ("open/link/all.log", "does not offer"),
        (&kept, "not for logs"),
    ] {
        let job = world.submit(&["--event-log", log, "--", "true"]);
        let said = wait_some("it is said on show", || {
            let job = &world.json(&["show", &job])["job"];
            job["event_log_problem"].as_str().map(ToString::to_string)
        });
        assert!(said.contains(words), "{log}: {said}");
    }
    assert!(!world.work().join("all.log").exists() && !world.home().join("log").exists());
    world.submit(&["--event-log", "open/all.log", "--", "true"]);
    wait_for("one that is offered", || open.join("all.log").exists());
}

/// On every road: nothing of a log may be lost in silence.
#[test]
fn a_log_in_a_folder_that_is_not_there_is_refused() {
    let world = World::started();
    let folder = world.work().join("none");
    let write = |name: &str, text: &str| {
        std::fs::write(world.work().join(name), text).expect("a file");
    };
    write("job.yaml", "command: [\"true\"]\nevent_log: none/{index}.log\narray: 0-3\n");
    write("x.sub", "executable = /bin/true\nlog = none/x.log\nqueue\n");
    write("rows.sub", "executable = /bin/true\nlog = $(d)/x.log\nqueue d in (. none)\n");
    for (words, code, said) in [
        (&["run", "-d", "--event-log", "none/x", "--", "true"][..], 3, "event_log: there is no"),
        (&["submit", "job.yaml"], 3, "event_log: there is no folder"),
        (&["submit", "--dry-run", "job.yaml"], 3, "event_log: there is no folder"),
        (&["submit", "x.sub"], 2, "x.sub, line 2: log: there is no folder"),
        (&["submit", "rows.sub"], 2, "rows.sub, line 2: log: there is no folder"),
    ] {
        let ran = world.cli(words);
        assert_eq!(ran.code, code, "{words:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(said), "{words:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(&folder.display().to_string()), "{}", ran.stderr);
    }
    assert_eq!(world.json(&["jobs"])["jobs"].as_array().map(Vec::len), Some(0));
    std::fs::create_dir(&folder).expect("a folder");
    let job = world.ok(&["submit", "x.sub"]).trim().to_string();
    world.ok(&["wait", &job]);
    wait_for("the log is there", || folder.join("x.log").exists());
}

#[test]
fn each_task_may_have_its_own_log_and_others_none() {
    let world = World::started();
    let job = world.submit(&["--array", "1-2", "--event-log", "l.{job}.{index}", "--", "true"]);
    assert_eq!(world.cli(&["wait", &job]).code, 0);
    for index in 1..=2 {
        let log = world.work().join(format!("l.{job}.{index}"));
        wait_for("its own log", || {
            let text = std::fs::read_to_string(&log).unwrap_or_default();
            text.matches(&format!("({job:0>3}.{index:03}.000)")).count() == 3
        });
    }
    world.ok(&["user", "add", "ada"]);
    let token = world.ok(&["token", "new", "--user", "ada"]);
    let mut command = world.command(&["run", "-d", "--event-log", "x", "--", "true"]);
    command.env("SHIPWAY_TOKEN", token.trim()).env("SHIPWAY_URL", world.url());
    let refused = command.output().expect("it runs");
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(3), "{said}");
    assert!(said.contains("writes no files for others"), "{said}");
}
