//! What a tag means now, asked of its registry when a job comes in without a digest: so that every
//! task and every retry runs on the same files. With the login that the user has left here, as
//! often as one user may (`budgets.rs`), and only where the operator lets us.

use super::Site;
use super::error::ApiError;
use axum::http::StatusCode;
use shipway_api::causes::causes;
use shipway_api::error::codes;
use shipway_images::pull::{JobOf, RegistryError, Settings, pin};
use shipway_images::sources::SourceError;
use shipway_model::{Actor, ImageRef, JobSpec};
use std::time::Duration;
use tokio::sync::Semaphore;

/// Registries asked at the same time: slow ones hold threads, and the others' jobs must get in.
static AT_ONCE: Semaphore = Semaphore::const_new(16);
/// A registry that takes longer is away.
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) async fn pin_image(site: &Site, by: &Actor, spec: &mut JobSpec) -> Result<(), ApiError> {
    let Some(image @ ImageRef::Registry(at)) = &spec.image else { return Ok(()) };
    if at.digest.is_some() {
        return Ok(());
    }
    if let Some(known) = site.budgets.looked_up(&by.user, image, site.clock.now()) {
        spec.image = Some(known);
        return Ok(());
    }
    let place = site.budgets.look_up(&by.user, site.clock.now())?;
    let of = if by.user == *site.auth.owner() { JobOf::Owner } else { JobOf::Others };
    let mut settings = Settings::for_job(of, std::env::var_os)
        .map_err(|error| ApiError::internal_because("logins cannot be read", &error))?;
    if let Some(login) = site.logins.find(by.user.as_str(), Some(image)) {
        settings.credentials.insert(&at.host, login);
    }
    let (name, host) = (image.clone(), at.host.clone());
    let asked = async {
        let permit = AT_ONCE.acquire().await;
        // The thread goes on when nobody waits for it any more, and keeps its place until then.
        let asking = tokio::task::spawn_blocking(move || {
            let _places = (permit, place);
            pin(name, &settings)
        });
        asking.await
    };
    let answer = tokio::time::timeout(PATIENCE, asked).await;
    let refused = |why: String| {
        let message = format!("image {image}: {why}");
        ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, codes::IMAGE_REFUSED, message)
    };
    let Ok(answer) = answer else {
        let hint = "submit again later, or name the image by its digest: NAME@sha256:…";
        return Err(refused(format!("{host} does not answer")).hint(hint));
    };
    let pinned =
        answer.map_err(|_| ApiError::internal("the question to the registry was cut off"))?;
    let pinned = pinned.map_err(|error| {
        let hint = hint(&error, &host);
        refused(causes(&error)).hint(hint)
    })?;
    site.budgets.keep(&by.user, image, &pinned, site.clock.now());
    spec.image = Some(pinned);
    Ok(())
}

fn hint(error: &SourceError, host: &str) -> String {
    match error {
        SourceError::Registry(RegistryError::Denied { .. }) => {
            format!(
                "`shipway registry login {host}` keeps a login for your jobs; is the name right?"
            )
        }
        SourceError::Registry(RegistryError::OutOfReach { host }) => {
            format!("the operator lists it in SHIPWAY_PRIVATE_REGISTRIES: {host}")
        }
        _ => "check the name; a digest (NAME@sha256:…) needs no question to the registry".into(),
    }
}
