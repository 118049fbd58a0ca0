//! The contract: what clients and pilots say to the server and hear from it.
//!
//! Request and response types, routes, error codes, the pilot protocol and a small client. There
//! is no behaviour of the server here, and no decision.
#![warn(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::string_slice,
    clippy::unreachable,
    clippy::unwrap_used
)]

pub mod bearer;
pub mod causes;
pub mod client;
pub mod codec;
pub mod error;
pub mod job_form;
pub mod link;
pub mod local;
pub mod pack;
pub mod proof;
pub mod routes;
pub mod site_form;
pub mod ticket;
pub mod together;
pub mod types;

/// The pilot protocol as generated from `proto/pilot.proto`.
#[allow(
    clippy::pedantic,
    clippy::allow_attributes_without_reason,
    unreachable_pub,
    missing_debug_implementations,
    reason = "generated code"
)]
pub mod wire {
    tonic::include_proto!("shipway.pilot.v1");
}
