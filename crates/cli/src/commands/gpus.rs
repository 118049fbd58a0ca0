//! `gpus`: which there are, which sites would give, and what a request would find. Of nodes only
//! devices are compared; whether cores and memory are free too is the scheduler's answer
//! (`submit --dry-run`). Of sites the server judges one task that wants the GPUs and little else.

use super::Context;
use crate::args::jobs::GpusArgs;
use crate::failure::{Exit, Failure};
use crate::query::Query;
use crate::view;
use crate::view::gpus::{GpuRow, GpuTable, Match, WithheldRow};
use crate::view::time::Reader;
use shipway_api::routes;
use shipway_api::types::{GpuView, NodeList, NodeView, SiteGpuList};
use shipway_model::{GpuRequest, GpuShare};

pub async fn run(context: &Context, args: GpusArgs) -> Result<Exit, Failure> {
    let list: NodeList = context.client.get(routes::NODES).await?;
    let request = args.request.as_ref().map(ToString::to_string);
    let query = Query::new().maybe("request", request);
    let at_sites: SiteGpuList = context.client.get(&query.on(routes::GPUS)).await?;
    let table = table(&list, args.request, at_sites, Reader::here());
    view::show(&table, context.output)?;
    Ok(Exit::DONE)
}

pub fn table(
    list: &NodeList,
    request: Option<GpuRequest>,
    at_sites: SiteGpuList,
    reader: Reader,
) -> GpuTable {
    let mut gpus = Vec::new();
    let (mut could, mut now) = (0, 0);
    for node in &list.nodes {
        let matched = |gpu: &GpuView| request.as_ref().map(|wanted| one(wanted, node, gpu));
        let rows: Vec<GpuRow> = node
            .gpus
            .iter()
            .map(|gpu| GpuRow {
                node: node.name.clone(),
                device: gpu.device.clone(),
                free: GpuShare::WHOLE.0.saturating_sub(gpu.used),
                matched: matched(gpu),
            })
            .collect();
        let wanted = request.as_ref().map_or(0, |request| request.count as usize);
        let count = |good: &dyn Fn(Match) -> bool| {
            rows.iter().filter(|row| row.matched.is_some_and(good)).count()
        };
        could += usize::from(count(&|found| found != Match::No) >= wanted);
        now += usize::from(count(&|found| found == Match::Now) >= wanted);
        gpus.extend(rows);
    }
    let held = |node: &NodeView| {
        let name = node.name.clone();
        let all = node.ad.withheld.clone().into_iter();
        all.map(move |held| WithheldRow { node: name.clone(), held })
    };
    let withheld = list.nodes.iter().flat_map(held).collect();
    let asked = request.is_some();
    GpuTable {
        request,
        nodes_that_could: asked.then_some(could),
        nodes_that_can_now: asked.then_some(now),
        gpus,
        withheld,
        sites: at_sites.classes,
        reader,
    }
}

fn one(request: &GpuRequest, node: &NodeView, gpu: &GpuView) -> Match {
    let free = GpuShare::WHOLE.0.saturating_sub(gpu.used);
    match request.matches(&gpu.device) {
        false => Match::No,
        true if node.link == "connected" && free >= request.share.0 => Match::Now,
        true => Match::Later,
    }
}
