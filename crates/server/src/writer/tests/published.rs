//! What is published: never before it is on disk, and always before whoever wished it is told.

use super::mistakes::mistaken;
use super::*;
use crate::published::JobNow;
use shipway_core::Done;
use shipway_model::JobId;

fn job(by: &str) -> Wish {
    let spec = serde_json::from_str(r#"{"command":["true"]}"#).expect("a good job");
    let jobs = vec![Member { spec, after: Vec::new() }];
    let by = Actor::new(user(by), Role::User);
    Wish::Submit(Box::new(Submission { by, jobs, digest: 0, key: None, size: 100 }))
}

impl Rig {
    async fn published(&self, id: u64) -> Option<JobNow> {
        let looked = self.writer.look(|board| board.job(JobId(id), 1));
        let looked = tokio::time::timeout(LONG, looked).await.expect("nobody waits for the disk");
        looked.expect("it is shown")
    }

    fn submit(&self) -> Answer {
        let (reply, answer) = oneshot::channel();
        let request = Request::Wish { wish: job("ada"), reply: Some(reply) };
        self.writer.way.try_send(request).expect("there is room");
        answer
    }
}

#[tokio::test]
async fn what_is_not_on_disk_is_not_shown_and_what_was_told_is() {
    let rig = Rig::new();
    let before = rig.metrics.decided_so_far();
    let first = rig.submit();
    rig.next_write();
    // Decided, and on its way to the disk.
    rig.decided(before, 1);
    assert_eq!(rig.published(1).await, None, "it is not on disk");
    rig.order(GateAnswer::Write);
    let told = first.await.expect("an answer").expect("it is taken");
    assert_eq!(told, Done::Submitted { first: JobId(1), repeated: false });
    assert!(rig.published(1).await.is_some(), "whoever was told sees it");

    let refused = rig.submit();
    rig.next_write();
    rig.order(GateAnswer::Fail);
    let answer = refused.await.expect("an answer");
    assert!(matches!(answer, Err(WriteError::NotDurable(_))), "{answer:?}");
    let shown = rig.writer.look(|board| board.job(JobId(1), 1)).await;
    assert!(matches!(shown, Err(WriteError::NotDurable(_))), "nothing is, while the disk is bad");
    let recovered = tokio::spawn({
        let writer = rig.writer.clone();
        async move {
            while writer.problem().is_some() {
                tokio::task::yield_now().await;
            }
        }
    });
    rig.finish_until(recovered).await;
    assert_eq!(rig.published(2).await, None, "it never was on disk");
    assert!(rig.published(1).await.is_some());
}

/// With a second thread that writes, and a batch decided behind.
#[tokio::test]
async fn a_batch_that_runs_ahead_is_not_shown() {
    let rig = Rig::new();
    let mut answers = a_batch_under_way(&rig);
    let before = rig.metrics.decided_so_far();
    let behind = rig.submit();
    rig.decided(before, 1);
    assert_eq!(rig.published(1).await, None);
    rig.order(GateAnswer::Write);
    assert!(answers.remove(1).await.expect("an answer").is_ok(), "the first batch is on disk");
    assert_eq!(rig.published(1).await, None, "the next one is not");
    let done = rig.finish_until(tokio::spawn(behind)).await;
    assert!(done.expect("an answer").is_ok());
    assert!(rig.published(1).await.is_some());
}

/// A mistake over one command breaks the state, and what is on disk of the same batch cannot be
/// found in it: whoever was told of that waits until the state is restored.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_told_is_shown_also_beside_a_mistake() {
    let rig = Rig::with(mistaken());
    let held_up = rig.send("first");
    rig.next_write();
    // Both wait for the writer when it is done with the first: they are one batch.
    let (good, bad) = (rig.submit(), rig.send("half"));
    rig.order(GateAnswer::Write);
    assert!(held_up.await.expect("an answer").is_ok());
    let good = rig.finish_until(tokio::spawn(good)).await;
    assert!(good.expect("an answer").is_ok(), "it costs nobody else anything");
    let writer = rig.writer.clone();
    let looked = tokio::spawn(async move { writer.look(|board| board.job(JobId(1), 1)).await });
    assert!(rig.finish_until(looked).await.expect("it is shown").is_some());
    assert!(rig.finish_until(tokio::spawn(bad)).await.expect("an answer").is_err());
}
