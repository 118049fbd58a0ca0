//! The nodes and their GPUs: what exists, what is in use.

use super::Site;
use super::caller::Caller;
use super::error::ApiError;
use axum::Json;
use axum::extract::State;
use shipway_api::types::{GpuView, NodeList, NodeView};
use shipway_core::pilot::{Link, Pilot};
use shipway_model::PilotId;

/// Everybody may see what there is.
#[utoipa::path(get, path = "/api/v1/nodes",
    responses((status = 200, body = NodeList), (status = "4XX", body = shipway_api::error::ErrorBody)))]
pub async fn list(_caller: Caller, State(site): State<Site>) -> Result<Json<NodeList>, ApiError> {
    let nodes = site.writer.ask(|state| state.pilots().iter().map(view).collect());
    Ok(Json(NodeList { nodes: nodes.await? }))
}

fn view((id, pilot): (&PilotId, &Pilot)) -> NodeView {
    let (link, away_since) = match pilot.link {
        Link::Connected => ("connected", None),
        Link::Away { since, lost: false } => ("away", Some(since)),
        Link::Away { since, lost: true } => ("lost", Some(since)),
    };
    let gpus = pilot.ad.gpus.iter().map(|device| GpuView {
        device: device.clone(),
        used: pilot.load.gpus.get(&device.id).map_or(0, |share| share.0),
    });
    let placed = u32::try_from(pilot.placed.len()).unwrap_or(u32::MAX);
    NodeView {
        pilot: id.clone(),
        ad: pilot.ad.clone(),
        link: link.to_string(),
        away_since,
        running: placed.saturating_sub(pilot.unstarted),
        backlog: pilot.unstarted,
        cpus_used: pilot.load.cpus,
        memory_used: pilot.load.memory,
        gpus: gpus.collect(),
    }
}
