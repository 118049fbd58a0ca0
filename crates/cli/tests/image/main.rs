//! Images and containers with the real binary: the store by itself, and tasks that run on images.
#![allow(clippy::print_stdout, reason = "what is left out is said")]

mod accounts;
mod apart;
mod archive;
mod closed;
#[path = "../common/mod.rs"]
mod common;
mod containers;
mod crowds;
mod fetching;
mod given;
mod guests;
mod handover;
mod logins;
mod room;
mod site;
mod store;
