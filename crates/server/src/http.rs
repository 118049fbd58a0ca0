//! The HTTP API: from a request to a wish or a question, and from the answer to JSON.
//!
//! What there is, and who may ask for it, is one table (`shipway_api::routes`). Everybody comes in
//! through one door (`caller.rs`). One file per subject: handlers parse, ask the writer or history,
//! and build a view; they decide nothing.
#![warn(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::string_slice,
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
pub mod files;
pub mod gpus;
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
pub(crate) mod shelf;
pub mod sites;
mod stay;
mod stream;
pub mod submit;
pub mod tasks;
#[cfg(test)]
mod tests;
pub mod tickets;
pub mod usage;
pub mod users;

use crate::auth::Auth;
use crate::budgets::Budgets;
use crate::clock::Clock;
use crate::event_logs::EventLogs;
use crate::explained::Explained;
use crate::files::FileStore;
use crate::live::Live;
use crate::logins::Logins;
use crate::metrics::Metrics;
use crate::pilots::{Pilots, Specs};
use crate::series::SeriesStore;
use crate::sites::Sites;
use crate::writer::Writer;
use asking::Intake;
use axum::Router;
use axum::routing::{self, MethodFilter, MethodRouter};
use shipway_api::routes;
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
    pub files: Arc<FileStore>,
    pub explained: Arc<Explained>,
    pub budgets: Arc<Budgets>,
    pub clock: Clock,
    pub metrics: Arc<Metrics>,
    pub intake: Arc<Intake>,
    pub series: Arc<SeriesStore>,
    pub(crate) sites: Arc<Sites>,
}

macro_rules! handled {
    ($($name:ident $path:literal {
        $($method:ident $module:ident::$handler:ident $limits:tt;)+
    })+) => {
        /// The handlers, in the order of the table.
        fn handlers() -> Vec<MethodRouter<Site>> {
            vec![$($(routing::on(MethodFilter::$method, $module::$handler),)+)+]
        }
    };
}
shipway_api::endpoints!(handled);

pub fn router(site: Site) -> Router {
    let rows = routes::ENDPOINTS.iter().zip(handlers());
    let routed = rows.fold(Router::new(), |router, (endpoint, handler)| {
        let door = axum::middleware::from_fn_with_state((site.clone(), endpoint), caller::let_in);
        router.route(endpoint.path, handler.layer(door))
    });
    routed
        .fallback(error::no_such_page)
        .method_not_allowed_fallback(error::no_such_method)
        .layer(axum::middleware::from_fn_with_state(site.clone(), request::around))
        .with_state(site)
}
