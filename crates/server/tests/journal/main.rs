//! The journal from outside: real files, real processes, real faults.

#![allow(clippy::unwrap_used, reason = "a test whose setting fails has failed")]
#![allow(clippy::print_stderr, reason = "a skipped test must be seen")]

mod crash;
mod damage;
mod faults;
mod history;
mod homes;
mod round_trip;
mod support;
