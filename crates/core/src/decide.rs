//! Commands to events: one file per command, each `(&State, …) → Result<Vec<Event>, Rejection>`;
//! those that somebody waits for say what was done as well (`Decided`).
//!
//! Deciding reads the state and changes nothing. What several commands need is in `verdict` (what
//! the end of an attempt means) and `select` (which tasks a selection means).

mod apply_plan;
mod archive;
mod ask_batch;
mod ask_site;
mod cancel;
mod differs;
mod pilot_away;
mod pilot_changed;
mod pilot_ended;
mod pilot_joined;
mod pilot_leaving;
mod pilot_reported;
mod retry;
mod select;
mod site_said;
mod sites;
mod submit;
mod tick;
mod users;
mod verdict;

pub use pilot_joined::may_join;

use crate::command::Command;
use crate::done::Decided;
use crate::event::Event;
use crate::rejection::{Rejection, needs};
use crate::state::State;
use shipway_model::{Actor, May, Timestamp};

pub fn decide(state: &State, at: Timestamp, command: &Command) -> Result<Decided, Rejection> {
    if let Some(by) = asked_by(command) {
        may_ask(state, at, by)?;
    }
    let events = match command {
        Command::Submit(submit) => return submit::decide(state, submit),
        Command::Cancel(select) => return cancel::decide(state, select),
        Command::Retry { select, revived } => return retry::decide(state, select, revived),
        Command::RemoveUser { by, user, give_jobs_to } => {
            return users::remove(state, by, user, give_jobs_to.as_ref());
        }
        Command::ServerStarted => vec![Event::ServerStarted],
        Command::ApplyPlan(plan) => apply_plan::decide(state, at, plan)?,
        Command::PilotJoined(joined) => pilot_joined::decide(state, at, joined)?,
        Command::PilotReported(report) => pilot_reported::decide(state, at, report),
        Command::PilotAway { pilot, connection } => {
            pilot_away::decide(state, at, pilot, *connection)
        }
        Command::PilotChanged { pilot, connection, ad } => {
            pilot_changed::decide(state, at, pilot, *connection, ad)
        }
        Command::PilotLeaving { pilot, connection } => {
            pilot_leaving::decide(state, pilot, *connection)
        }
        Command::PilotEnded { pilot } => pilot_ended::said_goodbye(state, at, pilot)?,
        Command::Tick => tick::decide(state, at),
        Command::Archive { jobs } => archive::decide(state, jobs),
        Command::AddUser { by, user, role } => users::add(state, by, user, *role)?,
        Command::IssueToken { by, token } => users::issue_token(state, at, by, token)?,
        Command::RevokeToken { by, id } => users::revoke_token(state, by, id)?,
        Command::SetHalfLife { half_life } => {
            let known = state.fair_share().half_life() == *half_life;
            (!known).then_some(Event::HalfLifeSet { half_life: *half_life }).into_iter().collect()
        }
        Command::SetShare { by, user, share } => users::set_share(state, by, user, *share)?,
        Command::AskSite(ask) => ask_site::decide(state, at, ask)?,
        Command::AddSite { by, spec } => sites::add(state, by, spec)?,
        Command::DrainSite { by, site, draining } => sites::drain(state, by, site, *draining)?,
        Command::RemoveSite { by, site } => sites::remove(state, by, site)?,
        Command::AskBatch(ask) => ask_batch::decide(state, at, ask),
        Command::GiveUp { allocations } => ask_batch::give_up(state, allocations.iter()),
        Command::SiteSaid(said) => site_said::decide(state, at, said),
    };
    Ok(events.into())
}

/// The token was looked at when the request came in. Until it is decided, reading a body or asking
/// a registry may have taken long: what was revoked meanwhile moves nothing any more.
fn may_ask(state: &State, at: Timestamp, by: &Actor) -> Result<(), Rejection> {
    if let Some(id) = &by.token {
        let token = state.tokens().get(&**id).filter(|token| token.user == by.user);
        token.filter(|token| token.expires > at).ok_or(Rejection::TokenEnded)?;
    }
    needs(by, May::Change)
}

/// Whose wish it is; nobody's when it is a report.
pub fn asked_by(command: &Command) -> Option<&Actor> {
    match command {
        Command::Submit(submit) => Some(&submit.by),
        Command::Cancel(select) | Command::Retry { select, .. } => Some(&select.by),
        Command::AddUser { by, .. }
        | Command::RemoveUser { by, .. }
        | Command::IssueToken { by, .. }
        | Command::RevokeToken { by, .. }
        | Command::SetShare { by, .. }
        | Command::AddSite { by, .. }
        | Command::DrainSite { by, .. }
        | Command::RemoveSite { by, .. } => Some(by),
        Command::AskSite(ask) => ask.by.as_ref(),
        Command::ServerStarted
        | Command::ApplyPlan(_)
        | Command::PilotJoined(_)
        | Command::PilotReported(_)
        | Command::PilotAway { .. }
        | Command::PilotChanged { .. }
        | Command::PilotLeaving { .. }
        | Command::PilotEnded { .. }
        | Command::Tick
        | Command::Archive { .. }
        | Command::SetHalfLife { .. }
        | Command::AskBatch(_)
        | Command::GiveUp { .. }
        | Command::SiteSaid(_) => None,
    }
}

#[cfg(test)]
mod tests;
