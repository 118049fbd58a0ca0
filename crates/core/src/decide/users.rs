//! Users and their tokens. Admins keep them; a user may issue and revoke their own tokens.

use crate::command::Token;
use crate::event::Event;
use crate::rejection::Rejection;
use crate::state::State;
use shipway_model::limits::SHARE_RANGE;
use shipway_model::validate::Problem;
use shipway_model::{Actor, Role, UserName};

fn admin_only(by: &Actor, what: &'static str) -> Result<(), Rejection> {
    if by.role == Role::Admin { Ok(()) } else { Err(Rejection::NotAllowed(what)) }
}

pub(super) fn add(
    state: &State,
    by: &Actor,
    user: &UserName,
    role: Role,
) -> Result<Vec<Event>, Rejection> {
    admin_only(by, "add users")?;
    match state.users().get(user) {
        Some(known) if known.role == role => Ok(Vec::new()),
        Some(_) => Err(Rejection::UserExists(user.clone())),
        None => {
            let number = Some(state.users().next_number());
            Ok(vec![Event::UserAdded { user: user.clone(), role, number }])
        }
    }
}

pub(super) fn remove(state: &State, by: &Actor, user: &UserName) -> Result<Vec<Event>, Rejection> {
    admin_only(by, "remove users")?;
    if state.users().get(user).is_none() {
        return Err(Rejection::NoSuchUser(user.clone()));
    }
    Ok(vec![Event::UserRemoved { user: user.clone() }])
}

pub(super) fn set_share(
    state: &State,
    by: &Actor,
    user: &UserName,
    share: u32,
) -> Result<Vec<Event>, Rejection> {
    admin_only(by, "set users' shares")?;
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
    by: &Actor,
    token: &Token,
) -> Result<Vec<Event>, Rejection> {
    if token.user != by.user {
        admin_only(by, "issue tokens for others")?;
    }
    if state.users().get(&token.user).is_none() {
        return Err(Rejection::NoSuchUser(token.user.clone()));
    }
    Ok(vec![Event::TokenIssued { token: token.clone() }])
}

pub(super) fn revoke_token(state: &State, by: &Actor, id: &str) -> Result<Vec<Event>, Rejection> {
    let token = state.tokens().get(id);
    let token = token.filter(|token| by.role == Role::Admin || token.user == by.user);
    token.ok_or_else(|| Rejection::NoSuchToken(id.to_string()))?;
    Ok(vec![Event::TokenRevoked { id: id.to_string() }])
}
