//! Sites that are batch systems: what there is, and adding, draining and removing them.

use super::Site;
use super::body::Body;
use super::caller::{Caller, Path};
use super::error::ApiError;
use crate::sites::SeenNodes;
use crate::writer::Wish;
use axum::Json;
use axum::extract::State;
use shipway_api::error::ErrorBody;
use shipway_api::routes;
use shipway_api::types::{
    AllocationView, Draining, EndedAllocationView, RemovedSite, SiteChangeView, SiteClassView,
    SiteFindingView, SiteList, SiteNodeGroup, SiteNodesView, SiteTroubleView, SiteView,
};
use shipway_core::batch::{BatchSite, Did, Finding, InBatch, SiteChange};
use shipway_core::site::{Allocation, Phase};
use shipway_core::{Command, Rejection};
use shipway_model::{Actor, AllocationId, May, NodeName, SiteClass, SiteName, SiteSpec, Timestamp};
use shipway_sites::batch::EngineNodes;
use std::collections::BTreeMap;

/// Everybody may see what there is; how it is reached, only those who keep sites.
#[utoipa::path(get, path = routes::SITES, operation_id = "list_sites",
    responses((status = 200, body = SiteList), (status = "4XX", body = ErrorBody)))]
pub async fn list(
    Caller(by): Caller,
    State(site): State<Site>,
) -> Result<Json<SiteList>, ApiError> {
    let now = site.clock.now();
    let found = site.writer.ask(move |state| {
        let there = There::of(state, |_| true);
        let sites = state.sites().iter();
        sites.map(|(name, known)| view((name, known), &there, &by, now)).collect::<Vec<_>>()
    });
    let mut sites = found.await?;
    for one in &mut sites {
        one.nodes = nodes(&site, &one.name);
        one.heard = site.sites.heard_of(&one.name);
    }
    Ok(Json(SiteList { sites }))
}

#[utoipa::path(get, path = routes::SITE, operation_id = "show_site",
    params(("site" = String, Path)),
    responses((status = 200, body = SiteView), (status = "4XX", body = ErrorBody)))]
pub async fn show(
    Caller(by): Caller,
    State(site): State<Site>,
    Path(name): Path<String>,
) -> Result<Json<SiteView>, ApiError> {
    one(&site, &by, named(&name)?).await.map(Json)
}

/// A new one, or another description of one that is there.
#[utoipa::path(post, path = routes::SITES, operation_id = "add_site", request_body = SiteSpec,
    responses((status = 200, body = SiteView), (status = "4XX", body = ErrorBody)))]
pub async fn add(
    Caller(by): Caller,
    State(site): State<Site>,
    Body(spec): Body<SiteSpec>,
) -> Result<Json<SiteView>, ApiError> {
    let name = spec.name.clone();
    tracing::info!(by = %by.user, site = %name, "a site is added or changed");
    let add = Command::AddSite { by: by.clone(), spec: Box::new(spec) };
    site.writer.wish(Wish::Core(add)).await?;
    one(&site, &by, name).await.map(Json)
}

/// What runs there goes on either way.
#[utoipa::path(put, path = routes::SITE_DRAINING, operation_id = "drain_site",
    request_body = Draining, params(("site" = String, Path)),
    responses((status = 200, body = SiteView), (status = "4XX", body = ErrorBody)))]
pub async fn drain(
    Caller(by): Caller,
    State(site): State<Site>,
    Path(name): Path<String>,
    Body(new): Body<Draining>,
) -> Result<Json<SiteView>, ApiError> {
    let name = named(&name)?;
    let draining = new.draining;
    tracing::info!(by = %by.user, site = %name, draining, "a site is drained or resumed");
    let drain = Command::DrainSite { by: by.clone(), site: name.clone(), draining: new.draining };
    site.writer.wish(Wish::Core(drain)).await?;
    one(&site, &by, name).await.map(Json)
}

#[utoipa::path(delete, path = routes::SITE, operation_id = "remove_site",
    params(("site" = String, Path)),
    responses((status = 200, body = RemovedSite), (status = "4XX", body = ErrorBody)))]
pub async fn remove(
    Caller(by): Caller,
    State(site): State<Site>,
    Path(name): Path<String>,
) -> Result<Json<RemovedSite>, ApiError> {
    let name = named(&name)?;
    tracing::info!(by = %by.user, site = %name, "a site is removed");
    site.writer.wish(Wish::Core(Command::RemoveSite { by, site: name.clone() })).await?;
    Ok(Json(RemovedSite { removed: name }))
}

fn named(name: &str) -> Result<SiteName, ApiError> {
    name.parse()
        .map_err(|error: shipway_model::ids::BadId| ApiError::bad_request(error.to_string()))
}

async fn one(site: &Site, by: &Actor, name: SiteName) -> Result<SiteView, ApiError> {
    let (now, by, asked) = (site.clock.now(), by.clone(), name.clone());
    let found = site.writer.ask(move |state| {
        let known = state.sites().get(&asked)?;
        Some(view((&asked, known), &There::of(state, |site| *site == asked), &by, now))
    });
    let found = found.await?;
    let mut view = found.ok_or_else(|| Rejection::NoSuchSite(name.clone()))?;
    view.nodes = nodes(site, &name);
    view.heard = site.sites.heard_of(&name);
    Ok(view)
}

type OfSite<'a> = Vec<(&'a AllocationId, &'a Allocation, &'a InBatch)>;

/// What was asked of sites, and the nodes that came of it: found in one look at the state, however
/// many there are of each. Nobody else is answered meanwhile.
struct There<'a> {
    allocations: BTreeMap<&'a SiteName, OfSite<'a>>,
    nodes: BTreeMap<&'a AllocationId, Vec<&'a NodeName>>,
}

impl<'a> There<'a> {
    fn of(state: &'a shipway_core::State, is_asked: impl Fn(&SiteName) -> bool) -> There<'a> {
        let mut allocations: BTreeMap<&SiteName, OfSite<'_>> = BTreeMap::new();
        for (id, known) in state.allocations().iter().filter(|(_, known)| is_asked(&known.site)) {
            let of_site = allocations.entry(&known.site).or_default();
            of_site.extend(known.batch.as_deref().map(|batch| (id, known, batch)));
        }
        let mut nodes = BTreeMap::<_, Vec<&NodeName>>::new();
        for pilot in state.pilots().values() {
            if pilot.site.as_ref().is_some_and(&is_asked) {
                nodes.entry(&pilot.allocation).or_default().push(pilot.name());
            }
        }
        There { allocations, nodes }
    }
}

/// How many pilots of each class are to come, and how many run.
fn counts<'a>(of_site: &OfSite<'a>) -> BTreeMap<&'a str, (u32, u32)> {
    let mut counts: BTreeMap<&str, (u32, u32)> = BTreeMap::new();
    for (_, known, batch) in of_site {
        let (pending, running) = counts.entry(&batch.class).or_default();
        match known.phase {
            phase if phase.is_pending() => *pending = pending.saturating_add(batch.nodes),
            Phase::Running => *running = running.saturating_add(batch.nodes),
            _ => {}
        }
    }
    counts
}

fn view(
    (name, site): (&SiteName, &BatchSite),
    there: &There<'_>,
    by: &Actor,
    now: Timestamp,
) -> SiteView {
    let none = OfSite::new();
    let of_site = there.allocations.get(name).unwrap_or(&none);
    let allocations = of_site.iter().map(|(id, known, batch)| AllocationView {
        allocation: (*id).clone(),
        class: batch.class.clone(),
        phase: words(known.phase).to_owned(),
        since: known.since,
        engine_id: batch.engine_id.clone(),
        words: batch.words.clone(),
        pilots: batch.nodes,
        nodes: there.nodes.get(id).into_iter().flatten().map(|name| (*name).clone()).collect(),
    });
    let counts = counts(of_site);
    let classes = site.spec.classes.iter().map(|class| {
        let (pending, running) = counts.get(&*class.name).copied().unwrap_or_default();
        let (name, has, most) = (class.name.clone(), has(class), class.pilots);
        SiteClassView { name, has, most, nodes: class.nodes.get(), pending, running }
    });
    let ended = site.ends.iter().map(|past| EndedAllocationView {
        allocation: past.allocation.clone(),
        class: past.class.clone(),
        end: past.end,
        words: past.words.clone(),
        at: past.at,
    });
    SiteView {
        name: name.clone(),
        kind: site.spec.kind,
        state: standing(site, now).to_owned(),
        classes: classes.collect(),
        troubles: troubles(site),
        findings: findings(site),
        limits: site.spec.limits.clone(),
        wall: site.spec.wall,
        shared: site.spec.shared.clone(),
        tags: site.spec.tags.clone(),
        required_tags: site.spec.required_tags.clone(),
        allocations: allocations.collect(),
        ended: ended.collect(),
        nodes: None,
        changes: if by.may(May::KeepSites) { changes(site) } else { Vec::new() },
        heard: None,
        spec: by.may(May::KeepSites).then(|| (*site.spec).clone()),
    }
}

fn standing(site: &BatchSite, now: Timestamp) -> &'static str {
    match site {
        _ if site.draining => "draining",
        _ if site.troubles.values().any(|trouble| trouble.until > now) => "in trouble",
        _ => "open",
    }
}

fn troubles(site: &BatchSite) -> Vec<SiteTroubleView> {
    let view = |(class, trouble): (&String, &shipway_core::batch::Trouble)| SiteTroubleView {
        class: class.clone(),
        kind: trouble.kind,
        words: trouble.words.clone(),
        since: trouble.since,
        until: trouble.until,
    };
    site.troubles.iter().map(view).collect()
}

fn findings(site: &BatchSite) -> Vec<SiteFindingView> {
    let view = |(class, finding): (&String, &Finding)| SiteFindingView {
        class: class.clone(),
        node: finding.node.clone(),
        words: finding.words.clone(),
        at: finding.at,
    };
    site.findings.iter().map(view).collect()
}

fn changes(site: &BatchSite) -> Vec<SiteChangeView> {
    let view = |change: &SiteChange| SiteChangeView {
        at: change.at,
        by: change.by.clone(),
        what: match change.what {
            Did::Added => "added",
            Did::Changed => "changed",
            Did::Drained => "drained",
            Did::Resumed => "resumed",
        }
        .to_owned(),
    };
    site.changes.iter().map(view).collect()
}

fn words(phase: Phase) -> &'static str {
    match phase {
        Phase::Asked => "asked",
        Phase::Queued => "queued",
        Phase::Held => "held",
        Phase::Running => "running",
        Phase::GivenUp => "given up",
        Phase::Ended(_) => "ended",
    }
}

/// `8 cores, 32GB, 1 × NVIDIA A100 (declared)`
fn has(class: &SiteClass) -> String {
    let gpus = class.gpus.as_ref();
    let gpus = gpus
        .map_or("no GPU".to_owned(), |gpus| format!("{} × {} (declared)", gpus.count, gpus.model));
    format!("{} cores, {}, {gpus}", class.cpus, class.memory)
}

fn nodes(site: &Site, name: &SiteName) -> Option<SiteNodesView> {
    let SeenNodes { at, nodes } = site.sites.nodes_of(name)?;
    Some(SiteNodesView { seen: at, groups: nodes.iter().map(group).collect() })
}

fn group(nodes: &EngineNodes) -> SiteNodeGroup {
    let gpus = nodes
        .gpus
        .iter()
        .map(|gpus| format!(", {} × {}", gpus.count, gpus.kind.as_deref().unwrap_or("GPU")));
    SiteNodeGroup {
        partition: nodes.partition.clone(),
        count: nodes.count,
        up: nodes.up,
        idle: nodes.idle,
        has: format!("{} cores, {}{}", nodes.cpus, nodes.memory, gpus.collect::<String>()),
        down: nodes.down.clone(),
    }
}

#[cfg(test)]
mod tests;
