//! `user`: add, list and remove users, and set their shares.

use super::Context;
use crate::args::serve::UserCommand;
use crate::failure::{Exit, Failure};
use crate::view;
use crate::view::users::{UserAdded, UserRemoved, UserShare, UserTable};
use shipway_api::routes;
use shipway_api::types::{NewShare, UserView};

pub async fn run(context: &Context, command: UserCommand) -> Result<Exit, Failure> {
    match command {
        UserCommand::Add { name, role, share } => {
            let new = UserView { user: name, role, share, used_core_seconds: None };
            let user = context.client.post(routes::USERS, &new, &[]).await?;
            view::show(&UserAdded { user }, context.output)?;
        }
        UserCommand::Share { name, share } => {
            let path = routes::USER_SHARE.replace("{user}", name.as_str());
            let new: NewShare = context.client.put(&path, &NewShare { share }).await?;
            view::show(&UserShare { user: name, share: new.share }, context.output)?;
        }
        UserCommand::List => {
            let list = context.client.get(routes::USERS).await?;
            view::show(&UserTable { list }, context.output)?;
        }
        UserCommand::Remove { name, give_jobs_to } => {
            let mut path = format!("{}/{name}", routes::USERS);
            if let Some(heir) = &give_jobs_to {
                // Letters that a name may have stand for themselves in an address.
                path = format!("{path}?give_jobs_to={heir}");
            }
            let user = context.client.delete(&path).await?;
            view::show(&UserRemoved { user, given_to: give_jobs_to }, context.output)?;
        }
    }
    Ok(Exit::DONE)
}
