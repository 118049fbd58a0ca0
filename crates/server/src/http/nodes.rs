//! The nodes and their GPUs: what exists, what is in use.

use super::Site;
use super::caller::Caller;
use super::error::ApiError;
use crate::secrets;
use crate::writer::Wish;
use axum::Json;
use axum::extract::State;
use shipway_api::error::ErrorBody;
use shipway_api::types::{GpuView, IssuedPilot, NodeList, NodeView};
use shipway_core::pilot::{Link, Pilot};
use shipway_core::{Command, Rejection};
use shipway_model::{PilotId, Role};

/// Everybody may see what there is.
#[utoipa::path(get, path = "/api/v1/nodes", operation_id = "list_nodes",
    responses((status = 200, body = NodeList), (status = "4XX", body = ErrorBody)))]
pub async fn list(_caller: Caller, State(site): State<Site>) -> Result<Json<NodeList>, ApiError> {
    let nodes = site.writer.ask(|state| state.pilots().iter().map(view).collect());
    Ok(Json(NodeList { nodes: nodes.await? }))
}

/// Credentials for one pilot; only an admin may let nodes in.
#[utoipa::path(post, path = "/api/v1/pilots", operation_id = "issue_pilot",
    responses((status = 200, body = IssuedPilot), (status = "4XX", body = ErrorBody)))]
pub async fn issue(
    Caller(by): Caller,
    State(site): State<Site>,
) -> Result<Json<IssuedPilot>, ApiError> {
    if by.role < Role::Admin {
        return Err(Rejection::NotAllowed("let pilots in").into());
    }
    let pilot = PilotId::new(&format!("pilot-{}", secrets::random_word(10))).expect("a good id");
    let token = secrets::new_secret("shp_");
    let hash = secrets::hash(&token);
    let command = Command::IssuePilotToken { pilot: pilot.clone(), hash };
    site.writer.wish(Wish::Core(command)).await?;
    Ok(Json(IssuedPilot { pilot, token }))
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
