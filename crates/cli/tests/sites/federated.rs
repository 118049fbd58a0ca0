//! One server with a Slurm, an HTCondor pool and this machine: arrays with different needs run over
//! all three, and afterwards both batch systems' own accounts say what ours say.

use crate::common::{World, quick, wait_for};
use crate::engines::pool::{Pool, open_to_the_pool};
use crate::engines::slurm::Slurm;
use crate::engines::{Engine, remembered, wait_until_empty};
use crate::ground::{book, ends_well, site};
use crate::htcondor::pool;
use crate::journal::Journal;
use crate::slurm::hpc;
use std::collections::{BTreeMap, BTreeSet};

/// It starts when the test says so: by then there is a pilot of each kind, and all of them have
/// tasks to hold.
const WRITE_WHEN_TOLD: &str =
    "until [ -e go ]; do sleep 0.1; done; echo $SHIPWAY_TASK $CUDA_VISIBLE_DEVICES >> book";

#[test]
fn arrays_with_different_needs_run_over_slurm_htcondor_and_this_machine() {
    let (Some(slurm), Some(condor)) = (Slurm::with_accounts(), Pool::among()) else { return };
    let world = World::new();
    open_to_the_pool(&world);
    world.up();
    hpc(&slurm).add(&world);
    pool(&condor).add(&world);
    let part = if quick() { 50 } else { 500 };
    let submit = |count: usize, needs: &[&str]| {
        let array = format!("1-{count}");
        let request = ["--array", &array, "--cpus", "0.2"];
        world.submit(&[&request[..], needs, &["--", "sh", "-c", WRITE_WHEN_TOLD]].concat())
    };
    let jobs = BTreeMap::from([
        (submit(2 * part, &[]), "cpu"),
        (submit(part, &["--gpus", "A100"]), "a100"),
        (submit(part, &["--gpus", "K40"]), "k40"),
    ]);
    wait_for("a pilot of each kind", || {
        ["hpc", "pool"].iter().all(|name| {
            let classes = site(&world, name)["allocations"].clone();
            let come =
                classes.as_array().expect("a list").iter().filter(|it| !it["nodes"].is_null());
            come.map(|it| it["class"].to_string()).collect::<BTreeSet<_>>().len() == 3
        })
    });
    std::fs::write(world.work().join("go"), "").expect("written");
    for job in jobs.keys() {
        ends_well(&world, job);
    }
    each_task_ran_once_where_it_may(&world, &jobs, 4 * part);
    wait_until_empty(&world, "hpc", &slurm);
    wait_until_empty(&world, "pool", &*condor);
    agrees(&world, "hpc", &AccountsOf(&slurm));
    agrees(&world, "pool", &*condor);
}

/// `jobs` by what they need, which kinds of pilots are called by too.
fn each_task_ran_once_where_it_may(world: &World, jobs: &BTreeMap<String, &str>, count: usize) {
    let book = book(world);
    assert!(book.values().all(|times| *times == 1), "a task ran twice: {book:?}");
    let devices: BTreeMap<&str, &str> =
        book.keys().map(|line| line.split_once(' ').unwrap_or((line, ""))).collect();
    assert_eq!((book.len(), devices.len()), (count, count), "each task");
    let journal = Journal::of(world);
    assert_eq!(journal.attempts.len(), count, "no attempt but the one that ran");
    let mut sites: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for attempt in &journal.attempts {
        let job = attempt.task.split('/').next().expect("a job");
        let (needs, at) = (jobs[job], &journal.allocations[&attempt.allocation]);
        assert_eq!(attempt.verdict, "succeeded", "{attempt:?}");
        sites.entry(needs).or_default().insert(&at.site);
        let class = at.class.as_deref();
        assert!(needs == "cpu" || class == Some(needs), "{attempt:?} on {at:?}");
        assert_eq!(devices[&*attempt.task].is_empty(), needs == "cpu", "{attempt:?}");
    }
    assert_eq!(sites["cpu"], BTreeSet::from(["hpc", "pool", "this-machine"]));
    for needs in ["a100", "k40"] {
        assert_eq!(sites[needs], BTreeSet::from(["hpc", "pool"]), "{needs}");
    }
}

/// What the database of jobs has, which is told later than the queue.
struct AccountsOf<'a>(&'a Slurm);

impl Engine for AccountsOf<'_> {
    fn queue(&self) -> Vec<String> {
        self.0.queue()
    }

    fn history(&self) -> Vec<(String, String)> {
        self.0.accounts()
    }
}

/// Allocation by allocation: what the engine says of its end, what we noted, and what is shown.
fn agrees(world: &World, name: &str, engine: &impl Engine) {
    let theirs = || {
        let all = remembered(world, engine).into_iter();
        all.map(|(id, end)| (id, as_we_say(&end).to_owned())).collect::<Vec<_>>()
    };
    wait_for("an end of all in the accounts", || theirs().iter().all(|(_, end)| end != "none"));
    let mut theirs = theirs();
    theirs.sort();
    let journal = Journal::of(world);
    let of_it = journal.allocations.iter().filter(|(_, it)| it.site == name);
    let ours: Vec<(String, String)> = of_it
        .map(|(id, it)| (id.clone(), it.phase["ended"].as_str().unwrap_or("none").to_owned()))
        .collect();
    assert_eq!(ours, theirs, "{name}: what we noted, and what the engine did");
    let shown = site(world, name)["ended"].clone();
    let shown = shown.as_array().expect("a list").iter().map(|one| {
        let text = |key: &str| one[key].as_str().expect("text").to_owned();
        (text("allocation"), text("end"))
    });
    let mut shown: Vec<(String, String)> = shown.collect();
    shown.sort();
    assert_eq!(shown, theirs, "{name}: what is shown, and what the engine did");
}

/// An engine's word for an end, in ours; of HTCondor's jobs status and exit code.
fn as_we_say(end: &str) -> &'static str {
    match end {
        "COMPLETED" | "4 0" => "completed",
        "3 undefined" => "cancelled",
        _ if end.starts_with("CANCELLED") => "cancelled",
        _ if end.starts_with("4 ") || end == "FAILED" => "failed",
        _ => "none",
    }
}
