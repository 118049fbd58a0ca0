//! Prints what the probe finds on this machine. A developer's look; the product shows it in its
//! own way.
#![allow(clippy::print_stdout, reason = "printing what was found is all this program is for")]

use shipway_pilot::probe::{Places, probe};

fn main() {
    println!("{:#?}", probe(&Places::of_this_node(std::path::Path::new(".")), None));
}
