//! Removing what nobody needs: contents that no job of their user's names, or whose jobs have been
//! over for so long, once they have not been used for as long. What the jobs are is for the caller
//! to say.

use super::outputs::Kept;
use super::{FileStore, FilesError, LEAST, Whose};
use crate::locks::Locked;
use shipway_model::{Digest, JobId, Millis, Timestamp};
use std::collections::{BTreeSet, HashMap};
use std::fs::DirEntry;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A part that nobody goes on with.
const PART_KEPT: Duration = Duration::from_hours(24);

/// What is known of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    Open,
    OverSince(Timestamp),
    /// Nobody knows of it: what it came with is as old as its record.
    Unknown,
}

impl FileStore {
    /// Everybody whose files are here.
    fn everybody(&self) -> Vec<Whose> {
        let names = entries(&self.root).filter_map(|entry| entry.file_name().into_string().ok());
        names.map(Whose).collect()
    }

    /// Jobs that something is kept of.
    pub fn jobs(&self) -> BTreeSet<JobId> {
        let of = |whose: Whose| [self.jobs_folder(&whose), self.outputs_folder(&whose)];
        self.everybody()
            .into_iter()
            .flat_map(of)
            .flat_map(|folder| {
                entries(&folder).filter_map(|entry| job_of(&entry)).collect::<Vec<_>>()
            })
            .collect()
    }

    /// Removes what is not needed now. How many bytes that were.
    pub fn sweep(
        &self,
        now: SystemTime,
        standing: &HashMap<JobId, Standing>,
    ) -> Result<u64, FilesError> {
        let mut removed = 0;
        for whose in self.everybody() {
            removed += self.sweep_of(&whose, now, standing)?;
        }
        Ok(removed)
    }

    fn sweep_of(
        &self,
        whose: &Whose,
        now: SystemTime,
        standing: &HashMap<JobId, Standing>,
    ) -> Result<u64, FilesError> {
        let keep = Duration::from_millis(self.limits.keep.0);
        let is_wanted = |entry: &DirEntry, job: JobId| match standing.get(&job) {
            Some(Standing::Open) => true,
            Some(Standing::OverSince(ended)) => since(now, *ended) < keep,
            Some(Standing::Unknown) | None => age(entry, now) < keep,
        };
        let mut wanted = BTreeSet::new();
        for entry in entries(&self.jobs_folder(whose)) {
            let Some(job) = job_of(&entry) else { continue };
            if !is_wanted(&entry, job) {
                let _gone = std::fs::remove_file(entry.path());
                continue;
            }
            let text = std::fs::read_to_string(entry.path()).unwrap_or_default();
            if let Ok(manifest) = text.parse() {
                self.want(whose, &manifest, &mut wanted)?;
            }
        }
        for folder in entries(&self.outputs_folder(whose)) {
            let Some(job) = job_of(&folder) else { continue };
            if !is_wanted(&folder, job) {
                let _gone = shipway_trees::remove(&folder.path());
                continue;
            }
            for entry in entries(&folder.path()) {
                let text = std::fs::read(entry.path()).unwrap_or_default();
                if let Ok(Kept { manifest, .. }) = serde_json::from_slice(&text) {
                    self.want(whose, &manifest, &mut wanted)?;
                }
            }
        }
        let mut removed = 0;
        for folder in entries(&self.folder(whose).join("content")) {
            for entry in entries(&folder.path()) {
                let digest = entry.file_name().into_string().ok();
                let digest = digest.and_then(|hex| format!("sha256:{hex}").parse::<Digest>().ok());
                if digest.is_none_or(|digest| !wanted.contains(&digest)) {
                    removed += self.remove_if_older(whose, &entry, now, keep);
                }
            }
        }
        for entry in entries(&self.folder(whose).join("part")) {
            removed += self.remove_if_older(whose, &entry, now, PART_KEPT.min(keep));
        }
        Ok(removed)
    }

    /// A list that cannot be read any more wants nothing; one that cannot be read now, all.
    fn want(
        &self,
        whose: &Whose,
        manifest: &Digest,
        wanted: &mut BTreeSet<Digest>,
    ) -> Result<(), FilesError> {
        if !wanted.insert(*manifest) {
            return Ok(());
        }
        match self.manifest(whose, manifest) {
            Ok(read) => wanted.extend(read.files.iter().map(|file| file.sha256)),
            Err(error @ FilesError::Io { .. }) => return Err(error),
            Err(_) => {}
        }
        Ok(())
    }

    /// Looked at again when nobody can say in between that it is used.
    fn remove_if_older(
        &self,
        whose: &Whose,
        entry: &DirEntry,
        now: SystemTime,
        than: Duration,
    ) -> u64 {
        let mut books = self.books.locked();
        let Ok(found) = entry.path().symlink_metadata() else { return 0 };
        let age = found.modified().ok().and_then(|at| now.duration_since(at).ok());
        if age.is_none_or(|age| age < than) || std::fs::remove_file(entry.path()).is_err() {
            return 0;
        }
        if let Some(used) = books.used.get_mut(whose) {
            *used = used.saturating_sub(LEAST.saturating_add(found.len()));
        }
        found.len()
    }
}

fn entries(folder: &Path) -> impl Iterator<Item = DirEntry> {
    std::fs::read_dir(folder).into_iter().flatten().flatten()
}

fn job_of(entry: &DirEntry) -> Option<JobId> {
    entry.file_name().to_str()?.parse().ok()
}

fn age(entry: &DirEntry, now: SystemTime) -> Duration {
    let at = entry.metadata().and_then(|found| found.modified());
    at.ok().and_then(|at| now.duration_since(at).ok()).unwrap_or_default()
}

fn since(now: SystemTime, ended: Timestamp) -> Duration {
    let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = Timestamp(u64::try_from(now.as_millis()).unwrap_or(u64::MAX));
    let Millis(passed) = now.since(ended);
    Duration::from_millis(passed)
}
