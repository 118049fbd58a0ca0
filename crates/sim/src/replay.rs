//! Folds a recorded journal, one event at a time, and says where the first thing goes wrong.

use anyhow::{Context, Result, bail};
use shipway_core::event::{Event, Recorded};
use shipway_core::evolve::evolve;
use shipway_core::{State, invariants};
use std::fmt::Write;

/// The story of a journal: a line per event when `every`, and a summary at the end. Fails at the
/// first line that cannot be read or that breaks an invariant.
pub fn replay(lines: impl Iterator<Item = std::io::Result<String>>, every: bool) -> Result<String> {
    let mut state = State::default();
    let mut out = String::new();
    let mut count = 0;
    for (at, line) in lines.enumerate() {
        let line = line.context("cannot read the journal")?;
        if line.trim().is_empty() {
            continue;
        }
        let number = at + 1;
        let recorded = Recorded::read(line.as_bytes())
            .with_context(|| format!("line {number} is not a recorded event"))?;
        evolve(&mut state, recorded.at, &recorded.event);
        count += 1;
        if every {
            writeln!(out, "{number:>6} {}", describe(&recorded.event))?;
            writeln!(out, "       {}", summary(&state))?;
        }
        let found = invariants::check(&state);
        if !found.is_empty() && !is_amid_a_step(&recorded.event) {
            bail!("{out}line {number}: {}\nbreaks {found:?}", describe(&recorded.event));
        }
    }
    writeln!(out, "{count} events, no violation; {}", summary(&state))?;
    Ok(out)
}

/// A job's last end is recorded just before the end of the job: between the two, and only there,
/// the job is over but not ended.
fn is_amid_a_step(event: &Event) -> bool {
    matches!(event, Event::AttemptEnded(_) | Event::TasksCancelled { .. })
}

fn describe(event: &Event) -> String {
    let text = serde_json::to_string(event).unwrap_or_default();
    let short: String = text.chars().take(140).collect();
    if short.len() < text.len() { format!("{short}…") } else { short }
}

pub fn summary(state: &State) -> String {
    let ended = state.jobs().iter().filter(|(_, job)| job.ended.is_some()).count();
    let connected = state.pilots().values().filter(|pilot| pilot.is_connected()).count();
    format!(
        "{} job(s), {ended} over; {} active task(s); {connected} of {} pilot(s) in touch",
        state.jobs().len(),
        state.active().len(),
        state.pilots().len()
    )
}
