//! Users and their tokens.

use super::Site;
use super::body::Body;
use super::caller::{Caller, CallerWith, Path};
use super::error::ApiError;
use crate::secrets;
use crate::writer::{Done, Wish};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use shipway_api::error::{ErrorBody, codes};
use shipway_api::routes;
use shipway_api::types::{
    AddedUser, IssuedToken, NewShare, NewToken, PilotTokenView, RemoveQuery, RemovedUser,
    TokenList, TokenView, UserList, UserView,
};
use shipway_core::Command;
use shipway_core::command::Token;
use shipway_core::site::{PilotToken, SiteKind};
use shipway_model::{Actor, May, Millis, PilotId, Role, Timestamp, UserName};
use std::sync::Arc;

const DAY: u64 = 24 * 3_600 * 1_000;
const USUAL_LIFE: Millis = Millis(30 * DAY);
/// A token that lives longer is one that nobody remembers.
const LONGEST_LIFE: Millis = Millis(366 * DAY);

#[utoipa::path(get, path = routes::WHO_AM_I, responses((status = 200, body = UserView),
    (status = "4XX", body = ErrorBody)))]
pub async fn who_am_i(
    Caller(actor): Caller,
    State(site): State<Site>,
) -> Result<Json<UserView>, ApiError> {
    let now = site.clock.now();
    let view = site.writer.glance(move |state| view(state, &actor.user, actor.role, now));
    Ok(Json(view.await?))
}

fn view(state: &shipway_core::State, user: &UserName, role: Role, now: Timestamp) -> UserView {
    let fair = state.fair_share();
    UserView {
        user: user.clone(),
        role,
        share: Some(fair.share(user)),
        used_core_seconds: Some(fair.used_core_seconds(user, now)),
    }
}

#[utoipa::path(get, path = routes::USERS, operation_id = "list_users",
    responses((status = 200, body = UserList),
    (status = "4XX", body = ErrorBody)))]
pub async fn list(
    Caller(by): Caller,
    State(site): State<Site>,
) -> Result<Json<UserList>, ApiError> {
    let now = site.clock.now();
    let users = site.writer.ask(move |state| {
        let visible = |user: &UserName| by.may(May::SeeAllUsers) || *user == by.user;
        let users = state.users().iter().filter(|(user, _)| visible(user));
        users.map(|(name, user)| view(state, name, user.role, now)).collect()
    });
    Ok(Json(UserList { users: users.await? }))
}

#[utoipa::path(post, path = routes::USERS, operation_id = "add_user",
    request_body = UserView,
    responses((status = 200, body = AddedUser), (status = "4XX", body = ErrorBody)))]
pub async fn add(
    Caller(by): Caller,
    State(site): State<Site>,
    Body(new): Body<UserView>,
) -> Result<Json<AddedUser>, ApiError> {
    let UserView { user, role, share, .. } = new;
    let asked = user.clone();
    // Between this look and the wish somebody may add the same user: then both hear of a new one.
    let existed = site.writer.glance(move |state| state.users().get(&asked).is_some()).await?;
    let command = Command::AddUser { by: by.clone(), user: user.clone(), role };
    site.writer.wish(Wish::Core(command)).await?;
    if let Some(share) = share {
        let user = user.clone();
        site.writer.wish(Wish::Core(Command::SetShare { by, user, share })).await?;
    }
    Ok(Json(AddedUser { user, role, existed }))
}

/// Gives a user another part of the machines.
#[utoipa::path(put, path = routes::USER_SHARE, operation_id = "set_share",
    request_body = NewShare, params(("user" = UserName, Path)),
    responses((status = 200, body = NewShare), (status = "4XX", body = ErrorBody)))]
pub async fn set_share(
    Caller(by): Caller,
    State(site): State<Site>,
    Path(user): Path<String>,
    Body(new): Body<NewShare>,
) -> Result<Json<NewShare>, ApiError> {
    let user: UserName = user.parse().map_err(bad_name)?;
    let command = Command::SetShare { by, user, share: new.share };
    site.writer.wish(Wish::Core(command)).await?;
    Ok(Json(new))
}

/// Ends the user's tokens and answers, and cancels what they have not finished or gives it to
/// another. Answers when it is on disk.
#[utoipa::path(delete, path = routes::USER, operation_id = "remove_user",
    params(("user" = UserName, Path), RemoveQuery),
    responses((status = 200, body = RemovedUser), (status = "4XX", body = ErrorBody)))]
pub async fn remove(
    CallerWith(by, query): CallerWith<RemoveQuery>,
    State(site): State<Site>,
    Path(user): Path<String>,
) -> Result<Json<RemovedUser>, ApiError> {
    let user: UserName = user.parse().map_err(bad_name)?;
    if user == *site.auth.owner() {
        let message = format!("user {user} started this server and stays its admin");
        return Err(ApiError::new(StatusCode::CONFLICT, codes::IS_OWNER, message)
            .hint("`shipway token list` and `shipway token revoke ID` end single tokens"));
    }
    let give_jobs_to = query.give_jobs_to;
    if give_jobs_to.as_ref() == Some(site.auth.owner()) {
        // What somebody else wrote would run as whoever started the server.
        let message = format!(
            "jobs of {user} cannot be given to {}, who started this server: their commands would \
             run as its account",
            site.auth.owner()
        );
        return Err(ApiError::new(StatusCode::CONFLICT, codes::IS_OWNER, message)
            .hint("give them to another user, or submit what is still wanted anew"));
    }
    let command = Command::RemoveUser {
        by: by.clone(),
        user: user.clone(),
        give_jobs_to: give_jobs_to.clone(),
    };
    let done = site.writer.wish(Wish::Core(command)).await?;
    let logins = Arc::clone(&site.logins);
    let gone = user.clone();
    let forgotten = tokio::task::spawn_blocking(move || logins.forget_user(&gone)).await;
    let forgotten = forgotten.map_err(|_| ApiError::internal("logins were cut off"))?;
    forgotten.map_err(|error| ApiError::internal_because("logins cannot be kept", &error))?;
    let jobs = if let Done::Removed { jobs } = done { jobs } else { 0 };
    let (cancelled, given) = if give_jobs_to.is_some() { (0, jobs) } else { (jobs, 0) };
    let Json(UserList { users }) = list(Caller(by), State(site)).await?;
    Ok(Json(RemovedUser { removed: user, cancelled_jobs: cancelled, given_jobs: given, users }))
}

#[allow(clippy::needless_pass_by_value, reason = "the signature map_err asks for")]
fn bad_name(error: shipway_model::ids::BadId) -> ApiError {
    ApiError::bad_request(error.to_string())
}

#[utoipa::path(get, path = routes::TOKENS, operation_id = "list_tokens",
    responses((status = 200, body = TokenList),
    (status = "4XX", body = ErrorBody)))]
pub async fn tokens(
    Caller(by): Caller,
    State(site): State<Site>,
) -> Result<Json<TokenList>, ApiError> {
    let list = site.writer.ask(move |state| {
        let visible = |token: &&Token| by.may(May::KeepTokens) || token.user == by.user;
        let view = |token: &Token| TokenView {
            id: token.id.clone(),
            user: token.user.clone(),
            note: token.note.clone(),
            expires: token.expires,
        };
        let tokens = state.tokens().values().filter(visible).map(view).collect();
        let pilots = if by.may(May::KeepTokens) { pilots(state) } else { Vec::new() };
        TokenList { tokens, pilots }
    });
    Ok(Json(list.await?))
}

fn pilots(state: &shipway_core::State) -> Vec<PilotTokenView> {
    let view = |(pilot, token): (&PilotId, &PilotToken)| PilotTokenView {
        pilot: pilot.clone(),
        this_machine: state.kind_of(&token.allocation) == Some(SiteKind::ThisMachine),
        expires: token.expires,
        used: token.folder.is_some() || state.pilots().contains_key(pilot),
        node: state.pilots().get(pilot).map(|known| known.name().clone()),
    };
    state.pilot_tokens().iter().map(view).collect()
}

/// How long a new token is good for. Unless it is said, as long as is usual, but no longer than
/// what it is made with.
pub(super) fn life(
    site: &Site,
    by: &Actor,
    asked: Option<Millis>,
    now: Timestamp,
) -> Result<Millis, ApiError> {
    let usual = || site.auth.left_of(by, now).map_or(USUAL_LIFE, |left| left.min(USUAL_LIFE));
    let lasts = asked.unwrap_or_else(usual);
    if lasts > LONGEST_LIFE || lasts.0 == 0 {
        let what = format!("a token lasts longer than nothing and at most {LONGEST_LIFE}");
        return Err(ApiError::bad_request(what));
    }
    Ok(lasts)
}

/// The secret is in the answer and nowhere else.
#[utoipa::path(post, path = routes::TOKENS, operation_id = "issue_token",
    request_body = NewToken,
    responses((status = 200, body = IssuedToken), (status = "4XX", body = ErrorBody)))]
pub async fn issue(
    Caller(by): Caller,
    State(site): State<Site>,
    Body(new): Body<NewToken>,
) -> Result<Json<IssuedToken>, ApiError> {
    let now = site.clock.now();
    let lasts = life(&site, &by, new.lasts, now)?;
    let secret = secrets::new_secret("shw_");
    let token = Token {
        id: secrets::random_word(8),
        user: new.user.unwrap_or_else(|| by.user.clone()),
        hash: secrets::hash(&secret),
        expires: now.plus(lasts),
        note: new.note.chars().take(200).collect(),
    };
    // Whoever has it is the owner, whose tasks run as whoever started the server.
    if token.user == *site.auth.owner() && by.user != token.user {
        let message = format!("user {} started this server and makes their own tokens", token.user);
        return Err(ApiError::new(StatusCode::FORBIDDEN, codes::IS_OWNER, message)
            .hint("make one for another user: `shipway token new --user NAME`"));
    }
    let issued = IssuedToken {
        id: token.id.clone(),
        secret,
        user: token.user.clone(),
        expires: token.expires,
    };
    site.writer.wish(Wish::Core(Command::IssueToken { by, token })).await?;
    Ok(Json(issued))
}

#[utoipa::path(delete, path = routes::TOKEN, operation_id = "revoke_token",
    params(("id" = String, Path)),
    responses((status = 200, body = TokenList), (status = "4XX", body = ErrorBody)))]
pub async fn revoke(
    Caller(by): Caller,
    State(site): State<Site>,
    Path(id): Path<String>,
) -> Result<Json<TokenList>, ApiError> {
    let command = Command::RevokeToken { by: by.clone(), id };
    site.writer.wish(Wish::Core(command)).await?;
    tokens(Caller(by), State(site)).await
}
