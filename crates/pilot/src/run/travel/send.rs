//! To the server: what a task has made. The process that reads it has listed it; what the server
//! does not have of that goes over the connection as it is read, and when nothing is missing any
//! more the server keeps all of it.

use super::Journey;
use super::line::{Broke, Line};
use crate::stage::talk::{Said, Talk, Word};
use futures_util::stream;
use sha2::{Digest as _, Sha256};
use shipway_api::link::MAX_FILE_PIECE;
use shipway_api::link::contents::read_wanted;
use shipway_api::wire::contents_client::ContentsClient;
use shipway_api::wire::{FilePiece, OfferFiles};
use shipway_model::limits::MAX_MANIFEST_BYTES;
use shipway_model::{Digest, Manifest};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Cursor, Read, Seek, SeekFrom};
use tokio::sync::mpsc;
use tonic::transport::Channel;

/// Pieces on their way to the connection.
const PIECES_WAITING: usize = 2;
/// Offers after which the server still wants what it was sent: more than cut calls make.
const MOST_OFFERS: usize = 100;

pub(super) fn send(line: &Line, of: &Journey<'_>, talk: &Talk) -> Result<(), String> {
    let unheard = |error: io::Error| format!("what it has made cannot be listed: {error}");
    // Whoever lists it has died, or says itself what is wrong.
    let Some(said) = talk.hear().map_err(unheard)? else { return Ok(()) };
    if said.word != Word::List {
        return Err(unheard(io::ErrorKind::InvalidData.into()));
    }
    let text = said.long(MAX_MANIFEST_BYTES).map_err(unheard)?;
    let manifest: Manifest =
        serde_json::from_slice(&text).map_err(|error| unheard(error.into()))?;
    let manifest = manifest.checked().map_err(|error| unheard(io::Error::other(error)))?;
    let list = Digest(Sha256::digest(&text).into());
    let places = manifest.files.iter().enumerate().map(|(at, file)| (file.sha256, at)).collect();
    let sending = Sending { line, of, talk, manifest: &manifest, text: &text, list, places };
    for _ in 0..MOST_OFFERS {
        let wanted = line.call(of, async |client| sending.offer(client).await);
        let wanted = wanted.map_err(|why| format!("what it has made cannot be kept: {why}"))?;
        if wanted.is_empty() {
            // It has said all, should nobody hear this.
            let _ended = talk.say(Word::Done, &[], &[]);
            return Ok(());
        }
        let sent = line.call(of, async |client| match sending.put(client, &wanted).await {
            // What came so far is found by the next offer.
            Err(Broke::Away(_)) => Ok(()),
            sent => sent,
        });
        sent.map_err(|why| format!("what it has made cannot be kept: {why}"))?;
    }
    Err("what it has made cannot be kept: the server asks for the same again and again".into())
}

struct Sending<'a> {
    line: &'a Line,
    of: &'a Journey<'a>,
    talk: &'a Talk,
    manifest: &'a Manifest,
    text: &'a [u8],
    list: Digest,
    /// One place of each content in the list.
    places: HashMap<Digest, usize>,
}

impl Sending<'_> {
    async fn offer(
        &self,
        mut client: ContentsClient<Channel>,
    ) -> Result<Vec<(Digest, u64)>, Broke> {
        let (attempt, digest) = (Some(self.of.attempt.into()), self.list.0.to_vec());
        let request = self.line.request(OfferFiles { attempt, digest })?;
        let wanted = client.offer(request).await?.into_inner().wanted;
        self.of.has_moved();
        read_wanted(&wanted).ok_or_else(|| Broke::Refused("its answer is none".into()))
    }

    async fn put(
        &self,
        mut client: ContentsClient<Channel>,
        wanted: &[(Digest, u64)],
    ) -> Result<(), Broke> {
        let (to, pieces) = mpsc::channel(PIECES_WAITING);
        let pieces = stream::unfold(pieces, |mut pieces| async move {
            let piece: FilePiece = pieces.recv().await?;
            Some((piece, pieces))
        });
        let request = self.line.request(pieces)?;
        let call = async { client.put(request).await.map(drop).map_err(Broke::from) };
        let feed = async move {
            let mut first = Some(self.of.attempt.into());
            for (digest, have) in wanted {
                if !self.feed(*digest, *have, &to, &mut first).await? {
                    break;
                }
            }
            Ok::<_, Broke>(())
        };
        let (mut call, mut feed) = (std::pin::pin!(call), std::pin::pin!(feed));
        // A call that is refused early takes nothing more, and does not say so.
        tokio::select! {
            put = &mut call => return put,
            fed = &mut feed => fed?,
        }
        call.await
    }

    /// One content, from an offset on. Whether anybody takes it.
    async fn feed(
        &self,
        digest: Digest,
        have: u64,
        to: &mpsc::Sender<FilePiece>,
        first: &mut Option<shipway_api::wire::AttemptId>,
    ) -> Result<bool, Broke> {
        let (mut from, size) = self.open(digest)?;
        let failed = |error: io::Error| Broke::Refused(format!("it cannot be read: {error}"));
        let mut offset = if have < size { have } else { 0 };
        from.seek(SeekFrom::Start(offset)).map_err(failed)?;
        loop {
            let mut data = Vec::new();
            let most = (size - offset).min(MAX_FILE_PIECE as u64);
            from.by_ref().take(most).read_to_end(&mut data).map_err(failed)?;
            let count = data.len() as u64;
            if count < most {
                return Err(Broke::Refused("it became shorter while it was taken".into()));
            }
            let (digest, attempt) = (digest.0.to_vec(), first.take());
            let piece = FilePiece { digest, size, offset, data, attempt };
            if to.send(piece).await.is_err() {
                return Ok(false);
            }
            self.of.has_moved();
            offset += count;
            if offset >= size {
                return Ok(true);
            }
        }
    }

    /// The list itself, or what the process that reads for us hands over.
    fn open(&self, digest: Digest) -> Result<(Box<dyn ReadSeek + '_>, u64), Broke> {
        if digest == self.list {
            return Ok((Box::new(Cursor::new(self.text)), self.text.len() as u64));
        }
        let unknown = || Broke::Refused("the server asks for what was not offered".into());
        let at = *self.places.get(&digest).ok_or_else(unknown)?;
        let size = self.manifest.files.get(at).ok_or_else(unknown)?.size;
        let number = u32::try_from(at).map_err(|_| unknown())?;
        let gone = |error: io::Error| Broke::Refused(format!("nobody hands it over: {error}"));
        self.talk.say(Word::Wanted, &number.to_be_bytes(), &[]).map_err(gone)?;
        match self.talk.hear().map_err(gone)? {
            Some(said @ Said { word: Word::Files, .. }) => {
                Ok((Box::new(said.file().map_err(gone)?), size))
            }
            _ => Err(gone(io::ErrorKind::UnexpectedEof.into())),
        }
    }
}

trait ReadSeek: Read + Seek {}
impl ReadSeek for File {}
impl ReadSeek for Cursor<&[u8]> {}
