//! From the core's orders to messages: placements with the templates they need. Those that take
//! long to be said are put off.

use super::later::Later;
use super::specs::{AtHand, Described};
use super::{End, PilotOrder, Specs};
use crate::auth::Auth;
use crate::logins::Logins;
use shipway_api::link::{Assigning, FromServer, MAX_MESSAGE_BYTES, Task, Template};
use shipway_api::wire;
use shipway_core::event::Placement;
#[cfg(test)]
use shipway_model::JobId;
use shipway_model::JobSpec;
use shipway_model::limits::MAX_SPEC_BYTES;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

/// What a placement is described to its pilot from.
#[derive(Debug, Clone)]
pub struct Describe {
    pub specs: Arc<Specs>,
    pub logins: Arc<Logins>,
    /// Who its users are, and who started it.
    pub auth: Arc<Auth>,
}

/// A message is closed at this size. The last task in it may bring as much again as one job can
/// have, and all of it stays below what a pilot takes: one that it cannot take ends the connection,
/// and would be sent again on the next.
const FULL_BYTES: usize = 16 << 20;
/// The same for the specifications that it is made from, which are in memory until it is.
const FULL_SPEC_BYTES: usize = 16 << 20;
const _: () = assert!(FULL_BYTES + 2 * MAX_SPEC_BYTES < MAX_MESSAGE_BYTES);

/// Mistakes for tests: over placements of these jobs.
#[cfg(test)]
pub(super) const STRUCK_WHEN_PUT_OFF: JobId = JobId(u64::MAX);
#[cfg(test)]
pub(super) const STRUCK_WHEN_SAID: JobId = JobId(u64::MAX - 1);

/// Puts off what takes long to be said; what is left of the order, if anything.
pub(super) fn put_off(
    order: PilotOrder,
    later: &mut Later,
    describe: &Describe,
) -> Option<PilotOrder> {
    match order {
        PilotOrder::Assign(placements) => {
            let mut at_once = Vec::new();
            for of_job in placements.chunk_by(|one, other| one.task.job == other.task.job) {
                let Some(job) = of_job.first().map(|placement| placement.task.job) else {
                    continue;
                };
                #[cfg(test)]
                assert_ne!(job, STRUCK_WHEN_PUT_OFF);
                match describe.specs.at_hand(job) {
                    Ok(AtHand::Large { owner }) => later.add(&owner, job, of_job.to_vec()),
                    // Why it cannot be read is said when it is tried.
                    Ok(AtHand::Here(_)) | Err(_) => at_once.extend_from_slice(of_job),
                }
            }
            (!at_once.is_empty()).then_some(PilotOrder::Assign(at_once))
        }
        PilotOrder::Stop { attempts, grace } => {
            let attempts = later.stop(attempts, grace);
            (!attempts.is_empty()).then_some(PilotOrder::Stop { attempts, grace })
        }
        PilotOrder::Read(asked) => asked.say().map(PilotOrder::Say),
        PilotOrder::Say(_) | PilotOrder::Answer(..) | PilotOrder::End(_) => Some(order),
    }
}

/// What is said, and what remains of the order when it is said; or how the call is to end.
pub(super) fn message(
    order: PilotOrder,
    describe: &Describe,
) -> Result<(wire::ToPilot, Option<PilotOrder>), End> {
    Ok(match order {
        PilotOrder::Assign(placements) => {
            let (message, rest) = assign(&placements, describe);
            (message, (!rest.is_empty()).then(|| PilotOrder::Assign(rest.to_vec())))
        }
        PilotOrder::Stop { attempts, grace } => {
            (FromServer::Stop { ids: attempts, grace }.into(), None)
        }
        PilotOrder::Say(said) => (said.into(), None),
        // Made something to say when it was not put off.
        PilotOrder::Read(_) => return Err(End::GivenUp),
        PilotOrder::Answer(said, place) => {
            drop(place);
            (said.into(), None)
        }
        PilotOrder::End(end) => return Err(end),
    })
}

/// As many as a message has room for, and those that are left.
fn assign<'p>(
    placements: &'p [Placement],
    describe: &Describe,
) -> (wire::ToPilot, &'p [Placement]) {
    let mut known = BTreeMap::new();
    let (mut message, mut spec_bytes) = (Assigning::default(), 0);
    let mut rest = placements;
    while let [placement, others @ ..] = rest {
        if message.bytes() >= FULL_BYTES || spec_bytes >= FULL_SPEC_BYTES {
            break;
        }
        rest = others;
        let job = placement.task.job;
        #[cfg(test)]
        assert_ne!(job, STRUCK_WHEN_SAID);
        if let Entry::Vacant(entry) = known.entry(job) {
            match describe.specs.get(job) {
                Ok(spec) => {
                    message.template(job, template_of(&spec, describe));
                    spec_bytes += spec.bytes;
                    entry.insert(spec);
                }
                Err(error) => {
                    // The task stays placed and is sent again when the pilot greets anew.
                    tracing::error!(%job, ?error, "a task cannot be described to its pilot");
                    continue;
                }
            }
        }
        let Some(known) = known.get(&job) else { continue };
        message.task(task_of(placement, &known.spec));
    }
    (message.done(), rest)
}

fn task_of(placement: &Placement, spec: &JobSpec) -> Task {
    let row = spec.each.as_ref().zip(usize::try_from(placement.task.index.0).ok());
    Task {
        id: placement.task.attempt(placement.attempt),
        devices: placement.devices.clone(),
        fields: row.and_then(|(each, at)| each.row(at)).unwrap_or_default(),
    }
}

fn template_of(of: &Described, describe: &Describe) -> Template {
    Template {
        registry_login: describe.logins.find(&of.owner, of.spec.image.as_ref()),
        is_owner: of.owner == describe.auth.owner().as_str(),
        user_number: describe.auth.number(&of.owner),
        ..Template::of(&of.owner, &of.spec)
    }
}
