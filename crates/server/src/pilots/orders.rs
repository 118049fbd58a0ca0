//! From the core's orders to messages: placements with the templates they need. Those that take
//! long to be said are put off.

use super::later::Later;
use super::specs::{AtHand, Described};
use super::{End, Order, Specs};
use crate::auth::Auth;
use crate::logins::Logins;
use prost::Message as _;
use shipway_api::link::{MAX_MESSAGE_BYTES, attempt_id, template};
use shipway_api::wire::{Assign, RegistryLogin, Stop, Task, Template, to_pilot};
use shipway_core::event::Placement;
use shipway_model::limits::MAX_SPEC_BYTES;
use shipway_model::{JobId, JobSpec};
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

/// Puts off what takes long to be said; what is left of the order, if anything.
pub(super) fn put_off(order: Order, later: &mut Later, describe: &Describe) -> Option<Order> {
    match order {
        Order::Assign(placements) => {
            let mut at_once = Vec::new();
            for of_job in placements.chunk_by(|one, other| one.task.job == other.task.job) {
                let Some(job) = of_job.first().map(|placement| placement.task.job) else {
                    continue;
                };
                match describe.specs.at_hand(job) {
                    Ok(AtHand::Large { owner }) => later.add(&owner, job, of_job.to_vec()),
                    // Why it cannot be read is said when it is tried.
                    Ok(AtHand::Here(_)) | Err(_) => at_once.extend_from_slice(of_job),
                }
            }
            (!at_once.is_empty()).then_some(Order::Assign(at_once))
        }
        Order::Stop { tasks, grace } => {
            let tasks = later.stop(tasks, grace);
            (!tasks.is_empty()).then_some(Order::Stop { tasks, grace })
        }
        Order::Say(_) | Order::Answer(..) | Order::End(_) => Some(order),
    }
}

/// What is said, and what remains of the order when it is said; or how the call is to end.
pub(super) fn message(
    order: Order,
    describe: &Describe,
) -> Result<(to_pilot::Body, Option<Order>), End> {
    Ok(match order {
        Order::Assign(placements) => {
            let (message, rest) = assign(&placements, describe);
            let rest = (!rest.is_empty()).then(|| Order::Assign(rest.to_vec()));
            (to_pilot::Body::Assign(message), rest)
        }
        Order::Stop { tasks, grace } => {
            let ids = tasks.into_iter().map(|(task, attempt)| attempt_id(task, attempt)).collect();
            (to_pilot::Body::Stop(Stop { ids, grace_ms: grace.0 }), None)
        }
        Order::Say(body) => (body, None),
        Order::Answer(body, place) => {
            drop(place);
            (body, None)
        }
        Order::End(end) => return Err(end),
    })
}

/// As many as a message has room for, and those that are left.
fn assign<'p>(placements: &'p [Placement], describe: &Describe) -> (Assign, &'p [Placement]) {
    let mut known = BTreeMap::new();
    let (mut message, mut bytes, mut spec_bytes) = (Assign::default(), 0, 0);
    let mut rest = placements;
    while let [placement, others @ ..] = rest {
        if bytes >= FULL_BYTES || spec_bytes >= FULL_SPEC_BYTES {
            break;
        }
        rest = others;
        let job = placement.task.job;
        if let Entry::Vacant(entry) = known.entry(job) {
            match describe.specs.get(job) {
                Ok(spec) => {
                    let template = template_of(job, &spec, describe);
                    bytes += template.encoded_len();
                    spec_bytes += spec.bytes;
                    message.templates.push(template);
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
        let task = task_of(placement, &known.spec);
        bytes += task.encoded_len();
        message.tasks.push(task);
    }
    (message, rest)
}

fn task_of(placement: &Placement, spec: &JobSpec) -> Task {
    let row = spec.each.as_ref().zip(usize::try_from(placement.task.index.0).ok());
    let fields = row.and_then(|(each, at)| each.row(at)).unwrap_or_default();
    Task {
        id: Some(attempt_id(placement.task, placement.attempt)),
        devices: placement.devices.iter().map(ToString::to_string).collect(),
        fields: fields.into_iter().collect(),
    }
}

fn template_of(job: JobId, of: &Described, describe: &Describe) -> Template {
    let login = describe.logins.find(&of.owner, of.spec.image.as_ref());
    let registry_login = login.map(RegistryLogin::from);
    let is_owner = of.owner == describe.auth.owner().as_str();
    let user_number = describe.auth.number(&of.owner).map_or(0, |number| number.0);
    let common = template(job, &of.owner, &of.spec);
    Template { registry_login, is_owner, user_number, ..common }
}
