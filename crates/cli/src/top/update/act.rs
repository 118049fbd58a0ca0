//! Cancelling, which is asked back, and running again, which is not: it can be cancelled.

use crate::top::app::{App, Overlay};
use crate::top::news::{Act, Ask};
use crate::top::pages::Page;
use shipway_api::types::Selection;
use shipway_model::{TaskId, TaskState};

/// In a job's details: the selected task, unless the whole job is meant. Elsewhere: the job.
pub(super) fn ask_to_cancel(app: &mut App, whole: bool) {
    let Some(job) = app.job() else { return app.complain("there is no job here") };
    let state = app.find(job).map(|job| job.state);
    if let Some(state) = state.filter(|state| state.is_over()) {
        return app.complain(format!("job {job} is {state} already"));
    }
    if let Some(task) = task_of_array(app).filter(|_| !whole) {
        if let Some(state) = task_state(app, task).filter(|state| state.is_over()) {
            return app.complain(format!("task {task} is {state} already (C: the whole job)"));
        }
        let (what, tasks) = (format!("task {task}"), vec![task]);
        let selection = Selection { tasks, ..Selection::default() };
        app.overlay = Overlay::Cancel { what, selection };
        return;
    }
    let found = app.find(job);
    let name = found.map(|job| job.name.as_str()).filter(|name| !name.is_empty());
    let name = name.map(|name| format!(" ({name})")).unwrap_or_default();
    let tasks = found.filter(|job| job.tasks > 1);
    let tasks = tasks.map(|job| format!(", {} tasks", job.counts.waiting + job.counts.active));
    let what = format!("job {job}{name}{}", tasks.unwrap_or_default());
    let selection = Selection { jobs: vec![job], ..Selection::default() };
    app.overlay = Overlay::Cancel { what, selection };
}

/// Only an array has a part that can be cancelled.
fn task_of_array(app: &App) -> Option<TaskId> {
    match app.pages.last()? {
        Page::Detail(detail) if detail.job.is_array => detail.task().map(|task| task.id),
        Page::Log(pane) if app.find(pane.task.job).is_some_and(|job| job.is_array) => {
            Some(pane.task)
        }
        Page::Detail(_) | Page::Why { .. } | Page::Log(_) => None,
    }
}

fn task_state(app: &App, task: TaskId) -> Option<TaskState> {
    let (_, page) = app.data.open.as_ref()?;
    page.tasks.iter().find(|found| found.id == task).map(|found| found.state)
}

/// All tasks of the job that failed or were cancelled.
pub(super) fn retry(app: &mut App) -> Vec<Ask> {
    let Some(job) = app.job() else {
        app.complain("there is no job here");
        return Vec::new();
    };
    let counts = app.find(job).map(|job| job.counts);
    if counts.is_some_and(|counts| counts.failed + counts.cancelled == 0) {
        app.complain(format!("no task of job {job} failed or was cancelled"));
        return Vec::new();
    }
    let selection = Selection { jobs: vec![job], ..Selection::default() };
    vec![Ask::Act(Act::Retry, selection)]
}
