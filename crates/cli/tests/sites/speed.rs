//! How soon a first task runs on an idle Slurm, beside the same handed in by hand; and how fast a
//! pilot there takes a thousand more, beside one of this machine. It prints figures (`--nocapture`)
//! and judges none: they are of a debug build, on whatever machine this is.

use crate::common::{World, quick, wait_for};
use crate::engines::slurm::Slurm;
use crate::engines::wait_until_empty;
use crate::ground::{Class, SiteFile, ends_well};
use crate::slurm::{hpc, without_pilot};
use std::path::Path;
use std::time::{Instant, SystemTime};

/// The task says when it began, and nothing else.
const SAY_WHEN: &str = "date +%s%N > began.part && mv began.part began";

/// Milliseconds from now on until the task said that it began.
fn until_begun(folder: &Path, hand_in: impl FnOnce()) -> u128 {
    let said = folder.join("began");
    let _ = std::fs::remove_file(&said);
    let asked = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
    hand_in();
    wait_for("the task began", || said.exists());
    let began = std::fs::read_to_string(&said).expect("written whole");
    let began: u128 = began.trim().parse().expect("nanoseconds");
    began.saturating_sub(asked.as_nanos()) / 1_000_000
}

fn median(mut of: Vec<u128>) -> u128 {
    of.sort_unstable();
    of[of.len() / 2]
}

#[test]
fn a_first_task_and_a_thousand_more() {
    let Some(slurm) = Slurm::own() else { return };
    let world = without_pilot();
    let cpu = Class { more: ", partition: main", ..Class::cpu(1) };
    // As plain processes, which is how tests run them here too.
    SiteFile { classes: vec![cpu], more: "image: none\n".to_owned(), ..hpc(&slurm) }.add(&world);
    let rounds = if quick() { 1 } else { 5 };
    let (mut ours, mut by_hand) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let work = world.work();
        let batch = format!("sbatch --output=/dev/null --chdir={}", work.display());
        by_hand.push(until_begun(&work, || {
            slurm.type_in(&format!("{batch} --wrap '{SAY_WHEN}'"));
        }));
        wait_for("Slurm is idle", || slurm.type_in("squeue --noheader").trim().is_empty());
        ours.push(until_begun(&work, || {
            world.submit(&["--", "sh", "-c", SAY_WHEN]);
        }));
        wait_until_empty(&world, "hpc", &slurm);
    }
    println!("a first task: by hand {by_hand:?} ms, here {ours:?} ms");
    let (by_hand, ours) = (median(by_hand).max(1), median(ours));
    println!("medians: {by_hand} ms by hand, {ours} ms here: {}/100", ours * 100 / by_hand);
    let at_site = rate(&world);
    let here = rate(&World::started());
    println!("more tasks: {at_site} a second there, {here} a second here");
    wait_until_empty(&world, "hpc", &slurm);
}

/// Tasks a second of one array, on a pilot that is there already.
fn rate(world: &World) -> u64 {
    ends_well(world, &world.submit(&["--", "true"]));
    let count = if quick() { 50 } else { 1_000 };
    let array = format!("1-{count}");
    let began = Instant::now();
    let job = world.submit(&["--array", &array, "--cpus", "0.5", "--", "true"]);
    ends_well(world, &job);
    count * 1_000 / u64::try_from(began.elapsed().as_millis()).expect("short").max(1)
}
