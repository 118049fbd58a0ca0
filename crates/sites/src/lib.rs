//! Sites: suppliers of nodes. Each starts pilots in its own way; what runs there is decided
//! elsewhere.
//!
//! A site is a pure part (what to start) and a thin runner (starting it). This machine is the only
//! site so far.

pub mod local;
