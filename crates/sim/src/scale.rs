//! The scheduler at scale: a million tasks, ten thousand nodes of twelve kinds, skewed users, and
//! what it costs and gives. No pilots and no disk here: only the core, its clock, and the truth.
//!
//! - `cluster.rs`   the nodes
//! - `workload.rs`  shapes, users, jobs
//! - `bare.rs`      the least any scheduler has to do, to measure against
//! - `cost.rs`      a full pass, one freed node, `why`; each timed
//! - `timeline.rs`  a cluster at work, event by event, in simulated time
//! - `fairness.rs`  two users, and a large request against small ones
//! - `broker.rs`    what to ask of sites, and what pilots of sites get; timed
//! - `chart.rs`     lines as SVG

pub mod bare;
pub mod broker;
pub mod chart;
pub mod cluster;
pub mod cost;
pub mod fairness;
pub mod timeline;
pub mod workload;
