//! The nodes and their GPUs: what exists, what is in use.

use super::caller::{Caller, CallerWith};
use super::error::ApiError;
use super::{Site, users};
use crate::secrets;
use crate::writer::Wish;
use axum::Json;
use axum::extract::State;
use shipway_api::error::ErrorBody;
use shipway_api::routes;
use shipway_api::types::{GpuView, IssuedPilot, NewPilot, NodeList, NodeView};
use shipway_core::pilot::{Link, Pilot};
use shipway_core::site::SiteKind;
use shipway_core::{Command, State as Core};
use shipway_model::{Actor, DeviceId, PilotId, TaskId};
use std::collections::BTreeMap;

/// Everybody may see what there is; who uses it, only those who may see the job.
#[utoipa::path(get, path = routes::NODES, operation_id = "list_nodes",
    responses((status = 200, body = NodeList), (status = "4XX", body = ErrorBody)))]
pub async fn list(
    Caller(by): Caller,
    State(site): State<Site>,
) -> Result<Json<NodeList>, ApiError> {
    let nodes = site.writer.ask(move |state| {
        let pilots = state.pilots().iter();
        pilots.map(|(id, pilot)| view(id, pilot, &holders(state, pilot, &by))).collect()
    });
    Ok(Json(NodeList { nodes: nodes.await? }))
}

/// Credentials for one pilot; only an admin may let nodes in.
#[utoipa::path(post, path = routes::PILOTS, operation_id = "issue_pilot",
    params(NewPilot),
    responses((status = 200, body = IssuedPilot), (status = "4XX", body = ErrorBody)))]
pub async fn issue(
    CallerWith(by, new): CallerWith<NewPilot>,
    State(site): State<Site>,
) -> Result<Json<IssuedPilot>, ApiError> {
    let now = site.clock.now();
    let lasts = users::life(&site, &by, new.lasts, now)?;
    let (new, expires) = (secrets::new_pilot(SiteKind::ByHand, None), Some(now.plus(lasts)));
    // Judged again when it is decided: what was revoked meanwhile lets nobody in.
    let ask = Command::AskSite(Box::new(new.ask(Some(by), expires)));
    site.writer.wish(Wish::Core(ask)).await?;
    Ok(Json(IssuedPilot { pilot: new.pilot, token: new.token, expires }))
}

type Holders = BTreeMap<DeviceId, Vec<TaskId>>;

/// Which tasks hold which devices. A node without GPUs has no need to look at its tasks.
fn holders(state: &Core, pilot: &Pilot, by: &Actor) -> Holders {
    let mut holders = Holders::new();
    if pilot.ad.gpus.is_empty() {
        return holders;
    }
    for task in &pilot.placed {
        let job = state.job(task.job);
        let visible = job.is_some_and(|job| by.may_touch(&state.owned(task.job, job)));
        let Some(active) = state.active().get(task).filter(|_| visible) else { continue };
        for device in &active.devices {
            holders.entry(device.clone()).or_default().push(*task);
        }
    }
    holders
}

fn view(id: &PilotId, pilot: &Pilot, holders: &Holders) -> NodeView {
    let (link, away_since) = match pilot.link {
        Link::Connected if pilot.leaving => ("leaving", None),
        Link::Connected if !pilot.ad.unfit.is_empty() => ("unfit", None),
        Link::Connected => ("connected", None),
        Link::Away { since, lost: false } => ("away", Some(since)),
        Link::Away { since, lost: true } => ("lost", Some(since)),
    };
    let gpus = pilot.ad.gpus.iter().map(|device| GpuView {
        device: device.clone(),
        used: pilot.load.gpus.get(&device.id).map_or(0, |share| share.0),
        tasks: holders.get(&device.id).cloned().unwrap_or_default(),
    });
    let placed = u32::try_from(pilot.placed.len()).unwrap_or(u32::MAX);
    NodeView {
        pilot: id.clone(),
        ad: pilot.ad.clone(),
        link: link.to_string(),
        away_since,
        running: placed.saturating_sub(pilot.unstarted),
        backlog: pilot.unstarted,
        used: pilot.load.used.clone().into(),
        gpus: gpus.collect(),
    }
}
