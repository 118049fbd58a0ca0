//! The nodes and their GPUs: what exists, what is in use.

use super::caller::{Caller, CallerWith};
use super::error::ApiError;
use super::{Site, users};
use crate::published::{Described, Holders, Node, NodeNow};
use crate::secrets;
use crate::writer::Wish;
use axum::Json;
use axum::extract::State;
use shipway_api::error::ErrorBody;
use shipway_api::routes;
use shipway_api::types::{GpuView, IssuedPilot, NewPilot, NodeList, NodeView};
use shipway_core::Command;
use shipway_core::pilot::Link;
use shipway_core::site::SiteKind;
use shipway_model::{NodeAd, PilotId};

/// Everybody may see what there is; who uses it, only those who may see the job.
#[utoipa::path(get, path = routes::NODES, operation_id = "list_nodes",
    responses((status = 200, body = NodeList), (status = "4XX", body = ErrorBody)))]
pub async fn list(
    Caller(by): Caller,
    State(site): State<Site>,
) -> Result<Json<NodeList>, ApiError> {
    let nodes: Vec<_> = site
        .writer
        .look(|board| {
            let seen = |(id, node): (&PilotId, &Node)| {
                (id.clone(), node.about.clone(), node.now.clone(), board.holders(node, &by))
            };
            board.nodes().map(seen).collect()
        })
        .await?;
    let nodes = nodes.into_iter().map(|(id, about, now, holders)| view(id, &about, now, holders));
    Ok(Json(NodeList { nodes: nodes.collect() }))
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

fn view(pilot: PilotId, about: &Described, now: NodeNow, mut holders: Holders) -> NodeView {
    let ad = &about.ad;
    let (link, away_since) = match now.link {
        Link::Connected if now.leaving => ("leaving", None),
        Link::Connected if !ad.unfit.is_empty() => ("unfit", None),
        Link::Connected => ("connected", None),
        Link::Away { since, lost: false } => ("away", Some(since)),
        Link::Away { since, lost: true } => ("lost", Some(since)),
    };
    let gpus = ad.gpus.iter().map(|device| GpuView {
        device: device.clone(),
        used: now.load.gpus.get(&device.id).map_or(0, |share| share.0),
        tasks: holders.remove(&device.id).unwrap_or_default(),
    });
    NodeView {
        pilot,
        name: now.name,
        site: about.site.clone(),
        class: about.class.as_deref().map(ToOwned::to_owned),
        ad: NodeAd::clone(ad),
        link: link.to_string(),
        away_since,
        running: now.placed.saturating_sub(now.unstarted),
        backlog: now.unstarted,
        gpus: gpus.collect(),
        used: now.load.used.into(),
    }
}
