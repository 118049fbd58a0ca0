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

#[test]
fn a_task_that_leaves_no_room_for_processes_ends_and_the_pilot_does_not() {
    if !rustix::process::geteuid().is_root() {
        return cannot("root, to be a user of its own");
    }
    let mut site = Site::start_with(Some(CROWDED), &["--runtime", "native"]);
    site.restart_by(&["prlimit", PROCESSES], &["--runtime", "native"]);
    let shared = site.path("shared");
    std::fs::create_dir(&shared).expect("a folder");
    std::os::unix::fs::chown(&shared, Some(CROWDED), Some(CROWDED)).expect("given away");
    let (code, said, why) = site.words(&["--image", "host", "--", "echo", "before"]);
    assert_eq!((code, said.trim()), (0, "before"), "{why}");
    let home = site.path("home");
    let pilot = wait_some("there is a pilot", || pilot_of(&home));
    let folder = shared.to_str().expect("text");
    let words = ["run", "-d", "--image", "host", "--workdir", folder, "--", "sh", "-c", CROWD];
    let started = site.shipway(&words);
    assert!(started.status.success(), "{}", String::from_utf8_lossy(&started.stderr));
    let job = String::from_utf8_lossy(&started.stdout).trim().to_owned();
    let full = shared.join("full");
    wait_for("there is no room left", || full.metadata().is_ok_and(|file| file.uid() == CROWDED));
    // A thread would have to be started for this.
    let logs = site.shipway(&["logs", "1"]);
    assert_eq!(String::from_utf8_lossy(&logs.stdout), "before\n", "{logs:?}");
    let ended = site.shipway(&["wait", &job]);
    assert!(!ended.status.success());
    let logs = site.shipway(&["logs", &job]);
    let said = String::from_utf8_lossy(&logs.stderr) + String::from_utf8_lossy(&logs.stdout);
    assert!(said.contains("processes and threads, 200 at most"), "{logs:?}");
    assert_eq!(pilot_of(&home), Some(pilot), "the pilot is another one");
    let (code, said, why) = site.words(&["--image", "host", "--", "echo", "after"]);
    assert_eq!((code, said.trim()), (0, "after"), "{why}");
}
