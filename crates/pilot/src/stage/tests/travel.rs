//! Files that travel: made of what is handed over, and listed of what a task has made.

use super::super::folder::Folder;
use super::super::talk::{Talk, Word};
use super::super::{Collect, Progress, Remembered, StageIn, StageOut, inputs, made};
use super::causes;
use shipway_model::manifest::TravellingLink;
use shipway_model::{Digest, Manifest, TravellingFile};
use std::fs::File;
use std::os::fd::AsFd as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

fn listed(path: &str, executable: bool) -> TravellingFile {
    TravellingFile { path: path.into(), size: 1, sha256: Digest([0; 32]), executable }
}

/// What comes of a list when these files are handed over.
fn make(work: &Path, manifest: Manifest, files: &[File]) -> Result<Remembered, String> {
    let (ours, theirs) = Talk::pair().unwrap();
    let theirs = Talk::of(theirs).unwrap();
    let handed: Vec<_> = files.iter().map(std::os::fd::AsFd::as_fd).collect();
    ours.say(Word::Files, &[], &handed).unwrap();
    drop(ours);
    let (work, given) = (Some(work.to_owned()), Some(manifest));
    let plan = StageIn { work, given, remember: true, ..StageIn::default() };
    inputs::bring(&plan, Some(&theirs), &Progress::default()).map_err(|error| causes(&error))
}

#[test]
fn what_is_handed_over_becomes_files_of_the_tasks_own() {
    let (dir, kept) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let source = kept.path().join("x");
    std::fs::write(&source, "content").unwrap();
    let open = || File::open(&source).unwrap();
    let link = TravellingLink { path: "d/l".into(), to: "../a".into() };
    let manifest = Manifest {
        files: vec![listed("a", false), listed("d/run", true)],
        links: vec![link],
        folders: vec!["empty/folder".into()],
    };
    let seen = make(dir.path(), manifest.clone(), &[open(), open()]).unwrap();
    assert_eq!(seen.len(), 3, "files in folders too: {seen:?}");
    assert_eq!(std::fs::read(dir.path().join("d/l")).unwrap(), b"content");
    let mode = |name: &str| std::fs::metadata(dir.path().join(name)).unwrap().permissions().mode();
    assert_eq!((mode("a") & 0o777, mode("d/run") & 0o777), (0o644, 0o755));
    assert!(dir.path().join("empty/folder").is_dir());
    // What the task does to it does not reach what the pilot keeps.
    std::fs::write(dir.path().join("a"), "changed").unwrap();
    assert_eq!(std::fs::read(&source).unwrap(), b"content");
    // Too few.
    let again = tempfile::tempdir().unwrap();
    let problem = make(again.path(), manifest, &[open()]).unwrap_err();
    assert!(problem.contains("hands over no more"), "{problem}");
}

/// What is listed, and handed over of that; or why not.
fn take(work: &Path, collect: &Collect, before: Remembered) -> Result<Vec<String>, String> {
    let (ours, theirs) = Talk::pair().unwrap();
    let theirs = Talk::of(theirs).unwrap();
    std::thread::scope(|scope| {
        let plan = StageOut { work: Some(work.to_owned()), before, ..StageOut::default() };
        let handing = scope.spawn(move || {
            let progress = Progress::default();
            made::hand_over(&plan, collect, &theirs, &progress).map_err(|error| causes(&error))
        });
        let mut names = Vec::new();
        if let Some(said) = ours.hear().unwrap() {
            assert_eq!(said.word, Word::List);
            let text = said.long(1 << 20).unwrap();
            let manifest: Manifest = serde_json::from_slice(&text).unwrap();
            for (at, file) in (0_u32..).zip(&manifest.files) {
                ours.say(Word::Wanted, &at.to_be_bytes(), &[]).unwrap();
                let handed = ours.hear().unwrap().expect("it is handed over").file().unwrap();
                assert_eq!(handed.metadata().unwrap().len(), file.size);
                assert!(handed.as_fd().try_clone_to_owned().is_ok());
                names.push(file.path.clone());
            }
            let _ended = ours.say(Word::Done, &[], &[]);
        }
        handing.join().unwrap().map(|()| names)
    })
}

#[test]
fn what_is_new_is_listed_and_no_link_is_followed() {
    let (dir, secret) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let work = dir.path();
    std::fs::write(secret.path().join("key"), "secret").unwrap();
    std::fs::create_dir(work.join("d")).unwrap();
    std::fs::write(work.join("old"), "old").unwrap();
    std::fs::write(work.join("d/changed"), "old").unwrap();
    let before = make(work, Manifest::default(), &[open_null()]).unwrap();
    assert_eq!(before.len(), 2);
    std::fs::write(work.join("d/changed"), "new and longer").unwrap();
    std::fs::write(work.join("d/new"), "new").unwrap();
    symlink(secret.path().join("key"), work.join("key")).unwrap();
    symlink(secret.path(), work.join("folder")).unwrap();
    symlink("..", work.join("d/up")).unwrap();
    let fifo = rustix::fs::FileType::Fifo;
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, work.join("pipe"), fifo, mode, 0).unwrap();
    let new = Collect { names: Vec::new(), all_new: true };
    assert_eq!(take(work, &new, before.clone()).unwrap(), ["d/changed", "d/new"]);
    let named = |names: &[&str]| {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        take(work, &Collect { names, all_new: false }, before.clone())
    };
    assert_eq!(named(&["old", "d/n*"]).unwrap(), ["d/new", "old"]);
    assert_eq!(named(&["d"]).unwrap(), ["d/changed", "d/new"]);
    for (name, problem) in [
        ("key", "the output key is a link, which is neither followed nor taken"),
        ("folder/key", "the task has not made the output folder/key"),
        ("d/up", "the output d/up is a link, which is neither followed nor taken"),
        ("pipe", "the output pipe is neither a file nor a folder"),
        ("none", "the task has not made the output none"),
        ("*.none", "the task has not made the output *.none"),
    ] {
        assert_eq!(named(&[name]).unwrap_err(), problem);
    }
}

#[test]
fn a_folder_that_is_too_deep_is_not_left_out_in_silence() {
    let dir = tempfile::tempdir().unwrap();
    let deep: PathBuf = std::iter::repeat_n("d", 65).collect();
    std::fs::create_dir_all(dir.path().join(&deep)).unwrap();
    std::fs::write(dir.path().join("plain"), "x").unwrap();
    let all = || Collect { all_new: true, ..Collect::default() };
    let problem = take(dir.path(), &all(), Remembered::new()).unwrap_err();
    assert!(problem.contains("d/d/d") && problem.contains("64 folders deep"), "{problem}");
    // Where it lay there before, or nobody asked for it, it says nothing about the task.
    let before = made::remember_all(&Folder::open(dir.path()).unwrap()).unwrap();
    assert_eq!(take(dir.path(), &all(), before).unwrap(), [""; 0]);
    let one = Collect { names: vec!["plain".into()], ..Collect::default() };
    assert_eq!(take(dir.path(), &one, Remembered::new()).unwrap(), ["plain"]);
    let all_of_d = Collect { names: vec!["d".into()], ..Collect::default() };
    take(dir.path(), &all_of_d, Remembered::new()).unwrap_err();
}

#[test]
fn what_is_remembered_of_a_name_is_short() {
    let key = |name: &str| super::super::folder::key(std::ffi::OsStr::new(name));
    let long = |last: &str| format!("{}{last}", "\u{e9}".repeat(2_000));
    assert_eq!(key("plain"), "plain");
    assert!(key(&long("a")).len() < 100);
    assert_ne!(key(&long("a")), key(&long("b")));
}

#[test]
fn more_folders_than_can_be_looked_into_are_said() {
    let dir = tempfile::tempdir().unwrap();
    let deep: PathBuf = std::iter::repeat_n("d".repeat(200), 15).collect();
    let deep = dir.path().join(deep);
    std::fs::create_dir_all(&deep).unwrap();
    for at in 0..12_000 {
        std::fs::create_dir(deep.join(at.to_string())).unwrap();
    }
    let all = Collect { all_new: true, ..Collect::default() };
    let problem = take(dir.path(), &all, Remembered::new()).unwrap_err();
    assert!(problem.contains("more folders than"), "{problem}");
}

fn open_null() -> File {
    File::open("/dev/null").unwrap()
}
