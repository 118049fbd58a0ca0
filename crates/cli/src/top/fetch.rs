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
use shipway_api::types::{JobPage, JobView, NodeList, SiteList, SiteView};
use shipway_model::JobId;
use shipway_model::limits::MAX_PAGE;
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
/// Sites, of which the server has to ask whoever has the whole state.
const SITES_EVERY: Duration = Duration::from_secs(2);
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

/// What is looked for less often than the rest: sites, and jobs that have not ended and are older
/// than those listed. Somebody's week-long training must not leave the list because of a thousand
/// short jobs after it.
#[derive(Debug, Default)]
pub struct Older {
    jobs: Vec<JobView>,
    /// When they were looked for, and among whose jobs.
    looked: Option<(Instant, bool)>,
    sites: Option<(Instant, Vec<SiteView>)>,
}

impl Older {
    fn is_due(&self, wanted: Wanted) -> bool {
        self.looked.is_none_or(|(at, all)| at.elapsed() >= REFRESH_ANYWAY || all != wanted.all)
    }

    /// Keeps what is to be kept of a long list, and makes it as long as it is wanted.
    fn keep(&mut self, jobs: &mut Vec<JobView>, limit: usize) {
        let rest = jobs.split_off(limit.min(jobs.len()));
        self.jobs = rest.into_iter().filter(|job| !job.state.is_over()).collect();
    }

    fn add_to(&self, jobs: &mut Vec<JobView>) {
        let last = jobs.last().map(|job| job.id);
        let older = self.jobs.iter().filter(|job| last.is_some_and(|last| job.id < last));
        jobs.extend(older.cloned().collect::<Vec<_>>());
    }
}

pub async fn fetch(
    client: &Client,
    wanted: Wanted,
    older: &mut Older,
) -> Result<Fresh, ClientError> {
    let is_due = older.is_due(wanted);
    let limit = if is_due { MAX_PAGE } else { wanted.limit };
    let query = jobs_query(wanted.all).with("limit", limit);
    let mut page: JobPage = client.get(&query.on(routes::JOBS)).await?;
    let has_more = page.next.is_some() || page.jobs.len() > wanted.limit;
    if is_due {
        older.keep(&mut page.jobs, wanted.limit);
        older.looked = Some((Instant::now(), wanted.all));
    }
    older.add_to(&mut page.jobs);
    let nodes: NodeList = client.get(routes::NODES).await?;
    let sites = sites(client, older).await?;
    let open = match wanted.open {
        Some(id) => open_job(client, wanted, &page, id).await?,
        None => None,
    };
    Ok(Fresh {
        user: client.get(routes::WHO_AM_I).await?,
        jobs: page.jobs,
        has_more,
        nodes: nodes.nodes,
        sites,
        open,
    })
}

/// What batch systems say is not asked of them more often either.
async fn sites(client: &Client, kept: &mut Older) -> Result<Vec<SiteView>, ClientError> {
    let known = kept.sites.as_ref().filter(|(at, _)| at.elapsed() < SITES_EVERY);
    if let Some((_, sites)) = known {
        return Ok(sites.clone());
    }
    let SiteList { sites } = client.get(routes::SITES).await?;
    kept.sites = Some((Instant::now(), sites.clone()));
    Ok(sites)
}

fn jobs_query(all: bool) -> Query {
    Query::new().maybe("owner", all.then_some("*"))
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
        let query = jobs_query(wanted.is_operator).with("before", id.0 + 1).with("limit", 1);
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
    let mut older = Older::default();
    loop {
        if let Ok(Err(_)) = timeout(REFRESH_ANYWAY, asked.changed()).await {
            return;
        }
        let wanted = *asked.borrow_and_update();
        let begun = Instant::now();
        match fetch_with(way, kept.take(), wanted, &mut older).await {
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
    older: &mut Older,
) -> Result<(Client, Fresh), ClientError> {
    let client = kept.map_or_else(|| way.connect(), Ok)?;
    let fresh = timeout(PATIENCE, fetch(&client, wanted, older)).await;
    let fresh = fresh
        .map_err(|late| ClientError::Broken { url: client.url(), source: Box::new(late) })??;
    Ok((client, fresh))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn jobs(list: &[(u64, &str)]) -> Vec<JobView> {
        let job = |(id, state): &(u64, &str)| {
            json!({"id": id, "owner": "ada", "name": "", "labels": {}, "state": state, "tasks": 1,
                "counts": {"waiting": 0, "active": 1, "succeeded": 0, "failed": 0, "cancelled": 0},
                "is_array": false, "priority": 0, "submitted": 0})
        };
        serde_json::from_value(list.iter().map(job).collect()).expect("fixture")
    }

    fn ids(jobs: &[JobView]) -> Vec<u64> {
        jobs.iter().map(|job| job.id.0).collect()
    }

    #[test]
    fn what_has_not_ended_stays_in_the_list_however_old() {
        let mut older = Older::default();
        let states = [(9, "failed"), (8, "running"), (5, "succeeded"), (3, "held"), (1, "running")];
        let mut long = jobs(&states);
        older.keep(&mut long, 2);
        older.add_to(&mut long);
        assert_eq!(ids(&long), [9, 8, 3, 1]);
        // A list that has come to reach as far has them itself.
        let mut next = jobs(&[(9, "failed"), (8, "running"), (5, "succeeded"), (3, "held")]);
        older.add_to(&mut next);
        assert_eq!(ids(&next), [9, 8, 5, 3, 1]);
    }
}
