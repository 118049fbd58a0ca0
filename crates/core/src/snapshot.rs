//! The state as it is stored between restarts: a line for what there is little of, and a short
//! line for each job and each used key, so that a million of them are read in a second or two.
//!
//! What earlier versions wrote is read too: the first had the whole state as one JSON object.

mod first;
mod older;

use crate::batch::BatchSite;
use crate::command::Token;
use crate::job::{Job, Terms};
use crate::keys::{KeyDigest, UsedKey};
use crate::pilot::{Active, Pilot};
use crate::shape::{ShapeId, Shapes};
use crate::site::{Allocation, PilotToken};
use crate::state::State;
use crate::task_table::TaskTable;
use crate::usage::FairShare;
use crate::users::Users;
use serde::{Deserialize, Serialize};
use shipway_model::{
    After, AllocationId, IndexSet, JobId, Millis, PilotId, SiteName, TaskId, Timestamp, UserName,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The version this binary writes.
const VERSION: u32 = 4;
/// Every snapshot of this version begins so.
const OPENING: &[u8] = b"{\"snapshot\":";

#[derive(Debug, thiserror::Error)]
pub enum BadSnapshot {
    #[error("line {line} cannot be understood")]
    Line {
        line: usize,
        #[source]
        source: serde_json::Error,
    },
    #[error("line {line} names an owner or terms that are not listed")]
    Dangling { line: usize },
    #[error("it has version {found}; this binary knows versions up to {VERSION}")]
    Newer { found: u32 },
    #[error("it is empty")]
    Empty,
}

/// All but jobs and keys.
#[derive(Debug, Serialize, Deserialize)]
struct Header {
    snapshot: u32,
    at: Timestamp,
    next_job: u64,
    shapes: Shapes,
    owners: Vec<UserName>,
    terms: Vec<Arc<Terms>>,
    pilots: BTreeMap<PilotId, Pilot>,
    active: BTreeMap<TaskId, Active>,
    users: Users,
    fair_share: FairShare,
    tokens: BTreeMap<String, Token>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    sites: BTreeMap<SiteName, BatchSite>,
    allocations: BTreeMap<AllocationId, Allocation>,
    pilot_tokens: BTreeMap<PilotId, PilotToken>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    folders: BTreeMap<PilotId, (Timestamp, String)>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    given: BTreeMap<JobId, JobId>,
}

/// One job: most have nothing in the last place.
#[derive(Debug, Serialize, Deserialize)]
struct JobLine(
    JobId,
    usize,
    ShapeId,
    usize,
    i32,
    Timestamp,
    Option<IndexSet>,
    Box<[After]>,
    Option<Past>,
);

/// What has happened to a job since it was submitted.
#[derive(Debug, Serialize, Deserialize)]
struct Past {
    tasks: TaskTable,
    ended: Option<Timestamp>,
    revision: u32,
    pace: Option<Millis>,
}

#[derive(Debug, Serialize, Deserialize)]
struct KeyLine(u128, JobId, u64, Timestamp);

#[derive(Debug, Serialize, Deserialize)]
enum Line {
    #[serde(rename = "j")]
    Job(JobLine),
    #[serde(rename = "k")]
    Key(KeyLine),
}

#[expect(clippy::expect_used, reason = "what the state itself shares; without it no snapshot")]
pub fn write(state: &State) -> Vec<u8> {
    let owners: Vec<UserName> = state.fair_share.users().cloned().collect();
    let terms: Vec<Arc<Terms>> = state.terms.iter().cloned().collect();
    let header = Header {
        snapshot: VERSION,
        at: state.at,
        next_job: state.next_job,
        shapes: state.shapes.clone(),
        owners,
        terms,
        pilots: state.pilots.clone(),
        active: state.active.clone(),
        users: state.users.clone(),
        fair_share: state.fair_share.clone(),
        tokens: state.tokens.clone(),
        sites: state.sites.clone(),
        allocations: state.allocations.clone(),
        pilot_tokens: state.pilot_tokens.clone(),
        folders: state.folders.clone(),
        given: state.given.clone(),
    };
    let mut out = Vec::new();
    put(&mut out, &header);
    for (id, job) in state.jobs.iter() {
        let owner = header.owners.binary_search(&job.owner).expect("every owner has a usage");
        let terms = header.terms.binary_search(&job.terms).expect("terms are shared by all");
        put(&mut out, &Line::Job(line(id, job, owner, terms)));
    }
    for (key, used) in state.keys.iter() {
        put(&mut out, &Line::Key(KeyLine(key.number(), used.job, used.digest, used.at)));
    }
    out
}

#[expect(clippy::expect_used, reason = "plain data into memory")]
fn put(out: &mut Vec<u8>, value: &impl Serialize) {
    serde_json::to_writer(&mut *out, value).expect("plain data into memory");
    out.push(b'\n');
}

fn line(id: JobId, job: &Job, owner: usize, terms: usize) -> JobLine {
    let single = job.indices == IndexSet::single();
    let indices = (!single).then(|| job.indices.clone());
    let untouched = job.tasks == TaskTable::new(job.indices.len());
    let new = untouched && job.ended.is_none() && job.revision == 0 && job.pace.is_none();
    let past = (!new).then(|| Past {
        tasks: job.tasks.clone(),
        ended: job.ended,
        revision: job.revision,
        pace: job.pace,
    });
    let after = job.after.clone();
    JobLine(id, owner, job.shape, terms, job.priority, job.submitted, indices, after, past)
}

/// The state with its indexes built.
pub fn read(bytes: &[u8]) -> Result<State, BadSnapshot> {
    let mut state =
        if bytes.starts_with(OPENING) { read_lines(bytes) } else { first::read(bytes) }?;
    state.rebuild();
    Ok(state)
}

fn read_lines(bytes: &[u8]) -> Result<State, BadSnapshot> {
    let mut lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).zip(1..);
    let (first, _) = lines.next().ok_or(BadSnapshot::Empty)?;
    let header: Header = parse_header(first)?;
    let mut state = State {
        at: header.at,
        next_job: header.next_job,
        shapes: header.shapes,
        pilots: header.pilots,
        active: header.active,
        users: header.users,
        fair_share: header.fair_share,
        tokens: header.tokens,
        sites: header.sites,
        allocations: header.allocations,
        pilot_tokens: header.pilot_tokens,
        folders: header.folders,
        given: header.given,
        ..State::default()
    };
    for (text, number) in lines {
        match parse(text, number)? {
            Line::Job(line) => {
                let owner = header.owners.get(line.1);
                let shared = owner.zip(header.terms.get(line.3));
                let (owner, terms) = shared.ok_or(BadSnapshot::Dangling { line: number })?;
                let (id, job) = job(line, owner, terms);
                state.jobs.insert(id, job);
            }
            Line::Key(KeyLine(key, job, digest, at)) => {
                state.keys.insert(KeyDigest::from_number(key), UsedKey { job, digest, at });
            }
        }
    }
    Ok(state)
}

fn parse_header(text: &[u8]) -> Result<Header, BadSnapshot> {
    #[derive(Deserialize)]
    struct Version {
        snapshot: u32,
    }
    match parse::<Version>(text, 1)?.snapshot {
        VERSION => parse(text, 1),
        found if found > VERSION => Err(BadSnapshot::Newer { found }),
        _ => older::read(text),
    }
}

fn parse<'a, T: Deserialize<'a>>(text: &'a [u8], line: usize) -> Result<T, BadSnapshot> {
    serde_json::from_slice(text).map_err(|source| BadSnapshot::Line { line, source })
}

fn job(line: JobLine, owner: &UserName, terms: &Arc<Terms>) -> (JobId, Job) {
    let JobLine(id, _, shape, _, priority, submitted, indices, after, past) = line;
    let indices = indices.unwrap_or_else(IndexSet::single);
    let past = past.unwrap_or_else(|| Past {
        tasks: TaskTable::new(indices.len()),
        ended: None,
        revision: 0,
        pace: None,
    });
    let job = Job {
        owner: owner.clone(),
        shape,
        priority,
        indices,
        tasks: past.tasks,
        terms: Arc::clone(terms),
        after,
        submitted,
        ended: past.ended,
        revision: past.revision,
        pace: past.pace,
    };
    (id, job)
}
