//! `user`: add, list and remove users, and set their shares.

use super::Context;
use crate::args::serve::UserCommand;
use crate::failure::{Exit, Failure};
use crate::view;
use crate::view::talk;
use crate::view::users::{UserAdded, UserRemoved, UserShare, UserTable, no_account, not_apart};
use shipway_api::routes;
use shipway_api::types::{AddedUser, NewShare, NodeList, UserView};
use shipway_model::{May, UserName};
use shipway_pilot::accounts;
use shipway_pilot::run::node_name;

pub async fn run(context: &Context, command: UserCommand) -> Result<Exit, Failure> {
    match command {
        UserCommand::Add { name, role, share } => {
            let new = UserView { user: name, role, share, used_core_seconds: None };
            let user: AddedUser = context.client.post(routes::USERS, &new, &[]).await?;
            // A monitor runs nothing; and of whoever was there their jobs tell.
            let runs = (!user.existed && user.role.may(May::Change)).then(|| user.user.clone());
            view::show(&UserAdded { user }, context.output)?;
            warn_of_nodes(context, runs).await;
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

/// Who may submit may do more than they think where people are not kept apart, and nothing where
/// they have no account: whoever lets them in should hear of it now. The user is added, whatever
/// becomes of this.
async fn warn_of_nodes(context: &Context, runs: Option<UserName>) {
    let list: Result<NodeList, _> = context.client.get(routes::NODES).await;
    let Ok(list) = list else { return };
    let refused = runs.filter(|user| !accounts::is_there_one_for(user.as_str()));
    let refused = refused.and_then(|user| no_account(&list, &user, &node_name()));
    for line in not_apart(&list).into_iter().chain(refused) {
        talk::say(format_args!("{line}"));
    }
}
