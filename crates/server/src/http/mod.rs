//! The HTTP API: from a request to a wish or a question, and from the answer to JSON.
//!
//! One file per subject. Handlers authenticate (`caller.rs`), parse, ask the writer or history,
//! and build a view; they decide nothing.
#![warn(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unreachable,
    clippy::unwrap_used
)]

pub mod act;
pub mod asking;
pub mod body;
pub mod caller;
mod door;
pub mod error;
pub mod events;
pub mod health;
pub mod jobs;
mod large;
pub mod logs;
pub mod metrics;
pub mod nodes;
mod pieces;
mod pinning;
pub(crate) mod places;
mod readers;
pub mod registries;
mod request;
pub mod serve;
mod stay;
mod stream;
pub mod submit;
pub mod tasks;
pub mod users;

use crate::auth::Auth;
use crate::budgets::Budgets;
use crate::clock::Clock;
use crate::event_logs::EventLogs;
use crate::live::Live;
use crate::logins::Logins;
use crate::metrics::Metrics;
use crate::pilots::{Pilots, Specs};
use crate::writer::Writer;
use asking::Intake;
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::{get, post};
use shipway_api::routes;
use shipway_model::limits::MAX_SPEC_BYTES;
use std::sync::Arc;

pub use readers::Readers;

/// What every handler may use.
#[derive(Debug, Clone)]
pub struct Site {
    pub writer: Writer,
    pub auth: Arc<Auth>,
    pub live: Arc<Live>,
    pub pilots: Arc<Pilots>,
    pub specs: Arc<Specs>,
    pub readers: Arc<Readers>,
    pub logins: Arc<Logins>,
    pub event_logs: Arc<EventLogs>,
    pub budgets: Arc<Budgets>,
    pub clock: Clock,
    pub metrics: Arc<Metrics>,
    pub intake: Arc<Intake>,
}

pub fn router(site: Site) -> Router {
    Router::new()
        .route(routes::JOBS, get(jobs::list).post(submit::submit))
        .route(routes::DRY_RUN, post(submit::dry_run))
        .route(routes::JOB, get(jobs::show))
        .route(routes::JOB_WAIT, get(jobs::wait))
        .route(routes::JOB_WHY, get(jobs::why))
        .route(routes::JOB_TASKS, get(tasks::list))
        .route(routes::TASK_LOG, get(logs::read))
        .route(routes::CANCEL, post(act::cancel))
        .route(routes::RETRY, post(act::retry))
        .route(routes::EVENTS, get(events::watch))
        .route(routes::NODES, get(nodes::list))
        .route(routes::PILOTS, post(nodes::issue))
        .route(routes::USERS, get(users::list).post(users::add))
        .route(routes::USER, axum::routing::delete(users::remove))
        .route(routes::USER_SHARE, axum::routing::put(users::set_share))
        .route(routes::TOKENS, get(users::tokens).post(users::issue))
        .route(routes::TOKEN, axum::routing::delete(users::revoke))
        .route(routes::REGISTRIES, get(registries::list))
        .route(routes::REGISTRY, axum::routing::put(registries::keep).delete(registries::forget))
        .route(routes::WHO_AM_I, get(users::who_am_i))
        .route(routes::HEALTHZ, get(health::healthz))
        .route(routes::READYZ, get(health::readyz))
        .route(routes::METRICS, get(metrics::scrape))
        .fallback(error::no_such_page)
        .method_not_allowed_fallback(error::no_such_method)
        .layer(axum::middleware::from_fn_with_state(site.clone(), request::around))
        .layer(DefaultBodyLimit::max(MAX_SPEC_BYTES))
        .with_state(site)
}
