//! What belongs to jobs: the list of files that one came with, and those that its tasks have sent
//! back. A list is written when all that it names is here, so what a task has made is there whole
//! or not at all.

use super::{FileStore, FilesError, Whose};
use crate::locks::Locked as _;
use serde::{Deserialize, Serialize};
use shipway_model::{Attempt, Digest, JobId, Manifest, TaskId, TaskIndex};
use std::io;
use std::path::PathBuf;

/// What is kept of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    pub attempt: Attempt,
    pub manifest: Digest,
}

impl FileStore {
    pub(super) fn jobs_folder(&self, whose: &Whose) -> PathBuf {
        self.folder(whose).join("jobs")
    }

    pub(super) fn outputs_folder(&self, whose: &Whose) -> PathBuf {
        self.folder(whose).join("outputs")
    }

    /// Keeps what a job came with for as long as the job may want it.
    pub fn record(&self, whose: &Whose, job: JobId, manifest: &Digest) -> Result<(), FilesError> {
        let folder = self.jobs_folder(whose);
        FileStore::make(&folder)?;
        let path = folder.join(job.to_string());
        // Whoever submits and whoever fetches for it do so at the same time.
        let _alone = self.recording.locked();
        if path.exists() {
            return Ok(());
        }
        let written = shipway_trees::write_whole(&path, manifest.to_string().as_bytes());
        written.map_err(FilesError::io("keep"))
    }

    /// What is still wanted of the files of a task, whose list was uploaded before. Nothing: they
    /// are kept from now on, in place of those of an earlier attempt.
    pub fn offer(
        &self,
        whose: &Whose,
        (task, attempt): (TaskId, Attempt),
        manifest: &Digest,
    ) -> Result<Vec<(Digest, u64)>, FilesError> {
        let contents: Vec<_> = self.manifest(whose, manifest)?.contents().into_iter().collect();
        let missing = self.missing(whose, &contents);
        if !missing.is_empty() {
            return Ok(missing);
        }
        let folder = self.outputs_folder(whose).join(task.job.to_string());
        FileStore::make(&folder)?;
        let kept = Kept { attempt, manifest: *manifest };
        let text = serde_json::to_vec(&kept).map_err(|_| FilesError::Unreadable(*manifest))?;
        let _alone = self.recording.locked();
        let written = shipway_trees::write_whole(&folder.join(task.index.to_string()), &text);
        written.map_err(FilesError::io("keep"))?;
        Ok(missing)
    }

    /// What a task has sent back; `None`: nothing, or nothing any more.
    pub fn outputs(
        &self,
        whose: &Whose,
        task: TaskId,
    ) -> Result<Option<(Kept, Manifest)>, FilesError> {
        let folder = self.outputs_folder(whose).join(task.job.to_string());
        let text = match std::fs::read(folder.join(task.index.to_string())) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(FilesError::Io { act: "read", source }),
        };
        let Ok(kept) = serde_json::from_slice::<Kept>(&text) else { return Ok(None) };
        Ok(Some((kept, self.manifest(whose, &kept.manifest)?)))
    }

    /// Tasks of a job that have sent something back, in order, from this index on.
    pub fn tasks_with_outputs(
        &self,
        whose: &Whose,
        job: JobId,
        from: TaskIndex,
        most: usize,
    ) -> Vec<TaskIndex> {
        let folder = self.outputs_folder(whose).join(job.to_string());
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let index = |name: std::ffi::OsString| name.to_str()?.parse().ok().map(TaskIndex);
        let mut found: Vec<TaskIndex> =
            entries.filter_map(|entry| index(entry.file_name())).filter(|it| *it >= from).collect();
        found.sort_unstable();
        found.truncate(most);
        found
    }
}
