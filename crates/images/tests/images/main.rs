//! Images made here, pulled, attacked, killed in the middle, and compared with what other tools
//! make of them.

mod common;
mod engines;
mod hanging;
mod hostile;
mod killed;
mod listing;
mod others;
mod reach;
mod registry;
mod room;
mod store;
mod trust;
