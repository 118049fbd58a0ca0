//! Whose work a task does. The task itself knows, so that no function on the way has to hand it on
//! and none can forget to. What is nobody's is the server's own.
#![warn(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unreachable,
    clippy::unwrap_used
)]

use shipway_model::{Actor, UserName};
use std::future::Future;
use std::sync::{Arc, OnceLock};

tokio::task_local! {
    static ASKED_BY: AskedBy;
}

/// Who turned out to be asking; filled in when the token is looked at.
#[derive(Debug, Clone, Default)]
pub(crate) struct AskedBy(pub(crate) Arc<OnceLock<Actor>>);

/// What is asked in here is this person's.
pub(crate) fn on_behalf_of<F: Future>(
    asked_by: AskedBy,
    work: F,
) -> impl Future<Output = F::Output> {
    ASKED_BY.scope(asked_by, work)
}

/// The same for one step of something that is polled by others.
pub(crate) fn step_on_behalf_of<A>(asked_by: AskedBy, step: impl FnOnce() -> A) -> A {
    ASKED_BY.sync_scope(asked_by, step)
}

/// Who asks for what is done here. `None`: the server itself.
pub(crate) fn asker() -> Option<UserName> {
    let user = ASKED_BY.try_with(|AskedBy(asked)| asked.get().map(|by| by.user.clone()));
    user.ok().flatten()
}
