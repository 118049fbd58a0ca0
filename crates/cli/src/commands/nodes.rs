//! `nodes`: the list of nodes.

use super::Context;
use crate::failure::{Exit, Failure};
use crate::view;
use crate::view::nodes::NodeTable;
use shipway_api::routes;

pub async fn run(context: &Context) -> Result<Exit, Failure> {
    let list = context.client.get(routes::NODES).await?;
    view::show(&NodeTable { list }, context.output)?;
    Ok(Exit::DONE)
}
