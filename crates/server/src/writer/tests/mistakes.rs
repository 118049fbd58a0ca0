//! Mistakes of the core over one question or one command: they cost that, and nobody else anything.
//! Wishes are on threads of their own here: a lone one is written there, and waits for the test.

use super::*;
use crate::panics;

/// Whom a command is about; nobody where it is about something else.
fn name(command: &Command) -> &str {
    if let Command::AddUser { user, .. } = command { user.as_str() } else { "" }
}

/// A core that fails over users of certain names: "undecided" changes nothing, "half" changes
/// the state before it fails.
pub(super) fn mistaken() -> Core {
    Core {
        decide: |state, at, command| {
            assert_ne!(name(command), "undecided", "on purpose");
            shipway_core::decide::decide(state, at, command)
        },
        apply: |state, at, events, each| {
            let is_half = format!("{events:?}").contains("half");
            let done = shipway_core::engine::apply(state, at, events, each);
            assert!(!is_half, "on purpose");
            done
        },
    }
}

impl Rig {
    /// Asks, and lets writes end meanwhile.
    async fn seen(&self) -> BTreeSet<UserName> {
        let writer = self.writer.clone();
        let seen = tokio::spawn(async move { writer.glance(users).await });
        self.finish_until(seen).await.expect("an answer")
    }

    async fn wished(&self, name: &str) -> Result<Done, WriteError> {
        let (writer, wish) = (self.writer.clone(), add(name));
        self.finish_until(tokio::spawn(async move { writer.wish(wish).await })).await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_that_fails_costs_that_question() {
    let rig = Rig::new();
    panics::watch();
    let before = panics::count();
    let failed = rig.writer.ask(|_| -> u32 { panic!("on purpose") }).await;
    assert!(matches!(failed, Err(WriteError::Failed)), "{failed:?}");
    let failed = rig.writer.glance(|_| -> u32 { panic!("on purpose") }).await;
    assert!(matches!(failed, Err(WriteError::Failed)), "{failed:?}");
    assert!(panics::count() >= before + 2, "they are counted");
    assert!(rig.metrics.render(false, None).contains("\nshipway_panics_total "));
    assert!(rig.wished("next").await.is_ok());
    assert_eq!(rig.seen().await, [user("next")].into());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_that_cannot_be_decided_is_refused() {
    let rig = Rig::with(mistaken());
    for _ in 0..3 {
        let refused = rig.wished("undecided").await;
        assert!(matches!(refused, Err(WriteError::Failed)), "{refused:?}");
        assert!(rig.writer.problem().is_none(), "nothing is wrong with the disk");
    }
    assert!(rig.wished("next").await.is_ok());
    assert_eq!(rig.seen().await, [user("next")].into());
}

/// On the thread it came in on, and on the writer's own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_that_breaks_the_state_is_taken_back_alone() {
    let rig = Rig::with(mistaken());
    assert!(rig.wished("first").await.is_ok());
    let refused = rig.wished("half").await;
    assert!(matches!(refused, Err(WriteError::Failed)), "{refused:?}");
    assert_eq!(rig.seen().await, [user("first")].into());
    assert!(rig.wished("second").await.is_ok());

    // In one batch with others, before it and after it.
    let slow = rig.send("slow");
    rig.next_write();
    let answers = ["a", "half", "b"].map(|name| rig.send(name));
    rig.order(GateAnswer::Write);
    let all = tokio::spawn(async move {
        let mut found = Vec::new();
        for answer in answers {
            found.push(answer.await.expect("an answer").map(drop));
        }
        found
    });
    let all = rig.finish_until(all).await;
    assert!(matches!(all[..], [Ok(()), Err(WriteError::Failed), Ok(())]), "{all:?}");
    assert!(slow.await.expect("an answer").is_ok());
    assert_eq!(rig.seen().await, ["a", "b", "first", "second", "slow"].map(user).into());
}

/// While the second thread writes, too: what is decided behind it is written, and then restored.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mistake_while_the_journal_is_away_waits_for_it() {
    let rig = Rig::with(mistaken());
    let answers = a_batch_under_way(&rig);
    let half = rig.send("half");
    rig.order(GateAnswer::Write);
    let half = rig.finish_until(tokio::spawn(half)).await.expect("an answer");
    assert!(matches!(half, Err(WriteError::Failed)), "{half:?}");
    let all = tokio::spawn(futures_util::future::join_all(answers));
    assert!(rig.finish_until(all).await.into_iter().all(|one| one.expect("an answer").is_ok()));
    assert_eq!(rig.seen().await, ["a", "b", "c", "slow"].map(user).into());
}
