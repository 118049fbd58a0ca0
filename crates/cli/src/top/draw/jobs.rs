//! The panel of jobs, and the tasks of one job.

use super::grid::{Cell, Column, Grid};
use super::style::{Tone, bar};
use crate::top::app::App;
use crate::top::pages::Detail;
use crate::view::reason::sentence;
use crate::view::time::short;
use shipway_api::types::{JobView, TaskView};
use shipway_model::{Millis, Outcome};

/// From here on names may be longer and there is room for the time a job took.
const ROOMY: u16 = 110;
/// Places of a progress bar.
const BAR: usize = 10;

pub(super) fn grid(app: &App, width: u16) -> Grid {
    let is_roomy = width >= ROOMY;
    let jobs = app.jobs();
    let mut columns: Vec<Column> = vec![("ID", 8)];
    if app.list.all {
        columns.push(("OWNER", 12));
    }
    let name = if is_roomy { 36 } else { 18 };
    columns.extend([("NAME", name), ("STATE", 9), ("TASKS", 32), ("AGE", 7)]);
    if is_roomy {
        columns.push(("TOOK", 7));
    }
    columns.push(("REASON", 0));
    let rows = jobs.iter().map(|job| row(app, job, is_roomy)).collect();
    let selected = jobs.iter().position(|job| Some(job.id) == app.list.selected);
    let empty = match (app.list.filter.is_empty(), app.list.all) {
        (false, _) => "no job matches (Esc: all of them)",
        (true, true) => "no jobs",
        (true, false) => "no jobs of yours (submit one with `shipway run`)",
    };
    Grid { columns, rows, selected, empty }
}

fn row(app: &App, job: &JobView, is_roomy: bool) -> Vec<Cell> {
    let mut cells: Vec<Cell> = vec![job.id.into()];
    if app.list.all {
        cells.push(Cell::from(&job.owner));
    }
    cells.extend([
        if job.name.is_empty() { "-".into() } else { Cell::from(&job.name) },
        Cell::toned(job.state, Tone::of_job(job.state)),
        progress(job, is_roomy).into(),
        age(app, job).into(),
    ]);
    if is_roomy {
        let took = job.ended.map(|ended| short(ended.since(job.submitted)));
        cells.push(took.unwrap_or_else(|| "-".into()).into());
    }
    cells.push(reason(app, job).into());
    cells
}

/// In whole seconds: it is drawn once a second.
fn age(app: &App, job: &JobView) -> String {
    match app.reader.now.since(job.submitted) {
        Millis(0..1_000) => "0s".into(),
        span => short(span),
    }
}

/// Ended tasks of all of them; a bar where there are many, and room for it.
fn progress(job: &JobView, is_roomy: bool) -> String {
    let counts = job.counts;
    let ended = counts.succeeded + counts.failed + counts.cancelled;
    let mut text = format!("{ended}/{}", job.tasks);
    if job.is_array && is_roomy {
        text = format!("{} {text}", bar(ended.into(), job.tasks.into(), BAR));
    }
    if job.is_array && counts.failed > 0 {
        text = format!("{text} {} failed", counts.failed);
    }
    text
}

/// Why it waits; or, when it ended badly, how.
pub(super) fn reason(app: &App, job: &JobView) -> String {
    let outcome = job.outcome.as_ref().filter(|end| !end.is_success() && !is_plain(end));
    match job.reasons.first().filter(|_| !job.state.is_over()) {
        Some(reason) => sentence(reason, &app.reader),
        None => outcome.map(ToString::to_string).unwrap_or_default(),
    }
}

/// The state says as much.
fn is_plain(end: &Outcome) -> bool {
    *end == Outcome::Cancelled
}

pub(super) fn tasks(app: &App, detail: &Detail, width: u16) -> Grid {
    let is_roomy = width >= ROOMY;
    let mut columns = vec![("TASK", 20), ("STATE", 9), ("TRY", 4), ("TIME", 8), ("NODE", 20)];
    if is_roomy {
        columns.push(("DEVICES", 44));
    }
    columns.push(("OUTCOME", 0));
    let rows = detail.tasks.iter().map(|task| task_row(app, task, is_roomy)).collect();
    Grid { columns, rows, selected: Some(detail.selected), empty: "…" }
}

fn task_row(app: &App, task: &TaskView, is_roomy: bool) -> Vec<Cell> {
    let until = task.ended.unwrap_or(app.reader.now);
    let time = task.started.map(|started| short(until.since(started)));
    let dash = || Cell::from("-");
    let mut cells = vec![
        task.id.into(),
        Cell::toned(task.state, Tone::of_task(task.state)),
        task.attempt.into(),
        time.map_or_else(dash, Cell::from),
        task.node.as_ref().map_or_else(dash, Cell::from),
    ];
    if is_roomy {
        cells.push(if task.devices.is_empty() { dash() } else { task.devices.join(" ").into() });
    }
    cells.push(task.outcome.as_ref().map(ToString::to_string).unwrap_or_default().into());
    cells
}
