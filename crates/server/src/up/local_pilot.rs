//! Keeps one pilot alive on this machine: finds the one that is there, starts one when there is
//! none, and starts the next when it dies.

use super::{Settings, UpError};
use crate::panics::vital;
use crate::secrets;
use crate::writer::{Wish, Writer};
use shipway_core::pilot::Pilot;
use shipway_core::site::SiteKind;
use shipway_core::{Command, State};
use shipway_model::{PilotCredentials, PilotId};
use shipway_sites::local::LocalSite;
use std::process::Child;
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

fn site(settings: &Settings) -> Arc<LocalSite> {
    Arc::new(LocalSite {
        program: settings.program.clone(),
        home: settings.home.clone(),
        node: settings.node.clone(),
    })
}

/// A pilot that outlived its server may have been started with other options. One that has nothing
/// to do is ended, so that the next one has them; of one that has, people are told. To be called
/// before anybody is served: until then no task can come to it.
pub(super) async fn renew_if_idle(settings: &Settings, writer: &Writer) -> Result<(), UpError> {
    let site = site(settings);
    let changed = if site.is_alive()? { site.changed_options()? } else { Vec::new() };
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

pub(super) async fn supervise(settings: &Settings, writer: Writer) -> Result<Supervised, UpError> {
    let site = site(settings);
    let stopping = Arc::new(AtomicBool::new(false));
    let child = if site.is_alive()? {
        tracing::info!("the pilot of this machine is still there");
        None
    } else {
        Some(start(&site, &writer).await?)
    };
    let kept = keep_alive(Arc::clone(&site), child, writer, Arc::clone(&stopping));
    tokio::spawn(vital("who keeps the local pilot", kept));
    Ok(Supervised { site, stopping })
}

async fn start(site: &Arc<LocalSite>, writer: &Writer) -> Result<Child, UpError> {
    // Nobody holds the lock: whoever was here before is dead, and the core takes it for that when
    // the new pilot, which has the lock then, has seen to what they left.
    let new = secrets::new_pilot(SiteKind::ThisMachine);
    let ask = Command::AskSite(Box::new(new.ask(None, None)));
    writer.wish(Wish::Core(ask)).await?;
    let secrets::NewPilot { pilot, token, .. } = new;
    tracing::info!(%pilot, "the pilot of this machine is started");
    let child = site.start(&PilotCredentials { pilot, token })?;
    Ok(child)
}

async fn keep_alive(
    site: Arc<LocalSite>,
    mut child: Option<Child>,
    writer: Writer,
    stopping: Arc<AtomicBool>,
) {
    let mut early_deaths = 0;
    loop {
        let began = Instant::now();
        let gone = gone(&site, child.take()).await;
        if stopping.load(Ordering::Relaxed) || !gone {
            return;
        }
        tracing::warn!("the pilot of this machine is gone; what it ran will run again");
        early_deaths = if began.elapsed() < TOO_SOON { early_deaths + 1 } else { 0 };
        if early_deaths > 1 {
            tokio::time::sleep(PAUSE).await;
        }
        match start(&site, &writer).await {
            Ok(next) => child = Some(next),
            Err(error) => {
                tracing::error!(?error, "the pilot of this machine cannot be started");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// Waits for the end of the pilot: of the process we started, then of whatever still holds the
/// lock, because the guard may have been killed alone. False when that cannot be known.
async fn gone(site: &Arc<LocalSite>, child: Option<Child>) -> bool {
    let site = Arc::clone(site);
    let waited = tokio::task::spawn_blocking(move || {
        if let Some(mut child) = child {
            let _ = child.wait();
        }
        site.wait_until_gone()
    });
    matches!(waited.await, Ok(Ok(())))
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
    site.ask_to_end();
    let site = Arc::clone(site);
    let gone = tokio::task::spawn_blocking(move || site.wait_until_gone());
    matches!(tokio::time::timeout(END_WITHIN, gone).await, Ok(Ok(Ok(()))))
}
