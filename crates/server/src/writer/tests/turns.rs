//! People take turns at the writer. Turns are counted, and no time is measured: where it matters a
//! batch is over after one request, as it is where each takes long.

use super::*;
use crate::on_behalf::{AskedBy, on_behalf_of};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, join_all};
use std::sync::Mutex;

/// What one person may have waiting, more or less.
const MANY: usize = 200;

#[tokio::test]
async fn one_persons_wishes_keep_another_waiting_for_one_of_them() {
    let rig = Rig::with_batches(Core::default(), Duration::ZERO);
    let slow = rig.send("slow");
    rig.next_write();
    let eves: Vec<Answer> = (0..MANY).map(|at| rig.send_of("eve", &format!("e{at}"))).collect();
    let mut bobs = rig.send_of("bob", "b");
    rig.order(GateAnswer::Write);
    let mut writes = 0;
    // When a write begins, all that was written before is answered.
    let answer = loop {
        let (events, _) = rig.next_write();
        match bobs.try_recv() {
            Err(oneshot::error::TryRecvError::Empty) => {}
            told => break told.expect("an answer"),
        }
        assert_eq!(events, 1, "a batch that has taken long takes no more");
        assert!(writes < 2, "bob waits for {writes} of eve's");
        rig.order(GateAnswer::Write);
        writes += 1;
    };
    assert!(answer.is_ok(), "{answer:?}");
    let eves = tokio::spawn(join_all(eves));
    rig.order(GateAnswer::Write);
    let eves = rig.finish_until(eves).await;
    assert!(eves.into_iter().all(|one| one.expect("an answer").is_ok()), "nobody is forgotten");
    assert!(slow.await.expect("an answer").is_ok());
}

type Asked = BoxFuture<'static, Result<(), WriteError>>;

/// Somebody's question that tells when it is looked at.
fn question(rig: &Rig, name: &'static str, looked: &Arc<Mutex<Vec<&'static str>>>) -> Asked {
    let (writer, looked) = (rig.writer.clone(), Arc::clone(looked));
    let ask = async move { writer.ask(move |_| looked.lock().expect("whole").push(name)).await };
    if name == "server" {
        return ask.boxed();
    }
    let asked_by = AskedBy::default();
    asked_by.0.set(Actor::new(user(name), Role::User)).expect("set once");
    on_behalf_of(asked_by, ask).boxed()
}

#[tokio::test]
async fn one_persons_questions_keep_another_waiting_for_one_of_them() {
    let rig = Rig::new();
    let (begin, begun) = std_mpsc::channel();
    let (let_go, wait) = std_mpsc::channel::<()>();
    let wait = Mutex::new(wait);
    let held = rig.writer.ask(move |_| {
        begin.send(()).expect("the test listens");
        assert!(wait.lock().expect("whole").recv().is_err());
    });
    let mut held = std::pin::pin!(held);
    assert!(held.as_mut().now_or_never().is_none());
    begun.recv_timeout(LONG).expect("the writer is at it");

    let looked = Arc::default();
    let mut asked = Vec::new();
    let names = std::iter::repeat_n("eve", MANY).chain(["bob", "server"]);
    for name in names {
        let mut question = question(&rig, name, &looked);
        assert!(question.as_mut().now_or_never().is_none(), "it waits");
        asked.push(question);
        // One that has done much without a pause would be held up.
        tokio::task::yield_now().await;
    }
    drop(let_go);
    held.await.expect("an answer");
    assert!(join_all(asked).await.into_iter().all(|one| one.is_ok()));
    let looked = looked.lock().expect("whole");
    assert_eq!(looked[..4], ["server", "eve", "bob", "eve"]);
    assert_eq!(looked.len(), MANY + 2);
}
