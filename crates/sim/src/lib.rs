//! A deterministic world around the core and the pilot: virtual time, a network that delays and
//! breaks, nodes that die, a server that crashes, a clock that jumps. All of it from one seed.
//!
//! ```text
//!  clients ──▶ server (core::State + disk) ◀── network ──▶ pilots (pilot::Machine) ──▶ processes
//!                        └───────────────── truth: what really happened ─────────────────┘
//! ```
//!
//! Only the outside is simulated. The core and the pilot's machine are the real ones. `truth` keeps
//! its own books of what really ran and knows nothing of the core's, so the two can disagree.

pub mod batch;
pub mod behaviour;
pub mod crowd;
pub mod dice;
pub mod disk;
pub mod final_check;
pub mod node;
pub mod replay;
pub mod scale;
pub mod scenario;
pub mod seeds;
pub mod server;
pub mod totals;
pub mod truth;
pub mod workload;
pub mod world;
