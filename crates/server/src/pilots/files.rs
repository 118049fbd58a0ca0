//! The calls for files. A pilot gets contents only for an attempt that is placed on it, and only
//! those that the attempt's job came with; what it sends is kept as its owner's, within what that
//! user may have. Contents go from the disk to the connection and back, a piece at a time.

use super::calls::OneOfFew;
use super::sending::Sender;
use super::service::PilotService;
use crate::files::{FilesError, Whose};
use crate::locks::Locked as _;
use futures_util::{Stream, TryStreamExt as _};
use shipway_api::causes::causes;
use shipway_api::link::contents::{digest, read_digests, write_wanted};
use shipway_api::link::{FILE_CALLS, MAX_FETCHED};
use shipway_api::pack::Heading;
use shipway_api::types::Fetching;
use shipway_api::wire::contents_server::Contents;
use shipway_api::wire::{self, FetchFiles, FilePiece, OfferFiles, Stored, WantedFiles};
use shipway_core::State;
use shipway_model::{AttemptId, Bytes, Digest, JobId, PilotId, UserName};
use std::collections::{HashMap, HashSet};
use std::io::{self, Read};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::mpsc;
use tonic::{Request, Response, Status, Streaming};

/// Lists of files that are kept at hand, as sets of digests: four megabytes each at most.
const LISTS_KEPT: usize = 16;
/// A pilot that sends nothing for this long in the middle of a content has gone.
const NEXT_PIECE_WITHIN: Duration = Duration::from_mins(1);
/// Pieces that wait for the disk.
const PIECES_WAITING: usize = 2;

/// What the jobs came with whose files were asked for last.
#[derive(Debug, Default)]
pub(super) struct Lists(Mutex<HashMap<(JobId, Digest), Arc<CameWith>>>);

/// All that a job came with.
#[derive(Debug)]
struct CameWith {
    /// The list itself, and what it names.
    all: HashSet<Digest>,
    bytes: u64,
}

/// How far attempts are that fetch their files.
#[derive(Debug, Default)]
pub(super) struct Fetches(Mutex<HashMap<AttemptId, Arc<Far>>>);

/// Bytes that were sent, and all.
#[derive(Debug, Default)]
struct Far {
    sent: AtomicU64,
    of: u64,
}

/// Attempts that are remembered so. Those that have begun are not asked for any more.
const MOST_FETCHES: usize = 4_096;

impl Fetches {
    fn of(&self, attempt: AttemptId, of: u64) -> Arc<Far> {
        let mut all = self.0.locked();
        if all.len() >= MOST_FETCHES && !all.contains_key(&attempt) {
            all.clear();
        }
        let new = || Arc::new(Far { sent: AtomicU64::new(0), of });
        Arc::clone(all.entry(attempt).or_insert_with(new))
    }
}

impl super::Pilots {
    /// How far the files of an attempt are that has not begun.
    pub(crate) fn fetching(&self, attempt: AttemptId) -> Option<Fetching> {
        let far = self.fetches.0.locked().get(&attempt).map(Arc::clone)?;
        let sent = Bytes(far.sent.load(Ordering::Relaxed));
        Some(Fetching { sent, of: Bytes(far.of) })
    }
}

type Fetched = Pin<Box<dyn Stream<Item = Result<FilePiece, Status>> + Send>>;

/// Whose files a call is about, and the place that it takes.
struct Asked {
    whose: Whose,
    attempt: AttemptId,
    place: OneOfFew<PilotId>,
}

#[tonic::async_trait]
impl Contents for PilotService {
    type FetchStream = Fetched;

    async fn fetch(&self, request: Request<FetchFiles>) -> Result<Response<Fetched>, Status> {
        let asked = self.asked(&request, request.get_ref().attempt)?;
        let FetchFiles { digests, offset, .. } = request.into_inner();
        let Asked { whose, attempt, place } = self.placed(asked).await?;
        let digests = read_digests(&digests).filter(|all| all.len() <= MAX_FETCHED);
        let digests = digests.ok_or_else(|| Status::invalid_argument("no list of contents"))?;
        let list = self.came_with(&whose, attempt.task.job).await?;
        if digests.iter().any(|digest| !list.all.contains(digest)) {
            let (pilot, task) = (&place.whose, attempt.task);
            tracing::warn!(%pilot, %task, "a pilot asks for files that its task did not come with");
            return Err(Status::permission_denied("the task did not come with these files"));
        }
        let far = self.pilots.fetches.of(attempt, list.bytes);
        let sender = Sender::new(Arc::clone(&self.files), whose, digests.into(), offset, place);
        let counted = sender.pieces().inspect_ok(move |piece| {
            far.sent.fetch_add(piece.data.len() as u64, Ordering::Relaxed);
        });
        Ok(Response::new(Box::pin(counted)))
    }

    async fn put(
        &self,
        request: Request<Streaming<FilePiece>>,
    ) -> Result<Response<Stored>, Status> {
        let (pilot, place) = self.place(&request)?;
        let mut pieces = request.into_inner();
        let first = next_piece(&mut pieces).await?;
        let Some(first) = first else { return Ok(Response::new(Stored {})) };
        let attempt = first.attempt.ok_or_else(|| Status::invalid_argument("no attempt"))?;
        let asked = (pilot, attempt.into(), place);
        let Asked { whose, place: _place, .. } = self.placed(asked).await?;
        let (send, from) = mpsc::channel(PIECES_WAITING);
        let files = Arc::clone(&self.files);
        let taking = tokio::task::spawn_blocking(move || {
            files.take_pack(&whose, &mut Coming { from, rest: io::Cursor::default() })
        });
        let mut piece = Some(first);
        let mut broken = Ok(());
        while let Some(next) = piece {
            let Some(headed) = headed(&next) else {
                broken = Err(Status::invalid_argument("a piece that lies in no content"));
                break;
            };
            if send.send(Ok((headed, next.data))).await.is_err() {
                break;
            }
            match next_piece(&mut pieces).await {
                Ok(next) => piece = next,
                Err(status) => {
                    let _ = send.send(Err(io::ErrorKind::UnexpectedEof.into())).await;
                    broken = Err(status);
                    break;
                }
            }
        }
        drop(send);
        let taken = taking.await.map_err(|_| Status::internal("files were not taken"))?;
        broken?;
        taken.map(|_| Response::new(Stored {})).map_err(refused)
    }

    async fn offer(&self, request: Request<OfferFiles>) -> Result<Response<WantedFiles>, Status> {
        let asked = self.asked(&request, request.get_ref().attempt)?;
        let named = digest(&request.get_ref().digest);
        let named = named.ok_or_else(|| Status::invalid_argument("no digest"))?;
        let Asked { whose, attempt, place: _place } = self.placed(asked).await?;
        let files = Arc::clone(&self.files);
        let offered = tokio::task::spawn_blocking(move || {
            match files.offer(&whose, (attempt.task, attempt.attempt), &named) {
                // The list itself is what is wanted first.
                Err(FilesError::Missing(missing)) if missing == named => {
                    Ok(files.missing(&whose, &[(named, u64::MAX)]))
                }
                offered => offered,
            }
        });
        let wanted = offered.await.map_err(|_| Status::internal("files were not taken"))?;
        let wanted = write_wanted(&wanted.map_err(refused)?);
        Ok(Response::new(WantedFiles { wanted }))
    }
}

type AskedFor = (PilotId, AttemptId, OneOfFew<PilotId>);

impl PilotService {
    fn place<T>(&self, request: &Request<T>) -> Result<(PilotId, OneOfFew<PilotId>), Status> {
        let pilot = self.authenticate(request)?.pilot;
        let place = self.pilots.filing.begin(pilot.clone(), FILE_CALLS);
        let too_many = || Status::unavailable("this pilot has as many calls for files as one may");
        Ok((pilot, place.ok_or_else(too_many)?))
    }

    fn asked<T>(
        &self,
        request: &Request<T>,
        attempt: Option<wire::AttemptId>,
    ) -> Result<AskedFor, Status> {
        let (pilot, place) = self.place(request)?;
        let attempt = attempt.ok_or_else(|| Status::invalid_argument("no attempt"))?;
        Ok((pilot, attempt.into(), place))
    }

    /// Whose it is, if it is placed on this pilot.
    async fn placed(&self, (pilot, attempt, place): AskedFor) -> Result<Asked, Status> {
        let owner = self.writer.glance(move |state: &State| {
            let active = state.active().get(&attempt.task)?;
            let is_its = active.pilot == pilot && active.attempt == attempt.attempt;
            let job = state.job(attempt.task.job).filter(|_| is_its)?;
            Some(job.owner.clone())
        });
        let owner = owner.await.map_err(|error| Status::unavailable(error.to_string()))?;
        let not_its = || Status::permission_denied("this attempt is not on this pilot");
        Ok(Asked { whose: self.whose(&owner.ok_or_else(not_its)?), attempt, place })
    }

    fn whose(&self, owner: &UserName) -> Whose {
        Whose::new(owner, self.describe.auth.number(owner.as_str()))
    }

    /// All that a job came with: its list of files, and what that names.
    async fn came_with(&self, whose: &Whose, job: JobId) -> Result<Arc<CameWith>, Status> {
        let specs = Arc::clone(&self.describe.specs);
        let (files, whose) = (Arc::clone(&self.files), whose.clone());
        let lists = Arc::clone(&self.lists);
        let read = tokio::task::spawn_blocking(move || {
            let spec = specs.get(job).map_err(|error| Status::internal(error.to_string()))?.spec;
            let none = || Status::not_found("the job came with no files");
            let named = spec.sandbox.ok_or_else(none)?;
            if let Some(list) = lists.find(job, named) {
                return Ok(list);
            }
            let manifest = files.manifest(&whose, &named).map_err(refused)?;
            files.record(&whose, job, &named).map_err(refused)?;
            let all = manifest.files.iter().map(|file| file.sha256).chain([named]).collect();
            Ok(lists.keep(job, named, CameWith { all, bytes: manifest.bytes() }))
        });
        read.await.map_err(|_| Status::internal("a list of files was not read"))?
    }
}

impl Lists {
    fn find(&self, job: JobId, named: Digest) -> Option<Arc<CameWith>> {
        self.0.locked().get(&(job, named)).cloned()
    }

    fn keep(&self, job: JobId, named: Digest, all: CameWith) -> Arc<CameWith> {
        let (all, mut lists) = (Arc::new(all), self.0.locked());
        if lists.len() >= LISTS_KEPT {
            lists.clear();
        }
        lists.insert((job, named), Arc::clone(&all));
        all
    }
}

async fn next_piece(pieces: &mut Streaming<FilePiece>) -> Result<Option<FilePiece>, Status> {
    let next = tokio::time::timeout(NEXT_PIECE_WITHIN, pieces.message()).await;
    next.map_err(|_| Status::deadline_exceeded("nothing more has come"))?
}

/// As it stands in an upload of people's.
fn headed(piece: &FilePiece) -> Option<Vec<u8>> {
    let heading = Heading {
        digest: digest(&piece.digest)?,
        size: piece.size,
        offset: piece.offset,
        length: piece.data.len() as u64,
    };
    let written = heading.write();
    Heading::read(&written).map(|_| written.to_vec())
}

/// What comes, to be read by a thread that waits for it.
struct Coming {
    from: mpsc::Receiver<io::Result<(Vec<u8>, Vec<u8>)>>,
    rest: io::Cursor<Vec<u8>>,
}

impl Read for Coming {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        loop {
            let count = self.rest.read(to)?;
            if count > 0 || to.is_empty() {
                return Ok(count);
            }
            match self.from.blocking_recv() {
                None => return Ok(0),
                Some(piece) => {
                    let (mut headed, data) = piece?;
                    headed.extend_from_slice(&data);
                    self.rest = io::Cursor::new(headed);
                }
            }
        }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "the signature map_err asks for")]
pub(super) fn refused(error: FilesError) -> Status {
    let said = causes(&error);
    match error {
        FilesError::Quota { .. } | FilesError::Room(_) => Status::resource_exhausted(said),
        FilesError::Digest(_) | FilesError::Pack(_) => Status::data_loss(said),
        FilesError::Offset { .. } | FilesError::Busy(_) => Status::aborted(said),
        FilesError::Missing(_) => Status::not_found(said),
        FilesError::Unreadable(_) | FilesError::Manifest { .. } => Status::invalid_argument(said),
        FilesError::Io { .. } => {
            tracing::error!(cause = said, "files cannot be used");
            Status::unavailable("the server cannot use its files")
        }
    }
}
