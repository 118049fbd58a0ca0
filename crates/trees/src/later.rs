//! Removal in the background: one thread for a whole process, so that nobody who starts or ends
//! tasks waits for a disk.
//!
//! Each tree gets a few steps at once; what is not gone then is large, and goes on a piece at a
//! time with the other large ones. So the small are not held up by the large, and neither are large
//! ones by those that somebody fills as fast as they are emptied: after so many turns a tree makes
//! room. Like what cannot be removed it is tried again, ever more seldom and for more turns. What
//! is left when the process ends is for whoever comes after it.

use crate::removal::{Progress, Removal};
use std::collections::VecDeque;
use std::error::Error as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, mpsc};
use std::time::{Duration, Instant};

/// Steps a turn has: some tens of milliseconds.
const TURN: u32 = 2_000;

/// Large trees that are gone through at the same time; each holds some descriptors.
const LARGE: usize = 8;

/// Turns of a large tree before it makes room for others: a million steps. They double as its wait
/// does.
const TURNS: u32 = 500;

/// The wait before what could not be removed is tried again; it doubles up to the second number.
const FIRST_WAIT: Duration = Duration::from_mins(1);
const LONGEST_WAIT: Duration = Duration::from_hours(1);

/// Trees that wait to be tried again. More than a few mean that something is wrong with the disk,
/// and then the next start will do.
const TRIED_AGAIN: usize = 1_000;

/// Has a folder removed by and by, with what others were given in it. It must not be used any more,
/// under this name or another.
pub fn remove_later(path: PathBuf) {
    let queue = queue();
    let sent = queue.lock().map(|queue| queue.send(path));
    // Without the thread it is left to the next start.
    drop(sent);
}

/// Starts the thread now, for whoever may find no room for it when it is needed.
pub fn get_ready() {
    let _started = queue();
}

fn queue() -> &'static Mutex<mpsc::Sender<PathBuf>> {
    static QUEUE: OnceLock<Mutex<mpsc::Sender<PathBuf>>> = OnceLock::new();
    QUEUE.get_or_init(|| Mutex::new(start()))
}

fn start() -> mpsc::Sender<PathBuf> {
    let (send, receive) = mpsc::channel::<PathBuf>();
    let thread = std::thread::Builder::new().name("removing".into());
    let started = thread.spawn(move || {
        let mut trees = Trees::default();
        loop {
            trees.fresh.extend(receive.try_iter());
            let come = match trees.turn(Instant::now()) {
                Some(wait) if wait.is_zero() => continue,
                Some(wait) => receive.recv_timeout(wait),
                None => receive.recv().map_err(Into::into),
            };
            match come {
                Ok(path) => trees.fresh.push_back(path),
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => return,
            }
        }
    });
    // Without a thread nothing is removed before the next start; that is all.
    if let Err(error) = started {
        tracing::warn!(%error, "no thread to remove what tasks leave");
    }
    send
}

/// What is to be removed, and how far it is.
#[derive(Debug)]
struct Trees {
    fresh: VecDeque<PathBuf>,
    large: VecDeque<Tree>,
    /// Found to be large when there were enough of them.
    waiting: VecDeque<(PathBuf, Option<Duration>)>,
    failed: Vec<Failed>,
    /// How many one has at first.
    turns: u32,
}

/// One that is gone through.
#[derive(Debug)]
struct Tree {
    removal: Removal,
    /// Turns that it had.
    turns: u32,
    /// How long it was not tried for, after it could not be removed.
    waited: Option<Duration>,
}

/// Something that could not be removed, or not yet.
#[derive(Debug)]
struct Failed {
    path: PathBuf,
    again: Instant,
    wait: Duration,
}

impl Default for Trees {
    fn default() -> Self {
        let (fresh, large, waiting) = Default::default();
        Self { fresh, large, waiting, failed: Vec::new(), turns: TURNS }
    }
}

impl Tree {
    fn new(path: &Path, waited: Option<Duration>) -> Self {
        Self { removal: Removal::of_others(path), turns: 0, waited }
    }
}

impl Trees {
    /// One turn for one tree. How long until there is another, zero for now.
    fn turn(&mut self, now: Instant) -> Option<Duration> {
        if let Some(path) = self.fresh.pop_front() {
            self.go_on(Tree::new(&path, None), now);
        } else if let Some(tree) = self.next_large() {
            self.go_on(tree, now);
        }
        if let Some(failed) = self.next_failed(now) {
            self.go_on(Tree::new(&failed.path, Some(failed.wait)), now);
        }
        if self.fresh.is_empty() && self.large.is_empty() && self.waiting.is_empty() {
            let next = self.failed.iter().map(|failed| failed.again).min();
            return next.map(|again| again.saturating_duration_since(now));
        }
        Some(Duration::ZERO)
    }

    fn next_large(&mut self) -> Option<Tree> {
        if self.large.len() < LARGE
            && let Some((path, waited)) = self.waiting.pop_front()
        {
            return Some(Tree::new(&path, waited));
        }
        self.large.pop_front()
    }

    fn next_failed(&mut self, now: Instant) -> Option<Failed> {
        let at = self.failed.iter().position(|failed| failed.again <= now)?;
        Some(self.failed.swap_remove(at))
    }

    fn go_on(&mut self, mut tree: Tree, now: Instant) {
        tree.turns += 1;
        match tree.removal.go_on(TURN) {
            Progress::More if tree.turns >= self.turns_of(&tree) => {
                self.put_off(&tree, "it is very large, or somebody goes on filling it", now);
            }
            Progress::More if self.large.len() < LARGE => self.large.push_back(tree),
            Progress::More => {
                self.waiting.push_back((tree.removal.path().to_owned(), tree.waited));
            }
            Progress::Over(Ok(())) if tree.waited.is_some() => {
                tracing::info!(path = %tree.removal.path().display(), "it is removed after all");
            }
            Progress::Over(Ok(())) => {}
            Progress::Over(Err(error)) => {
                let cause = error.source().map(ToString::to_string).unwrap_or_default();
                self.put_off(&tree, &format!("{error}: {cause}"), now);
            }
        }
    }

    fn turns_of(&self, tree: &Tree) -> u32 {
        let waited = tree.waited.unwrap_or_default().as_secs() / FIRST_WAIT.as_secs();
        self.turns.saturating_mul(u32::try_from(2 * waited).unwrap_or(u32::MAX).max(1))
    }

    fn put_off(&mut self, tree: &Tree, why: &str, now: Instant) {
        let wait = tree.waited.map_or(FIRST_WAIT, |waited| (waited * 2).min(LONGEST_WAIT));
        let path = tree.removal.path().to_owned();
        let shown = path.display();
        if self.failed.len() >= TRIED_AGAIN {
            tracing::warn!(path = %shown, why, "left to the next start: there is too much of it");
            return;
        }
        if tree.waited.is_none() {
            tracing::warn!(path = %shown, why, "will be tried again, less and less often");
        } else {
            tracing::debug!(path = %shown, why, "still there");
        }
        self.failed.push(Failed { path, again: now + wait, wait });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn folder(path: &Path, files: u32) {
        fs::create_dir(path).unwrap();
        for number in 0..files {
            fs::write(path.join(number.to_string()), "").unwrap();
        }
    }

    /// Something without a name of its own: nobody can remove it.
    fn unremovable() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("..");
        (dir, path)
    }

    #[test]
    fn small_trees_do_not_wait_for_large_ones() {
        // In memory where that can be had: disks take their time for so many files.
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let mut trees = Trees::default();
        let now = Instant::now();
        // More large ones than are gone through at once.
        let large: Vec<_> = (0..=LARGE).map(|at| dir.path().join(format!("large{at}"))).collect();
        for path in &large {
            folder(path, TURN + 100);
            trees.fresh.push_back(path.clone());
            trees.turn(now);
            assert!(path.exists());
        }
        assert_eq!((trees.large.len(), trees.waiting.len()), (LARGE, 1));
        let small = dir.path().join("small");
        folder(&small, 3);
        trees.fresh.push_back(small.clone());
        assert_eq!(trees.turn(now), Some(Duration::ZERO));
        assert!(!small.exists() && large.iter().all(|path| path.exists()));
        while trees.turn(now).is_some() {}
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    /// As one that is filled as fast as it is emptied does.
    #[test]
    fn what_is_not_gone_after_its_turns_makes_room() {
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let mut trees = Trees { turns: 2, ..Trees::default() };
        let mut now = Instant::now();
        for at in 0..LARGE {
            let path = dir.path().join(format!("endless{at}"));
            folder(&path, 5 * TURN);
            trees.fresh.push_back(path);
        }
        let other = dir.path().join("other");
        folder(&other, TURN + 100);
        trees.fresh.push_back(other.clone());
        while trees.turn(now) == Some(Duration::ZERO) {}
        assert!(!other.exists(), "it had its turns");
        assert_eq!((trees.failed.len(), trees.large.len()), (LARGE, 0));
        // With twice the turns these are gone.
        while let Some(wait) = trees.turn(now) {
            now += wait;
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_cannot_be_removed_is_tried_again_ever_more_seldom() {
        let mut trees = Trees::default();
        let mut now = Instant::now();
        let (dir, path) = unremovable();
        trees.fresh.push_back(path);
        let mut waits = Vec::new();
        for _ in 0..9 {
            let wait = trees.turn(now).unwrap();
            assert_eq!(trees.failed.len(), 1);
            // Nothing is done before its time.
            assert_eq!(trees.turn(now), Some(wait));
            waits.push(wait.as_secs() / 60);
            now += wait;
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
        assert!(dir.path().exists());
    }

    #[test]
    fn failures_have_a_limit() {
        let mut trees = Trees::default();
        let now = Instant::now();
        let (_dir, path) = unremovable();
        for _ in 0..TRIED_AGAIN + 5 {
            trees.fresh.push_back(path.clone());
            trees.turn(now);
        }
        assert_eq!(trees.failed.len(), TRIED_AGAIN);
    }

    #[test]
    fn the_thread_removes_what_it_is_given() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().join("top");
        folder(&top, 10);
        remove_later(top.clone());
        let deadline = Instant::now() + Duration::from_mins(1);
        while top.exists() {
            assert!(Instant::now() < deadline, "it is still there");
            std::thread::yield_now();
        }
    }
}
