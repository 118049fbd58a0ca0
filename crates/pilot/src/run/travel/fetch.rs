//! From the server into the cache: what is missing, many contents in one call. Those that another
//! task fetches already are waited for; a call that is cut goes on where it stopped.

use super::Journey;
use super::cache::{Cache, Claim, Claimed, Coming, NotKept};
use super::line::{Broke, Line};
use super::telling::Telling;
use shipway_api::link::MAX_FETCHED;
use shipway_api::link::contents::{digest, write_digests};
use shipway_api::wire::FetchFiles;
use shipway_api::wire::contents_client::ContentsClient;
use shipway_model::{AttemptId, Digest};
use std::collections::{HashSet, VecDeque};
use tonic::transport::Channel;

/// Contents that one thread claims at a time: others who want the rest begin with that.
const CLAIMED: usize = MAX_FETCHED / 4;

pub(super) fn fetch(
    line: &Line,
    cache: &Cache,
    of: &Journey<'_>,
    wanted: &[Digest],
    bytes: Option<u64>,
) -> Result<(), String> {
    let mut telling = Telling::new(of, bytes);
    let mut told = false;
    // Contents that came and were something else.
    let mut spoiled = HashSet::new();
    loop {
        if of.is_over() {
            return Err("it was stopped while its files were fetched".into());
        }
        // What was claimed and has not come is anybody's again, whatever ends this.
        let mut mine: VecDeque<Claim<'_>> = match cache.claim(wanted, CLAIMED) {
            Claimed::AllHere => return Ok(()),
            Claimed::OfOthers => {
                cache.wait();
                of.has_moved();
                continue;
            }
            Claimed::Mine(mine) => mine.into(),
        };
        if !std::mem::replace(&mut told, true) {
            telling.begins(wanted.len());
        }
        let fetched = line.call(of, async |client| {
            while !mine.is_empty() {
                let of = (of.attempt, &mut spoiled);
                once(line, cache, of, (&mut mine, &mut telling), client.clone()).await?;
            }
            Ok(())
        });
        fetched.map_err(|why| format!("its files cannot be fetched: {why}"))?;
    }
}

/// One call, for all that was claimed and has not come.
async fn once<'c>(
    line: &Line,
    cache: &'c Cache,
    (attempt, spoiled): (AttemptId, &mut HashSet<Digest>),
    (mine, telling): (&mut VecDeque<Claim<'c>>, &mut Telling<'_>),
    mut client: ContentsClient<Channel>,
) -> Result<(), Broke> {
    let offset = mine.front().map_or(0, Claim::have);
    let digests = write_digests(mine.iter().map(|claim| &claim.digest));
    let request = FetchFiles { attempt: Some(attempt.into()), digests, offset };
    let mut pieces = client.fetch(line.request(request)?).await?.into_inner();
    let mut coming: Option<Coming> = None;
    let before = mine.len();
    while let Some(piece) = pieces.message().await? {
        let Some(claim) = mine.front() else { return Err(other()) };
        if digest(&piece.digest) != Some(claim.digest) {
            return Err(other());
        }
        let mut now = match coming.take() {
            Some(now) => now,
            None => claim.begin(piece.offset).map_err(not_kept)?,
        };
        if now.at != piece.offset {
            return Err(other());
        }
        now.write(cache, &piece.data).map_err(not_kept)?;
        telling.came(piece.data.len() as u64);
        if now.at < piece.size {
            coming = Some(now);
        } else if let Some(claim) = mine.pop_front() {
            let named = claim.digest;
            match claim.end(now, piece.size) {
                // Of a part that was here before: from its beginning, once.
                Err(NotKept::Digest(_)) if spoiled.insert(named) => {}
                ended => ended.map_err(not_kept)?,
            }
        }
    }
    if mine.len() == before { Err(Broke::Away("nothing has come".into())) } else { Ok(()) }
}

fn other() -> Broke {
    Broke::Refused("the server sends something else than was asked for".into())
}

#[expect(clippy::needless_pass_by_value, reason = "the signature map_err asks for")]
fn not_kept(error: NotKept) -> Broke {
    Broke::Refused(error.to_string())
}
