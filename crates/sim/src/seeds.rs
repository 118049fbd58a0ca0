//! One seed, from the first pilot to the last check.

use crate::dice::Dice;
use crate::totals::Totals;
use crate::world::{Settings, World};
use crate::{final_check, workload};

/// How long things break, and how long the rest may take to come to an end.
const ROUGH: (u64, u64) = (60_000, 180_000);
const REST_STEP: u64 = 10_000;
/// Sixty tasks one after the other, three minutes and four attempts each, take twelve hours.
const REST_LIMIT: u64 = 24 * 3_600 * 1_000;

#[derive(Debug)]
pub struct Report {
    pub seed: u64,
    pub totals: Totals,
    pub violation: Option<String>,
    /// What happened last.
    pub log: Vec<String>,
    /// A digest of everything that happened: equal seeds give equal ones.
    pub trace: u64,
}

pub fn run(seed: u64) -> Report {
    run_with(seed, false)
}

/// The same with a server that has a mistake: replies leave before what they tell of is on disk.
pub fn run_mistaken(seed: u64) -> Report {
    run_with(seed, true)
}

fn run_with(seed: u64, replies_too_early: bool) -> Report {
    let mut dice = Dice::new(seed ^ 0x5eed);
    let settings = Settings { replies_too_early, ..workload::settings(&mut dice) };
    let mut world = World::new(seed, settings);
    workload::add_nodes(&mut world);
    world.get_rough();
    world.run_until(dice.between(ROUGH));
    world.get_calm();
    let end = world.now + REST_LIMIT;
    loop {
        workload::cancel_hopeless(&mut world);
        world.run_until(world.now + REST_STEP);
        if world.violation.is_some() {
            break;
        }
        match final_check::not_over(&world) {
            Some(what) if world.now > end => {
                world.fail(what);
                break;
            }
            Some(_) => {}
            None => {
                // The last processes may still be dying, the last reports on their way.
                world.run_until(world.now + REST_STEP);
                if final_check::not_over(&world).is_none() {
                    break;
                }
            }
        }
    }
    if world.violation.is_none()
        && let Err(what) = final_check::check(&world)
    {
        world.fail(what);
    }
    report(seed, world)
}

fn report(seed: u64, mut world: World) -> Report {
    world.totals.seconds = world.now / 1_000;
    world.totals.attempts = world.truth.started_count();
    world.totals.jobs = world.disk.jobs().len() as u64;
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let mut trace = 0xcbf2_9ce4_8422_2325;
    world.disk.show(0, |line| trace = line.bytes().fold(trace, mix));
    Report {
        seed,
        totals: world.totals,
        violation: world.violation,
        log: world.log.into_iter().collect(),
        trace,
    }
}
