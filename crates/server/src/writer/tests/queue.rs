//! The way to the writer's thread: room, turns, and the end of either side.

use super::super::queue::{ROOM, Receiver, Sender, queue};
use futures_util::FutureExt;
use shipway_model::UserName;
use shipway_shell::WriteError;
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
    assert!(first.as_mut().now_or_never().is_none() && second.as_mut().now_or_never().is_none());
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
