//! The runner of this machine as a site: it keeps one pilot alive. Carries out what the core asks
//! of the site, and asks the core for the next pilot when one has died.

use super::{Settings, UpError};
use crate::panics::vital;
use crate::secrets::{self, PilotKey};
use crate::sites::{Ask, Asks};
use crate::writer::{Wish, WriteError, Writer};
use shipway_core::pilot::Pilot;
use shipway_core::site::SiteKind;
use shipway_core::{Command, State};
use shipway_model::{PilotCredentials, PilotId};
use shipway_sites::local::LocalSite;
use shipway_sites::{Asked, Site, SiteError, Wanted};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A pilot that dies sooner than this after its start, for the second time in a row, is not started
/// again at once.
const TOO_SOON: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_secs(5);
/// How long an orderly stop waits for the pilot's processes to end.
const END_WITHIN: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(super) struct Supervised {
    site: Arc<LocalSite>,
    stopping: Arc<AtomicBool>,
}

struct Runner {
    site: Arc<LocalSite>,
    asks: Asks,
    writer: Writer,
    key: Arc<PilotKey>,
    stopping: Arc<AtomicBool>,
}

#[expect(clippy::expect_used, reason = "the name of this machine is one of ours")]
fn site(settings: &Settings) -> Arc<LocalSite> {
    let name = SiteKind::ThisMachine.only().expect("there is one");
    let (program, home) = (settings.program.clone(), settings.home.clone());
    Arc::new(LocalSite::new(name, program, home, settings.node.clone()))
}

/// A pilot that outlived its server may have been started with other options. One that has nothing
/// to do is ended, so that the next one has them; of one that has, people are told. To be called
/// before anybody is served: until then no task can come to it.
pub(super) async fn renew_if_idle(settings: &Settings, writer: &Writer) -> Result<(), UpError> {
    let site = site(settings);
    let changed = if site.is_there()? { site.changed_options()? } else { Vec::new() };
    if changed.is_empty() {
        return Ok(());
    }
    let options = changed.join(" and ");
    let (pilot, tasks) = writer.ask(pilots_and_their_tasks).await?;
    if tasks == 0 && end(&site).await {
        tracing::info!(pilot, options, "the pilot of this machine is replaced: other options");
        return Ok(());
    }
    tracing::warn!(
        pilot,
        tasks,
        "the pilot of this machine was started with another {options} and goes on with that: it \
         still has tasks. To change it, stop this server with Ctrl-C and start it again; what runs \
         then runs again. Or end the server with `kill -9` and start it when the tasks are over"
    );
    Ok(())
}

/// The ids of this machine's pilots, of which one lives, and what is placed there.
fn pilots_and_their_tasks(state: &State) -> (String, usize) {
    let is_here = |(_, known): &(&PilotId, &Pilot)| {
        state.kind_of(&known.allocation) == Some(SiteKind::ThisMachine)
    };
    let here = state.pilots().iter().filter(is_here);
    let ids: Vec<&str> = here.clone().map(|(id, _)| id.as_str()).collect();
    (ids.join(" "), here.map(|(_, known)| known.placed.len()).sum())
}

/// Returns when a pilot is there, or on its way.
pub(super) async fn supervise(
    settings: &Settings,
    writer: Writer,
    asks: Asks,
    key: Arc<PilotKey>,
) -> Result<Supervised, UpError> {
    let (site, stopping) = (site(settings), Arc::new(AtomicBool::new(false)));
    let (supervised, watched) = (Arc::clone(&site), Arc::clone(&stopping));
    let mut runner = Runner { site, asks, writer, key, stopping };
    if runner.site.is_there()? {
        tracing::info!("the pilot of this machine is still there");
        // Then what was asked for has come, and no one need be told.
        while runner.asks.try_recv().is_ok() {}
    } else {
        runner.next().await?;
    }
    tokio::spawn(vital("who keeps the local pilot", runner.run()));
    Ok(Supervised { site: supervised, stopping: watched })
}

impl Runner {
    async fn run(mut self) {
        let mut early_deaths = 0;
        loop {
            let began = Instant::now();
            let gone = blocking(&self.site, LocalSite::wait_for_end).await;
            if self.stopping.load(Ordering::Relaxed) || !matches!(gone, Some(Ok(()))) {
                return;
            }
            tracing::warn!("the pilot of this machine is gone; what it ran will run again");
            early_deaths = if began.elapsed() < TOO_SOON { early_deaths + 1 } else { 0 };
            if early_deaths > 1 {
                tokio::time::sleep(PAUSE).await;
            }
            while let Err(error) = self.next().await {
                tracing::error!(?error, "the pilot of this machine cannot be started");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }

    /// Nobody holds the lock: whoever was here before is dead, and the core takes it for that when
    /// the next pilot, which has the lock then, has seen to what they left.
    async fn next(&mut self) -> Result<(), UpError> {
        // Asked for before a crash, and nothing was heard of it.
        let ask = if let Some(ask) = self.newest() {
            ask
        } else {
            let new = secrets::new_pilot(SiteKind::ThisMachine, Some(&self.key));
            let ask = Command::AskSite(Box::new(new.ask(None, None)));
            self.writer.wish(Wish::Core(ask)).await?;
            // Effects go out before the answer does.
            self.newest().ok_or(WriteError::Stopping)?
        };
        for pilot in ask.pilots {
            tracing::info!(%pilot, "the pilot of this machine is started");
            let token = self.key.token_of(&pilot);
            let credentials = PilotCredentials { pilot, token };
            let wanted = Wanted { allocation: ask.allocation.clone(), credentials };
            let asked = blocking(&self.site, move |site| site.ask(&wanted)).await;
            let asked = asked.ok_or(WriteError::Stopping)??;
            debug_assert_eq!(asked, Asked::Now, "nobody else starts pilots in this home");
        }
        Ok(())
    }

    /// On this machine there is one at a time: what was asked for before is over.
    fn newest(&mut self) -> Option<Ask> {
        let mut newest = None;
        while let Ok(ask) = self.asks.try_recv() {
            newest = Some(ask);
        }
        newest
    }
}

/// On a thread that may wait. `None`: the server ends.
async fn blocking<A: Send + 'static>(
    site: &Arc<LocalSite>,
    call: impl FnOnce(&LocalSite) -> Result<A, SiteError> + Send + 'static,
) -> Option<Result<A, SiteError>> {
    let site = Arc::clone(site);
    tokio::task::spawn_blocking(move || call(&site)).await.ok()
}

impl Supervised {
    /// From now on the pilot's end is wanted.
    pub(super) fn stand_down(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    pub(super) async fn end(self) {
        if !end(&self.site).await {
            tracing::warn!("the pilot of this machine is still ending its tasks");
        }
    }
}

/// Whether the pilot and all its processes were gone in time.
async fn end(site: &Arc<LocalSite>) -> bool {
    site.end();
    let gone = blocking(site, LocalSite::wait_for_end);
    matches!(tokio::time::timeout(END_WITHIN, gone).await, Ok(Some(Ok(()))))
}
