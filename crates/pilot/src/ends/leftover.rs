//! What an earlier pilot of the folder left word of. Read once, with the folder's lock held and
//! when nothing of that pilot runs any more; then all of it is in `ends` again, and the rest goes.

use super::{ENDS, Record, read_bounded, records, slots};
use shipway_model::ids::{Attempt, JobId, TaskIndex};
use shipway_model::{AttemptId, Ended, Held, HeldPhase, Millis, Outcome, PilotId, Timestamp};
use shipway_runtime::report::Ending;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Where the guard writes how the processes of a dead pilot ended: a line each.
pub(crate) const LEFT_BY_GUARD: &str = "reaped";
/// The folder where helpers write how the tasks of containers ended: a file each.
pub(crate) const TOLD: &str = "told";

/// Ends that a greeting tells of: half of what a message may name. The newest, because the server
/// has had the longest time to hear of the others.
const MOST_LEFT: usize = shipway_api::link::MAX_ENTRIES / 2;

/// Ends that the server may not know.
#[derive(Debug, Default)]
pub(crate) struct Left {
    pub(crate) ends: Vec<Held>,
    /// Those that the pilot did not see itself: what they printed last it has not seen either.
    pub(crate) unseen: Vec<AttemptId>,
}

/// Reads what is there. `settle` is to be called when it is safe elsewhere.
pub(crate) fn take(dir: &Path) -> io::Result<Left> {
    let slots = slots::read(dir)?;
    let by_attempt: HashMap<AttemptId, slots::Slot> =
        slots.iter().map(|slot| (slot.log, *slot)).collect();
    let (mut ends, mut whose) = (BTreeMap::new(), None);
    for record in records(&read_bounded(&dir.join(ENDS))?) {
        match record {
            Record::Of(pilot) => whose = Some(pilot),
            Record::Ended(held) => drop(ends.insert((held.id, held.of.clone()), held)),
        }
    }
    let Some(whose) = whose else { return Ok(Left::default()) };
    let mut unseen = Vec::new();
    let reaped = reaped(dir)?;
    let seen_by_guard = slots.iter().filter(|slot| slot.ends_with_exit);
    let seen_by_guard = seen_by_guard.filter_map(|slot| Some((slot.log, *reaped.get(&slot.pid)?)));
    for (id, at) in seen_by_guard.chain(told(dir)?) {
        if let Entry::Vacant(free) = ends.entry((id, Some(whose.clone()))) {
            let started = by_attempt.get(&id).map_or(at, |slot| slot.started.min(at));
            free.insert(success(id, &whose, started, at));
            unseen.push(id);
        }
    }
    let mut ends: Vec<Held> = ends.into_values().collect();
    ends.sort_by_key(|held| std::cmp::Reverse(held.end().map(|end| end.ended)));
    ends.truncate(MOST_LEFT);
    Ok(Left { ends, unseen })
}

impl Left {
    /// All of it is in `ends` by now. Helpers make files there, and nobody makes folders.
    pub(crate) fn settle(dir: &Path) {
        let _ = std::fs::remove_file(dir.join(LEFT_BY_GUARD));
        let told = dir.join(TOLD);
        for entry in std::fs::read_dir(&told).into_iter().flatten().flatten() {
            let _ = std::fs::remove_file(entry.path());
        }
        let _ = std::fs::remove_dir(told);
    }
}

fn success(id: AttemptId, pilot: &PilotId, started: u64, ended: u64) -> Held {
    let end = Ended {
        outcome: Outcome::Exit { code: 0 },
        started: Some(Timestamp(started)),
        ended: Timestamp(ended),
        ran: Millis(ended.saturating_sub(started)),
    };
    Held { of: Some(pilot.clone()), ..Held::own(id, HeldPhase::Ended(end)) }
}

/// When processes ended with 0 that the guard has seen: `PID MILLISECONDS` in each line.
fn reaped(dir: &Path) -> io::Result<HashMap<u32, u64>> {
    let text = read_bounded(&dir.join(LEFT_BY_GUARD))?;
    let text = String::from_utf8_lossy(&text);
    // What stands behind the last line's end is torn.
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let line = |line: &str| {
        let (pid, at) = line.split_once(' ')?;
        Some((pid.parse().ok()?, at.parse().ok()?))
    };
    Ok(whole.lines().filter_map(line).collect())
}

/// The attempts whose helper has told of an exit with 0, and when.
fn told(dir: &Path) -> io::Result<Vec<(AttemptId, u64)>> {
    let entries = match std::fs::read_dir(dir.join(TOLD)) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry?;
        let Some(log) = entry.file_name().to_str().and_then(of_name) else { continue };
        let ending: Option<Ending> = serde_json::from_slice(&read_bounded(&entry.path())?).ok();
        if ending == Some(Ending::Exit(0)) {
            let at = entry.metadata()?.modified().unwrap_or_else(|_| SystemTime::now());
            let at = at.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
            found.push((log, u64::try_from(at).unwrap_or(u64::MAX)));
        }
    }
    Ok(found)
}

/// The name of the file that a helper tells in.
pub(crate) fn name_of(log: AttemptId) -> String {
    format!("{}.{}.{}", log.task.job.0, log.task.index.0, log.attempt.0)
}

fn of_name(name: &str) -> Option<AttemptId> {
    let mut numbers = name.split('.').map(str::parse::<u64>);
    let (job, index) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    let attempt = u32::try_from(numbers.next()?.ok()?).ok()?;
    let task = JobId(job).task(TaskIndex(index));
    numbers.next().is_none().then_some(task.attempt(Attempt(attempt)))
}
