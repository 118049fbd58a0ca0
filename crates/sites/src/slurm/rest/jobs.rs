//! What slurmrestd says of our jobs. It lists everybody's; a row is ours when its name is, and its
//! owner the account that hands ours in.

use super::super::exits::{self, of_status};
use super::super::hosts;
use super::super::states::phase;
use super::super::words::cut;
use super::shapes::{Number, Told, Words, rows};
use crate::batch::{AllocationEnd, EngineId, Naming, Seen, SeenPhase};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use shipway_model::Timestamp;
use std::fmt;
use std::io::Read;

/// Twice what a site may have of ours. One that says more is not believed: a part of it would look
/// as if the rest had gone.
const MAX_OURS: usize = 20_000;
/// Newer versions add these to a state, and then what was the state is not the news: `squeue` says
/// only these. Others that they add (`UPDATE_DB`) change nothing.
const SAYS_MORE: [&str; 11] = [
    "COMPLETING",
    "CONFIGURING",
    "RESIZING",
    "SIGNALING",
    "STAGE_OUT",
    "STOPPED",
    "REQUEUED",
    "REQUEUE_FED",
    "REQUEUE_HOLD",
    "RESV_DEL_HOLD",
    "SPECIAL_EXIT",
];

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
#[expect(clippy::struct_field_names, reason = "slurmrestd's own names")]
struct Job {
    job_id: Number,
    name: Words,
    user_name: Words,
    job_state: Words,
    state_reason: Words,
    start_time: Number,
    nodes: Words,
    exit_code: Exit,
}

/// v0.0.38 has the status of wait(2), later ones its parts. Kept as `sacct` writes it:
/// `CODE:SIGNAL`, or the status alone.
#[derive(Debug, Default)]
struct Exit(String);

impl<'de> Deserialize<'de> for Exit {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Exit, D::Error> {
        struct OfExit;
        impl<'de> Visitor<'de> for OfExit {
            type Value = Exit;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an exit code")
            }
            fn visit_u64<E>(self, status: u64) -> Result<Exit, E> {
                Ok(Exit(status.to_string()))
            }
            fn visit_i64<E>(self, _: i64) -> Result<Exit, E> {
                Ok(Exit::default())
            }
            fn visit_unit<E>(self) -> Result<Exit, E> {
                Ok(Exit::default())
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Exit, A::Error> {
                let parts = Parts::deserialize(MapAccessDeserializer::new(map))?;
                let (code, signal) = (parts.return_code.0, parts.signal.id.0);
                Ok(Exit(format!("{}:{}", code.unwrap_or(0), signal.unwrap_or(0))))
            }
        }
        from.deserialize_any(OfExit)
    }
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
struct Parts {
    return_code: Number,
    signal: Signal,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
struct Signal {
    #[serde(alias = "signal_id")]
    id: Number,
}

/// The rest of what the answer said tells whether these are all.
pub(super) fn parse(
    from: impl Read,
    naming: &Naming,
    user: &str,
) -> Result<(Vec<Seen>, Told), serde_json::Error> {
    let mut ours = Vec::new();
    let told = rows(from, "jobs", |job: Job| {
        let Some(seen) = seen(&job, naming) else { return Ok(()) };
        match job.user_name.text() {
            owner if owner.is_empty() => return Err("it does not say whose a job is".to_owned()),
            owner if owner != user => return Ok(()),
            _ => ours.push(seen),
        }
        if ours.len() > MAX_OURS {
            return Err(format!("more than {MAX_OURS} jobs carry our name"));
        }
        Ok(())
    })?;
    Ok((ours, told))
}

fn seen(job: &Job, naming: &Naming) -> Option<Seen> {
    let allocation = naming.allocation(&job.name.text())?;
    let id = EngineId(job.job_id.0?.to_string());
    let (state, reason) = (state(&job.job_state.0), job.state_reason.text());
    let phase = phase(state, &reason);
    // For the others it is when they did start; nought is none.
    let waits = matches!(phase, SeenPhase::Queued | SeenPhase::Held);
    let expected = job.start_time.0.filter(|at| waits && *at > 0);
    let expected = expected.and_then(|seconds| seconds.checked_mul(1000)).map(Timestamp);
    let mut words = match reason.as_str() {
        "" | "None" => cut(state),
        reason => cut(&format!("{state} ({reason})")),
    };
    let exit =
        of_status(&job.exit_code.0).filter(|_| phase == SeenPhase::Ended(AllocationEnd::Failed));
    if let Some(exit) = exit.filter(|_| words == exits::ONLY_THAT) {
        words = cut(&format!("FAILED ({exit})"));
    }
    Some(Seen { id, allocation, phase, words, nodes: hosts::expand(&job.nodes.text()), expected })
}

/// The one of several that `squeue` would say.
fn state(all: &[String]) -> &str {
    let more = all.iter().find(|state| SAYS_MORE.contains(&state.as_str()));
    more.or_else(|| all.first()).map_or("UNKNOWN", String::as_str)
}

#[cfg(test)]
mod tests;
