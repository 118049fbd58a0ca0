//! The shell around the core: journal, one writer, HTTP, the pilots' connections, identity.
//!
//! ```text
//! http/, pilots/   authenticate, parse           ─┐
//! writer/          decide → journal → evolve      │  one thread owns the state
//! live, pilots/    tell: replies, effects, views ◀┘  only after the commit
//! ```
//!
//! Nothing here decides what happens to a job; that is `shipway-core`.

pub mod auth;
pub mod budgets;
pub mod clock;
pub mod documents;
pub mod event_logs;
pub mod explained;
pub mod files;
pub mod http;
pub mod journal;
mod length;
pub mod live;
mod locks;
pub mod logins;
pub mod metrics;
mod off_requests;
mod on_behalf;
pub mod openapi;
pub mod panics;
pub mod pilots;
pub mod published;
pub mod secrets;
pub mod series;
mod sites;
pub mod tls;
pub mod up;
pub mod views;
pub mod writer;
