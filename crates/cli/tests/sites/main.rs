//! Real batch systems as sites of the real server: what waits brings pilots there, tasks run on
//! them once, and whatever ends in between, nothing is handed in twice or left behind.
//!
//! - `engines/`     a Slurm and an HTCondor pool, started for these tests and ended with them
//! - `ground.rs`    a site's file, and what tasks write
//! - `journal.rs`   what the server has noted of allocations and attempts
//! - `faults.rs`    what goes wrong with pilots at either
//! - `killed.rs`    a server that is killed while it hands in
//! - `together.rs` several nodes in one allocation of Slurm; `speed.rs` how soon tasks run there
//! - `slurm.rs`, `htcondor.rs` each by itself; `federated.rs` both and this machine at once
//!
//! They need root, and are a skip unless they are asked for: `cargo xtask test --only slurm` and
//! `--only htcondor`, which install what they need, or
//! `SHIPWAY_TEST_SLURM=1 cargo test -p shipway-cli --test sites slurm::` where it is there.

#[path = "../common/mod.rs"]
mod common;

mod engines;
mod faults;
mod federated;
mod ground;
mod htcondor;
mod journal;
mod killed;
mod slurm;
mod speed;
mod together;
