//! Submitting jobs exactly once: every submission has a key, and a repeat after a lost answer
//! has the same one. And with exactly one image: what its tag or file holds now.

use super::patience::may_pass;
use crate::failure::Failure;
use crate::settings;
use crate::view::talk;
use serde::Serialize;
use serde::de::DeserializeOwned;
use shipway_api::client::{Client, ClientError};
use shipway_api::routes::{IDEMPOTENCY_KEY, JOBS, SUBMISSIONS};
use shipway_api::types::{Submission, Submitted, SubmittedTogether, Together};
use shipway_images::pull::{RegistryError, Settings, pin};
use shipway_images::sources::SourceError;
use shipway_model::{ImageRef, JobSpec};
use std::time::Duration;

/// Waits between the tries. Short: somebody sits there, and the key makes a later try by hand
/// safe only when they named it.
const WAITS: [Duration; 5] = [
    Duration::from_millis(50),
    Duration::from_millis(200),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
];
/// Whoever waits longer than this would like to know for what.
const SAY_AFTER: Duration = Duration::from_secs(1);
/// Bytes of a made-up key: two of them are never the same.
const KEY_BYTES: usize = 16;

pub async fn submit(
    client: &Client,
    submission: &Submission,
    key: Option<String>,
) -> Result<Submitted, Failure> {
    once(client, JOBS, submission, key).await
}

pub async fn submit_together(
    client: &Client,
    together: &Together,
    key: Option<String>,
) -> Result<SubmittedTogether, Failure> {
    once(client, SUBMISSIONS, together, key).await
}

async fn once<A: DeserializeOwned>(
    client: &Client,
    path: &str,
    asked: &impl Serialize,
    key: Option<String>,
) -> Result<A, Failure> {
    let key = key.map_or_else(random_key, Ok)?;
    let headers = [(IDEMPOTENCY_KEY, key.as_str())];
    let mut waits = WAITS.iter();
    let mut sent_before = false;
    loop {
        let error = match client.post(path, asked, &headers).await {
            Ok(submitted) => return Ok(submitted),
            Err(error) => error,
        };
        // Nobody there on the first try: say so at once instead of waiting for nobody.
        let nobody = matches!(error, ClientError::Unreachable { .. }) && !sent_before;
        match waits.next() {
            Some(wait) if may_pass(&error) && !nobody => tokio::time::sleep(*wait).await,
            _ => return Err(error.into()),
        }
        sent_before = true;
    }
}

/// The same image on every node and at every retry, with this user's own logins. Waits for a
/// registry, so a thread of its own does it.
pub async fn pin_image(spec: &mut JobSpec) -> Result<(), Failure> {
    // What lies on the node or has its digest is asked of nobody, so no logins are read either.
    let asked = |image: &&ImageRef| image.is_stored() && image.digest().is_none();
    let Some(image) = spec.image.as_ref().filter(asked).cloned() else { return Ok(()) };
    let settings = Settings::of(settings::environment)?;
    let named = image.clone();
    let mut pinning = tokio::task::spawn_blocking(move || pin(named, &settings));
    let pinned = if let Ok(pinned) = tokio::time::timeout(SAY_AFTER, &mut pinning).await {
        pinned
    } else {
        talk::say(format_args!("shipway: looking which image {image} is now"));
        pinning.await
    };
    match pinned.expect("it neither panics nor is cancelled") {
        Ok(pinned) => spec.image = Some(pinned),
        // The server may be let in, with what `registry login` gave it, or be nearer to it.
        Err(SourceError::Registry(
            RegistryError::Denied { .. }
            | RegistryError::Request { .. }
            | RegistryError::NoCertificates { .. },
        )) => {}
        Err(source) => return Err(Failure::Pin { image: image.into(), source }),
    }
    Ok(())
}

pub(super) fn random_key() -> Result<String, Failure> {
    let mut bytes = [0u8; KEY_BYTES];
    getrandom::fill(&mut bytes).map_err(Failure::Random)?;
    Ok(format!("{:032x}", u128::from_ne_bytes(bytes)))
}
