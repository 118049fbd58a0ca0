//! Every error answer: the same body, a status that tells the client what to do, and the cause in
//! the server's log only.

use super::places::NoPlace;
use crate::auth::Denied;
use crate::budgets::Spent;
use crate::writer::WriteError;
use axum::extract::path::ErrorKind;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use shipway_api::error::{ErrorBody, codes};
use shipway_api::job_form::{Wrong, plain_words};
use shipway_core::Rejection;
use shipway_model::JobId;
use shipway_model::plain_text::clean;
use std::borrow::Cow;

/// The hint for whoever writes requests by hand.
const READ_THE_API: &str = "the API is described by `shipway openapi`";

/// Letters of an address that a message repeats.
pub(super) const QUOTED: usize = 60;
/// Bytes of a complaint about what was written.
const SAID: usize = 600;

#[derive(Debug, Clone)]
pub struct ApiError {
    status: StatusCode,
    code: &'static str,
    message: String,
    hint: Option<Cow<'static, str>>,
}

impl ApiError {
    pub fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        ApiError { status, code, message: message.into(), hint: None }
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<Cow<'static, str>>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// It came up over a later part of a large request, when so many jobs were done already.
    #[must_use]
    pub(super) fn only_first(mut self, jobs: usize) -> Self {
        self.message = format!("{} (the {jobs} jobs before it are done)", self.message);
        self
    }

    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, codes::BAD_REQUEST, message).hint(READ_THE_API)
    }

    pub fn too_large() -> Self {
        let status = StatusCode::PAYLOAD_TOO_LARGE;
        Self::new(status, codes::TOO_LARGE, "the request is too large")
            .hint("keep large data in files that the tasks read")
    }

    pub fn no_json() -> Self {
        let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        let message = "the request does not say `Content-Type: application/json`";
        Self::new(status, codes::BAD_REQUEST, message).hint(READ_THE_API)
    }

    /// More at once than one user may have in hand.
    pub fn over_budget(message: String) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, codes::BUSY, message)
            .hint("wait for the answers to the others, then repeat the request")
    }

    pub fn reads_too_much(message: String) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, codes::TOO_MANY, message).hint(
            "end some of them and repeat the request: each `shipway logs -f` and each \
             `shipway run` that is open reads two",
        )
    }

    pub fn too_slow() -> Self {
        let status = StatusCode::REQUEST_TIMEOUT;
        Self::new(status, codes::TOO_SLOW, "the request came too slowly to its end")
            .hint("send it again; is the network in order?")
    }

    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, codes::NOT_FOUND, message)
    }

    pub fn no_such_job(job: JobId) -> Self {
        Rejection::NoSuchJob(job).into()
    }

    pub fn internal(message: &'static str) -> Self {
        tracing::error!(message);
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, codes::INTERNAL, message)
    }

    /// The cause is for the log, the message for the client.
    pub fn internal_because(message: &'static str, cause: &dyn std::error::Error) -> Self {
        tracing::error!(cause = shipway_api::causes::causes(cause), "{message}");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, codes::INTERNAL, message)
    }
}

impl From<Rejection> for ApiError {
    fn from(rejection: Rejection) -> Self {
        let status = match &rejection {
            Rejection::InvalidSpec(_)
            | Rejection::InvalidSite(_)
            | Rejection::NoSuchDependency(..) => StatusCode::UNPROCESSABLE_ENTITY,
            Rejection::NoSuchJob(_)
            | Rejection::NoSuchTask(_)
            | Rejection::NoSuchUser(_)
            | Rejection::NoSuchToken(_)
            | Rejection::NoSuchPilot(_)
            | Rejection::NoSuchSite(_) => StatusCode::NOT_FOUND,
            Rejection::NotAllowed(_)
            | Rejection::OnlyLooks
            | Rejection::OutlivesItsMaker { .. } => StatusCode::FORBIDDEN,
            Rejection::TokenEnded => StatusCode::UNAUTHORIZED,
            Rejection::TooMany(_) | Rejection::TooScattered { .. } | Rejection::TooManySites => {
                StatusCode::TOO_MANY_REQUESTS
            }
            Rejection::KeyReused(_)
            | Rejection::UserExists(_)
            | Rejection::HasNoJobs(_)
            | Rejection::OwnerRemoved(..)
            | Rejection::NothingToDo(_)
            | Rejection::SiteInUse { .. }
            | Rejection::PilotElsewhere(_)
            | Rejection::PilotOvertaken(_)
            | Rejection::StalePlan(_) => StatusCode::CONFLICT,
        };
        let (code, hint) = (rejection.code(), rejection.hint().map(Cow::Borrowed));
        ApiError { status, code, message: rejection.to_string(), hint }
    }
}

impl From<WriteError> for ApiError {
    fn from(error: WriteError) -> Self {
        let unavailable = StatusCode::SERVICE_UNAVAILABLE;
        let message = error.to_string();
        match error {
            WriteError::Rejected(rejection) => rejection.into(),
            WriteError::NotDurable(_) => Self::new(unavailable, codes::NOT_DURABLE, message)
                .hint("nothing was accepted; repeat the request when the disk takes writes again"),
            WriteError::Stopping => Self::new(unavailable, codes::STOPPING, message)
                .hint("repeat the request in a moment"),
            WriteError::Failed => {
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, codes::INTERNAL, message)
                    .hint("it will fail again the same way; tell whoever runs the server")
            }
            WriteError::Busy => Self::new(StatusCode::TOO_MANY_REQUESTS, codes::BUSY, message)
                .hint("repeat the request in a moment"),
        }
    }
}

impl From<NoPlace> for ApiError {
    fn from(none: NoPlace) -> Self {
        let (status, message) = match none {
            NoPlace::OfThisUser => (
                StatusCode::TOO_MANY_REQUESTS,
                "you have as many connections open as one user may, and all of them are in use",
            ),
            NoPlace::OfThisPilot => (
                StatusCode::TOO_MANY_REQUESTS,
                "this pilot has as many connections open as one may, and all of them are in use",
            ),
            NoPlace::AtAll => (
                StatusCode::SERVICE_UNAVAILABLE,
                "all places for connections are taken, and all of them are in use",
            ),
        };
        Self::new(status, codes::BUSY, message).hint("repeat the request in a moment")
    }
}

impl From<Spent> for ApiError {
    fn from(spent: Spent) -> Self {
        let hint = spent.hint();
        Self::new(StatusCode::TOO_MANY_REQUESTS, codes::TOO_MANY, spent.to_string()).hint(hint)
    }
}

impl From<Denied> for ApiError {
    fn from(denied: Denied) -> Self {
        let (message, hint) = match denied {
            Denied::NoToken => ("no token was given", "set SHIPWAY_TOKEN to a token of yours"),
            Denied::UnknownToken => {
                ("the token is not known", "ask an admin for one: `shipway token new`")
            }
            Denied::Expired => {
                ("the token has expired", "ask an admin for a new one: `shipway token new`")
            }
        };
        Self::new(StatusCode::UNAUTHORIZED, codes::UNAUTHENTICATED, message).hint(hint)
    }
}

impl From<&serde_json::Error> for ApiError {
    fn from(error: &serde_json::Error) -> Self {
        let (status, code) = (StatusCode::UNPROCESSABLE_ENTITY, codes::BAD_REQUEST);
        let said = plain_words(&brief(error));
        if error.is_data() {
            Self::new(status, code, format!("the request cannot be understood: {said}"))
        } else {
            Self::bad_request(format!("the request is not JSON: {}", brief(error)))
        }
        .hint(READ_THE_API)
    }
}

/// The beginning of what is said: complaints repeat what was written, which may be megabytes.
fn brief(said: &dyn std::fmt::Display) -> String {
    struct Brief(String);
    impl std::fmt::Write for Brief {
        fn write_str(&mut self, text: &str) -> std::fmt::Result {
            let room = SAID.saturating_sub(self.0.len());
            if text.len() <= room {
                self.0.push_str(text);
                return Ok(());
            }
            self.0.extend(text.chars().take(room));
            self.0.push('…');
            Err(std::fmt::Error)
        }
    }
    let mut brief = Brief(String::new());
    let _ends_early = std::fmt::write(&mut brief, format_args!("{said}"));
    brief.0
}

/// What a library says first about itself is left out.
fn without_prefix(rejection: &dyn std::error::Error) -> String {
    plain_words(&innermost(rejection))
}

fn innermost(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.last().map(ToString::to_string).unwrap_or_default()
}

impl From<Wrong> for ApiError {
    fn from(wrong: Wrong) -> Self {
        let status = StatusCode::UNPROCESSABLE_ENTITY;
        let hint = wrong.hint().unwrap_or_else(|| READ_THE_API.into());
        Self::new(status, codes::BAD_REQUEST, format!("the job cannot be read: {wrong}")).hint(hint)
    }
}

impl From<QueryRejection> for ApiError {
    fn from(rejection: QueryRejection) -> Self {
        let said = without_prefix(&rejection).replace("unknown key ", "unknown parameter ");
        let said = said.replace(", there are no fields", ", there are none here");
        Self::bad_request(format!("the query cannot be understood: {said}"))
    }
}

impl From<PathRejection> for ApiError {
    fn from(rejection: PathRejection) -> Self {
        use ErrorKind::{DeserializeError, Message};
        let kind = match &rejection {
            PathRejection::FailedToDeserializePathParams(failed) => Some(failed.kind()),
            _ => None,
        };
        match kind {
            Some(Message(message) | DeserializeError { message, .. }) => {
                Self::bad_request(message.clone())
            }
            _ => Self::bad_request("the address cannot be understood"),
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        // The id is the one in the header, put there by `request.rs` on the way out.
        let body = ErrorBody {
            code: self.code.to_string(),
            message: clean(&self.message),
            hint: self.hint.map(Cow::into_owned),
            request_id: String::new(),
        };
        let mut response = self.status.into_response();
        response.extensions_mut().insert(body);
        response
    }
}

pub async fn no_such_page() -> ApiError {
    ApiError::new(StatusCode::NOT_FOUND, codes::NOT_FOUND, "there is nothing at this address")
        .hint(READ_THE_API)
}

pub async fn no_such_method() -> ApiError {
    let message = "this address does not take this method";
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, codes::BAD_METHOD, message).hint(READ_THE_API)
}
