//! The relay: for nodes that cannot reach the server. It passes pilots' connections on to that one
//! server, byte by byte and without being able to read them, and hands pilots images by digest.
//!
//! ```text
//! serve    accepts; by the first byte a connection is a pilot's, or a request for content
//! gate     how many connections there may be, of one neighbour too
//! pipe     bytes both ways, for as long as something comes
//! asked    what a request asks for, judged without touching anything
//! tickets  whether a pilot asks: the server is asked, and remembered for a minute
//! content  answers: what is there, or what is just coming
//! coming   one fetch of each thing, for all who wait for it
//! shelf    the folder of content: what is kept, what was fetched, what has to go
//! add      an image put there by a person
//! ```
//!
//! It decides nothing about jobs, knows no token, and keeps nothing that the server has.
#![warn(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unreachable,
    clippy::unwrap_used
)]

mod add;
mod asked;
mod coming;
mod content;
mod gate;
mod pipe;
mod serve;
mod shelf;
mod tickets;

pub use add::{AddError, Added, add};
pub use serve::{RelayError, relay};
pub use shelf::ShelfError;

use shipway_model::Bytes;
use std::net::SocketAddr;
use std::path::PathBuf;

/// What whoever starts a relay says.
#[derive(Debug, Clone)]
pub struct Settings {
    pub listen: SocketAddr,
    /// `https://HOST[:PORT]`: the only place that anything is passed on to.
    pub server: String,
    /// A certificate to trust when the server is asked about tickets; pilots have their own.
    pub certificate: Option<PathBuf>,
    /// Where content lies.
    pub images: PathBuf,
    /// What was fetched by itself is removed beyond this, the longest unused first.
    pub images_size: Option<Bytes>,
    pub connections: usize,
    pub connections_each: usize,
}

/// As many as fit into the usual limits of open files, with two for each.
pub const CONNECTIONS: usize = 8_192;
/// Of one neighbour: a node may have a pilot for each of its GPUs, each of which has one to the
/// server and some for images.
pub const CONNECTIONS_EACH: usize = 256;
