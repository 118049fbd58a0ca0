//! Users and their tokens. Admins keep them; a user may issue and revoke their own tokens.

use super::cancel;
use crate::command::{Pick, Token};
use crate::done::{Decided, Done};
use crate::event::{CancelReason, Event};
use crate::rejection::{Rejection, TooMany, needs};
use crate::state::State;
use shipway_model::limits::{MAX_TOKENS, SHARE_RANGE};
use shipway_model::validate::Problem;
use shipway_model::{Actor, May, PilotId, Role, Timestamp, UserName};

pub(super) fn add(
    state: &State,
    by: &Actor,
    user: &UserName,
    role: Role,
) -> Result<Vec<Event>, Rejection> {
    needs(by, May::AddUsers)?;
    match state.users().get(user) {
        Some(known) if known.role == role => Ok(Vec::new()),
        Some(_) => Err(Rejection::UserExists(user.clone())),
        None => {
            let number = Some(state.users().next_number());
            Ok(vec![Event::UserAdded { user: user.clone(), role, number }])
        }
    }
}

/// With the user go the tokens and the share. What has not ended is cancelled, or somebody else's
/// from now on; what has ended stays in history, where no later holder of the name finds it.
pub(super) fn remove(
    state: &State,
    by: &Actor,
    user: &UserName,
    give_jobs_to: Option<&UserName>,
) -> Result<Decided, Rejection> {
    needs(by, May::RemoveUsers)?;
    if state.users().get(user).is_none() {
        return Err(Rejection::NoSuchUser(user.clone()));
    }
    let before = state.next_job();
    let mut events = vec![Event::UserRemoved { user: user.clone(), before: Some(before) }];
    let left = state.unfinished_of(user);
    let done = Done::Removed { jobs: left.len() as u64 };
    if let Some(heir) = give_jobs_to {
        may_inherit(state, user, heir)?;
        if !left.is_empty() {
            let to = heir.clone();
            events.push(Event::JobsGiven { jobs: left, to, since: before });
        }
        return Ok(Decided { events, done });
    }
    for job in left {
        events.extend(cancel::one(state, job, &Pick::All, CancelReason::OwnerRemoved)?);
    }
    Ok(Decided { events, done })
}

fn may_inherit(state: &State, user: &UserName, heir: &UserName) -> Result<(), Rejection> {
    let known = state.users().get(heir).filter(|_| heir != user);
    let role = known.ok_or_else(|| Rejection::NoSuchUser(heir.clone()))?.role;
    if role.may(May::Change) { Ok(()) } else { Err(Rejection::HasNoJobs(heir.clone())) }
}

pub(super) fn set_share(
    state: &State,
    by: &Actor,
    user: &UserName,
    share: u32,
) -> Result<Vec<Event>, Rejection> {
    needs(by, May::SetShares)?;
    if state.users().get(user).is_none() {
        return Err(Rejection::NoSuchUser(user.clone()));
    }
    if !SHARE_RANGE.contains(&share) {
        let (from, to) = (SHARE_RANGE.start(), SHARE_RANGE.end());
        let what = format!("{share} is not between {from} and {to}");
        return Err(Rejection::InvalidSpec(vec![Problem { field: "share", what }]));
    }
    if state.fair_share().share(user) == share {
        return Ok(Vec::new());
    }
    Ok(vec![Event::ShareSet { user: user.clone(), share }])
}

pub(super) fn issue_token(
    state: &State,
    at: Timestamp,
    by: &Actor,
    token: &Token,
) -> Result<Vec<Event>, Rejection> {
    if token.user != by.user {
        needs(by, May::IssueTokensForOthers)?;
    }
    if state.users().get(&token.user).is_none() {
        return Err(Rejection::NoSuchUser(token.user.clone()));
    }
    outlived_by(state, at, by, token.expires)?;
    let is_over = |token: &Token| token.expires <= at;
    let theirs = state.tokens().values().filter(|known| known.user == token.user);
    if theirs.filter(|known| !is_over(known)).count() >= MAX_TOKENS {
        return Err(Rejection::TooMany(TooMany::Tokens));
    }
    let mut events = Vec::new();
    if state.tokens().values().any(is_over) {
        // One that is good until a moment is not good in it.
        events.push(Event::TokensExpired { before: Timestamp(at.0 + 1) });
    }
    events.push(Event::TokenIssued { token: token.clone() });
    Ok(events)
}

/// Whoever finds a token that ends tonight must not have one tomorrow.
pub(super) fn outlived_by(
    state: &State,
    at: Timestamp,
    by: &Actor,
    expires: Timestamp,
) -> Result<(), Rejection> {
    let maker = by.token.as_deref().and_then(|id| state.tokens().get(id));
    match maker.filter(|maker| expires > maker.expires) {
        Some(maker) => Err(Rejection::OutlivesItsMaker { left: maker.expires.since(at) }),
        None => Ok(()),
    }
}

pub(super) fn revoke_token(state: &State, by: &Actor, id: &str) -> Result<Vec<Event>, Rejection> {
    if let Some(pilot) = PilotId::new(id).ok().filter(|_| by.may(May::KeepTokens))
        && state.pilot_tokens().contains_key(&pilot)
    {
        return Ok(vec![Event::PilotTokenEnded { pilot }]);
    }
    let token = state.tokens().get(id);
    let token = token.filter(|token| by.may(May::KeepTokens) || token.user == by.user);
    token.ok_or_else(|| Rejection::NoSuchToken(id.to_string()))?;
    Ok(vec![Event::TokenRevoked { id: id.to_string() }])
}
