//! Images made here, pulled, attacked, killed in the middle, and compared with what other tools
//! make of them.

mod common;
mod hostile;
mod store;
