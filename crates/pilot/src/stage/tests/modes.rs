//! Who may read what is copied: while it is under way, and when it is there.

use super::super::targets::Targets;
use super::*;
use rustix::fs::Mode;
use rustix::process::geteuid;
use std::fs::{File, Permissions};
use std::io::Write;
use std::time::{Duration, Instant};

impl Folders {
    fn mode(&self, name: &str) -> Option<u32> {
        Some(fs::symlink_metadata(self.at(name)).ok()?.permissions().mode() & 0o7777)
    }

    fn set_mode(&self, name: &str, mode: u32) {
        fs::set_permissions(self.at(name), Permissions::from_mode(mode)).unwrap();
    }

    fn wait_for(&self, name: &str) {
        let deadline = Instant::now() + Duration::from_mins(1);
        while !self.at(name).exists() {
            assert!(Instant::now() < deadline, "{name} is never made");
            std::thread::yield_now();
        }
    }

    fn take_stream(&self, from: &str, to: &str) {
        let streams = vec![(self.at(from), self.at(to))];
        let plan = StageOut { work: None, streams, ..self.plan() };
        assert_eq!(outputs::take(&plan, &Progress::default()), None);
    }
}

/// A file that is made by something that is not complete yet itself: a pipe.
#[test]
fn what_is_not_complete_is_closed_to_others() {
    let place = Folders::new();
    let (from, to) = rustix::pipe::pipe().unwrap();
    let (mut from, mut to) = (File::from(from), File::from(to));
    std::thread::scope(|scope| {
        let copied = scope.spawn(|| {
            let (reach, progress) = (Reach::default(), Progress::default());
            let targets = Targets::new(&reach, "t", &progress);
            let mode = Some(Mode::from_raw_mode(0o644));
            targets.write(&mut from, &place.at("to/open"), mode).map_err(|error| causes(&error))
        });
        place.wait_for("to/.open.t.part");
        to.write_all(b"whole").unwrap();
        assert_eq!(place.mode("to/.open.t.part"), Some(0o600));
        assert_eq!(place.mode("to/open"), None);
        drop(to);
        copied.join().unwrap().unwrap();
    });
    assert_eq!(place.read("to/open").as_deref(), Some("whole"));
    assert_eq!(place.mode("to/open"), Some(0o644));
}

#[test]
fn what_is_taken_is_as_open_as_it_was() {
    let place = Folders::new();
    for (name, mode) in [("secret", 0o600), ("tool", 0o755), ("trusted", 0o6755)] {
        place.write(&format!("work/{name}"), name);
        place.set_mode(&format!("work/{name}"), mode);
    }
    place.write("work/private/deep/x", "x");
    place.set_mode("work/private/deep", 0o555);
    place.set_mode("work/private", 0o700);
    let outputs = ["secret", "tool", "trusted", "private"].map(|name| (name, format!("to/{name}")));
    let outputs = outputs.each_ref().map(|(name, target)| (*name, target.as_str()));
    for _ in 0..2 {
        assert_eq!(place.take(&outputs), None);
        assert_eq!(place.take(&[("private/", "to/new/place")]), None);
        for (name, mode) in [("secret", 0o600), ("tool", 0o755), ("trusted", 0o755)] {
            assert_eq!(place.mode(&format!("to/{name}")), Some(mode), "{name}");
        }
        for name in ["to/private", "to/new/place"] {
            assert_eq!(place.mode(name), Some(0o700), "{name}");
            let deep = place.mode(&format!("{name}/deep")).unwrap();
            assert_eq!(deep & 0o722, 0o700, "its owner may change it, and nobody else");
        }
    }
    // For removal, where this is not root.
    place.set_mode("work/private/deep", 0o755);
}

/// Whoever made a folder for results has decided who may look into it.
#[test]
fn a_folder_that_is_there_keeps_its_mode() {
    let place = Folders::new();
    place.write("work/tree/x", "x");
    place.set_mode("work/tree", 0o755);
    place.set_mode("to", 0o750);
    assert_eq!(place.take(&[("tree", "to")]), None);
    assert_eq!((place.mode("to"), place.read("to/x").as_deref()), (Some(0o750), Some("x")));
}

#[test]
fn what_is_brought_is_as_open_as_it_was() {
    let place = Folders::new();
    place.write("from/tree/deep/x", "x");
    place.set_mode("from/tree/deep/x", 0o640);
    place.set_mode("from/tree/deep", 0o500);
    place.set_mode("from/tree", 0o700);
    for _ in 0..2 {
        place.bring(&[("from/tree", false, "a/tree")]).unwrap();
        assert_eq!(place.mode("work/a/tree"), Some(0o700));
        assert_eq!(place.mode("work/a/tree/deep"), Some(0o700), "tasks write beside their inputs");
        assert_eq!(place.mode("work/a/tree/deep/x"), Some(0o640));
    }
    place.set_mode("from/tree/deep", 0o700);
}

/// As with `>` in a shell.
#[test]
fn a_stream_is_as_open_as_the_file_it_replaces() {
    let place = Folders::new();
    place.write("printed", "printed");
    place.set_mode("printed", 0o600);
    place.write("to/private", "old");
    place.set_mode("to/private", 0o600);
    place.write("to/usual", "");
    let usual = place.mode("to/usual");
    for (name, mode) in [("to/private", Some(0o600)), ("to/usual", usual), ("to/new", usual)] {
        place.take_stream("printed", name);
        assert_eq!((place.mode(name), place.read(name).as_deref()), (mode, Some("printed")));
    }
}

/// Whoever may rename a folder while it is filled gets nothing of what comes after that.
#[test]
fn a_folder_that_changes_its_name_takes_all_of_it_along() {
    let place = Folders::new();
    std::fs::create_dir_all(place.at("to")).unwrap();
    let (reach, progress) = (Reach::default(), Progress::default());
    let targets = Targets::new(&reach, "t", &progress);
    let mode = Mode::from_raw_mode(0o700);
    let below = targets.below(&place.at("to/own"), mode).map_err(|error| causes(&error)).unwrap();
    std::fs::rename(place.at("to/own"), place.at("to/away")).unwrap();
    std::fs::create_dir_all(place.at("to/own/deep")).unwrap();
    place.write("work/x", "secret");
    let mode = Some(Mode::from_raw_mode(0o644));
    for name in ["x", "deep/x"] {
        let mut from = File::open(place.at("work/x")).unwrap();
        let to = place.at("to/own").join(name);
        below.write(&mut from, &to, mode).map_err(|error| causes(&error)).unwrap();
        assert_eq!(place.read(&format!("to/away/{name}")).as_deref(), Some("secret"));
        assert_eq!(place.read(&format!("to/own/{name}")), None);
    }
}

#[test]
fn a_folder_of_somebody_else_among_everybodys_is_not_filled() {
    if !geteuid().is_root() {
        return;
    }
    let place = Folders::new();
    place.write("work/res/x", "secret");
    for (mode, owner, is_refused) in
        [(0o1777, 65_534, true), (0o777, 65_534, true), (0o755, 65_534, false), (0o1777, 0, false)]
    {
        let _before = std::fs::remove_dir_all(place.at("share"));
        std::fs::create_dir_all(place.at("share/res")).unwrap();
        place.set_mode("share", mode);
        place.set_mode("share/res", 0o777);
        std::os::unix::fs::chown(place.at("share/res"), Some(owner), None).unwrap();
        let problem = place.take(&[("res", "share/res")]);
        let named =
            problem.as_ref().is_some_and(|it| it.contains("somebody else made that folder"));
        assert_eq!(named, is_refused, "{mode:o} {owner} {problem:?}");
        assert_eq!(place.read("share/res/x").is_none(), is_refused);
    }
}
