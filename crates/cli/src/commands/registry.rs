//! `registry`: give the server a login, list them, have one forgotten.

use super::Context;
use crate::args::registry::RegistryCommand;
use crate::failure::{Exit, Failure};
use crate::input::password;
use crate::settings;
use crate::view::registries::{RegistryForgotten, RegistryKept, RegistryTable};
use crate::view::{self, talk};
use serde::de::IgnoredAny;
use shipway_api::routes;
use shipway_images::pull::{RegistryError, Settings, try_login};
use shipway_model::Login;

pub async fn run(context: &Context, command: RegistryCommand) -> Result<Exit, Failure> {
    match command {
        RegistryCommand::Login { host, user, untried } => {
            let password = password(&format!("Password of {user} at {host}: "))?;
            let login = Login { user: user.clone(), password };
            if !untried {
                try_first(&host, login.clone()).await?;
            }
            let _: IgnoredAny = context.client.put(&routes::registry(&host), &login).await?;
            view::show(&RegistryKept { host, user }, context.output)?;
        }
        RegistryCommand::Logout { host } => {
            let _: IgnoredAny = context.client.delete(&routes::registry(&host)).await?;
            view::show(&RegistryForgotten { forgotten: host }, context.output)?;
        }
        RegistryCommand::List => {
            let list = context.client.get(routes::REGISTRIES).await?;
            view::show(&RegistryTable { list }, context.output)?;
        }
    }
    Ok(Exit::DONE)
}

/// A wrong password is best heard of by whoever has just typed it.
async fn try_first(host: &str, login: Login) -> Result<(), Failure> {
    let settings = Settings::of(settings::environment)?;
    let name = host.to_owned();
    let tried = tokio::task::spawn_blocking(move || try_login(&name, login, &settings)).await;
    match tried.expect("it neither panics nor is cancelled") {
        Ok(()) => Ok(()),
        Err(source @ RegistryError::Denied { .. }) => {
            Err(Failure::WrongLogin { host: host.into(), source: Box::new(source) })
        }
        // It may be within reach of the server and the nodes.
        Err(error) => {
            let why = shipway_api::causes::causes(&error);
            talk::say(format_args!("shipway: the login is kept untried: {why}"));
            Ok(())
        }
    }
}
