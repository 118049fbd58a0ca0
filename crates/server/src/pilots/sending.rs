//! Contents on their way to a pilot: read where waiting for the disk is allowed, many small ones at
//! a time, and the next of them only when the last were taken.

use super::calls::OneOfFew;
use super::files::refused;
use crate::files::{FileStore, FilesError, Whose};
use futures_util::{Stream, stream};
use shipway_api::link::MAX_FILE_PIECE;
use shipway_api::wire::FilePiece;
use shipway_model::{Digest, PilotId};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::sync::Arc;
use tonic::Status;

/// Read at a time, however small they are.
const MOST_PIECES: usize = 128;

/// One call of a pilot.
pub(super) struct Sender {
    read: VecDeque<FilePiece>,
    /// Why there are no more than those that were read.
    failed: Option<Status>,
    unread: Option<Unread>,
    _place: OneOfFew<PilotId>,
}

/// What has not been read.
struct Unread {
    files: Arc<FileStore>,
    whose: Whose,
    rest: VecDeque<Digest>,
    /// Of the next one.
    offset: u64,
    now: Option<Open>,
}

/// One content.
struct Open {
    digest: Digest,
    file: File,
    size: u64,
    at: u64,
}

impl Sender {
    pub(super) fn new(
        files: Arc<FileStore>,
        whose: Whose,
        rest: VecDeque<Digest>,
        offset: u64,
        place: OneOfFew<PilotId>,
    ) -> Self {
        let unread = Some(Unread { files, whose, rest, offset, now: None });
        Self { read: VecDeque::new(), failed: None, unread, _place: place }
    }

    pub(super) fn pieces(self) -> impl Stream<Item = Result<FilePiece, Status>> + Send {
        stream::unfold(self, async |mut this| {
            let next = this.next().await?;
            Some((next, this))
        })
    }

    async fn next(&mut self) -> Option<Result<FilePiece, Status>> {
        if self.read.is_empty()
            && let Some(unread) = self.unread.take()
        {
            let reading = tokio::task::spawn_blocking(move || unread.read_some()).await;
            match reading {
                Ok((read, Ok(unread))) => (self.read, self.unread) = (read, unread),
                Ok((read, Err(status))) => (self.read, self.failed) = (read, Some(status)),
                Err(_) => self.failed = Some(Status::internal("files were not read")),
            }
        }
        self.read.pop_front().map(Ok).or_else(|| self.failed.take().map(Err))
    }
}

impl Unread {
    /// The next pieces, and what is left after them.
    fn read_some(mut self) -> (VecDeque<FilePiece>, Result<Option<Self>, Status>) {
        let (mut read, mut bytes) = (VecDeque::new(), 0);
        while bytes < MAX_FILE_PIECE && read.len() < MOST_PIECES {
            match self.next_piece(MAX_FILE_PIECE - bytes) {
                Ok(Some(piece)) => {
                    bytes += piece.data.len();
                    read.push_back(piece);
                }
                Ok(None) => return (read, Ok(None)),
                Err(status) => return (read, Err(status)),
            }
        }
        (read, Ok(Some(self)))
    }

    fn next_piece(&mut self, most: usize) -> Result<Option<FilePiece>, Status> {
        let mut open = match self.now.take() {
            Some(open) => open,
            None => match self.rest.pop_front() {
                Some(digest) => self.open(digest).map_err(refused)?,
                None => return Ok(None),
            },
        };
        let piece = open.piece(most).map_err(|error| Status::data_loss(error.to_string()))?;
        self.now = (open.at < open.size).then_some(open);
        Ok(Some(piece))
    }

    fn open(&mut self, digest: Digest) -> Result<Open, FilesError> {
        let (file, size) = self.files.open(&self.whose, &digest)?;
        let offset = std::mem::take(&mut self.offset);
        Ok(Open { digest, file, size, at: if offset <= size { offset } else { 0 } })
    }
}

impl Open {
    /// Of nothing where nothing is left: whoever fetches it has to hear of it.
    fn piece(&mut self, most: usize) -> std::io::Result<FilePiece> {
        let length = usize::try_from(self.size - self.at).unwrap_or(usize::MAX).min(most);
        let mut data = vec![0; length];
        self.file.seek(SeekFrom::Start(self.at))?;
        self.file.read_exact(&mut data)?;
        let (digest, offset) = (self.digest.0.to_vec(), self.at);
        self.at += length as u64;
        Ok(FilePiece { digest, size: self.size, offset, data, attempt: None })
    }
}
