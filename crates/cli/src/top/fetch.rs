//! Getting what is shown from the server, and again when it has become old. Not on a timer: when
//! something happened, and then only so often that the server hardly notices.

use super::news::{Fresh, News, Wanted};
use crate::commands::patience::may_pass;
use crate::commands::show::most_wanted;
use crate::query::Query;
use crate::settings::{self, Server};
use shipway_api::causes::causes;
use shipway_api::client::{Client, ClientError};
use shipway_api::routes;
use shipway_api::types::{JobPage, JobView, NodeList};
use shipway_model::JobId;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, timeout};

/// Tasks shown of one job.
const TASKS_SHOWN: usize = 200;
/// However much happens, the lists are not fetched more often than this.
const REFRESH_EVERY: Duration = Duration::from_millis(200);
/// After a fetch, a rest of this many times as long: at most a tenth of the server's time is ours.
const REST: u32 = 9;
/// What other people do changes reasons and free cores, and is not told to everybody.
const REFRESH_ANYWAY: Duration = Duration::from_secs(10);
/// No answer within this is none.
const PATIENCE: Duration = Duration::from_secs(30);

/// The way to the server, found anew for every connection: one that was started again may be at
/// another address.
#[derive(Debug)]
pub struct Way {
    pub first: Server,
}

impl Way {
    pub fn connect(&self) -> Result<Client, ClientError> {
        let found = settings::server(&settings::environment);
        found.unwrap_or_else(|_| self.first.clone()).connect()
    }
}

pub async fn fetch(client: &Client, wanted: Wanted) -> Result<Fresh, ClientError> {
    let query = jobs_query(wanted).with("limit", wanted.limit);
    let page: JobPage = client.get(&query.on(routes::JOBS)).await?;
    let nodes: NodeList = client.get(routes::NODES).await?;
    let open = match wanted.open {
        Some(id) => open_job(client, wanted, &page, id).await?,
        None => None,
    };
    Ok(Fresh {
        user: client.get(routes::WHO_AM_I).await?,
        jobs: page.jobs,
        has_more: page.next.is_some(),
        nodes: nodes.nodes,
        open,
    })
}

fn jobs_query(wanted: Wanted) -> Query {
    Query::new().maybe("owner", wanted.all.then_some("*"))
}

/// One job as a list has it. Asking for the job itself would bring its specification each time.
async fn open_job(
    client: &Client,
    wanted: Wanted,
    page: &JobPage,
    id: JobId,
) -> Result<Option<(JobView, shipway_api::types::TaskPage)>, ClientError> {
    let mut job = page.jobs.iter().find(|job| job.id == id).cloned();
    if job.is_none() {
        let query = jobs_query(wanted).with("before", id.0 + 1).with("limit", 1);
        let page: JobPage = client.get(&query.on(routes::JOBS)).await?;
        job = page.jobs.into_iter().find(|job| job.id == id);
    }
    let Some(job) = job else { return Ok(None) };
    let tasks = most_wanted(client, id, TASKS_SHOWN).await?;
    Ok(Some((job, tasks)))
}

/// Fetches when asked to, until nobody listens any more. What is asked meanwhile is one fetch.
pub async fn keep_fresh(way: &Way, mut asked: watch::Receiver<Wanted>, to: mpsc::Sender<News>) {
    let mut kept: Option<Client> = None;
    loop {
        if let Ok(Err(_)) = timeout(REFRESH_ANYWAY, asked.changed()).await {
            return;
        }
        let wanted = *asked.borrow_and_update();
        let begun = Instant::now();
        match fetch_with(way, kept.take(), wanted).await {
            Ok((client, fresh)) => {
                kept = Some(client);
                if to.send(News::Fresh(Box::new(fresh))).await.is_err() {
                    return;
                }
            }
            // That the server is out of touch is said by who watches it.
            Err(error) if may_pass(&error) => {}
            Err(error) => {
                let said = format!("the lists are old: {}", causes(&error));
                let _ = to.send(News::Done(Err(said))).await;
            }
        }
        sleep((begun.elapsed() * REST).max(REFRESH_EVERY)).await;
    }
}

async fn fetch_with(
    way: &Way,
    kept: Option<Client>,
    wanted: Wanted,
) -> Result<(Client, Fresh), ClientError> {
    let client = kept.map_or_else(|| way.connect(), Ok)?;
    let fresh = timeout(PATIENCE, fetch(&client, wanted)).await;
    let fresh = fresh
        .map_err(|late| ClientError::Broken { url: client.url(), source: Box::new(late) })??;
    Ok((client, fresh))
}
