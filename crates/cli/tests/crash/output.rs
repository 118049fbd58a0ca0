//! Tasks that print without end, on a small disk: the server goes on, and so does everybody else.

use crate::common::{Ran, World, cannot, wait_for};
use std::os::unix::fs::PermissionsExt;

/// More than the whole disk.
const ENDLESS: &str = "90000000";

/// What the journal takes and gives back meanwhile is far less.
const LARGE: usize = 10_000_000;

struct Site {
    world: World,
    ada: String,
    bob: String,
}

impl Site {
    /// `None`: mounting a disk needs root.
    fn start() -> Option<Self> {
        let world = World::on_small_disk("64m")?;
        // Theirs are tasks of another account, which works there.
        let (work, mode) = (world.work(), std::fs::Permissions::from_mode);
        std::fs::set_permissions(&work, mode(0o777)).expect("opened");
        std::fs::set_permissions(work.parent().expect("a parent"), mode(0o755)).expect("opened");
        world.up();
        let [ada, bob] = ["ada", "bob"].map(|name| {
            world.ok(&["user", "add", name]);
            world.ok(&["token", "new", "--user", name]).trim().to_owned()
        });
        Some(Site { world, ada, bob })
    }

    fn cli(&self, token: &str, words: &[&str]) -> Ran {
        let mut command = self.world.command(words);
        command.env("SHIPWAY_TOKEN", token).env("SHIPWAY_URL", self.world.url());
        let done = command.output().expect("it runs");
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        let code = done.status.code().unwrap_or(-1);
        Ran { code, stdout: text(&done.stdout), stderr: text(&done.stderr) }
    }

    /// Prints without end, as ada, and ends well: its job.
    fn flood(&self) -> String {
        let words = ["run", "-d", "--log-limit", "64GB", "--", "head", "-c", ENDLESS, "/dev/zero"];
        let job = self.cli(&self.ada, &words);
        assert_eq!(job.code, 0, "{job:?}");
        let job = job.stdout.trim().to_owned();
        let waited = self.cli(&self.ada, &["wait", &job]);
        assert_eq!(waited.code, 0, "{waited:?}");
        job
    }

    /// The server takes another user's job and keeps what it prints.
    fn check_others(&self) {
        let ran = self.cli(&self.bob, &["run", "--", "echo", "hello"]);
        assert_eq!((ran.code, ran.stdout.as_str()), (0, "hello\n"), "{}", ran.stderr);
        assert!(self.world.is_ready());
    }

    /// The note stands where output is missing: what is kept of the first takes nearly all that one
    /// person may have.
    fn check_note(&self, job: &str, is_first: bool) {
        let log = self.cli(&self.ada, &["logs", job]).stdout;
        let (kept, note) = log.split_once("\n[shipway: ").expect("a note");
        assert_eq!(kept.len() > LARGE, is_first, "{} bytes kept", kept.len());
        assert!(note.contains("bytes lost here: the node has no room for more output"), "{note}");
    }
}

#[test]
fn a_user_who_prints_without_end_fills_no_disk_and_stops_nobody() {
    let Some(site) = Site::start() else { return cannot("mounting a tmpfs needs root") };
    let (first, second) = (site.flood(), site.flood());
    site.check_others();
    site.check_note(&first, true);
    site.check_note(&second, false);

    site.world.kill_server();
    site.world.up();
    site.check_others();
    site.check_note(&first, true);
    site.check_note(&second, false);
    let third = site.flood();
    site.check_note(&third, false);
    site.check_others();
}

#[test]
fn a_stream_that_goes_to_a_file_fills_no_disk_before_it_is_there() {
    let Some(site) = Site::start() else { return cannot("mounting a tmpfs needs root") };
    let (world, work) = (&site.world, site.world.work());
    let target = work.join("all").display().to_string();
    let line = format!("head -c {ENDLESS} /dev/zero; touch over; sleep 1000");
    let job = world.submit(&["--stdout", &target, "--log-limit", "1KB", "--", "sh", "-c", &line]);
    wait_for("it has printed all", || work.join("over").exists());
    site.check_others();

    let ended = world.submit(&["--stdout", &target, "--", "head", "-c", ENDLESS, "/dev/zero"]);
    assert_ne!(world.cli(&["wait", &ended]).code, 0);
    let shown = world.ok(&["show", &ended]);
    assert!(shown.contains("its output could not be kept"), "{shown}");
    site.check_others();
    assert_eq!(world.cli(&["cancel", &job]).code, 0);
}
