//! Inputs that mean harm, at every door of the server, and what each answer cost.
//!
//! Every route with its body, query and headers, and every message of a pilot, made from good ones
//! by small and large changes. In process, behind the listener: the same router, handlers, writer
//! and journal. No input may panic, take more memory than six times its size and 16 MB, or more
//! than two seconds. The same number always makes the same input.
//!
//! `SHIPWAY_HOSTILE_INPUTS=N` makes it longer, `SHIPWAY_HOSTILE_FIRST=N` begins at another number:
//! one that failed is repeated by its own.
//!
//! - `chance.rs`  numbers that look random and are not
//! - `mutate.rs`  from a good text or message to a bad one
//! - `requests.rs` the routes, and good requests to each
//! - `pilots.rs`  the messages of a pilot
//! - `world.rs`   a server without a listener

mod chance;
mod mutate;
mod pilots;
mod requests;
mod world;

use chance::Chance;
use std::time::{Duration, Instant};
use world::{Answer, World};

#[global_allocator]
static MEMORY: peak_alloc::PeakAlloc = peak_alloc::PeakAlloc;

/// Enough to see every route and every kind of change; seconds on a slow machine.
const INPUTS: u64 = 6_000;
/// A server is used for so many, then for a new one what they left behind is gone.
const OF_ONE_SERVER: u64 = 20_000;
/// What an answer may cost.
const LONGEST: Duration = Duration::from_secs(2);
const TIMES: usize = 6;
const BESIDE: usize = 16 << 20;

/// What the inputs so far cost at most, and how they were answered.
#[derive(Debug, Default)]
struct Costs {
    inputs: u64,
    longest: Duration,
    /// Beyond `TIMES` its size.
    most_beside: usize,
    answered: [u64; 6],
}

fn setting(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

#[test]
fn no_input_costs_more_than_it_is_worth() {
    let first = setting("SHIPWAY_HOSTILE_FIRST", 0);
    let inputs = setting("SHIPWAY_HOSTILE_INPUTS", INPUTS);
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(1).enable_all().build().expect("a runtime");
    let mut costs = Costs::default();
    let mut number = first;
    while number < first + inputs {
        let end = (number + OF_ONE_SERVER).min(first + inputs);
        runtime.block_on(async {
            let world = World::new().await;
            for number in number..end {
                one(&world, number, &mut costs).await;
            }
            world.end().await;
        });
        number = end;
    }
    // Seen with --nocapture: the record of a long run.
    #[allow(clippy::print_stderr, reason = "the record of a run")]
    {
        eprintln!("{costs:#?}");
    }
    assert_eq!(costs.inputs, inputs);
    assert!(costs.answered[2] > 0 && costs.answered[4] > 0, "some are taken and some refused");
}

async fn one(world: &World, number: u64, costs: &mut Costs) {
    let mut chance = Chance::new(number);
    let input = if chance.one_in(8) {
        pilots::input(world, &mut chance)
    } else {
        requests::input(world, &mut chance)
    };
    let (said, size) = (input.to_string(), input.size());
    let before = MEMORY.current_usage();
    MEMORY.reset_peak_usage();
    let began = Instant::now();
    let Answer { status, bytes, is_away } = world.ask(input).await;
    let took = began.elapsed();
    let memory = MEMORY.peak_usage().saturating_sub(before);
    let worth = TIMES * size.max(bytes);
    assert!(took <= LONGEST, "input {number} took {took:?}: {said}");
    assert!(memory <= worth + BESIDE, "input {number} took {memory} bytes for {size}: {said}");
    assert!(status < 500 || is_away, "input {number} is answered with {status}: {said}");
    costs.inputs += 1;
    costs.longest = costs.longest.max(took);
    costs.most_beside = costs.most_beside.max(memory.saturating_sub(worth));
    let kind = usize::from(status / 100);
    if let Some(count) = costs.answered.get_mut(kind) {
        *count += 1;
    }
}
