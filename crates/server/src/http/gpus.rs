//! The GPUs that batch systems would give: of each kind of pilots how many there are, wait and
//! could be asked for, what the batch system says of its own, and whether a request would find
//! them.

use super::Site;
use super::asking::Asked;
use super::caller::CallerWith;
use super::error::ApiError;
use crate::sites::SeenNodes;
use axum::Json;
use axum::extract::State;
use shipway_api::error::ErrorBody;
use shipway_api::routes;
use shipway_api::types::{GpuQuery, GpusThere, PendingPilots, SiteGpuList, SiteGpus};
use shipway_core::batch::BatchSite;
use shipway_core::broker::room;
use shipway_core::explain::explain_gpus;
use shipway_core::job::Terms;
use shipway_core::shape::{Gang, Shape};
use shipway_core::site::Phase;
use shipway_model::reason::SiteWait;
use shipway_model::{
    Actor, ClassGpus, GpuRequest, JobSpec, Resources, SiteClass, SiteName, Timestamp,
};
use shipway_sites::batch::EngineNodes;
use std::collections::BTreeMap;

/// Different words of a batch system about pilots of one kind; of more, those about most pilots.
const MOST_WORDS: usize = 8;

/// Everybody may see what there is. Judged is one task of the asking person that wants these GPUs,
/// names no path and no tag, and may take as long as it likes.
#[utoipa::path(get, path = routes::GPUS, operation_id = "list_gpus_of_sites", params(GpuQuery),
    responses((status = 200, body = SiteGpuList), (status = "4XX", body = ErrorBody)))]
pub async fn list(
    CallerWith(by, query): CallerWith<GpuQuery>,
    State(site): State<Site>,
    Asked(asking): Asked,
) -> Result<Json<SiteGpuList>, ApiError> {
    let now = site.clock.now();
    let wanted = query.request.as_deref().map(wanted).transpose()?;
    let wanted = wanted.map(|gpus| Wanted::of(gpus, &by));
    let look = move |state: &shipway_core::State| classes(state, wanted.as_ref(), now);
    let found = asking.try_out(&site.writer, look).await?;
    let with_site = |(mut one, partition): (SiteGpus, Option<String>)| {
        one.heard = site.sites.heard_of(&one.site);
        let seen = site.sites.nodes_of(&one.site);
        one.there = seen.and_then(|seen| there(&seen, partition.as_deref(), &one.gpus));
        one
    };
    Ok(Json(SiteGpuList { classes: found.into_iter().map(with_site).collect() }))
}

fn wanted(text: &str) -> Result<GpuRequest, ApiError> {
    let request: GpuRequest = text.parse().map_err(|error| {
        ApiError::bad_request(format!("`{text}` is no request for GPUs: {error}"))
    })?;
    match request.contradiction() {
        Some(why) => Err(ApiError::bad_request(format!("`{text}` matches no GPU: {why}"))),
        None => Ok(request),
    }
}

/// One task that wants them, and whose it is.
struct Wanted {
    by: Actor,
    shape: Shape,
    terms: Terms,
}

impl Wanted {
    fn of(gpu: GpuRequest, by: &Actor) -> Wanted {
        let resources = Resources { gpu: Some(gpu), ..Resources::default() };
        let spec = JobSpec { resources, ..JobSpec::default() };
        let shape = Shape::of(&spec, &by.user, Gang::default());
        Wanted { by: by.clone(), shape, terms: Terms::of(&spec) }
    }
}

/// Each with the partition that it is of.
fn classes(
    state: &shipway_core::State,
    wanted: Option<&Wanted>,
    now: Timestamp,
) -> Vec<(SiteGpus, Option<String>)> {
    let room = room(state, now);
    let mut judged = wanted.map(|Wanted { by, shape, terms }| {
        let shape = state.at_sites(shape.clone(), &by.user, terms);
        explain_gpus(state, &shape, (&by.user, terms), now)
    });
    let mut found = Vec::new();
    for (name, site) in state.sites() {
        for class in &site.spec.classes {
            let Some(gpus) = class.gpus.clone() else { continue };
            let key = (name.clone(), class.name.clone());
            let waits = judged.as_mut().and_then(|judged| judged.remove(&key));
            let room = room.get(&key).copied().unwrap_or_default();
            let one = one(state, (name, site, class), (gpus, room, waits));
            found.push((one, class.partition.clone()));
        }
    }
    found
}

fn one(
    state: &shipway_core::State,
    (name, site, class): (&SiteName, &BatchSite, &SiteClass),
    (gpus, room, waits): (ClassGpus, u32, Option<Vec<SiteWait>>),
) -> SiteGpus {
    let of_class = || state.allocations_of(name).filter(|(_, _, batch)| batch.class == class.name);
    let running = of_class().filter(|(_, known, _)| known.phase == Phase::Running);
    let running = running.fold(0, |all: u32, (_, _, batch)| all.saturating_add(batch.nodes));
    let mut pending: BTreeMap<&str, PendingPilots> = BTreeMap::new();
    for (_, _, batch) in of_class().filter(|(_, known, _)| known.phase.is_pending()) {
        let (since, words) = (batch.asked, batch.words.clone());
        let alike = pending.entry(&batch.words);
        let alike = alike.or_insert(PendingPilots { pilots: 0, since, words });
        (alike.pilots, alike.since) =
            (alike.pilots.saturating_add(batch.nodes), alike.since.min(since));
    }
    let mut pending: Vec<PendingPilots> = pending.into_values().collect();
    pending.sort_by_key(|alike| (std::cmp::Reverse(alike.pilots), alike.since));
    pending.truncate(MOST_WORDS);
    SiteGpus {
        site: name.clone(),
        kind: site.spec.kind,
        class: class.name.clone(),
        gpus,
        running,
        pending,
        room,
        heard: None,
        there: None,
        would_do: waits.as_ref().map(|waits| !waits.iter().any(SiteWait::is_hopeless)),
        waits: waits.unwrap_or_default(),
    }
}

/// Of the nodes that a class is for, those with GPUs of its kind; nothing where there are none, or
/// where it is not known which nodes it is for: one may be of several partitions.
fn there(seen: &SeenNodes, partition: Option<&str>, wanted: &ClassGpus) -> Option<GpusThere> {
    let is_for = |nodes: &EngineNodes| {
        partition.is_none() || nodes.partition.is_none() || nodes.partition.as_deref() == partition
    };
    let with = |nodes| (nodes, each(nodes, wanted.kind.as_deref()));
    let found: Vec<(&EngineNodes, u32)> = seen
        .nodes
        .iter()
        .filter(|nodes| is_for(nodes))
        .map(with)
        .filter(|(_, each)| *each > 0)
        .collect();
    let (first, _) = found.first()?;
    if found.iter().any(|(nodes, _)| nodes.partition != first.partition) {
        return None;
    }
    let sum = |of: &dyn Fn(&EngineNodes, u32) -> u32| {
        found.iter().fold(0u32, |sum, (nodes, each)| sum.saturating_add(of(nodes, *each)))
    };
    Some(GpusThere {
        seen: seen.at,
        nodes: sum(&|nodes, _| nodes.count),
        up: sum(&|nodes, _| nodes.up),
        idle: sum(&|nodes, _| nodes.idle),
        gpus: sum(&|nodes, each| each.saturating_mul(nodes.count)),
        gpus_idle: sum(&|nodes, each| each.saturating_mul(nodes.idle)),
    })
}

/// GPUs of a node that are of this kind by the batch system's own word, or of which it says none.
fn each(nodes: &EngineNodes, kind: Option<&str>) -> u32 {
    let is_it = |found: Option<&str>| match (kind, found) {
        (Some(kind), Some(found)) => kind.eq_ignore_ascii_case(found),
        _ => true,
    };
    let alike = nodes.gpus.iter().filter(|gpus| is_it(gpus.kind.as_deref()));
    alike.fold(0, |all, gpus| all.saturating_add(gpus.count))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use shipway_model::{Bytes, Cores};
    use shipway_sites::batch::EngineGpus;
    use std::sync::Arc;

    fn nodes(partition: Option<&str>, (count, idle): (u32, u32), gpus: (&str, u32)) -> EngineNodes {
        let kind = Some(gpus.0.to_owned()).filter(|kind| !kind.is_empty());
        let gpus = EngineGpus { kind, count: gpus.1, memory: None, capability: None };
        EngineNodes {
            partition: partition.map(ToOwned::to_owned),
            names: Vec::new(),
            count,
            up: count,
            idle,
            cpus: Cores::whole(64),
            memory: Bytes(1 << 38),
            gpus: vec![gpus],
            features: Vec::new(),
            longest: None,
            down: Vec::new(),
        }
    }

    #[test]
    fn only_gpus_of_the_classes_own_nodes_and_kind_are_counted() {
        let all = vec![
            nodes(Some("gpu"), (2, 1), ("a100", 4)),
            nodes(Some("gpu"), (3, 0), ("A100", 8)),
            nodes(Some("gpu"), (5, 5), ("h100", 8)),
            nodes(Some("debug"), (1, 1), ("a100", 4)),
            nodes(Some("cpu"), (9, 9), ("", 0)),
        ];
        let seen = SeenNodes { at: Timestamp(7), nodes: Arc::new(all) };
        let gpus = |kind: &str| -> ClassGpus {
            let text = json!({"count": 1, "model": "NVIDIA A100", "memory": "40GB", "kind": kind});
            serde_json::from_value(text).expect("good")
        };
        let expected =
            GpusThere { seen: Timestamp(7), nodes: 5, up: 5, idle: 1, gpus: 32, gpus_idle: 4 };
        assert_eq!(there(&seen, Some("gpu"), &gpus("a100")), Some(expected));
        assert_eq!(there(&seen, Some("gpu"), &gpus("l40")), None);
        assert_eq!(there(&seen, None, &gpus("a100")), None, "it may be of either partition");
        assert_eq!(there(&seen, None, &gpus("h100")).map(|it| it.gpus), Some(40));
    }

    #[test]
    fn what_matches_no_gpu_is_refused_with_the_reason() {
        assert!(wanted("A100:40GB..:2").is_ok());
        for bad in ["", "A100:2:2", "0"] {
            assert!(wanted(bad).is_err(), "{bad}");
        }
    }
}
