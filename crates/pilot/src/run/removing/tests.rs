//! Folders that are filled as fast as they are emptied, and those of others beside them.

use super::*;
use rustix::fs::{CWD, Mode, OFlags, openat};
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};

/// Each adds as fast as it can: more of them than of those who remove.
const FILLERS: usize = 4;

/// Whoever removes is busy with so many at the start.
const FILES: usize = 5_000;

/// In memory where that can be had: disks take their time for so many files.
fn memory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

fn folder(whose: &str, path: PathBuf) -> Folder {
    fs::create_dir_all(&path).unwrap();
    fs::write(path.join("file"), "").unwrap();
    Folder::new(whose.into(), path, With::Pilot)
}

/// Goes on until it is told to stop, or the folder is gone.
fn fill(path: &Path, number: usize, stop: &AtomicBool) {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let held = openat(CWD, path, flags, Mode::empty()).unwrap();
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::CLOEXEC;
    for count in 0_u64.. {
        let made = openat(&held, format!("{number}.{count}"), flags, Mode::RUSR);
        if made.is_err() || stop.load(Ordering::Relaxed) {
            return;
        }
    }
}

#[test]
fn one_that_is_filled_without_end_keeps_nobody_elses_from_going() {
    let dir = memory();
    let remover = Remover::start(&Arc::new(Hands::new(String::new(), None)));
    let endless = folder("ada", dir.path().join("work/1.0.1"));
    for number in 0..FILES {
        fs::write(endless.path.join(number.to_string()), "").unwrap();
    }
    let (path, stop) = (endless.path.clone(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let held = &path;
        let stopping = &stop;
        for number in 0..FILLERS {
            scope.spawn(move || fill(held, number, stopping));
        }
        remover.remove(endless);
        let deadline = Instant::now() + Duration::from_mins(1);
        for number in 2..20 {
            let other = folder("bob", dir.path().join(format!("work/{number}.0.1")));
            let place = other.path.clone();
            remover.remove(other);
            while place.exists() && Instant::now() < deadline {
                std::thread::yield_now();
            }
        }
        stop.store(true, Ordering::Relaxed);
        assert!(Instant::now() < deadline, "bob's are still there");
    });
}

#[test]
fn a_folder_is_left_after_its_steps_and_goes_in_the_end() {
    let dir = memory();
    let path = dir.path().join("work/1.0.1");
    fs::create_dir_all(&path).unwrap();
    for number in 0..FILES {
        fs::write(path.join(number.to_string()), "").unwrap();
    }
    let trees = [Tree::within(path.clone(), 2_000)];
    let mut rounds = 0;
    loop {
        let report = remove(&trees, &Progress::default());
        if report.left.is_empty() {
            break;
        }
        rounds += 1;
        assert!(report.left == [path.clone()] && report.problem.is_some(), "{report:?}");
        assert!(path.exists() && rounds < FILES);
    }
    assert!(rounds >= 2 && !path.exists(), "{rounds}");
}

#[test]
fn what_is_put_off_comes_back_ever_more_seldom_and_for_longer() {
    let mut put_off = PutOff::default();
    let mut now = Instant::now();
    let mut folder = Folder::new("ada".into(), "/work/1.0.1".into(), With::Pilot);
    let (mut waits, mut pieces) = (Vec::new(), vec![folder.tree().pieces]);
    for _ in 0..8 {
        put_off.add(folder, now);
        let again = put_off.next().unwrap();
        waits.push((again - now).as_secs() / 60);
        assert_eq!(put_off.due(now), []);
        now = again;
        folder = put_off.due(now).remove(0);
        pieces.push(folder.tree().pieces);
    }
    assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60]);
    assert!(pieces.is_sorted() && pieces[3] >= 7 * pieces[0], "{pieces:?}");
    folder.times = u32::MAX - 1;
    put_off.add(folder, now);
}

/// One person's do not take the place of another's.
#[test]
fn put_off_is_only_so_much_of_each_person() {
    let mut put_off = PutOff::default();
    let add = |put_off: &mut PutOff, whose: &str| {
        put_off.add(Folder::new(whose.into(), "/work/x".into(), With::Pilot), Instant::now());
    };
    for _ in 0..PUT_OFF + 5 {
        add(&mut put_off, "ada");
    }
    add(&mut put_off, "bob");
    assert_eq!(put_off.0.len(), PUT_OFF + 1);
}

#[test]
fn what_was_never_put_off_comes_first() {
    let waiting = Waiting::default();
    let of = |whose: &str, name: &str, times| Folder {
        times,
        ..Folder::new(whose.into(), name.into(), With::Pilot)
    };
    for folder in [of("ada", "again", 1), of("bob", "his", 0), of("ada", "first", 0)] {
        waiting.add(folder);
    }
    assert_eq!(waiting.take("ada"), [of("ada", "first", 0), of("ada", "again", 1)]);
    assert_eq!(waiting.take("ada"), []);
    assert_eq!(waiting.take("bob").len(), 1);
}
