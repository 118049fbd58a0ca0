//! Who is asking, and what of theirs is in hand: requests that are not answered yet, and the bytes
//! of their bodies and of large answers.
//!
//! Every user has a budget of both, so that one who asks for much is refused (429) while the others
//! are answered. What is large is worked on by threads that answer nobody else, one piece of each
//! user's at a time.

use super::Site;
use super::error::ApiError;
use crate::writer::Writer;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use shipway_core::State;
use shipway_core::explain::can_be_tried;
use shipway_model::UserName;
use shipway_model::limits::MAX_SPEC_BYTES;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Requests of one user that wait for an answer, or read one: a terminal full of `shipway wait` is
/// a few hundred.
const REQUESTS_OF_ONE: usize = 1_024;
/// Of those, the ones that read the output of a task. Each may hold two pieces of it: 128 MiB for
/// one user. `shipway run` and `shipway logs -f` read two outputs, so this is 128 of them at once.
const READING_OF_ONE: usize = 256;
/// Bytes of one user's requests at once: two of the largest.
const BYTES_OF_ONE: usize = 2 * MAX_SPEC_BYTES;
/// Bytes of everybody's large requests at once. Four users together can use it up; small requests
/// are not counted here, so that they are taken even then.
const LARGE_BYTES_OF_ALL: usize = 4 * BYTES_OF_ONE;
/// Up to this a body is read and a job checked by the thread it came in on: that takes half a
/// millisecond at most, about what waking another thread may take on a busy machine. Lists of files
/// and variables of 64 KiB take several, and people send hundreds of requests at once.
pub(super) const SMALL: usize = 8 << 10;
/// Threads that work on what is large: two, so that one user's work leaves room for another's.
const WORKERS: usize = 2;

/// What all users have in hand.
#[derive(Debug)]
pub struct Intake {
    books: Mutex<Books>,
    workers: Arc<Semaphore>,
}

#[derive(Debug, Default)]
struct Books {
    users: HashMap<UserName, InHand>,
    large: usize,
}

#[derive(Debug)]
struct InHand {
    requests: usize,
    /// Of those, the ones that read output.
    reading: usize,
    bytes: usize,
    /// Whose piece is next, of those of this user.
    turn: Arc<Semaphore>,
}

impl Default for InHand {
    fn default() -> Self {
        InHand { requests: 0, reading: 0, bytes: 0, turn: Arc::new(Semaphore::new(1)) }
    }
}

impl Default for Intake {
    fn default() -> Self {
        Intake { books: Mutex::default(), workers: Arc::new(Semaphore::new(WORKERS)) }
    }
}

impl Intake {
    fn books(&self) -> MutexGuard<'_, Books> {
        // Numbers only: whoever panicked with it in hand left them right.
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One request, until its answer is sent.
#[derive(Debug, Default)]
pub(super) struct Asking {
    user: OnceLock<(UserName, Arc<Semaphore>, Arc<Intake>)>,
    bytes: AtomicUsize,
    reads: AtomicBool,
}

impl Asking {
    pub(super) fn user(&self) -> Option<&UserName> {
        self.user.get().map(|(user, ..)| user)
    }

    /// From here on it is this user's. Only the first time counts.
    pub(super) fn is_by(&self, user: &UserName, intake: &Arc<Intake>) -> Result<(), ApiError> {
        if self.user.get().is_some() {
            return Ok(());
        }
        let mut books = intake.books();
        let of = books.users.entry(user.clone()).or_default();
        if of.requests >= REQUESTS_OF_ONE {
            return Err(ApiError::over_budget(format!(
                "{REQUESTS_OF_ONE} requests of {user} wait for their answers already"
            )));
        }
        of.requests += 1;
        let _ = self.user.set((user.clone(), Arc::clone(&of.turn), Arc::clone(intake)));
        Ok(())
    }

    /// From here on it reads the output of a task, maybe for as long as that runs.
    pub(super) fn reads_output(&self) -> Result<(), ApiError> {
        let Some((user, _, intake)) = self.user.get() else { return Ok(()) };
        let mut books = intake.books();
        let of = books.users.entry(user.clone()).or_default();
        if of.reading >= READING_OF_ONE {
            return Err(ApiError::reads_too_much(format!(
                "{READING_OF_ONE} requests of {user} read the output of tasks already, as many as \
                 one user may have"
            )));
        }
        if !self.reads.swap(true, Ordering::Relaxed) {
            of.reading += 1;
        }
        Ok(())
    }

    /// Counts bytes that this request takes, beyond those counted before. Of a request of nobody
    /// nothing is kept, and nothing is counted.
    pub(super) fn hold(&self, bytes: usize) -> Result<(), ApiError> {
        let Some((user, _, intake)) = self.user.get() else { return Ok(()) };
        let mut books = intake.books();
        let before = self.bytes.load(Ordering::Relaxed);
        let all = before.saturating_add(bytes);
        let more_large = large(all) - large(before);
        if books.large + more_large > LARGE_BYTES_OF_ALL {
            return Err(ApiError::over_budget(
                "the server has as many large requests in hand as it may".into(),
            ));
        }
        let of = books.users.entry(user.clone()).or_default();
        if of.bytes + bytes > BYTES_OF_ONE {
            return Err(ApiError::over_budget(format!(
                "the requests of {user} that are being worked on are over {} MiB together",
                BYTES_OF_ONE >> 20
            )));
        }
        of.bytes += bytes;
        books.large += more_large;
        self.bytes.store(all, Ordering::Relaxed);
        Ok(())
    }

    /// What is counted of it so far.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(super) fn is_large(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) > SMALL
    }

    /// For a question that may take the writer some time: one of each user's at once, the others
    /// wait here and not in everybody's way. Held until the answer is found; `None` for a request
    /// of nobody.
    pub(super) async fn turn(&self) -> Result<Option<OwnedSemaphorePermit>, ApiError> {
        let Some((_, turn, _)) = self.user.get() else { return Ok(None) };
        let turn = Arc::clone(turn).acquire_owned().await;
        turn.map(Some).map_err(|_| cut_off())
    }

    /// A place among those who work: the user's turn, and one of the threads for it.
    pub(super) async fn permit(&self) -> Result<Permit, ApiError> {
        let Some((_, turn, intake)) = self.user.get() else { return Ok(Permit { _of: None }) };
        let turn = Arc::clone(turn).acquire_owned().await.map_err(|_| cut_off())?;
        let worker = Arc::clone(&intake.workers).acquire_owned().await.map_err(|_| cut_off())?;
        Ok(Permit { _of: Some((turn, worker)) })
    }

    /// Works on it away from the threads that answer requests.
    pub(super) async fn work<A: Send + 'static>(
        self: &Arc<Self>,
        act: impl FnOnce() -> A + Send + 'static,
    ) -> Result<A, ApiError> {
        let permit = self.permit().await?;
        self.work_at(permit, act).await
    }

    async fn work_at<A: Send + 'static>(
        self: &Arc<Self>,
        permit: impl Send + 'static,
        act: impl FnOnce() -> A + Send + 'static,
    ) -> Result<A, ApiError> {
        let asking = Arc::clone(self);
        // Goes on when nobody waits for it any more, and is in hand until then.
        let done = tokio::task::spawn_blocking(move || {
            let _in_hand = (asking, permit);
            act()
        });
        done.await.map_err(|_| cut_off())
    }

    /// Answers a question that tries things out, on a copy of all there is, beside the writer;
    /// where there is too much for a copy the writer answers what it can without trying.
    pub(super) async fn try_out<A: Send + 'static>(
        self: &Arc<Self>,
        writer: &Writer,
        question: impl Fn(&State) -> A + Send + Sync + 'static,
    ) -> Result<A, ApiError> {
        // Taken before the copy, and kept by the question itself: there are no more copies than
        // threads that work on one, also of those who ask and go.
        let permit = Arc::new(self.permit().await?);
        let held = Arc::clone(&permit);
        let copy = move |state: &State| {
            let _for_so_long = &held;
            can_be_tried(state).then(|| state.clone())
        };
        let copied = writer.ask(copy).await?;
        let Some(state) = copied else { return Ok(writer.ask(question).await?) };
        self.work_at(permit, move || question(&state)).await
    }
}

/// Held as long as the work goes on.
pub(super) struct Permit {
    _of: Option<(OwnedSemaphorePermit, OwnedSemaphorePermit)>,
}

fn cut_off() -> ApiError {
    ApiError::internal("the work on a request was cut off")
}

/// What of so many bytes counts as large.
fn large(bytes: usize) -> usize {
    if bytes > SMALL { bytes } else { 0 }
}

impl Drop for Asking {
    fn drop(&mut self) {
        let Some((user, _, intake)) = self.user.take() else { return };
        let mut books = intake.books();
        let bytes = *self.bytes.get_mut();
        books.large = books.large.saturating_sub(large(bytes));
        if let Some(of) = books.users.get_mut(&user) {
            of.requests = of.requests.saturating_sub(1);
            of.reading = of.reading.saturating_sub(usize::from(*self.reads.get_mut()));
            of.bytes = of.bytes.saturating_sub(bytes);
            if of.requests == 0 {
                books.users.remove(&user);
            }
        }
    }
}

/// For handlers whose answers are large.
#[derive(Debug, Clone, Default)]
pub struct Asked(pub(super) Arc<Asking>);

impl FromRequestParts<Site> for Asked {
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, _: &Site) -> Result<Self, ApiError> {
        Ok(parts.extensions.get::<Asked>().cloned().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    fn user(name: &str) -> UserName {
        UserName::new(name).expect("a good name")
    }

    fn asking(intake: &Arc<Intake>, name: &str) -> Asking {
        let asking = Asking::default();
        asking.is_by(&user(name), intake).expect("room");
        asking
    }

    #[test]
    fn one_user_is_refused_where_others_are_not() {
        let intake = Arc::new(Intake::default());
        let first = asking(&intake, "ada");
        first.hold(MAX_SPEC_BYTES).expect("room");
        let second = asking(&intake, "ada");
        second.hold(MAX_SPEC_BYTES).expect("room");
        assert!(asking(&intake, "ada").hold(1).is_err(), "ada has two of the largest in hand");
        asking(&intake, "bob").hold(MAX_SPEC_BYTES).expect("bob has room");
        drop(first);
        asking(&intake, "ada").hold(MAX_SPEC_BYTES).expect("room again");
    }

    #[test]
    fn small_requests_are_taken_when_large_ones_use_up_the_room() {
        let intake = Arc::new(Intake::default());
        let all: Vec<_> = (0..4)
            .map(|at| {
                let large = asking(&intake, &format!("u{at}"));
                large.hold(BYTES_OF_ONE).expect("room");
                large
            })
            .collect();
        assert!(asking(&intake, "eve").hold(SMALL + 1).is_err());
        asking(&intake, "eve").hold(SMALL).expect("small ones are");
        drop(all);
        assert!(intake.books().users.is_empty() && intake.books().large == 0, "nothing is left");
    }

    #[test]
    fn requests_are_counted_until_they_are_over() {
        let intake = Arc::new(Intake::default());
        let mut all: Vec<_> = (0..REQUESTS_OF_ONE).map(|_| asking(&intake, "ada")).collect();
        assert!(Asking::default().is_by(&user("ada"), &intake).is_err());
        asking(&intake, "bob");
        all.pop();
        asking(&intake, "ada");
    }

    #[test]
    fn outputs_that_are_read_are_counted_until_they_are_read() {
        let intake = Arc::new(Intake::default());
        let reading = |name| {
            let asking = asking(&intake, name);
            asking.reads_output().map(|()| asking)
        };
        let mut all: Vec<_> = (0..READING_OF_ONE).map(|_| reading("ada").expect("room")).collect();
        assert!(reading("ada").is_err(), "as many as one user may have");
        asking(&intake, "ada").hold(1).expect("what reads no output is taken");
        reading("bob").expect("bob has room");
        all.pop();
        reading("ada").expect("room again");
    }

    #[tokio::test]
    async fn costly_questions_of_one_user_come_one_after_the_other() {
        let intake = Arc::new(Intake::default());
        let (first, second) = (asking(&intake, "ada"), asking(&intake, "ada"));
        let turn = first.turn().await.expect("room");
        let mut waits = std::pin::pin!(second.turn());
        assert!(waits.as_mut().now_or_never().is_none(), "one at once");
        asking(&intake, "bob").turn().await.expect("bob's is another turn");
        drop(turn);
        assert!(waits.now_or_never().is_some(), "then the next");
    }
}
