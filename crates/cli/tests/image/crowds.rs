//! What one user's processes share in the kernel: a task that uses it up ends, and neither pilot
//! nor server does.

use crate::common::{cannot, wait_for, wait_some};
use crate::site::Site;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Nobody else's, so that nothing else counts.
const CROWDED: u32 = 64_411;
/// Enough for server, guard and pilot (some eighty threads), with room for a few hundred processes.
const PROCESSES: &str = "--nproc=400:400";

/// Forks as often as it can, and again as soon as it can; tells when it cannot any more. All its
/// processes do, for one alone is found out before it has filled the room when the machine is busy.
/// They stop by themselves, should nobody end them.
const CROWD: &str = r#"perl -e '
    my $until = time + 120; my $first = $$;
    while (time < $until) {
        next if defined fork();
        if (!-e "full") { open(my $f, ">", "full"); close($f) }
        select(undef, undef, undef, $$ == $first ? 0.005 : 0.5);
    }'"#;

/// The one process that is a pilot in this home, and its first thread's start.
fn pilot_of(home: &Path) -> Option<String> {
    let dir = format!("{}", home.join("pilot").display());
    let mut found = std::fs::read_dir("/proc").expect("listed").flatten().filter(|entry| {
        let words = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let words = String::from_utf8_lossy(&words);
        words.contains(&dir) && words.ends_with("--inner\0")
    });
    found.next().map(|entry| entry.file_name().to_string_lossy().into_owned())
}

/// One that has not come yet would go on under the next server, with the limits of the first.
fn has_its_pilot(site: &Site) {
    let (code, said, why) = site.words(&["--image", "host", "--", "echo", "here"]);
    assert_eq!((code, said.trim()), (0, "here"), "{why}");
}

/// A task that has taken all room there is. On a busy machine one may be found out before it has.
fn fill(site: &Site, shared: &Path) -> String {
    let folder = shared.to_str().expect("text");
    let words = ["run", "-d", "--image", "host", "--workdir", folder, "--", "sh", "-c", CROWD];
    let full = shared.join("full");
    wait_some("there is no room left", || {
        let started = site.shipway(&words);
        assert!(started.status.success(), "{}", String::from_utf8_lossy(&started.stderr));
        let job = String::from_utf8_lossy(&started.stdout).trim().to_owned();
        let is_full = || full.metadata().is_ok_and(|file| file.uid() == CROWDED);
        let is_over = || {
            let jobs = site.shipway(&["jobs", "--json"]);
            let jobs: serde_json::Value = serde_json::from_slice(&jobs.stdout).unwrap_or_default();
            jobs["jobs"].as_array().is_some_and(|jobs| {
                jobs.iter().any(|it| {
                    it["id"].as_u64().map(|id| id.to_string()).as_deref() == Some(&job)
                        && it["state"] == "failed"
                })
            })
        };
        wait_for("it takes all room, or is ended", || is_full() || is_over());
        is_full().then_some(job)
    })
}

#[test]
fn a_task_that_leaves_no_room_for_processes_ends_and_the_pilot_does_not() {
    if !rustix::process::geteuid().is_root() {
        return cannot("root, to be a user of its own");
    }
    let mut site = Site::start_with(Some(CROWDED), &["--runtime", "native"]);
    has_its_pilot(&site);
    site.restart_by(&["prlimit", PROCESSES], &["--runtime", "native"]);
    let shared = site.path("shared");
    std::fs::create_dir(&shared).expect("a folder");
    std::os::unix::fs::chown(&shared, Some(CROWDED), Some(CROWDED)).expect("given away");
    has_its_pilot(&site);
    let home = site.path("home");
    let pilot = wait_some("there is a pilot", || pilot_of(&home));
    let job = fill(&site, &shared);
    // A thread would have to be started for this.
    let logs = site.shipway(&["logs", "1"]);
    assert_eq!(String::from_utf8_lossy(&logs.stdout), "here\n", "{logs:?}");
    let ended = site.shipway(&["wait", &job]);
    assert!(!ended.status.success());
    let logs = site.shipway(&["logs", &job]);
    let said = String::from_utf8_lossy(&logs.stderr) + String::from_utf8_lossy(&logs.stdout);
    assert!(said.contains("processes and threads, 200 at most"), "{logs:?}");
    assert_eq!(pilot_of(&home), Some(pilot), "the pilot is another one");
    let (code, said, why) = site.words(&["--image", "host", "--", "echo", "after"]);
    assert_eq!((code, said.trim()), (0, "after"), "{why}");
}

/// Each takes a few descriptors of the pilot, which shells leave a thousand.
#[test]
fn many_tasks_leave_descriptors_for_the_next_and_have_the_usual_limit_themselves() {
    let mut site = Site::start_with(None, &["--runtime", "native"]);
    has_its_pilot(&site);
    site.restart_by(&["prlimit", "--nofile=250:8192"], &["--runtime", "native"]);
    let few = ["run", "-d", "--workdir", "private", "--image", "host", "--cpus", "0.001"];
    let started = site.shipway(&[&few[..], &["--array", "1-80", "--", "sleep", "1000"]].concat());
    assert!(started.status.success(), "{}", String::from_utf8_lossy(&started.stderr));
    let job = String::from_utf8_lossy(&started.stdout).trim().to_owned();
    wait_for("all of them run", || {
        let seen = site.shipway(&["show", &job, "--json"]);
        let seen: serde_json::Value = serde_json::from_slice(&seen.stdout).unwrap_or_default();
        seen["job"]["counts"]["active"] == 80
    });
    for image in [&["--image", "host"][..], &[]] {
        let words = [image, &["--cpus", "0.001", "--", "sh", "-c", "ulimit -Sn"]].concat();
        let (code, said, why) = site.words(&words);
        assert_eq!((code, said.trim()), (0, "250"), "{why}");
    }
}
