//! One person's files and everybody else's: what hangs, hangs for its owner alone.

use crate::common::{Hanging, World, cannot, children, has_word, wait_for};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

/// An account that Debian has.
const GAMES: u32 = 5;

/// More than are copied at the same time for all together.
const MANY: &str = "1-12";

/// A node with room for many tasks, two people with accounts, and a file that all may read.
struct Shared {
    world: World,
    games: String,
    daemon: String,
}

impl Shared {
    /// `None`: only root can act for others.
    fn start() -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            return None;
        }
        let world = World::new();
        std::fs::create_dir(world.home()).expect("a home that others may enter");
        let (work, mode) = (world.work(), std::fs::Permissions::from_mode);
        std::fs::set_permissions(&work, mode(0o777)).expect("opened");
        std::fs::set_permissions(work.parent().expect("a parent"), mode(0o755)).expect("opened");
        world.up_with(&["--accounts", "root=root,games=games,daemon=daemon"], |_| {});
        std::fs::write(world.work().join("public"), "public").expect("written");
        let [games, daemon] = ["games", "daemon"].map(|name| {
            world.ok(&["user", "add", name]);
            world.ok(&["token", "new", "--user", name]).trim().to_owned()
        });
        Some(Shared { world, games, daemon })
    }

    fn command(&self, token: &str, words: &[&str]) -> Command {
        let mut command = self.world.command(words);
        command.env("SHIPWAY_TOKEN", token).env("SHIPWAY_URL", self.world.url());
        command
    }

    fn submit(&self, token: &str, words: &[&str]) -> String {
        let run = [&["run", "-d", "--cpus", "0.01"], words].concat();
        let made = self.command(token, &run).output().expect("it runs");
        assert!(made.status.success(), "{made:?}");
        String::from_utf8(made.stdout).expect("text").trim().to_owned()
    }

    /// What a job of somebody's has come to.
    fn state(&self, job: &str) -> String {
        self.world.json(&["show", job])["job"]["state"].as_str().expect("a state").to_owned()
    }

    /// The processes that copy files.
    fn copying(&self) -> Vec<u32> {
        let pilots = children(self.world.server_pid());
        let pilots = pilots.into_iter().flat_map(|guard| [vec![guard], children(guard)].concat());
        let started = pilots.flat_map(children);
        started.filter(|process| has_word(*process, "stage-files")).collect()
    }
}

/// Inputs on a file system that does not answer, in more tasks than are served at once: the next
/// person's inputs and outputs are copied all the same, and a cancel ends what hangs.
#[test]
fn inputs_that_hang_hold_up_nobody_else() {
    let Some(shared) = Shared::start() else {
        return cannot("only root can act for others");
    };
    let place = shared.world.work().join("hangs");
    let Some(hanging) = Hanging::mount(&place) else { return cannot("a kernel without /dev/fuse") };
    let input = place.join("never").display().to_string();
    let words = ["--array", MANY, "--input", &input, "--", "true"];
    let stuck = shared.submit(&shared.games, &words);
    wait_for("inputs are waited for", || !shared.copying().is_empty());
    let line = ["--", "cp", "public", "made"];
    let words = [&["--input", "public", "--output", "made:made"], &line[..]].concat();
    let other = shared.submit(&shared.daemon, &words);
    wait_for("the other's job has ended", || shared.state(&other) == "succeeded");
    let made = std::fs::read_to_string(shared.world.work().join("made")).expect("taken");
    assert_eq!(made, "public");
    let mut cancel = shared.command(&shared.games, &["cancel", &stuck]);
    assert!(cancel.stdout(Stdio::null()).status().expect("it runs").success());
    wait_for("what hung is over", || shared.state(&stuck) == "cancelled");
    let left = shared.copying();
    assert!(!left.is_empty(), "the kernel itself lets nobody end these");
    drop(hanging);
    wait_for("they are gone with it", || shared.copying().is_empty());
}

/// An image in a folder that does not answer: the pilot itself must not wait for it.
#[test]
fn a_tree_that_hangs_holds_up_nobody_else() {
    let Some(shared) = Shared::start() else {
        return cannot("only root can act for others");
    };
    let place = shared.world.work().join("hangs");
    let Some(_hanging) = Hanging::mount(&place) else {
        return cannot("a kernel without /dev/fuse");
    };
    let image = format!("dir:{}", place.display());
    let words = ["--array", MANY, "--workdir", "private", "--image", &image, "--", "true"];
    let stuck = shared.submit(&shared.games, &words);
    wait_for("it is on the node", || shared.state(&stuck) != "queued");
    let other = shared.submit(&shared.daemon, &["--workdir", "private", "--", "true"]);
    wait_for("the other's job has ended", || shared.state(&other) == "succeeded");
    let mut cancel = shared.command(&shared.games, &["cancel", &stuck]);
    assert!(cancel.stdout(Stdio::null()).status().expect("it runs").success());
    wait_for("what hung is over", || shared.state(&stuck) == "cancelled");
}

/// Looks for processes that its account could look into, take descriptors from and trace: the
/// kernel says so by whose their files in `/proc` are. Nothing is started in the loop, so that it
/// goes round in a fraction of what the start of a program takes.
const LOOK: &str = r#"
while [ ! -e "$1" ]; do
    for process in /proc/[0-9]*; do
        [ -O "$process/environ" ] || continue
        case "$known" in *" $process "*) continue;; esac
        if grep -qa 'stage-file[s]' "$process/cmdline" 2>/dev/null; then
            echo "$process"
            exit 1
        fi
        known="$known $process "
    done
done
"#;

/// From its very start: no process of the same account reads the files of a task's helper, or
/// takes what it holds.
#[test]
fn who_copies_files_is_closed_to_its_account() {
    use std::os::unix::process::CommandExt;
    let Some(shared) = Shared::start() else {
        return cannot("only root can act for others");
    };
    let end = shared.world.work().join("end");
    let mut look = Command::new("/bin/sh");
    look.args(["-c", LOOK, "sh"]).arg(&end).uid(GAMES).stdout(Stdio::piped());
    let look = look.spawn().expect("a shell");
    for _ in 0..3 {
        let words = ["--array", "1-20", "--input", "public", "--", "cat", "public"];
        let job = shared.submit(&shared.games, &words);
        wait_for("it has ended", || shared.state(&job) == "succeeded");
    }
    std::fs::write(&end, "").expect("written");
    let found = look.wait_with_output().expect("a child");
    let found = String::from_utf8_lossy(&found.stdout).into_owned();
    assert_eq!(found, "", "its account could look into this process");
}
