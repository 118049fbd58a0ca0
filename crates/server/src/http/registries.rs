//! Logins for registries: kept, named and forgotten. A password comes in and never goes out again.

use super::Site;
use super::asking::Asked;
use super::body::Body;
use super::caller::{Caller, Path};
use super::error::ApiError;
use crate::logins::LoginError;
use axum::Json;
use axum::extract::State;
use shipway_api::error::ErrorBody;
use shipway_api::routes;
use shipway_api::types::{RegistryList, RegistryView};
use shipway_core::Rejection;
use shipway_model::{Actor, Login};

/// The registries that one has a login for, and under which names.
#[utoipa::path(get, path = routes::REGISTRIES, operation_id = "list_registries",
    responses((status = 200, body = RegistryList), (status = "4XX", body = ErrorBody)))]
pub async fn list(
    Caller(by): Caller,
    State(site): State<Site>,
) -> Result<Json<RegistryList>, ApiError> {
    Ok(Json(view(&site, &by)))
}

/// Keeps a login for the images of one's own jobs. Answers when it is on disk.
#[utoipa::path(put, path = routes::REGISTRY, operation_id = "keep_registry_login",
    request_body = Login, params(("host" = String, Path)),
    responses((status = 200, body = RegistryList), (status = "4XX", body = ErrorBody)))]
pub async fn keep(
    Caller(by): Caller,
    Asked(asking): Asked,
    State(site): State<Site>,
    Path(host): Path<String>,
    Body(login): Body<Login>,
) -> Result<Json<RegistryList>, ApiError> {
    let (logins, asker, here) = (site.logins.clone(), by.clone(), site.clone());
    let may = move |by: &Actor| here.auth.still_lets_in(by, here.clock.now());
    let kept = asking.work(move || logins.keep(&asker.user, &host, login, || may(&asker)));
    kept.await?.map_err(refused)?;
    Ok(Json(view(&site, &by)))
}

#[utoipa::path(delete, path = routes::REGISTRY, operation_id = "forget_registry_login",
    params(("host" = String, Path)),
    responses((status = 200, body = RegistryList), (status = "4XX", body = ErrorBody)))]
pub async fn forget(
    Caller(by): Caller,
    Asked(asking): Asked,
    State(site): State<Site>,
    Path(host): Path<String>,
) -> Result<Json<RegistryList>, ApiError> {
    let (logins, user) = (site.logins.clone(), by.user.clone());
    let name = host.clone();
    let forgotten = asking.work(move || logins.forget(&user, &host)).await?;
    if !forgotten.map_err(refused)? {
        return Err(ApiError::not_found(format!("you have no login for the registry {name}")));
    }
    Ok(Json(view(&site, &by)))
}

fn view(site: &Site, by: &Actor) -> RegistryList {
    let registries = site.logins.of(&by.user).into_iter();
    let registries = registries.map(|(host, user)| RegistryView { host, user }).collect();
    RegistryList { registries }
}

#[allow(clippy::needless_pass_by_value, reason = "the signature map_err asks for")]
fn refused(error: LoginError) -> ApiError {
    match error {
        LoginError::Keep(_) | LoginError::Form(_) => {
            ApiError::internal_because("logins cannot be kept", &error)
        }
        LoginError::UserGone => Rejection::TokenEnded.into(),
        LoginError::Size | LoginError::TooMany | LoginError::Host(_) => {
            ApiError::bad_request(error.to_string())
        }
    }
}
