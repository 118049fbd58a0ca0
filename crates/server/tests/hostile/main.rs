//! Inputs that mean harm, at every door of the server, and what each answer cost.
//!
//! Every route with its body, query and headers, and every message of a pilot, made from good ones
//! by small and large changes. In process, behind the listener: the same router, handlers, writer
//! and journal. No input may panic, take more memory than six times its size and 16 MB, or more
//! than two seconds; and somebody who asks who they are meanwhile is answered as soon. The same
//! number always makes the same input.
//!
//! Small inputs are asked a few at once. What they take together is more than what any of them
//! takes: only where that is over what one may take is each asked again alone. Large ones are asked
//! alone from the start.
//!
//! `SHIPWAY_HOSTILE_INPUTS=N` makes it longer, `SHIPWAY_HOSTILE_FIRST=N` begins at another number:
//! one that failed is repeated by its own. Ten million take about half an hour of one core:
//! `SHIPWAY_HOSTILE_INPUTS=10000000 cargo test --release -p shipway-server --test hostile --
//! --nocapture`.
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
use futures_util::future::join_all;
use std::time::{Duration, Instant};
use world::{Answer, Bystander, Input, World};

#[global_allocator]
static MEMORY: peak_alloc::PeakAlloc = peak_alloc::PeakAlloc;

/// Enough to see every route and every kind of change; seconds on a slow machine.
const INPUTS: u64 = 6_000;
/// A server is used for so many, then for a new one what they left behind is gone.
const OF_ONE_SERVER: u64 = 20_000;
/// Inputs that are asked at once.
const AT_ONCE: u64 = 24;
/// Larger ones are asked alone. Six times all that are asked at once is well below `BESIDE`.
const SMALL: usize = 64 << 10;
/// What an answer may cost.
const LONGEST: Duration = Duration::from_secs(2);
const TIMES: usize = 6;
const BESIDE: usize = 16 << 20;

/// What the inputs so far cost at most, and how they were answered.
#[derive(Debug, Default)]
struct Costs {
    inputs: u64,
    longest: Duration,
    /// Of somebody who asked for little at the same time.
    longest_of_bystander: Duration,
    bystander_asked: u64,
    /// Beyond `TIMES` its size, of those that were asked alone.
    most_beside: usize,
    /// Of all that were asked at once.
    most_together: usize,
    alone: u64,
    asked_again: u64,
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
    let began = Instant::now();
    let mut number = first;
    while number < first + inputs {
        let end = (number + OF_ONE_SERVER).min(first + inputs);
        runtime.block_on(async {
            let mut world = World::new().await;
            let bystander = Bystander::start(&world);
            while number < end {
                let next = (number + AT_ONCE).min(end);
                world.mend().await;
                some(&world, number..next, &mut costs).await;
                number = next;
            }
            let (asked, longest) = bystander.end().await;
            costs.bystander_asked += asked;
            costs.longest_of_bystander = costs.longest_of_bystander.max(longest);
            assert!(longest <= LONGEST, "before input {end}, somebody else waited {longest:?}");
            world.end().await;
        });
    }
    // Seen with --nocapture: the record of a long run.
    #[allow(clippy::print_stderr, reason = "the record of a run")]
    {
        eprintln!("{costs:#?}\nin {:?}", began.elapsed());
    }
    assert_eq!(costs.inputs, inputs);
    assert!(costs.answered[2] > 0 && costs.answered[4] > 0, "some are taken and some refused");
}

fn input(world: &World, number: u64) -> Input {
    let mut chance = Chance::new(number);
    if chance.one_in(8) {
        pilots::input(world, &mut chance)
    } else {
        requests::input(world, &mut chance)
    }
}

/// The small ones of a few at once, then the large ones.
async fn some(world: &World, numbers: std::ops::Range<u64>, costs: &mut Costs) {
    let mut small = Vec::new();
    for number in numbers {
        let input = input(world, number);
        if input.size() <= SMALL {
            small.push((number, input));
        } else {
            alone(world, number, input, costs).await;
        }
    }
    together(world, small, costs).await;
}

async fn together(world: &World, inputs: Vec<(u64, Input)>, costs: &mut Costs) {
    let numbers: Vec<u64> = inputs.iter().map(|(number, _)| *number).collect();
    let before = MEMORY.current_usage();
    MEMORY.reset_peak_usage();
    // One pilot's connection ends another of the same pilot: those come one after the other.
    let (pilots, others): (Vec<_>, Vec<_>) =
        inputs.into_iter().partition(|(_, input)| input.is_pilots());
    let turns = others.into_iter().map(|one| vec![one]).chain([pilots]);
    let asked = turns.map(|turn| async move {
        let mut answers = Vec::new();
        for (number, input) in turn {
            let began = Instant::now();
            let answer = world.ask(input).await;
            answers.push((number, began.elapsed(), answer));
        }
        answers
    });
    let answers = join_all(asked).await;
    let memory = MEMORY.peak_usage().saturating_sub(before);
    costs.most_together = costs.most_together.max(memory);
    for (number, took, answer) in answers.into_iter().flatten() {
        judge(world, number, took, &answer, costs);
    }
    if memory > BESIDE {
        for number in numbers {
            costs.asked_again += 1;
            alone(world, number, input(world, number), costs).await;
            costs.inputs -= 1;
        }
    }
}

async fn alone(world: &World, number: u64, input: Input, costs: &mut Costs) {
    let size = input.size();
    let before = MEMORY.current_usage();
    MEMORY.reset_peak_usage();
    let began = Instant::now();
    let answer = world.ask(input).await;
    let took = began.elapsed();
    let memory = MEMORY.peak_usage().saturating_sub(before);
    let worth = TIMES * size.max(answer.bytes);
    let said = || said(world, number);
    assert!(memory <= worth + BESIDE, "input {number} took {memory} bytes for {size}: {}", said());
    costs.most_beside = costs.most_beside.max(memory.saturating_sub(worth));
    costs.alone += 1;
    judge(world, number, took, &answer, costs);
}

fn judge(world: &World, number: u64, took: Duration, answer: &Answer, costs: &mut Costs) {
    let Answer { status, is_away, .. } = *answer;
    let said = || said(world, number);
    assert!(took <= LONGEST, "input {number} took {took:?}: {}", said());
    assert!(status < 500 || is_away, "input {number} is answered with {status}: {}", said());
    costs.inputs += 1;
    costs.longest = costs.longest.max(took);
    if let Some(count) = costs.answered.get_mut(usize::from(status / 100)) {
        *count += 1;
    }
}

/// The input as text, made once more.
fn said(world: &World, number: u64) -> String {
    input(world, number).to_string()
}
