//! To the server: what it does not have yet, many small files in one request, several requests at a
//! time, and what was cut off from where it stopped.

use super::{Picked, TravelError};
use crate::commands::Context;
use crate::failure::Failure;
use crate::view::talk;
use bytes::Bytes as Piece;
use shipway_api::client::{Client, ClientError};
use shipway_api::error::codes;
use shipway_api::pack::Heading;
use shipway_api::routes;
use shipway_api::types::{ContentOffered, FilesOffered, FilesTaken, FilesWanted};
use shipway_model::{Bytes, Digest};
use std::collections::{HashMap, VecDeque};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Bytes of one request.
const REQUEST: u64 = 16 << 20;
/// And parts: a few hundred kilobytes of headings.
const PARTS: usize = 4_096;
/// Requests at the same time.
const AT_ONCE: usize = 4;
/// How often it is asked what is missing, and the pause before it is asked again.
const TRIES: usize = 8;
const PAUSE: Duration = Duration::from_millis(500);
/// Less than this needs no words.
const WORTH_A_LINE: u64 = 1 << 20;

/// A part of a content that goes into a request.
#[derive(Debug, Clone, Copy)]
struct Part {
    digest: Digest,
    size: u64,
    offset: u64,
    length: u64,
}

/// Where contents are read.
#[derive(Debug, Clone)]
enum From {
    File(PathBuf),
    List(Piece),
}

pub(super) async fn upload(context: &Context, picked: &Picked) -> Result<(), Failure> {
    let mut from: HashMap<Digest, (From, u64)> = HashMap::new();
    for (file, path) in picked.manifest.files.iter().zip(&picked.sources) {
        from.insert(file.sha256, (From::File(path.clone()), file.size));
    }
    let list = Piece::from(picked.text.clone());
    from.insert(picked.digest, (From::List(list), picked.text.len() as u64));
    let from = Arc::new(from);
    let contents = from.iter().map(|(digest, (_, size))| (*digest, *size));
    let contents = contents.map(|(sha256, size)| ContentOffered { sha256, size }).collect();
    let offered = FilesOffered { contents };
    let mut said = false;
    for _ in 0..TRIES {
        let wanted: FilesWanted = context.client.post(routes::FILES_MISSING, &offered, &[]).await?;
        if wanted.missing.is_empty() {
            return Ok(());
        }
        let errands = errands(&wanted, &from);
        let bytes: u64 = errands.iter().flatten().flatten().map(|part| part.length).sum();
        if bytes >= WORTH_A_LINE && !std::mem::replace(&mut said, true) {
            talk::say(format_args!(
                "shipway: uploading {} of {} that travel with the job",
                Bytes(bytes),
                Bytes(picked.manifest.bytes().saturating_add(picked.text.len() as u64))
            ));
        }
        let errands = Arc::new(Mutex::new(errands));
        let mut sending = tokio::task::JoinSet::new();
        for _ in 0..AT_ONCE {
            let (client, errands) = (context.server.connect()?, Arc::clone(&errands));
            sending.spawn(send_all(client, errands, Arc::clone(&from)));
        }
        let mut trouble = None;
        while let Some(sent) = sending.join_next().await {
            let sent = sent.expect("it neither panics nor is cancelled");
            match sent {
                Ok(()) => {}
                Err(Failure::Client(error)) if may_go_on(&error) => trouble = Some(error),
                Err(error) => return Err(error),
            }
        }
        if trouble.is_some() {
            tokio::time::sleep(PAUSE).await;
        }
    }
    let last: FilesWanted = context.client.post(routes::FILES_MISSING, &offered, &[]).await?;
    let missing = last.missing.first().and_then(|missing| from.get(&missing.sha256));
    match missing {
        Some((From::File(path), _)) => Err(TravelError::Changed(path.clone()).into()),
        _ => Ok(()),
    }
}

/// Whether the rest may come through another time.
fn may_go_on(error: &ClientError) -> bool {
    match error {
        ClientError::Broken { .. } => true,
        ClientError::Refused { body, .. } => {
            body.code == codes::BUSY || body.code == codes::TOO_SLOW
        }
        _ => false,
    }
}

/// What one connection sends, one request after the other.
type Errand = VecDeque<Vec<Part>>;

/// A large content is one errand, since its parts follow each other; small ones share requests.
fn errands(wanted: &FilesWanted, from: &HashMap<Digest, (From, u64)>) -> Vec<Errand> {
    let (mut all, mut few, mut bytes) = (Vec::new(), Vec::new(), 0);
    for missing in &wanted.missing {
        let digest = missing.sha256;
        let Some((_, size)) = from.get(&digest) else { continue };
        let have = if missing.have < *size { missing.have } else { 0 };
        let part = |offset: u64| {
            let length = (size - offset).min(REQUEST);
            Part { digest, size: *size, offset, length }
        };
        if size - have >= REQUEST {
            let mut errand = Errand::from([vec![part(have)]]);
            let mut offset = have + REQUEST;
            while offset < *size {
                errand.push_back(vec![part(offset)]);
                offset += REQUEST;
            }
            all.push(errand);
            continue;
        }
        few.push(part(have));
        bytes += size - have;
        if bytes >= REQUEST || few.len() >= PARTS {
            all.push(Errand::from([std::mem::take(&mut few)]));
            bytes = 0;
        }
    }
    if !few.is_empty() {
        all.push(Errand::from([few]));
    }
    all
}

async fn send_all(
    client: Client,
    errands: Arc<Mutex<Vec<Errand>>>,
    from: Arc<HashMap<Digest, (From, u64)>>,
) -> Result<(), Failure> {
    loop {
        let errand = errands.lock().expect("no holder panics").pop();
        let Some(errand) = errand else { return Ok(()) };
        for parts in errand {
            let from = Arc::clone(&from);
            let written = tokio::task::spawn_blocking(move || body(&parts, &from)).await;
            let body = written.expect("it neither panics nor is cancelled")?;
            let _: FilesTaken = client.post_bytes(routes::FILES, body).await?;
        }
    }
}

fn body(parts: &[Part], from: &HashMap<Digest, (From, u64)>) -> Result<Piece, TravelError> {
    let mut body = Vec::new();
    for Part { digest, size, offset, length } in parts.iter().copied() {
        body.extend(Heading { digest, size, offset, length }.write());
        let end = body.len() as u64 + length;
        match from.get(&digest).map(|(from, _)| from) {
            Some(From::File(path)) => {
                let read = |source| TravelError::Read { path: path.clone(), source };
                let mut file = std::fs::File::open(path).map_err(read)?;
                file.seek(SeekFrom::Start(offset)).map_err(read)?;
                file.take(length).read_to_end(&mut body).map_err(read)?;
            }
            Some(From::List(text)) => {
                let place = |number| usize::try_from(number).unwrap_or(usize::MAX);
                body.extend(text.iter().skip(place(offset)).take(place(length)));
            }
            None => {}
        }
        if body.len() as u64 != end {
            let path = match from.get(&digest) {
                Some((From::File(path), _)) => path.clone(),
                _ => PathBuf::new(),
            };
            return Err(TravelError::Changed(path));
        }
    }
    Ok(body.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use shipway_api::types::ContentWanted;

    #[test]
    fn small_files_share_a_request_and_large_ones_go_on_where_they_were() {
        let digest = |at: u8| Digest([at; 32]);
        let sizes = [(1, 10), (2, 20), (3, 3 * REQUEST), (4, 0)];
        let from = sizes.map(|(at, size)| (digest(at), (From::List(Piece::new()), size)));
        let want = |at, have| ContentWanted { sha256: digest(at), have };
        let missing = vec![want(1, 0), want(3, REQUEST / 2), want(2, 5), want(4, 0)];
        let wanted = FilesWanted { missing, ..FilesWanted::default() };
        let errands = errands(&wanted, &from.into());
        let shown: Vec<Vec<Vec<(u8, u64, u64)>>> = errands
            .iter()
            .map(|errand| {
                let part = |it: &Part| (it.digest.0[0], it.offset, it.length);
                errand.iter().map(|parts| parts.iter().map(part).collect()).collect()
            })
            .collect();
        let half = REQUEST / 2;
        assert_eq!(
            shown,
            [
                vec![
                    vec![(3, half, REQUEST)],
                    vec![(3, half + REQUEST, REQUEST)],
                    vec![(3, half + 2 * REQUEST, half)]
                ],
                vec![vec![(1, 0, 10), (2, 5, 15), (4, 0, 0)]],
            ]
        );
    }
}
