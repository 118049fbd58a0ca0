//! Looks at processes that may be anybody's, without waiting for any of them for long.
//!
//! Who reads of a process in the middle of `execve` waits until that is over, and its owner can
//! make it last for ever: it closes files, and one of them may be on a file system of that owner's
//! that never answers. So another thread looks. One that hangs is left alone, and nobody looks at
//! that process again before it has come back.

use rustix::process::Pid;
use std::cell::{Cell, RefCell};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SendError, Sender, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a look may take on a machine that is very busy: it takes microseconds.
const USUAL: Duration = Duration::from_secs(2);
/// The same while somebody makes looks hang: there may be many of them.
const SHORT: Duration = Duration::from_millis(100);
/// The same when so much was waited within a moment: somebody has many that are merely slow.
const HARDLY: Duration = Duration::from_millis(20);
const ENOUGH: Duration = Duration::from_millis(500);
const MOMENT: Duration = Duration::from_secs(5);
/// Looks that hang at the same time, a thread each. With more of them nobody is looked at.
const MOST_HANGING: usize = 256;

/// Those at whom somebody looks and does not come back.
static HANGING: Mutex<Vec<Pid>> = Mutex::new(Vec::new());

type Look = Box<dyn FnOnce() + Send>;

thread_local! {
    /// The thread that looks for this one.
    static LOOKER: RefCell<Option<Sender<Look>>> = const { RefCell::new(None) };
    /// When this thread's moment began, and how long it has waited in it.
    static WAITED: Cell<(Option<Instant>, Duration)> = const { Cell::new((None, Duration::ZERO)) };
}

/// What is seen of this process. `None`: it does not show in time.
pub(crate) fn at<T: Send + 'static>(
    pid: Pid,
    look: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let limit = match hanging() {
        hanging if hanging.contains(&pid) || hanging.len() >= MOST_HANGING => return None,
        _ if waited() > ENOUGH => HARDLY,
        hanging if hanging.is_empty() => USUAL,
        _ => SHORT,
    };
    let began = Instant::now();
    let (answer, answered) = channel();
    let look = Box::new(move || {
        let _late = answer.send(look());
        hanging().retain(|hanging| *hanging != pid);
    });
    let seen = LOOKER.with_borrow_mut(|looker| {
        send(looker, look);
        match answered.recv_timeout(limit) {
            Ok(seen) => Some(seen),
            Err(RecvTimeoutError::Timeout) => {
                *looker = None;
                came_late(pid, &answered)
            }
            Err(RecvTimeoutError::Disconnected) => None,
        }
    });
    // First, as it may begin another moment.
    let waited = waited() + began.elapsed();
    WAITED.set((WAITED.get().0, waited));
    seen
}

/// How long this thread has waited in this moment.
fn waited() -> Duration {
    let (began, waited) = WAITED.get();
    if began.is_some_and(|began| began.elapsed() < MOMENT) {
        return waited;
    }
    WAITED.set((Some(Instant::now()), Duration::ZERO));
    Duration::ZERO
}

/// Remembers who hangs, unless the answer comes in this very moment.
fn came_late<T>(pid: Pid, answered: &Receiver<T>) -> Option<T> {
    hanging().push(pid);
    let seen = answered.try_recv().ok();
    if seen.is_some() {
        hanging().retain(|hanging| *hanging != pid);
    } else {
        tracing::warn!(%pid, "a process does not show what it is; it is left alone");
    }
    seen
}

/// Where no thread can be started, this one looks: who waited for one would wait for those that it
/// is to look at.
fn send(looker: &mut Option<Sender<Look>>, look: Look) {
    let Some(sender) = looker.take().or_else(|| start().ok()) else { return look() };
    match sender.send(look) {
        Ok(()) => *looker = Some(sender),
        Err(SendError(look)) => look(),
    }
}

fn start() -> std::io::Result<Sender<Look>> {
    let (sender, looks) = channel::<Look>();
    let looker = std::thread::Builder::new().name("looks".into());
    looker.spawn(move || looks.into_iter().for_each(|look| look()))?;
    Ok(sender)
}

fn hanging() -> MutexGuard<'static, Vec<Pid>> {
    HANGING.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    fn pid(number: i32) -> Pid {
        Pid::from_raw(number).unwrap()
    }

    /// Each look would be waited for by itself; together they are not.
    #[test]
    fn many_who_are_slow_are_not_waited_for_one_after_the_other() {
        let slow = |number: i32| {
            let (release, held) = channel::<()>();
            (at(pid(i32::MAX - 100 - number), move || held.recv()), release)
        };
        let began = Instant::now();
        let looks: Vec<_> = (0..50).map(slow).collect();
        assert!(looks.iter().all(|(seen, _)| seen.is_none()));
        assert!(waited() > ENOUGH, "{:?} in all", began.elapsed());
        drop(looks);
    }

    /// Of processes that there are not; other tests look at their own meanwhile.
    #[test]
    fn who_does_not_show_keeps_nobody_from_the_others() {
        let (first, other) = (pid(i32::MAX), pid(i32::MAX - 1));
        let (release, held) = channel::<()>();
        let (seen, was_seen) = channel();
        let hangs = move || {
            let _ = held.recv();
            let _ = seen.send(());
        };
        assert_eq!(at(first, hangs), None);
        assert_eq!(at(first, || 1), None, "nobody looks there again");
        assert_eq!(at(other, || 2), Some(2));
        drop(release);
        was_seen.recv().unwrap();
        while hanging().contains(&first) {
            std::thread::yield_now();
        }
        assert_eq!(at(first, || 3), Some(3), "it has come back");
    }
}
