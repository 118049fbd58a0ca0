//! Copying in and out, on real folders, with the links a task may plant.

mod modes;
mod travel;

use super::*;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Child, Command, Stdio};

struct Folders {
    dir: tempfile::TempDir,
}

impl Folders {
    fn new() -> Self {
        let place = Folders { dir: tempfile::tempdir().unwrap() };
        for folder in ["work", "from", "to"] {
            fs::create_dir(place.at(folder)).unwrap();
        }
        place
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.at(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn read(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.at(name)).ok()
    }

    fn bring(&self, inputs: &[(&str, bool, &str)]) -> Result<Remembered, String> {
        let inputs = inputs.iter().map(|(source, contents, target)| Input {
            source: self.at(source),
            contents: *contents,
            target: target.into(),
        });
        let plan = StageIn {
            work: Some(self.at("work")),
            inputs: inputs.collect(),
            remember: true,
            ..StageIn::default()
        };
        inputs::bring(&plan, None, &Progress::default()).map_err(|error| causes(&error))
    }

    fn take(&self, outputs: &[(&str, &str)]) -> Option<String> {
        let outputs = outputs.iter().map(|(name, target)| Output {
            name: name.into(),
            contents: name.ends_with('/'),
            target: self.at(target),
        });
        outputs::take(&StageOut { outputs: outputs.collect(), ..self.plan() }, &Progress::default())
    }

    fn plan(&self) -> StageOut {
        let (work, mark) = (Some(self.at("work")), "t".into());
        StageOut { work, mark, ..StageOut::default() }
    }

    fn names(&self, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(self.at(folder)).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

#[test]
fn files_and_folders_come_in() {
    let place = Folders::new();
    place.write("from/run.sh", "one");
    fs::set_permissions(place.at("from/run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    place.write("from/tree/deep/x", "x");
    symlink("x", place.at("from/tree/deep/link")).unwrap();
    symlink("nowhere", place.at("from/tree/dangling")).unwrap();
    symlink("..", place.at("from/tree/up")).unwrap();
    let inputs = [
        ("from/run.sh", false, "go"),
        ("from/tree", false, "tree"),
        ("from/tree", true, ""),
        ("from/run.sh", false, "sub/dir/again"),
    ];
    place.bring(&inputs).unwrap();
    // Again: it is safe to repeat.
    let seen = place.bring(&inputs).unwrap();
    assert_eq!(place.read("work/go").as_deref(), Some("one"));
    let mode = fs::metadata(place.at("work/go")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o755);
    for name in ["work/tree/deep/x", "work/tree/deep/link", "work/deep/x"] {
        assert_eq!(place.read(name).as_deref(), Some("x"), "{name}");
    }
    assert!(place.at("work/tree/deep/link").symlink_metadata().unwrap().is_file());
    assert!(place.at("work/dangling").symlink_metadata().unwrap().is_symlink());
    assert!(place.at("work/up").symlink_metadata().unwrap().is_symlink());
    assert_eq!(place.read("work/sub/dir/again").as_deref(), Some("one"));
    assert!(seen.contains_key("go") && seen.contains_key("dangling"));
}

#[test]
fn what_cannot_be_brought_is_named() {
    let place = Folders::new();
    place.write("from/file", "f");
    let pipe = place.at("from/pipe");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &pipe,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    for (source, contents, words) in [
        ("from/missing", false, "cannot read the input"),
        ("from/file", true, "is not a folder"),
        ("from/pipe", false, "neither a file nor a folder"),
        ("work", true, "contains the task's work directory"),
    ] {
        let problem = place.bring(&[(source, contents, "x")]).unwrap_err();
        assert!(problem.contains(words) && problem.contains(source), "{problem}");
    }
}

/// A link that one input brought leads no other one out of the work directory.
#[test]
fn nothing_is_written_through_a_link() {
    let place = Folders::new();
    place.write("from/tree/file", "mine");
    symlink(place.at("to"), place.at("from/tree/out")).unwrap();
    place.write("to/victim", "theirs");
    place.write("from/victim", "mine");
    let inputs = [("from/tree", true, ""), ("from/victim", false, "out/victim")];
    let problem = place.bring(&inputs).unwrap_err();
    assert!(problem.contains("out/victim"), "{problem}");
    assert_eq!(place.read("to/victim").as_deref(), Some("theirs"));
}

#[test]
fn files_and_folders_go_out() {
    let place = Folders::new();
    place.write("work/result", "r");
    place.write("work/tree/deep/x", "x");
    symlink("../tree/deep/x", place.at("work/tree/near")).unwrap();
    symlink("/etc/passwd", place.at("work/tree/far")).unwrap();
    place.write("to/result", "old");
    let outputs = [("result", "to/result"), ("tree", "to/new/place"), ("tree/", "to")];
    assert_eq!(place.take(&outputs), None);
    assert_eq!(place.take(&outputs), None, "safe to repeat");
    assert_eq!(place.read("to/result").as_deref(), Some("r"));
    assert_eq!(place.read("to/new/place/deep/x").as_deref(), Some("x"));
    assert!(place.at("to/near").symlink_metadata().unwrap().is_file(), "a link that stays inside");
    assert!(place.at("to/far").symlink_metadata().unwrap().is_symlink(), "and one that does not");
    assert_eq!(place.names("to"), ["deep", "far", "near", "new", "result"], "no parts are left");
}

#[test]
fn planted_links_lead_nowhere() {
    let place = Folders::new();
    place.write("to/secret", "secret");
    symlink(place.at("to/secret"), place.at("work/absolute")).unwrap();
    symlink("../to/secret", place.at("work/relative")).unwrap();
    symlink("../to", place.at("work/folder")).unwrap();
    symlink("/proc/self/environ", place.at("work/magic")).unwrap();
    symlink("loop", place.at("work/loop")).unwrap();
    for name in ["absolute", "relative", "folder", "folder/secret", "magic", "loop"] {
        let problem = place.take(&[(name, "to/stolen")]).unwrap();
        assert!(problem.contains("leads out") && problem.contains(name), "{problem}");
        assert!(!place.at("to/stolen").exists(), "{name}");
    }
    let missing = place.take(&[("missing", "to/a"), ("gone", "to/b")]).unwrap();
    assert_eq!(missing, "the task has not made the output missing (and 1 more)");
}

#[test]
fn targets_are_plain_files() {
    let place = Folders::new();
    place.write("work/x", "x");
    fs::create_dir(place.at("to/folder")).unwrap();
    let problem = place.take(&[("x", "to/folder")]).unwrap();
    assert!(problem.contains("not a plain file"), "{problem}");
    let null = Output { name: "x".into(), contents: false, target: "/dev/null".into() };
    let problem =
        outputs::take(&StageOut { outputs: vec![null], ..place.plan() }, &Progress::default())
            .unwrap();
    assert!(problem.contains("/dev/null"), "{problem}");
    let kind = fs::symlink_metadata("/dev/null").unwrap().file_type();
    assert!(!kind.is_file(), "the device is still one");
}

#[test]
fn only_what_is_new_or_changed_is_taken() {
    let place = Folders::new();
    for name in ["same", "changed", "replaced"] {
        place.write(&format!("from/{name}"), "in");
    }
    place.write("from/sub/x", "x");
    let before = place.bring(&[("from", true, "")]).unwrap();
    place.write("work/changed", "out");
    fs::remove_file(place.at("work/replaced")).unwrap();
    place.write("work/replaced", "in");
    place.write("work/made", "new");
    place.write("work/folder/y", "not at the top");
    symlink("made", place.at("work/inside")).unwrap();
    symlink("/etc/passwd", place.at("work/outside")).unwrap();
    let new_to = Some(place.at("to"));
    assert_eq!(
        outputs::take(&StageOut { new_to, before, ..place.plan() }, &Progress::default()),
        None
    );
    assert_eq!(place.names("to"), ["changed", "inside", "made", "replaced"]);
    assert_eq!(place.read("to/changed").as_deref(), Some("out"));
}

#[test]
fn of_what_is_new_some_goes_elsewhere() {
    let place = Folders::new();
    place.write("work/made", "new");
    place.write("work/moved", "also new");
    let to = |name: &str, target: &str| Output {
        name: name.into(),
        contents: false,
        target: place.at(target),
    };
    let outputs = vec![to("moved", "to/far/away"), to("never_made", "to/nothing")];
    let new_to = Some(place.at("to"));
    assert_eq!(
        outputs::take(&StageOut { outputs, new_to, ..place.plan() }, &Progress::default()),
        None
    );
    assert_eq!(place.names("to"), ["far", "made"]);
    assert_eq!(place.read("to/far/away").as_deref(), Some("also new"));
}

#[test]
fn what_was_left_of_a_try_is_cleared_away() {
    let place = Folders::new();
    place.write("work/x", "whole");
    place.write("to/.x.t.part", "ha");
    assert_eq!(place.take(&[("x", "to/x")]), None);
    assert_eq!(place.names("to"), ["x"]);
    assert_eq!(place.read("to/x").as_deref(), Some("whole"));
}

/// In a folder that others may write to as well, they can have any name first: a folder, like a
/// file of theirs where only the owner removes files, does not go away.
#[test]
fn a_name_that_somebody_else_has_is_left_to_them() {
    let place = Folders::new();
    place.write("work/x", "whole");
    place.write("work/d/y", "whole too");
    symlink("nowhere", place.at("work/d/z")).unwrap();
    for taken in ["to/.x.t.part", "to/d/.y.t.part", "to/d/.z.t.part"] {
        place.write(&format!("{taken}/in/the/way"), "");
    }
    // Of an earlier try that was killed, and of others: another task, and somebody's own.
    let (left, others) =
        ("to/.x.t.0123456789abcdef.part", ["to/.x.u.00ff.part", "to/.x.t.my.part"]);
    place.write(left, "wh");
    for name in others {
        place.write(name, "theirs");
    }
    assert_eq!(place.take(&[("x", "to/x"), ("d", "to/d")]), None);
    assert_eq!(place.read("to/x").as_deref(), Some("whole"));
    assert_eq!(place.read("to/d/y").as_deref(), Some("whole too"));
    assert_eq!(place.names("to"), [".x.t.my.part", ".x.t.part", ".x.u.00ff.part", "d", "x"]);
    assert_eq!(place.names("to/d"), [".y.t.part", ".z.t.part", "y", "z"]);
}

/// Somebody who has a lease on a file and gives it back when somebody else opens it.
fn lease(path: &Path) -> Child {
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/lease.py");
    let mut command = Command::new("python3");
    command.arg(program).arg(path).stdout(Stdio::piped());
    let mut holder = command.spawn().unwrap();
    let mut said = [0; 7];
    holder.stdout.as_mut().unwrap().read_exact(&mut said).unwrap();
    assert_eq!(&said, b"leased\n");
    holder
}

#[test]
fn a_file_with_a_lease_is_waited_for() {
    let place = Folders::new();
    place.write("from/x", "text");
    let mut holder = lease(&place.at("from/x"));
    place.bring(&[("from/x", false, "x")]).unwrap();
    assert_eq!(place.read("work/x").as_deref(), Some("text"));
    assert!(holder.wait().unwrap().success());
    let mut holder = lease(&place.at("work/x"));
    assert_eq!(place.take(&[("x", "to/x")]), None);
    assert!(holder.wait().unwrap().success());
}

/// A place of which a part is closed, and one that is offered for reading.
fn reach(place: &Folders) -> Reach {
    let at = |name: &str| place.at(name).canonicalize().unwrap();
    let offered = format!("{0}:rw,{1}", at("to").display(), at("from").display());
    let offered = offered.parse().ok();
    Reach { closed: vec![at("from/kept")], offered, ..Reach::default() }
}

#[test]
fn nothing_is_brought_from_where_tasks_may_not_look() {
    let place = Folders::new();
    place.write("from/kept/token", "secret");
    place.write("from/open", "open");
    place.write("elsewhere", "not offered");
    symlink(place.at("from/kept/token"), place.at("from/link")).unwrap();
    symlink(place.at("elsewhere"), place.at("from/out")).unwrap();
    let bring = |source: &str, contents| {
        let input = Input { source: place.at(source), contents, target: "x".into() };
        let (work, inputs) = (Some(place.at("work")), vec![input]);
        let plan = StageIn { reach: reach(&place), work, inputs, ..StageIn::default() };
        inputs::bring(&plan, None, &Progress::default()).map(drop).map_err(|error| causes(&error))
    };
    for (source, words) in [
        ("from/kept/token", "where the server keeps its files"),
        ("from/link", "where the server keeps its files"),
        ("from/../from/kept", "where the server keeps its files"),
        ("elsewhere", "does not offer"),
        ("from/out", "does not offer"),
        ("from", "where the server keeps its files"),
    ] {
        let problem = bring(source, false).unwrap_err();
        assert!(problem.contains(words), "{source}: {problem}");
    }
    assert_ne!(place.read("work/x").as_deref(), Some("secret"));
    assert_eq!(place.read("work/x/kept/token"), None);
    fs::remove_dir_all(place.at("work")).unwrap();
    fs::create_dir(place.at("work")).unwrap();
    assert_eq!(bring("from/open", false), Ok(()));
    assert_eq!(place.read("work/x").as_deref(), Some("open"));
    let stdin = Some((place.at("from/link"), place.at("work/stdin")));
    let plan = StageIn { reach: reach(&place), stdin, ..StageIn::default() };
    assert!(
        inputs::bring(&plan, None, &Progress::default()).is_err()
            && place.read("work/stdin").is_none()
    );
}

#[test]
fn nothing_is_taken_to_where_tasks_may_not_write() {
    let place = Folders::new();
    place.write("from/kept/token", "secret");
    place.write("work/x", "mine");
    fs::create_dir(place.at("elsewhere")).unwrap();
    symlink(place.at("from/kept"), place.at("to/link")).unwrap();
    symlink(place.at("elsewhere"), place.at("to/out")).unwrap();
    let take = |target: &str| {
        let outputs = vec![Output { name: "x".into(), contents: false, target: place.at(target) }];
        let spool = vec![(place.at("work/x"), place.at(target))];
        let plan = StageOut { reach: reach(&place), ..place.plan() };
        let streams = StageOut { streams: spool, work: None, ..plan.clone() };
        [StageOut { outputs, ..plan }, streams]
            .map(|plan| outputs::take(&plan, &Progress::default()))
    };
    for target in ["from/kept/token", "from/kept/new/x", "to/link/token", "from/x", "to/out/x/y"] {
        for problem in take(target) {
            let problem = problem.unwrap_or_else(|| panic!("{target} was written"));
            assert!(problem.contains("keeps its files") || problem.contains("offer"), "{problem}");
        }
    }
    assert_eq!(place.read("from/kept/token").as_deref(), Some("secret"));
    assert_eq!(fs::read_dir(place.at("from/kept")).unwrap().count(), 1, "nothing was made");
    assert_eq!(fs::read_dir(place.at("elsewhere")).unwrap().count(), 0, "nothing was made");
    assert_eq!(take("to/new/folder/x"), [None, None]);
    assert_eq!(place.read("to/new/folder/x").as_deref(), Some("mine"));
}
