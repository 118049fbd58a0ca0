//! `token`: make, list and revoke tokens.

use super::Context;
use crate::args::serve::TokenCommand;
use crate::failure::{Exit, Failure};
use crate::view::time::Reader;
use crate::view::tokens::{NewPilotView, NewTokenView, TokenRevoked, TokenTable};
use crate::view::{self, talk};
use serde::de::IgnoredAny;
use shipway_api::routes;
use shipway_api::types::{IssuedPilot, IssuedToken, NewToken};

pub async fn run(context: &Context, command: TokenCommand) -> Result<Exit, Failure> {
    match command {
        TokenCommand::New { user, note, lasts } => {
            let wanted = NewToken { user, note, lasts };
            let token: IssuedToken = context.client.post(routes::TOKENS, &wanted, &[]).await?;
            let until = Reader::here().moment(token.expires);
            let said = format!("token {} of {}, good until {until}", token.id, token.user);
            view::show(&NewTokenView { token }, context.output)?;
            talk::say(format_args!("shipway: {said}; it is not shown again"));
        }
        TokenCommand::Pilot { lasts } => {
            let lasts = lasts.map(|lasts| format!("?lasts={lasts}")).unwrap_or_default();
            let path = format!("{}{lasts}", routes::PILOTS);
            let issued: IssuedPilot = context.client.post(&path, &(), &[]).await?;
            let until = issued.expires.map(|at| Reader::here().moment(at));
            let pilot = issued.pilot.clone();
            view::show(&NewPilotView { issued }, context.output)?;
            if let Some(until) = until {
                talk::say(format_args!("shipway: token of {pilot}, good until {until}"));
            }
        }
        TokenCommand::List => {
            let list = context.client.get(routes::TOKENS).await?;
            view::show(&TokenTable { list, reader: Reader::here() }, context.output)?;
        }
        TokenCommand::Revoke { id } => {
            let path = format!("{}/{id}", routes::TOKENS);
            let _: IgnoredAny = context.client.delete(&path).await?;
            view::show(&TokenRevoked { revoked: id }, context.output)?;
        }
    }
    Ok(Exit::DONE)
}
