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
mod pinning;
pub(crate) mod places;
pub mod registries;
mod request;
pub mod serve;
mod stay;
pub mod submit;
pub mod tasks;
pub mod users;

use crate::auth::Auth;
use crate::budgets::Budgets;
use crate::clock::Clock;
use crate::event_logs::EventLogs;
use crate::journal::{HistoryReader, JournalError};
use crate::live::Live;
use crate::locks::Locked;
use crate::logins::Logins;
use crate::metrics::Metrics;
use crate::pilots::{Pilots, Specs};
use crate::writer::Writer;
use asking::Intake;
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::{get, post};
use error::ApiError;
use shipway_api::routes;
use shipway_model::limits::MAX_SPEC_BYTES;
use std::sync::{Arc, Mutex};
use tokio::sync::Semaphore;

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

/// Connections to history; one is taken for each question and put back.
#[derive(Debug)]
pub struct Readers {
    first: Mutex<HistoryReader>,
    idle: Mutex<Vec<HistoryReader>>,
    turns: Arc<Semaphore>,
}

/// Questions at once. Should the disk not answer them, threads are left for everything else.
const AT_ONCE: usize = 64;
/// Idle connections kept; more questions at once open more for a while.
const IDLE_READERS: usize = 8;

impl Readers {
    pub fn new(first: HistoryReader) -> Self {
        let (first, idle) = (Mutex::new(first), Mutex::default());
        Readers { first, idle, turns: Arc::new(Semaphore::new(AT_ONCE)) }
    }

    /// Runs a question on a thread where waiting for the disk hurts nobody.
    pub async fn read<A: Send + 'static>(
        self: &Arc<Self>,
        question: impl FnOnce(&HistoryReader) -> Result<A, JournalError> + Send + 'static,
    ) -> Result<A, ApiError> {
        let readers = Arc::clone(self);
        let turn = Arc::clone(&self.turns).acquire_owned().await;
        let answer = tokio::task::spawn_blocking(move || {
            let _until_answered = turn;
            let reader = readers.take()?;
            let answer = question(&reader);
            readers.put_back(reader);
            answer
        });
        answer
            .await
            .map_err(|_| ApiError::internal("a question to history was cut off"))?
            .map_err(|error| ApiError::internal_because("history cannot be read", &error))
    }

    fn take(&self) -> Result<HistoryReader, JournalError> {
        let idle = self.idle.locked().pop();
        idle.map_or_else(|| self.first.locked().try_clone(), Ok)
    }

    fn put_back(&self, reader: HistoryReader) {
        let mut idle = self.idle.locked();
        if idle.len() < IDLE_READERS {
            idle.push(reader);
        }
    }
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
