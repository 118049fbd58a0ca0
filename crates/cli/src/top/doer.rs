//! Does what the model asks for, each thing beside the loop; what comes of it is told as news.

use super::fetch::{Way, keep_fresh};
use super::news::{Act, Ask, News, Wanted};
use super::{events, follow};
use crate::view;
use crate::view::acted::ActedView;
use shipway_api::causes::causes;
use shipway_api::client::ClientError;
use shipway_api::routes;
use shipway_api::types::{Acted, Selection};
use shipway_model::JobId;
use std::sync::Arc;
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;

#[derive(Debug)]
pub struct Doer {
    way: Arc<Way>,
    to: mpsc::Sender<News>,
    wanted: watch::Sender<Wanted>,
    following: Option<AbortHandle>,
}

impl Doer {
    /// Begins to watch the server.
    pub fn start(way: Way, wanted: Wanted, to: mpsc::Sender<News>) -> Self {
        let way = Arc::new(way);
        let (send, receive) = watch::channel(wanted);
        let (for_events, for_lists) = (Arc::clone(&way), Arc::clone(&way));
        let (events_to, lists_to) = (to.clone(), to.clone());
        tokio::spawn(async move { events::watch(&for_events, events_to).await });
        tokio::spawn(async move { keep_fresh(&for_lists, receive, lists_to).await });
        Doer { way, to, wanted: send, following: None }
    }

    /// Whether to go on.
    pub fn run(&mut self, ask: Ask) -> bool {
        let (way, to) = (Arc::clone(&self.way), self.to.clone());
        match ask {
            Ask::Quit => return false,
            Ask::Refresh(wanted) => drop(self.wanted.send_replace(wanted)),
            Ask::Unfollow => self.unfollow(),
            Ask::Follow(task, ticket) => {
                self.unfollow();
                let work = async move { follow::follow(&way, task, ticket, to).await };
                self.following = Some(tokio::spawn(work).abort_handle());
            }
            Ask::Spec(job) => spawn_question(to, async move { spec(&way, job).await }),
            Ask::Why(job) => spawn_question(to, async move { why(&way, job).await }),
            Ask::Act(act, selection) => {
                spawn_question(to, async move { do_it(&way, act, &selection).await });
            }
        }
        true
    }

    fn unfollow(&mut self) {
        if let Some(following) = self.following.take() {
            following.abort();
        }
    }
}

/// The answer of one question as news; what went wrong with it too.
fn spawn_question(
    to: mpsc::Sender<News>,
    question: impl Future<Output = Result<News, ClientError>> + Send + 'static,
) {
    tokio::spawn(async move {
        let news = question.await.unwrap_or_else(|error| News::Done(Err(causes(&error))));
        let _ = to.send(news).await;
    });
}

async fn spec(way: &Way, job: JobId) -> Result<News, ClientError> {
    Ok(News::Spec(Box::new(way.connect()?.get(&routes::job(job)).await?)))
}

async fn why(way: &Way, job: JobId) -> Result<News, ClientError> {
    Ok(News::Why(Box::new(way.connect()?.get(&routes::job_why(job)).await?)))
}

async fn do_it(way: &Way, act: Act, selection: &Selection) -> Result<News, ClientError> {
    let (route, done) = match act {
        Act::Cancel => (routes::CANCEL, "cancelled"),
        Act::Retry => (routes::RETRY, "to be run again"),
    };
    let acted: Acted = way.connect()?.post(route, selection, &[]).await?;
    let said = view::text(&ActedView { done, acted }, false);
    Ok(News::Done(Ok(said.trim_end().to_string())))
}
