//! From the core's orders to messages: placements with the templates they need.

use super::{Order, Specs};
use crate::auth::Auth;
use crate::logins::Logins;
use shipway_api::link::{attempt_id, template};
use shipway_api::wire::{Assign, RegistryLogin, Stop, Task, Template, to_pilot};
use shipway_core::event::Placement;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a placement is described to its pilot from.
#[derive(Debug, Clone)]
pub struct Describe {
    pub specs: Arc<Specs>,
    pub logins: Arc<Logins>,
    /// Who its users are, and who started it.
    pub auth: Arc<Auth>,
}

/// `None`: the order is to close the connection.
pub(super) fn message(order: Order, describe: &Describe) -> Option<to_pilot::Body> {
    match order {
        Order::Assign(placements) => Some(to_pilot::Body::Assign(assign(&placements, describe))),
        Order::Stop { tasks, grace } => {
            let ids = tasks.into_iter().map(|(task, attempt)| attempt_id(task, attempt)).collect();
            Some(to_pilot::Body::Stop(Stop { ids, grace_ms: grace.0 }))
        }
        Order::Say(body) => Some(body),
        Order::Close => None,
    }
}

fn assign(placements: &[Placement], describe: &Describe) -> Assign {
    let mut known = BTreeMap::new();
    let mut tasks = Vec::with_capacity(placements.len());
    for placement in placements {
        let job = placement.task.job;
        if let std::collections::btree_map::Entry::Vacant(entry) = known.entry(job) {
            match describe.specs.get(job) {
                Ok(spec) => drop(entry.insert(spec)),
                Err(error) => {
                    // The task stays placed and is sent again when the pilot greets anew.
                    tracing::error!(%job, ?error, "a task cannot be described to its pilot");
                    continue;
                }
            }
        }
        let Some(spec) = known.get(&job).map(|known| &known.spec) else { continue };
        let row = spec.each.as_ref().zip(usize::try_from(placement.task.index.0).ok());
        tasks.push(Task {
            id: Some(attempt_id(placement.task, placement.attempt)),
            devices: placement.devices.iter().map(ToString::to_string).collect(),
            fields: row
                .and_then(|(each, at)| each.row(at))
                .unwrap_or_default()
                .into_iter()
                .collect(),
        });
    }
    let templates = known.iter().map(|(job, it)| {
        let login = describe.logins.find(&it.owner, it.spec.image.as_ref());
        let login = login.map(|it| RegistryLogin { user: it.user, password: it.password });
        let is_owner = it.owner == describe.auth.owner().as_str();
        let user_number = describe.auth.number(&it.owner).map_or(0, |number| number.0);
        let common = template(*job, &it.owner, &it.spec);
        Template { registry_login: login, is_owner, user_number, ..common }
    });
    let templates = templates.collect();
    Assign { templates, tasks }
}
