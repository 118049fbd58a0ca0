//! The connection to the server that is open now, for calls that threads make by themselves. One
//! that breaks is waited for: whatever was under way goes on over the next one.

use super::Journey;
use shipway_api::bearer;
use shipway_api::link::{FILE_CALLS, MAX_FILE_MESSAGE, MAX_WANTED_MESSAGE};
use shipway_api::wire::contents_client::ContentsClient;
use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tonic::transport::Channel;
use tonic::{Code, Request, Status};

/// How long files wait for a server that is gone: as long as a pilot usually may be out of touch.
const BACK_WITHIN: Duration = Duration::from_mins(10);
/// Between two looks whether the task is still wanted, and two tries of a call that was refused for
/// now.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// The side of whoever uses it.
#[derive(Debug, Clone)]
pub(in crate::run) struct Line {
    now: watch::Receiver<Option<Channel>>,
    runtime: Handle,
    token: String,
    /// Calls under way: the server takes no more of one pilot.
    calls: Arc<(Mutex<Calls>, Condvar)>,
}

/// How many each person has. All but one place at most: somebody's large files keep nobody else's
/// small ones waiting.
#[derive(Debug, Default)]
struct Calls(HashMap<String, usize>);

impl Calls {
    fn begin(&mut self, person: &str) -> bool {
        let all: usize = self.0.values().sum();
        let own = self.0.get(person).copied().unwrap_or(0);
        let is_free = all < FILE_CALLS && own + 1 < FILE_CALLS;
        if is_free {
            self.0.insert(person.to_owned(), own + 1);
        }
        is_free
    }

    fn end(&mut self, person: &str) {
        let left = self.0.remove(person).unwrap_or(0);
        if left > 1 {
            self.0.insert(person.to_owned(), left - 1);
        }
    }
}

/// A call, until this is dropped.
struct Place<'a> {
    calls: &'a (Mutex<Calls>, Condvar),
    person: &'a str,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.calls.0.lock().unwrap_or_else(PoisonError::into_inner).end(self.person);
        // Not everybody may take it.
        self.calls.1.notify_all();
    }
}

/// With the side of whoever opens connections. Must be called on the runtime.
pub(in crate::run) fn line(token: String) -> (watch::Sender<Option<Channel>>, Line) {
    let (tell, now) = watch::channel(None);
    (tell, Line { now, runtime: Handle::current(), token, calls: Arc::default() })
}

/// Why a call came to nothing.
#[derive(Debug)]
pub(super) enum Broke {
    /// The connection; another one may do better.
    Away(String),
    /// It will be refused again.
    Refused(String),
}

impl From<Status> for Broke {
    fn from(status: Status) -> Self {
        let said = status.message().to_owned();
        match status.code() {
            Code::PermissionDenied
            | Code::NotFound
            | Code::InvalidArgument
            | Code::DataLoss
            | Code::Unimplemented
            // A quota, and a disk that is full.
            | Code::ResourceExhausted
            | Code::Internal => Broke::Refused(said),
            _ => Broke::Away(said),
        }
    }
}

impl Line {
    /// Makes a call again and again, until it has come to its end, is refused, or the task is
    /// wanted no more. Blocks.
    pub(super) fn call<T>(
        &self,
        of: &Journey<'_>,
        mut make: impl AsyncFnMut(ContentsClient<Channel>) -> Result<T, Broke>,
    ) -> Result<T, String> {
        let (mut since, mut moved) = (Instant::now(), of.has_come());
        let mut trouble = "the server is out of touch".to_owned();
        loop {
            if of.is_over() {
                return Err("it was stopped".into());
            }
            if moved != of.has_come() {
                (since, moved) = (Instant::now(), of.has_come());
            }
            if since.elapsed() > BACK_WITHIN {
                return Err(trouble);
            }
            let Some(_place) = self.place(of.person) else {
                // Others' files move.
                of.has_moved();
                continue;
            };
            let open = self.now.borrow().clone();
            if let Some(channel) = open {
                let client = ContentsClient::new(channel)
                    .max_decoding_message_size(MAX_WANTED_MESSAGE)
                    .max_encoding_message_size(MAX_FILE_MESSAGE);
                match self.runtime.block_on(unless_stopped(of, make(client))) {
                    Some(Ok(done)) => return Ok(done),
                    Some(Err(Broke::Refused(why))) => return Err(why),
                    Some(Err(Broke::Away(why))) => trouble = why,
                    None => continue,
                }
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// `None`: not within a moment.
    fn place<'a>(&'a self, person: &'a str) -> Option<Place<'a>> {
        let (all, freed) = &*self.calls;
        let mut calls = all.lock().unwrap_or_else(PoisonError::into_inner);
        let mut is_begun = calls.begin(person);
        if !is_begun {
            let waited = freed.wait_timeout(calls, LOOK_EVERY);
            calls = waited.unwrap_or_else(PoisonError::into_inner).0;
            is_begun = calls.begin(person);
        }
        is_begun.then_some(Place { calls: &self.calls, person })
    }

    pub(super) fn request<T>(&self, message: T) -> Result<Request<T>, Broke> {
        let mut request = Request::new(message);
        let bearer = bearer::header(&self.token).parse();
        let bearer = bearer.map_err(|_| Broke::Refused("its token is no text".into()))?;
        request.metadata_mut().insert("authorization", bearer);
        Ok(request)
    }
}

/// `None`: the task is wanted no more.
async fn unless_stopped<T>(of: &Journey<'_>, call: impl Future<Output = T>) -> Option<T> {
    let mut call = std::pin::pin!(call);
    loop {
        tokio::select! {
            done = &mut call => return Some(done),
            () = tokio::time::sleep(LOOK_EVERY) => if of.is_over() { return None },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_has_all_places_and_each_is_given_back() {
        let mut calls = Calls::default();
        let begun = (0..2 * FILE_CALLS).filter(|_| calls.begin("eve")).count();
        assert_eq!(begun, FILE_CALLS - 1);
        assert!(calls.begin("bob") && !calls.begin("bob") && !calls.begin("eve"));
        calls.end("bob");
        assert!(!calls.begin("eve") && calls.begin("ada"));
        calls.end("eve");
        assert!(calls.begin("bob"));
        for person in ["ada", "bob", "eve", "eve"] {
            calls.end(person);
        }
        assert!(calls.0.is_empty());
    }
}
