//! `site`: add, check, list, show, drain, resume and remove batch systems.

use super::Context;
use crate::args::site::SiteCommand;
use crate::failure::{Exit, Failure};
use crate::settings::Output;
use crate::site_file;
use crate::view;
use crate::view::sites::{SiteChanged, SiteChecked, SiteRemoved, SiteShown, SiteTable};
use crate::view::time::Reader;
use shipway_api::routes;
use shipway_api::types::Draining;
use shipway_model::SiteName;
use std::path::Path;

pub async fn run(context: &Context, command: SiteCommand) -> Result<Exit, Failure> {
    let output = context.output;
    match command {
        SiteCommand::Add { file } => {
            let spec = site_file::load(&file)?;
            let site = context.client.post(routes::SITES, &spec, &[]).await?;
            view::show(&SiteChanged { site, became: "is added" }, output)?;
        }
        SiteCommand::Check { file } => return check(&file, output),
        SiteCommand::List => {
            let list = context.client.get(routes::SITES).await?;
            view::show(&SiteTable { list }, output)?;
        }
        SiteCommand::Show { name } => {
            let site = context.client.get(&routes::site(&name)).await?;
            view::show(&SiteShown { site, reader: Reader::here() }, output)?;
        }
        SiteCommand::Drain { name } => drain(context, &name, true).await?,
        SiteCommand::Resume { name } => drain(context, &name, false).await?,
        SiteCommand::Remove { name } => {
            let removed = context.client.delete(&routes::site(&name)).await?;
            view::show(&SiteRemoved { removed }, output)?;
        }
    }
    Ok(Exit::DONE)
}

/// Needs no server.
pub fn check(file: &Path, output: Output) -> Result<Exit, Failure> {
    let spec = site_file::load(file)?;
    view::show(&SiteChecked { spec }, output)?;
    Ok(Exit::DONE)
}

async fn drain(context: &Context, name: &SiteName, draining: bool) -> Result<(), Failure> {
    let path = routes::site_draining(name);
    let site = context.client.put(&path, &Draining { draining }).await?;
    let became = if draining { "is drained: nothing new goes there" } else { "is open again" };
    view::show(&SiteChanged { site, became }, context.output)
}
