//! Work that may wait for the disk, on a thread that answers requests.
#![warn(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unreachable,
    clippy::unwrap_used
)]

use tokio::runtime::{Handle, RuntimeFlavor};

/// Does it here. Whatever else this thread had to do is done by another one from now on, at the
/// cost of a wake-up that nobody waits for. Where there is one thread by design it hands over
/// nothing.
pub(crate) fn off_requests<A>(act: impl FnOnce() -> A) -> A {
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(act),
        _ => act(),
    }
}
