//! Following the output of one task into the pane: both streams, from the beginning, once more
//! from the beginning when the connection broke (a new attempt may have begun meanwhile).

use super::fetch::Way;
use super::news::{News, Ticket};
use crate::commands::patience::may_pass;
use crate::query::Query;
use crate::view::output::Stream;
use shipway_api::causes::causes;
use shipway_api::client::ClientError;
use shipway_api::routes;
use shipway_model::TaskId;
use std::time::Duration;
use tokio::sync::mpsc;

const WAIT: Duration = Duration::from_secs(1);

/// Until the newest attempt has ended and all of it was told.
pub async fn follow(way: &Way, task: TaskId, ticket: Ticket, to: mpsc::Sender<News>) {
    loop {
        let one = |stream| copy(way, task, stream, ticket, &to);
        match tokio::try_join!(one(Stream::Stdout), one(Stream::Stderr)) {
            Ok(_) => break,
            Err(error) if may_pass(&error) => {
                tokio::time::sleep(WAIT).await;
                let _ = to.send(News::OutputAgain { ticket }).await;
            }
            Err(error) => {
                let said = format!("no output of task {task}: {}", causes(&error));
                let _ = to.send(News::Done(Err(said))).await;
                break;
            }
        }
    }
    let _ = to.send(News::OutputEnded { ticket }).await;
}

async fn copy(
    way: &Way,
    task: TaskId,
    stream: Stream,
    ticket: Ticket,
    to: &mpsc::Sender<News>,
) -> Result<(), ClientError> {
    let query = Query::new().with("stream", stream.as_str()).with("follow", true);
    let client = way.connect()?;
    let mut body = client.stream(&query.on(&routes::task_log(task.job, task.index))).await?;
    while let Some(bytes) = body.next().await? {
        // Nobody listens: the whole program is about to end.
        let _ = to.send(News::Output { ticket, stream, bytes }).await;
    }
    Ok(())
}
