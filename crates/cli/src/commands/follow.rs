//! Following the output of one task: both streams at once, one attempt after the other, from the
//! byte where a broken connection left off.

use super::patience::Patience;
use crate::failure::Failure;
use crate::query::Query;
use crate::view::output::{self, Stream};
use crate::view::talk;
use shipway_api::client::{Client, ClientError};
use shipway_api::routes;
use shipway_api::types::{TaskPage, TaskView};
use shipway_model::{Attempt, TaskId, TaskState};
use std::cell::Cell;
use std::time::Duration;
use tokio::sync::watch;

/// After its output has ended a task's end or next attempt is known at once, or soon. These waits
/// are only for the second case; an end that is announced cuts them short.
const FIRST_LOOK: Duration = Duration::from_millis(50);
const LONGEST_LOOK: Duration = Duration::from_secs(2);

/// What somebody else knows of the task's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    NotYet,
    /// It is over with this attempt.
    With(Attempt),
    Somehow,
}

#[derive(Debug)]
pub struct Follower<'a> {
    /// Opens the streams, each on a connection of its own.
    pub streams: &'a Client,
    /// Answers questions meanwhile.
    pub asker: &'a Client,
    pub task: TaskId,
    /// Where the task stands in its job, from 0.
    pub position: u32,
    pub wanted: &'a [Stream],
    pub json: bool,
    /// Bytes passed on so far, of all streams and attempts.
    pub passed: Cell<u64>,
}

impl Follower<'_> {
    /// Follows one attempt after the other until the task is over, or `ended` says that it is.
    pub async fn attempts_from(
        &self,
        first: u32,
        mut ended: watch::Receiver<End>,
    ) -> Result<(), Failure> {
        let mut attempt = Attempt(first);
        loop {
            self.attempt(Some(attempt), true).await?;
            match self.next_attempt(attempt, &mut ended).await? {
                Some(next) => attempt = next,
                None => return Ok(()),
            }
        }
    }

    /// Passes on what one attempt wrote (the newest when none is named).
    pub async fn attempt(&self, attempt: Option<Attempt>, follow: bool) -> Result<(), Failure> {
        let one = async |stream| {
            let wanted = self.wanted.contains(&stream);
            if wanted { self.copy(stream, attempt, follow).await } else { Ok(()) }
        };
        if follow {
            tokio::try_join!(one(Stream::Stdout), one(Stream::Stderr))?;
            return Ok(());
        }
        one(Stream::Stdout).await?;
        one(Stream::Stderr).await
    }

    async fn copy(
        &self,
        stream: Stream,
        attempt: Option<Attempt>,
        follow: bool,
    ) -> Result<(), Failure> {
        let mut offset = 0;
        let mut patience = Patience::default();
        loop {
            let before = offset;
            match self.copy_from(&mut offset, stream, attempt, follow).await {
                Err(Failure::Client(error)) if follow => {
                    if offset > before {
                        patience.renew();
                    }
                    patience.bear(error).await?;
                }
                done => return done,
            }
        }
    }

    async fn copy_from(
        &self,
        offset: &mut u64,
        stream: Stream,
        attempt: Option<Attempt>,
        follow: bool,
    ) -> Result<(), Failure> {
        let query = Query::new()
            .with("stream", stream.as_str())
            .maybe("attempt", attempt)
            .maybe("offset", (*offset > 0).then_some(*offset))
            .maybe("follow", follow.then_some(true));
        let path = query.on(&routes::task_log(self.task.job, self.task.index));
        let mut body = self.streams.stream(&path).await?;
        while let Some(piece) = body.next().await? {
            output::pass_on(self.task, stream, &piece, self.json)?;
            *offset += piece.len() as u64;
            self.passed.set(self.passed.get() + piece.len() as u64);
        }
        Ok(())
    }

    /// The attempt after this one, as soon as it is known to come; `None` when none will.
    async fn next_attempt(
        &self,
        attempt: Attempt,
        ended: &mut watch::Receiver<End>,
    ) -> Result<Option<Attempt>, Failure> {
        let mut look = FIRST_LOOK;
        let mut patience = Patience::default();
        loop {
            let announced = tokio::select! {
                biased;
                // A sender that is gone will never say it: then looking must do.
                Ok(end) = ended.wait_for(|end| *end != End::NotYet) => *end,
                () = tokio::time::sleep(look) => End::NotYet,
            };
            if announced == End::With(attempt) {
                return Ok(None);
            }
            look = (look * 2).min(LONGEST_LOOK);
            let task = match self.look().await {
                Ok(task) => task,
                Err(error) => {
                    patience.bear(error).await?;
                    continue;
                }
            };
            let Some(task) = task else { return Ok(None) };
            let is_past = task.attempts.iter().any(|past| past.attempt == attempt);
            let will_come = is_past || task.state == TaskState::Waiting;
            // Attempts may come and go between two looks: each has its output all the same.
            if task.attempt > attempt || will_come && !task.state.is_over() {
                say_again(&task, attempt);
                return Ok(Some(attempt.next()));
            }
            if announced != End::NotYet || task.state.is_over() {
                return Ok(None);
            }
        }
    }

    async fn look(&self) -> Result<Option<TaskView>, ClientError> {
        task_at(self.asker, self.task, self.position).await
    }
}

fn say_again(task: &TaskView, attempt: Attempt) {
    let past = task.attempts.iter().find(|past| past.attempt == attempt);
    let how = past.map(|past| format!(" ({})", past.outcome)).unwrap_or_default();
    talk::say(format_args!(
        "shipway: {}: attempt {attempt} ended{how}; it is tried again",
        task.id
    ));
}

/// One task, by its position: the API lists tasks and has no question about one.
pub async fn task_at(
    client: &Client,
    task: TaskId,
    position: u32,
) -> Result<Option<TaskView>, ClientError> {
    let query = Query::new().with("from", position).with("limit", 1);
    let page: TaskPage = client.get(&query.on(&routes::job_tasks(task.job))).await?;
    Ok(page.tasks.into_iter().find(|found| found.id == task))
}
