//! Following jobs: `shipway wait` decides when they are done, `shipway jobs --json` shows how far.
//!
//! Prints a line when a job's state or count changes, and nothing otherwise.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::children::{self, Group};
use crate::instance::Instance;

/// The demo's jobs take a second or two; one that takes this long is stuck.
const LIMIT: Duration = Duration::from_mins(2);
/// Often enough to look live, seldom enough not to be the load.
const POLL: Duration = Duration::from_millis(200);

/// How a job stands, as one line shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Progress {
    name: String,
    state: String,
    /// Tasks that succeeded, of how many.
    counts: Option<(u64, u64)>,
}

/// Waits for each job in turn while printing what changes in any of them.
pub(super) fn until_done(instance: &Instance, ids: &[String]) -> Result<()> {
    let mut shown = BTreeMap::new();
    for id in ids {
        let mut wait = Group::spawn(&mut instance.command(&["wait", id]))?;
        let deadline = Instant::now() + LIMIT;
        let status = loop {
            print_changes(&mut shown, look(instance)?);
            if let Some(status) = wait.ended()? {
                break status;
            }
            if children::interrupted() || Instant::now() >= deadline {
                bail!("job {id} did not end");
            }
            std::thread::sleep(POLL);
        };
        if !status.success() {
            bail!("`shipway wait {id}` ended with {status}");
        }
    }
    print_changes(&mut shown, look(instance)?);
    Ok(())
}

pub(super) fn is_over(instance: &Instance, id: &str) -> Result<bool> {
    let jobs = look(instance)?;
    let job = jobs.get(id).with_context(|| format!("`shipway jobs` does not list {id}"))?;
    Ok(matches!(job.state.as_str(), "succeeded" | "failed" | "cancelled"))
}

fn look(instance: &Instance) -> Result<BTreeMap<String, Progress>> {
    let text = children::stdout_of(&mut instance.command(&["jobs", "--json"]))?;
    parse(&text).context("could not read what `shipway jobs --json` printed")
}

fn print_changes(shown: &mut BTreeMap<String, Progress>, now: BTreeMap<String, Progress>) {
    for (id, progress) in now {
        if shown.get(&id) != Some(&progress) {
            println!("{}", line(&id, &progress));
            shown.insert(id, progress);
        }
    }
}

fn line(id: &str, progress: &Progress) -> String {
    let Progress { name, state, counts } = progress;
    match counts {
        Some((done, total)) if *total > 1 => format!("  {id:<6} {name:<10} {state} {done}/{total}"),
        _ => format!("  {id:<6} {name:<10} {state}"),
    }
}

/// The list itself, or an object that holds it as `jobs`.
fn parse(text: &str) -> Result<BTreeMap<String, Progress>> {
    let value: Value = serde_json::from_str(text)?;
    let jobs = value.as_array().or_else(|| value["jobs"].as_array());
    let jobs = jobs.context("neither a list nor an object with `jobs`")?;
    jobs.iter().map(parse_job).collect()
}

fn parse_job(job: &Value) -> Result<(String, Progress)> {
    let id = match &job["id"] {
        Value::String(id) => id.clone(),
        Value::Number(id) => id.to_string(),
        _ => bail!("a job without `id`: {job}"),
    };
    let state = job["state"].as_str().with_context(|| format!("a job without `state`: {job}"))?;
    let name = job["name"].as_str().unwrap_or_default();
    let counts = job["counts"].as_object().map(|counts| {
        let succeeded = counts.get("succeeded").and_then(Value::as_u64).unwrap_or(0);
        (succeeded, counts.values().filter_map(Value::as_u64).sum())
    });
    Ok((id, Progress { name: name.to_owned(), state: state.to_owned(), counts }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_a_line_with_its_count_if_it_has_many_tasks() {
        let text = r#"[{"id": "7", "name": "hello", "state": "running",
            "counts": {"waiting": 10, "active": 2, "succeeded": 8, "failed": 0, "cancelled": 0}}]"#;
        let jobs = parse(text).expect("a list of jobs");
        assert_eq!(line("7", &jobs["7"]), "  7      hello      running 8/20");
    }

    #[test]
    fn a_list_may_be_wrapped_and_counts_may_be_missing() {
        let jobs = parse(r#"{"jobs": [{"id": 7, "state": "held"}]}"#).expect("a list of jobs");
        assert_eq!(line("7", &jobs["7"]), "  7                 held");
    }

    #[test]
    fn what_is_no_list_of_jobs_is_refused() {
        assert!(parse("{}").is_err());
        assert!(parse(r#"[{"id": "7"}]"#).is_err());
        assert!(parse("no json").is_err());
    }
}
