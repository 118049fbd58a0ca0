//! The way to the writer's thread: `Lanes` behind a lock, with an end for those who send and one
//! for the thread.
//!
//! A sender who has to wait for room is a task, and waits at a semaphore; the thread waits at a
//! condition. The server's own requests have room of their own: however many people's wait, what
//! pilots report is taken. Not here: who is next (`lanes.rs`).

use super::WriteError;
use super::lanes::{Lanes, Of};
use crate::locks::Locked;
use shipway_model::UserName;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use tokio::sync::{Semaphore, SemaphorePermit, TryAcquireError};

/// People's requests that wait for the writer, and as many of the server's own. More than this and
/// the server is busier than it can say.
const ROOM: usize = 16_384;

#[derive(Debug)]
struct Queue<T> {
    inside: Mutex<Inside<T>>,
    /// Where the writer's thread waits.
    more: Condvar,
    room_for_own: Semaphore,
    room_for_people: Semaphore,
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
    fn room_for(&self, of: Of) -> &Semaphore {
        match of {
            Of::Server => &self.room_for_own,
            Of::Person => &self.room_for_people,
        }
    }

    /// Changes something that the thread may be waiting for.
    fn change<A>(&self, change: impl FnOnce(&mut Inside<T>) -> A) -> A {
        let mut inside = self.inside.locked();
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
pub(super) struct Sender<T>(Arc<Queue<T>>);

/// Room for one request.
#[derive(Debug)]
pub(super) struct Room<'a, T> {
    queue: &'a Queue<T>,
    permit: SemaphorePermit<'a>,
    by: Option<UserName>,
}

impl<T> Sender<T> {
    /// Waits for room. `None` is the server itself.
    pub(super) async fn room(&self, by: Option<UserName>) -> Result<Room<'_, T>, WriteError> {
        let permit = self.0.room_for(of(by.as_ref())).acquire().await;
        let permit = permit.map_err(|_| WriteError::Stopping)?;
        Ok(Room { queue: &self.0, permit, by })
    }

    pub(super) fn room_now(&self, by: Option<UserName>) -> Result<Room<'_, T>, WriteError> {
        let permit = self.0.room_for(of(by.as_ref())).try_acquire();
        let permit = permit.map_err(|none| match none {
            TryAcquireError::NoPermits => WriteError::Busy,
            TryAcquireError::Closed => WriteError::Stopping,
        })?;
        Ok(Room { queue: &self.0, permit, by })
    }
}

fn of(by: Option<&UserName>) -> Of {
    if by.is_some() { Of::Person } else { Of::Server }
}

impl<T> Room<'_, T> {
    /// Refused where this person alone has too many waiting.
    pub(super) fn put(self, request: T) -> Result<(), WriteError> {
        let Room { queue, permit, by } = self;
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
        let mut inside = self.0.inside.locked();
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
        let next = self.0.inside.locked().lanes.pop();
        next.map(|next| self.taken(next))
    }

    fn taken(&self, (of, request): (Of, T)) -> T {
        self.0.room_for(of).add_permits(1);
        request
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let mut inside = self.0.inside.locked();
        inside.nobody_receives = true;
        let left = std::mem::take(&mut inside.lanes);
        drop(inside);
        self.0.room_for_own.close();
        self.0.room_for_people.close();
        drop(left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use std::pin::pin;
    use tokio::sync::oneshot;

    /// Of so many people that none of them has too much.
    fn somebody(number: usize) -> Option<UserName> {
        UserName::new(&format!("u{}", number % 16)).ok()
    }

    fn put<T>(send: &Sender<T>, by: Option<UserName>, request: T) -> Result<(), WriteError> {
        send.room_now(by)?.put(request)
    }

    /// With as many people's requests in it as there may be.
    fn full() -> (Sender<usize>, Receiver<usize>) {
        let (send, receive) = queue();
        for number in 0..ROOM {
            put(&send, somebody(number), number).expect("room");
        }
        (send, receive)
    }

    #[test]
    fn people_are_refused_when_it_is_full_and_the_server_is_not() {
        let (send, mut receive) = full();
        let refused = put(&send, somebody(0), 1);
        assert!(matches!(refused, Err(WriteError::Busy)), "{refused:?}");
        put(&send, None, 7).expect("the server has room of its own");
        assert_eq!(receive.try_recv(), Some(7));
        let refused = put(&send, somebody(0), 1);
        assert!(matches!(refused, Err(WriteError::Busy)), "that was not theirs: {refused:?}");
        assert_eq!(receive.try_recv(), Some(0));
        put(&send, somebody(0), 1).expect("room again");
    }

    #[test]
    fn what_the_server_has_to_do_is_limited_too() {
        let (send, _receive) = queue();
        for _ in 0..ROOM {
            put(&send, None, ()).expect("room");
        }
        assert!(matches!(put(&send, None, ()), Err(WriteError::Busy)));
        put(&send, somebody(0), ()).expect("people have room");
    }

    #[test]
    fn one_person_who_has_too_many_is_refused_and_takes_no_room() {
        let (send, mut receive) = queue();
        let mut taken = 0;
        while put(&send, somebody(0), ()).is_ok() {
            taken += 1;
        }
        assert!(taken < ROOM / 4, "{taken}");
        assert_eq!(send.0.room_for_people.available_permits(), ROOM - taken);
        while receive.try_recv().is_some() {}
        assert_eq!(send.0.room_for_people.available_permits(), ROOM);
    }

    #[test]
    fn whoever_waits_for_room_is_woken_in_order_and_may_give_up() {
        let (send, mut receive) = full();
        let mut first = pin!(send.room(somebody(1)));
        let mut second = pin!(send.room(somebody(2)));
        assert!(
            first.as_mut().now_or_never().is_none() && second.as_mut().now_or_never().is_none()
        );
        {
            let mut gives_up = pin!(send.room(somebody(3)));
            assert!(gives_up.as_mut().now_or_never().is_none());
        }
        receive.try_recv().expect("there is something");
        assert!(second.as_mut().now_or_never().is_none(), "another was before");
        first.now_or_never().expect("woken").expect("room").put(1).expect("taken");
        receive.blocking_recv().expect("there is something");
        let unused = second.now_or_never().expect("woken").expect("room");
        assert!(send.room_now(somebody(3)).is_err());
        drop(unused);
        put(&send, somebody(3), 1).expect("room that is not used is given back");
    }

    #[test]
    fn a_thread_that_waits_is_woken_by_each() {
        const MANY: usize = 10_000;
        let (send, mut receive) = queue();
        let (answer, answered) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            while let Some(number) = receive.blocking_recv() {
                answer.send(number).expect("the test listens");
            }
        });
        for number in 0..MANY {
            put(&send, somebody(number), number).expect("room");
            // Each comes while the thread is about to wait, or waits already.
            let deadline = std::time::Duration::from_secs(20);
            assert_eq!(answered.recv_timeout(deadline), Ok(number));
        }
        drop(send);
        thread.join().expect("it ends when nobody sends any more");
    }

    #[test]
    fn what_is_left_is_taken_after_the_last_sender_has_gone() {
        let (send, mut receive) = queue();
        put(&send, somebody(0), 1).expect("room");
        drop(send);
        assert_eq!((receive.blocking_recv(), receive.blocking_recv()), (Some(1), None));
    }

    #[test]
    fn when_the_thread_has_ended_nobody_waits_for_it() {
        let (send, receive) = queue();
        let (answer, mut answered) = oneshot::channel::<()>();
        put(&send, somebody(0), Some(answer)).expect("room");
        let held = send.room_now(None).expect("room");
        drop(receive);
        let dropped = answered.try_recv();
        assert_eq!(dropped, Err(oneshot::error::TryRecvError::Closed), "what was left is dropped");
        assert!(matches!(held.put(None), Err(WriteError::Stopping)));
        assert!(matches!(put(&send, None, None), Err(WriteError::Stopping)));
        let room = send.room(somebody(0)).now_or_never().expect("no waiting");
        assert!(matches!(room, Err(WriteError::Stopping)));

        let (send, receive) = full();
        let mut waits = pin!(send.room(somebody(0)));
        assert!(waits.as_mut().now_or_never().is_none());
        drop(receive);
        assert!(matches!(waits.now_or_never(), Some(Err(WriteError::Stopping))));
    }
}
