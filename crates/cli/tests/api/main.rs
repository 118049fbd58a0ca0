//! The HTTP API of the real binary, as `curl` sees it.
//!
//! - `pages.rs`    lists in pages, health, the OpenAPI document
//! - `refusals.rs` requests that are wrong, each refused in the same form
//! - `metrics.rs`  `/metrics`, judged by `promtool`
//! - `server_log.rs` requests in the log, and no secrets
//! - `live.rs`     server-sent events across a crash
//! - `curl.rs`     how they ask

#[path = "../common/mod.rs"]
mod common;

mod curl;
mod live;
mod metrics;
mod pages;
mod refusals;
mod server_log;
