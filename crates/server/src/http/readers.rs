//! Questions to history: on threads where waiting for the disk hurts nobody, and so that one user's
//! many questions do not keep another's waiting.
//!
//! Whose question it is, is known to the task that asks it (`on_behalf.rs`).

use super::error::ApiError;
use super::shelf::Shelves;
use crate::journal::{HistoryReader, JournalError};
use crate::locks::Locked as _;
use crate::on_behalf::asker;
use shipway_model::UserName;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use tokio::sync::Semaphore;

/// Questions at once. Should the disk not answer them, threads are left for everything else.
const AT_ONCE: usize = 64;
/// Of one user's: the next ones wait for these, and in nobody else's way.
const AT_ONCE_OF_ONE: usize = 4;
/// Idle connections kept; more questions at once open more for a while.
const IDLE_READERS: usize = 8;
/// Users whose turns are kept before those without questions are forgotten.
const REMEMBERED: usize = 256;

/// Connections to history; one is taken for each question and put back.
#[derive(Debug)]
pub struct Readers {
    first: Mutex<Box<dyn HistoryReader>>,
    idle: Mutex<Vec<Box<dyn HistoryReader>>>,
    turns: Arc<Semaphore>,
    of_users: Mutex<HashMap<UserName, Arc<Semaphore>>>,
    pub shelves: Shelves,
}

impl Readers {
    pub fn new(first: Box<dyn HistoryReader>) -> Self {
        let (first, idle) = (Mutex::new(first), Mutex::default());
        let turns = Arc::new(Semaphore::new(AT_ONCE));
        Readers { first, idle, turns, of_users: Mutex::default(), shelves: Shelves::default() }
    }

    /// Runs a question on a thread where waiting for the disk hurts nobody.
    pub async fn read<A: Send + 'static>(
        self: &Arc<Self>,
        question: impl FnOnce(&dyn HistoryReader) -> Result<A, JournalError> + Send + 'static,
    ) -> Result<A, ApiError> {
        let readers = Arc::clone(self);
        let own = match self.own_turns() {
            Some(own) => own.acquire_owned().await.ok(),
            None => None,
        };
        let turn = Arc::clone(&self.turns).acquire_owned().await;
        let answer = tokio::task::spawn_blocking(move || {
            let _until_answered = (own, turn);
            let reader = readers.take()?;
            let answer = question(&*reader);
            readers.put_back(reader);
            answer
        });
        answer
            .await
            .map_err(|_| ApiError::internal("a question to history was cut off"))?
            .map_err(|error| ApiError::internal_because("history cannot be read", &error))
    }

    /// Those of whoever asks; the server's own questions wait for nobody's.
    fn own_turns(&self) -> Option<Arc<Semaphore>> {
        let user = asker()?;
        let mut users = self.of_users.locked();
        if users.len() >= REMEMBERED {
            users.retain(|_, turns| Arc::strong_count(turns) > 1);
        }
        let turns = users.entry(user).or_insert_with(|| Arc::new(Semaphore::new(AT_ONCE_OF_ONE)));
        Some(Arc::clone(turns))
    }

    fn take(&self) -> Result<Box<dyn HistoryReader>, JournalError> {
        let idle = self.idle.locked().pop();
        idle.map_or_else(|| self.first.locked().try_clone(), Ok)
    }

    fn put_back(&self, reader: Box<dyn HistoryReader>) {
        let mut idle = self.idle.locked();
        if idle.len() < IDLE_READERS {
            idle.push(reader);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::HomeJournal;
    use crate::on_behalf::{AskedBy, on_behalf_of};
    use shipway_model::{Actor, Role};
    use std::sync::mpsc;
    use std::time::Duration;

    fn by(name: &str) -> AskedBy {
        let asked = AskedBy::default();
        let user = UserName::new(name).expect("good");
        asked.0.set(Actor::new(user, Role::User)).expect("set once");
        asked
    }

    #[tokio::test]
    async fn one_users_questions_keep_no_other_waiting() {
        let home = tempfile::tempdir().expect("a directory");
        let journal = HomeJournal::open(home.path(), 1).expect("a journal");
        let reader = journal.history().expect("a reader");
        let readers = Arc::new(Readers::new(reader));
        let (mut held, mut asking) = (Vec::new(), Vec::new());
        for _ in 0..2 * AT_ONCE {
            let readers = Arc::clone(&readers);
            let (let_go, wait) = mpsc::channel::<()>();
            held.push(let_go);
            asking.push(tokio::spawn(on_behalf_of(by("eve"), async move {
                readers.read(move |_| Ok(wait.recv().is_err())).await.is_ok()
            })));
        }
        // All of them are on their way before anybody else comes.
        tokio::task::yield_now().await;
        let question = on_behalf_of(by("ada"), readers.read(|history| history.tip()));
        // Far beyond what it takes; only a hang reaches it.
        let answer = tokio::time::timeout(Duration::from_secs(30), question).await;
        drop(held);
        for asked in asking {
            assert!(asked.await.expect("no panic"), "all are answered in the end");
        }
        assert!(answer.is_ok(), "she waited for eve");
    }
}
