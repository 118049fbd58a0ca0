//! Two users of whom one has a hundred times the jobs; and a request for a whole large node against
//! a stream of small ones.

use super::chart::{Chart, Line};
use super::cluster::{KINDS, Kind};
use super::timeline::{Arrival, Timeline};
use super::workload::{Wish, user};
use crate::dice::Dice;
use shipway_model::{Cores, GpuRequest, JobId, Millis, Resources, UserName};
use std::fmt;

const MINUTE: u64 = 60_000;
const HOUR: u64 = 60 * MINUTE;

fn gpus(count: u32) -> Resources {
    let gpu = Some(GpuRequest::devices(count));
    Resources { cpus: Cores::whole(u64::from(count)), gpu, ..Resources::default() }
}

#[derive(Debug)]
pub struct TwoUsers {
    /// Of all device time, in thousandths, what the user with few jobs got.
    pub few_permille: u64,
    pub chart: String,
}

/// Sixteen nodes of eight devices; the busy user keeps 10,000 tasks waiting, the other 100.
pub fn two_users(days: u64) -> TwoUsers {
    let kind = KINDS[8];
    let mut line = Timeline::new(std::iter::repeat_n(kind, 16));
    let (many, few) = (user(1), user(2));
    let mut dice = Dice::new(7);
    let mut points = [Vec::new(), Vec::new()];
    keep_waiting(&mut line, &mut dice, &many, 10_000);
    keep_waiting(&mut line, &mut dice, &few, 100);
    let mut next = HOUR;
    while line.now < days * 24 * HOUR && line.advance() {
        refill(&mut line, &mut dice, (&many, 10_000), (&few, 100));
        if line.now >= next {
            next += HOUR;
            let share = |user: &UserName| part(&line, user);
            points[0].push((line.now / MINUTE, share(&many)));
            points[1].push((line.now / MINUTE, share(&few)));
        }
    }
    let few_permille = part(&line, &few);
    let [many_points, few_points] = points;
    let chart = Chart {
        title: "Device time of two users with equal shares, one with 100 times the jobs",
        across: "minutes",
        up: "thousandths of all device time so far",
        top: 1_000,
        lines: vec![
            Line { name: "10,000 tasks waiting", points: many_points },
            Line { name: "100 tasks waiting", points: few_points },
        ],
    };
    TwoUsers { few_permille, chart: chart.svg() }
}

fn part(line: &Timeline, user: &UserName) -> u64 {
    let all: u64 = line.given.values().sum();
    line.given.get(user).copied().unwrap_or(0) * 1_000 / all.max(1)
}

fn waiting(line: &Timeline, user: &UserName) -> u64 {
    line.state.ready().user(user).map_or(0, |queue| queue.len() as u64)
}

fn refill(
    line: &mut Timeline,
    dice: &mut Dice,
    (many, most): (&UserName, u64),
    (few, least): (&UserName, u64),
) {
    for (user, wanted) in [(many, most), (few, least)] {
        if waiting(line, user) < wanted / 2 {
            keep_waiting(line, dice, user, wanted / 2);
        }
    }
}

fn keep_waiting(line: &mut Timeline, dice: &mut Dice, user: &UserName, tasks: u64) {
    for _ in 0..tasks {
        let count = [1, 1, 1, 2, 2, 4, 8][usize::try_from(dice.below(7)).unwrap_or(0)];
        let limit = Some(Millis(HOUR));
        let wish = Wish { user: user.clone(), resources: gpus(count), tasks: 1, limit };
        let runs = 10 * MINUTE + dice.below(50 * MINUTE);
        line.expect(Arrival { at: line.now, wish, runs });
    }
}

#[derive(Debug)]
pub struct LargeRequest {
    pub waited: u64,
    /// What the reservation said when it was made.
    pub bound: Option<u64>,
    /// How much of the devices was in use from the request to its start, in thousandths.
    pub used_permille: u64,
    pub chart: String,
}

/// Four nodes of 32 devices, full of tasks for one with a limit of an hour each, and more of them
/// coming all the time. Then somebody asks for 32.
pub fn large_request() -> LargeRequest {
    let kind = Kind { gpus: 32, cpus: 256, ..KINDS[11] };
    let mut line = Timeline::new(std::iter::repeat_n(kind, 4));
    let mut dice = Dice::new(9);
    for at in 0..20_000u64 {
        let runs = 5 * MINUTE + dice.below(55 * MINUTE);
        let limit = Some(Millis(HOUR));
        let wish = Wish {
            user: user(u32::try_from(at % 5).unwrap_or(0)),
            resources: gpus(1),
            tasks: 1,
            limit,
        };
        line.expect(Arrival { at: 1 + at * 10_000, wish, runs });
    }
    let asked = 6 * HOUR;
    let wish = Wish { user: user(9), resources: gpus(32), tasks: 1, limit: Some(Millis(HOUR)) };
    line.expect(Arrival { at: asked, wish, runs: HOUR });
    let mut points = Vec::new();
    let (mut large, mut bound) = (None, None);
    while line.advance() {
        if line.now >= asked && large.is_none() {
            large = Some(newest(&line));
        }
        points.push((line.now / MINUTE, line.busy_gpus));
        let Some(job) = large else { continue };
        if let Some(held) = line.state.planner().reservation_of(job) {
            bound = bound.or(held.latest.map(|latest| latest.0.saturating_sub(asked)));
        }
        if line.started.contains_key(&job) && line.now > asked + 4 * HOUR {
            break;
        }
    }
    let job = large.expect("it was asked for");
    let start = line.started.get(&job).copied().unwrap_or(line.now);
    let waited = start - asked;
    let used = used_between(&points, asked / MINUTE, start / MINUTE);
    let chart = Chart {
        title: "Devices in use; a request for 32 of one node comes at minute 360",
        across: "minutes",
        up: "devices in use, of 128",
        top: 128,
        lines: vec![Line { name: "in use", points }],
    };
    LargeRequest { waited, bound, used_permille: used * 1_000 / 128, chart: chart.svg() }
}

impl fmt::Display for TwoUsers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "two users with equal shares, one with 100 times the jobs")?;
        let (whole, rest) = (self.few_permille / 10, self.few_permille % 10);
        writeln!(f, "  the other got        {whole}.{rest} % of device time (goal: 47.5 to 52.5)")
    }
}

impl fmt::Display for LargeRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let minutes = |span: u64| format!("{}m{:02}s", span / MINUTE, span % MINUTE / 1_000);
        let bound = self.bound.map_or_else(|| "none".into(), minutes);
        let (whole, rest) = (self.used_permille / 10, self.used_permille % 10);
        writeln!(f, "a request for 32 devices of one node against a stream of requests for one")?;
        writeln!(
            f,
            "  waited               {} (its reservation said: {bound})",
            minutes(self.waited)
        )?;
        writeln!(f, "  devices in use       {whole}.{rest} % meanwhile")
    }
}

fn newest(line: &Timeline) -> JobId {
    JobId(line.state.next_job().0 - 1)
}

/// The mean of a line between two moments.
fn used_between(points: &[(u64, u64)], from: u64, to: u64) -> u64 {
    let inside: Vec<u64> =
        points.iter().filter(|(at, _)| (from..=to).contains(at)).map(|(_, used)| *used).collect();
    inside.iter().sum::<u64>() / (inside.len() as u64).max(1)
}
