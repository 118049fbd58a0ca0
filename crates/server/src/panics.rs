//! Panics of the server: a mistake in it over one question costs that question.
//!
//! Each is told in the log with where it happened, and counted for `/metrics`. `guarded` is put
//! around what is done for one person: a question, a command, a request, a pilot's message. What
//! the server cannot do without (`Vital`) ends the process instead: half a server would be worse,
//! and whoever starts it again finds all that was acknowledged.
#![warn(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unreachable,
    clippy::unwrap_used
)]

use futures_util::FutureExt;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) use shipway_shell::{Panicked, guarded};

static COUNT: AtomicU64 = AtomicU64::new(0);

/// How many there were since the process began.
pub fn count() -> u64 {
    COUNT.load(Ordering::Relaxed)
}

/// From now on every panic of this process is told and counted, and ends nothing by itself.
pub fn watch() {
    static WATCHED: Once = Once::new();
    WATCHED.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            COUNT.fetch_add(1, Ordering::Relaxed);
            let thread = std::thread::current();
            let thread = thread.name().unwrap_or_default();
            let at = panic.location().map(ToString::to_string).unwrap_or_default();
            let what = panic.payload_as_str().unwrap_or_default();
            tracing::error!(
                at,
                thread,
                what,
                "a mistake in the server (a panic); please report it"
            );
            if !tracing::dispatcher::has_been_set() {
                before(panic);
            }
        }));
    });
}

/// The same for work that waits.
pub(crate) async fn guarded_task<T>(work: impl Future<Output = T>) -> Result<T, Panicked> {
    AssertUnwindSafe(work).catch_unwind().await.map_err(|_| Panicked)
}

/// Held by a thread or task that the server cannot do without.
#[derive(Debug)]
pub(crate) struct Vital(pub(crate) &'static str);

impl Drop for Vital {
    fn drop(&mut self) {
        if std::thread::panicking() {
            tracing::error!(part = self.0, "the server cannot go on without it, and ends");
            std::process::abort();
        }
    }
}

/// A task that the server cannot do without.
pub(crate) async fn vital<T>(name: &'static str, work: impl Future<Output = T>) -> T {
    let _vital = Vital(name);
    work.await
}
