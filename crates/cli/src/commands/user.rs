//! `user`: add, list and remove users.

use super::Context;
use crate::args::serve::UserCommand;
use crate::failure::{Exit, Failure};
use crate::view;
use crate::view::users::{UserAdded, UserRemoved, UserTable};
use serde::de::IgnoredAny;
use shipway_api::routes;
use shipway_api::types::UserView;

pub async fn run(context: &Context, command: UserCommand) -> Result<Exit, Failure> {
    match command {
        UserCommand::Add { name, role } => {
            let new = UserView { user: name, role };
            let user = context.client.post(routes::USERS, &new, &[]).await?;
            view::show(&UserAdded { user }, context.output)?;
        }
        UserCommand::List => {
            let list = context.client.get(routes::USERS).await?;
            view::show(&UserTable { list }, context.output)?;
        }
        UserCommand::Remove { name } => {
            let path = format!("{}/{name}", routes::USERS);
            let _: IgnoredAny = context.client.delete(&path).await?;
            view::show(&UserRemoved { removed: name }, context.output)?;
        }
    }
    Ok(Exit::DONE)
}
