//! Limits: held by the kernel where this node lets us, and told apart from other ends.

use crate::site::{Site, wait_for};
use crate::{Case, On};
use shipway_runtime::cgroup::{Delegation, Group};
use shipway_runtime::plan::Limits;
use shipway_runtime::report::Ending;
use std::path::Path;

pub(crate) const ALL: &[Case] =
    &[Case { name: "out of memory is told apart", on: On::Native, run: out_of_memory }];

const LIMIT: u64 = 32 << 20;

fn out_of_memory(site: &Site) {
    let delegation = Delegation::find(Path::new("/"));
    if !delegation.holds_memory() {
        println!("left out: no limits on memory here: {delegation:?}");
        return;
    }
    let limits = Limits { memory: Some(LIMIT), ..Limits::default() };
    let name = format!("shipway-test-{}", std::process::id());
    let mut group = Group::make(&delegation, &name, &limits).unwrap().expect("it is delegated");
    let mut container = site.command(&["tail", "/dev/zero"]);
    container.cgroups = group.doors();
    container.limits = limits;
    let outcome = site.run(&container);
    let killed = Ending::Signal { number: 9, core_dumped: false };
    let kills = group.out_of_memory_kills();
    wait_for("the group to be empty", || group.remove().is_ok());
    assert_eq!(outcome.ending, killed);
    assert!(kills > 0, "the kernel counted no kill");
}
