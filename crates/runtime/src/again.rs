//! Room that the kernel has not got just now: what to do when it refuses a process, a thread, a
//! descriptor or a watch because others have used up what they share with us.
//!
//! Such a refusal says nothing of what was asked for. Whoever has too much is found and ended
//! within seconds (the pilot counts), or ends by itself; so it is asked again for a while.

use rustix::io::Errno;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// How long it is asked again: several times what the pilot takes to find whoever has too much.
const PATIENCE: Duration = Duration::from_secs(10);
/// Between the first two tries; it doubles up to the second number.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(320);

/// Whether it may work in a moment, when somebody else has given something back.
pub fn is_for_now(error: &io::Error) -> bool {
    let for_now = [
        Errno::AGAIN,
        Errno::NOMEM,
        Errno::MFILE,
        Errno::NFILE,
        Errno::NOBUFS,
        Errno::TOOMANYREFS,
        // Of a watch or a namespace, not of a disk: nothing here writes files.
        Errno::NOSPC,
        // Of namespaces within each other.
        Errno::USERS,
    ];
    Errno::from_io_error(error).is_some_and(|errno| for_now.contains(&errno))
}

/// One act that is tried again.
#[derive(Debug)]
pub struct Patience {
    until: Instant,
    pause: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self::of(PATIENCE)
    }
}

impl Patience {
    fn of(span: Duration) -> Self {
        Self { until: Instant::now() + span, pause: FIRST_PAUSE }
    }

    /// Whether to try again after this error. It has waited then.
    pub fn lasts(&mut self, error: &io::Error) -> bool {
        if !is_for_now(error) || Instant::now() >= self.until {
            return false;
        }
        std::thread::sleep(self.pause);
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        true
    }
}

/// Does it, again where there was no room.
pub fn patiently<T>(act: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    patiently_for(PATIENCE, act)
}

/// The same for so long.
pub fn patiently_for<T>(span: Duration, mut act: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    // The clock is only asked when it is needed.
    let mut patience = None;
    loop {
        match act() {
            Err(error) if patience.get_or_insert_with(|| Patience::of(span)).lasts(&error) => {}
            done => return done,
        }
    }
}

/// Starts a thread of this name, which the standard library does or panics.
pub fn thread<T: Send + 'static>(
    name: &str,
    body: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    // A start that fails takes what it was given with it.
    let body = Arc::new(Mutex::new(Some(body)));
    patiently(|| {
        let body = Arc::clone(&body);
        Builder::new().name(name.to_owned()).spawn(move || {
            let body = body.lock().unwrap_or_else(PoisonError::into_inner).take();
            body.expect("the one thread that was started takes it")()
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_there_was_no_room_for_is_tried_again_and_nothing_else_is() {
        let mut tries = 0;
        let done = patiently(|| {
            tries += 1;
            if tries < 4 { Err(Errno::AGAIN.into()) } else { Ok(tries) }
        });
        assert_eq!(done.unwrap(), 4);
        let mut tries = 0;
        let refused = patiently(|| {
            tries += 1;
            Err::<(), _>(Errno::ACCESS.into())
        });
        assert_eq!((refused.unwrap_err().raw_os_error(), tries), (Some(13), 1));
    }

    #[test]
    fn a_thread_runs_what_it_was_given() {
        assert_eq!(thread("named", || 7).unwrap().join().unwrap(), 7);
    }
}
