//! Counts what everybody's output takes, by looking: when a pilot starts, and when somebody gets no
//! room, because files may have been removed since.

use super::keep::entries;
use super::{Logs, OWNER};
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// So long nobody gains by what was freed. A look at a million files takes seconds of a disk: then
/// it is so many times as long, because whoever gets no room asks for the next one.
const AT_MOST_EVERY: Duration = Duration::from_mins(1);
const REST_AFTER: u32 = 50;

impl Logs {
    pub async fn keep_count(self: Arc<Self>) {
        loop {
            let (logs, began) = (Arc::clone(&self), Instant::now());
            let counted = tokio::task::spawn_blocking(move || logs.recount()).await;
            if let Ok(Err(error)) = counted {
                tracing::warn!(%error, "what output takes cannot be counted");
            }
            tokio::time::sleep(AT_MOST_EVERY.max(began.elapsed() * REST_AFTER)).await;
            self.room.recount.notified().await;
        }
    }

    /// Output that says not whose it is counts as nobody's.
    pub fn recount(&self) -> io::Result<()> {
        let before = self.room.kept();
        let mut found: HashMap<Arc<str>, u64> = HashMap::new();
        for job in entries(&self.root)? {
            let Ok(user) = std::fs::read_link(job.path().join(OWNER)) else { continue };
            let files = entries(&job.path())?;
            let sizes = files.iter().filter_map(|file| file.metadata().ok());
            let sizes = sizes.filter(std::fs::Metadata::is_file);
            let takes: u64 = sizes.map(|found| self.room.cost(found.len())).sum();
            let takes = takes + self.room.folder_cost();
            *found.entry(user.to_string_lossy().into()).or_default() += takes;
        }
        self.room.found(&found, &before);
        Ok(())
    }
}
