//! The way to the writer's thread: `Lanes` behind a lock, with an end for those who send and one
//! for the thread.
//!
//! A sender who has to wait for room is a task, and waits at a semaphore; the thread waits at a
//! condition. The server's own requests have room of their own: however many people's wait, what
//! pilots report is taken. Not here: who is next (`lanes.rs`).

use super::lanes::{Lanes, Of};
use super::sync::{Condvar, Mutex, MutexGuard};
use shipway_model::UserName;
use shipway_shell::WriteError;
use std::sync::{Arc, PoisonError};
use tokio::sync::{Semaphore, SemaphorePermit, TryAcquireError};

/// People's requests that wait for the writer, and as many of the server's own. More than this and
/// the server is busier than it can say.
pub(super) const ROOM: usize = 16_384;

#[derive(Debug)]
pub(super) struct Queue<T> {
    inside: Mutex<Inside<T>>,
    /// Where the writer's thread waits.
    more: Condvar,
    room_for_own: Semaphore,
    pub(super) room_for_people: Semaphore,
}

#[derive(Debug)]
struct Inside<T> {
    lanes: Lanes<T>,
    /// The thread waits: waking one that does not would cost a system call each time.
    is_awaited: bool,
    nobody_sends: bool,
    nobody_receives: bool,
}

pub(super) fn queue<T>() -> (Sender<T>, Receiver<T>) {
    let inside = Inside {
        lanes: Lanes::default(),
        is_awaited: false,
        nobody_sends: false,
        nobody_receives: false,
    };
    let queue = Arc::new(Queue {
        inside: Mutex::new(inside),
        more: Condvar::new(),
        room_for_own: Semaphore::new(ROOM),
        room_for_people: Semaphore::new(ROOM),
    });
    (Sender(Arc::clone(&queue)), Receiver(queue))
}

impl<T> Queue<T> {
    /// Every change of what is inside is one call: there is no half of one that the next could see.
    fn lock(&self) -> MutexGuard<'_, Inside<T>> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn room_for(&self, of: Of) -> &Semaphore {
        match of {
            Of::Server => &self.room_for_own,
            Of::Person => &self.room_for_people,
        }
    }

    /// Changes something that the thread may be waiting for.
    fn change<A>(&self, change: impl FnOnce(&mut Inside<T>) -> A) -> A {
        let mut inside = self.lock();
        let changed = change(&mut inside);
        let is_awaited = std::mem::take(&mut inside.is_awaited);
        drop(inside);
        if is_awaited {
            self.more.notify_one();
        }
        changed
    }
}

/// One for all who send. When it is dropped the thread takes what is left, and learns of the end.
#[derive(Debug)]
pub(super) struct Sender<T>(pub(super) Arc<Queue<T>>);

/// Room for one request.
#[derive(Debug)]
pub(super) struct QueueSlot<'a, T> {
    queue: &'a Queue<T>,
    permit: SemaphorePermit<'a>,
    by: Option<UserName>,
}

impl<T> Sender<T> {
    /// Waits for room. `None` is the server itself.
    pub(super) async fn room(&self, by: Option<UserName>) -> Result<QueueSlot<'_, T>, WriteError> {
        let permit = self.0.room_for(of(by.as_ref())).acquire().await;
        let permit = permit.map_err(|_| WriteError::Stopping)?;
        Ok(QueueSlot { queue: &self.0, permit, by })
    }

    pub(super) fn room_now(&self, by: Option<UserName>) -> Result<QueueSlot<'_, T>, WriteError> {
        let permit = self.0.room_for(of(by.as_ref())).try_acquire();
        let permit = permit.map_err(|none| match none {
            TryAcquireError::NoPermits => WriteError::Busy,
            TryAcquireError::Closed => WriteError::Stopping,
        })?;
        Ok(QueueSlot { queue: &self.0, permit, by })
    }
}

fn of(by: Option<&UserName>) -> Of {
    if by.is_some() { Of::Person } else { Of::Server }
}

impl<T> QueueSlot<'_, T> {
    /// Refused where this person alone has too many waiting.
    pub(super) fn put(self, request: T) -> Result<(), WriteError> {
        let QueueSlot { queue, permit, by } = self;
        let put = queue.change(|inside| {
            if inside.nobody_receives {
                return Err((request, WriteError::Stopping));
            }
            inside.lanes.push(by, request).map_err(|request| (request, WriteError::Busy))
        });
        // What is refused is dropped here, and not under the lock.
        put.map_err(|(_, why)| why)?;
        // The thread gives it back when it takes the request.
        permit.forget();
        Ok(())
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.0.change(|inside| inside.nobody_sends = true);
    }
}

/// The thread's end. When it is dropped everything that waits is dropped, and nobody waits for room
/// any more.
#[derive(Debug)]
pub(super) struct Receiver<T>(Arc<Queue<T>>);

impl<T> Receiver<T> {
    /// Waits for a request. `None`: nobody is left to send one.
    pub(super) fn blocking_recv(&mut self) -> Option<T> {
        let mut inside = self.0.lock();
        let next = loop {
            if let Some(next) = inside.lanes.pop() {
                break next;
            }
            if inside.nobody_sends {
                return None;
            }
            inside.is_awaited = true;
            inside = self.0.more.wait(inside).unwrap_or_else(PoisonError::into_inner);
        };
        inside.is_awaited = false;
        drop(inside);
        Some(self.taken(next))
    }

    pub(super) fn try_recv(&mut self) -> Option<T> {
        let next = self.0.lock().lanes.pop();
        next.map(|next| self.taken(next))
    }

    fn taken(&self, (of, request): (Of, T)) -> T {
        self.0.room_for(of).add_permits(1);
        request
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let mut inside = self.0.lock();
        inside.nobody_receives = true;
        let left = std::mem::take(&mut inside.lanes);
        drop(inside);
        self.0.room_for_own.close();
        self.0.room_for_people.close();
        drop(left);
    }
}
