//! Threads for what waits (for disks, for names), started while there is room for them.
//!
//! Such threads are otherwise started when they are needed and end when they are not. A task of the
//! same user can see to it that there is no room for one just then; the first that cannot be
//! started is a panic, and later ones are never made up for.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

/// So many wait at the same time at most where there is no room for more: two are with the local
/// pilot for as long as it runs, two have large requests, and the rest is for questions.
const THREADS: usize = 16;
/// For good.
const KEPT: Duration = Duration::from_hours(10 * 365 * 24);
/// Far longer than starting them takes. Where it is not enough the server works with fewer.
const WITHIN: Duration = Duration::from_secs(5);

/// A runtime that has its threads already.
pub(super) fn build(builder: &mut Builder) -> std::io::Result<Runtime> {
    let runtime = builder.enable_all().thread_keep_alive(KEPT).build()?;
    if !start_all(&runtime) {
        tracing::warn!("not all threads could be started: too many processes of this user run");
    }
    Ok(runtime)
}

/// All of them are busy at once, so there are as many. Whether they were in time.
fn start_all(runtime: &Runtime) -> bool {
    let all = Arc::new((Mutex::new(0), Condvar::new()));
    for _ in 0..THREADS {
        let all = Arc::clone(&all);
        runtime.spawn_blocking(move || meet(&all));
    }
    let (count, changed) = &*all;
    let count = count.lock().unwrap_or_else(PoisonError::into_inner);
    let met = changed.wait_timeout_while(count, WITHIN, |count| *count < THREADS);
    *met.unwrap_or_else(PoisonError::into_inner).0 == THREADS
}

fn meet((count, changed): &(Mutex<usize>, Condvar)) {
    let mut count = count.lock().unwrap_or_else(PoisonError::into_inner);
    *count += 1;
    // By the last alone: each would wake all that are there, for nothing.
    if *count == THREADS {
        changed.notify_all();
    }
    drop(changed.wait_timeout_while(count, WITHIN, |count| *count < THREADS));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By the name that the kernel has for them.
    fn running(name: &str) -> usize {
        let threads = std::fs::read_dir("/proc/self/task").expect("listed").flatten();
        let names = threads.filter_map(|it| std::fs::read_to_string(it.path().join("comm")).ok());
        names.filter(|found| found.trim() == name).count()
    }

    #[test]
    fn they_are_there_before_they_are_needed() {
        let mut builder = Builder::new_current_thread();
        let runtime = build(builder.thread_name("ready-test")).expect("there is room");
        assert_eq!(running("ready-test"), THREADS);
        let done = runtime.block_on(async { tokio::task::spawn_blocking(|| 7).await });
        assert_eq!(done.expect("no panic"), 7);
    }
}
