//! Keeps one pilot alive on this machine: finds the one that is there, starts one when there is
//! none, and starts the next when it dies.

use super::{Settings, UpError};
use crate::secrets;
use crate::writer::{Wish, Writer};
use shipway_core::Command;
use shipway_model::PilotId;
use shipway_sites::local::{Credentials, LocalSite};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A pilot that dies sooner than this after its start is not started again at once.
const TOO_SOON: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_secs(5);
/// How long an orderly stop waits for the pilot's processes to end.
const END_WITHIN: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(super) struct Supervised {
    site: Arc<LocalSite>,
    stopping: Arc<AtomicBool>,
}

pub(super) async fn supervise(settings: &Settings, writer: Writer) -> Result<Supervised, UpError> {
    let site = Arc::new(LocalSite {
        program: settings.program.clone(),
        home: settings.home.clone(),
        declared: settings.declared.clone(),
    });
    let stopping = Arc::new(AtomicBool::new(false));
    if site.is_alive()? {
        tracing::info!("the pilot of this machine is still there");
    } else {
        start(&site, &writer).await?;
    }
    tokio::spawn(keep_alive(Arc::clone(&site), writer, Arc::clone(&stopping)));
    Ok(Supervised { site, stopping })
}

async fn start(site: &Arc<LocalSite>, writer: &Writer) -> Result<(), UpError> {
    let pilot = PilotId::new(&format!("local-{}", secrets::random_word(10))).expect("a good id");
    let token = secrets::new_secret("shp_");
    let hash = secrets::hash(&token);
    let issue = Command::IssuePilotToken { pilot: pilot.clone(), hash };
    writer.wish(Wish::Core(issue)).await?;
    let mut child = site.start(&Credentials { pilot: pilot.clone(), token })?;
    // It is waited for by its lock; this only keeps it from staying a zombie.
    std::thread::spawn(move || child.wait());
    tracing::info!(%pilot, "the pilot of this machine is started");
    Ok(())
}

async fn keep_alive(site: Arc<LocalSite>, writer: Writer, stopping: Arc<AtomicBool>) {
    loop {
        let began = Instant::now();
        // A pilot that was just started takes the lock in its first moments.
        tokio::time::sleep(Duration::from_millis(500)).await;
        let waited = Arc::clone(&site);
        let gone = tokio::task::spawn_blocking(move || waited.wait_until_gone()).await;
        if stopping.load(Ordering::Relaxed) || !matches!(gone, Ok(Ok(()))) {
            return;
        }
        tracing::warn!("the pilot of this machine is gone; what it ran will run again");
        if began.elapsed() < TOO_SOON {
            tokio::time::sleep(PAUSE).await;
        }
        if let Err(error) = start(&site, &writer).await {
            tracing::error!(?error, "the pilot of this machine cannot be started");
            tokio::time::sleep(PAUSE).await;
        }
    }
}

impl Supervised {
    /// From now on the pilot's end is wanted.
    pub(super) fn stand_down(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    pub(super) async fn end(self) {
        self.site.ask_to_end();
        let site = Arc::clone(&self.site);
        let gone = tokio::task::spawn_blocking(move || site.wait_until_gone());
        if tokio::time::timeout(END_WITHIN, gone).await.is_err() {
            tracing::warn!("the pilot of this machine is still ending its tasks");
        }
    }
}
