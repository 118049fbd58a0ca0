//! Container images: fetched, verified, unpacked once, shared.
//!
//! ```text
//! pull, sources   where an image comes from: a registry, a layout, an archive, a SIF file
//! ensure          one image into the store, whatever its source
//! layer           packed bytes → checked → members → staged files and an index
//! tree            indexes over each other in memory → one tree on disk
//! store           objects, layers, images; published atomically; claims, leases, clearing up
//! room            what of the disk an image may take
//! tar, sif, path, limits   outside bytes, judged without touching anything
//! walk            a tree on disk as an archive
//! ```
//!
//! Nothing here runs a container or knows about jobs.
//!
//! Bytes that anybody may have made are read here: nothing may panic over them. What cannot be
//! judged is refused with a reason.
#![warn(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::string_slice,
    clippy::unreachable,
    clippy::unwrap_used
)]

pub mod ensure;
pub mod layer;
pub mod limits;
pub mod path;
pub mod progress;
pub mod pull;
pub mod room;
pub mod sif;
pub mod sources;
pub mod store;
pub mod tar;
pub mod tree;
pub mod walk;

pub use ensure::{Ensured, ImageError};
pub use pull::{Pull, Settings};
pub use store::{Holder, Store};
