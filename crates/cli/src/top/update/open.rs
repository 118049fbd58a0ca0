//! Opening a page over the panels: details, reasons, output.

use crate::top::app::{App, Panel};
use crate::top::news::{Ask, Ticket};
use crate::top::pages::{Detail, LogPane, Page};
use shipway_model::{JobId, TaskId, TaskIndex};

pub(super) fn detail(app: &mut App) -> Vec<Ask> {
    let Some(id) = some_job(app) else { return Vec::new() };
    let Some(job) = app.find(id).cloned() else {
        app.opening = Some(id);
        return vec![Ask::Spec(id)];
    };
    app.pages.push(Page::Detail(Detail::new(job, &app.reader)));
    vec![Ask::Spec(id), Ask::Refresh(app.wanted())]
}

pub(super) fn why(app: &mut App) -> Vec<Ask> {
    if matches!(app.pages.last(), Some(Page::Why { .. } | Page::Log(_))) {
        return Vec::new();
    }
    let Some(job) = some_job(app) else { return Vec::new() };
    app.pages.push(Page::Why { job, text: None, scroll: 0 });
    vec![Ask::Why(job)]
}

/// The output of the selected task. Of a job with many tasks one has to be chosen first.
pub(super) fn log(app: &mut App) -> Vec<Ask> {
    match app.pages.last() {
        Some(Page::Log(_) | Page::Why { .. }) => Vec::new(),
        Some(Page::Detail(detail)) => match detail.task().map(|task| task.id) {
            Some(task) => follow(app, task),
            None => Vec::new(),
        },
        None if app.panel == Panel::Gpus => match app.task_on_gpu() {
            Some(task) => follow(app, task),
            None => nothing_there(app),
        },
        None => match some_job(app) {
            Some(job) if app.find(job).is_some_and(|job| job.is_array) => {
                app.say("choose one of its tasks, then l again");
                detail(app)
            }
            Some(job) => follow(app, job.task(TaskIndex(0))),
            None => Vec::new(),
        },
    }
}

fn follow(app: &mut App, task: TaskId) -> Vec<Ask> {
    app.ticket = Ticket(app.ticket.0 + 1);
    app.pages.push(Page::Log(LogPane::new(task, app.ticket)));
    vec![Ask::Follow(task, app.ticket)]
}

/// The job that is meant; a word where there is none.
fn some_job(app: &mut App) -> Option<JobId> {
    let job = app.job();
    if job.is_none() {
        nothing_there(app);
    }
    job
}

fn nothing_there(app: &mut App) -> Vec<Ask> {
    app.complain(match app.panel {
        Panel::Jobs => "there is no job here",
        Panel::Nodes | Panel::Sites => "this works on jobs and GPUs (Tab: next panel)",
        Panel::Gpus => "no task of yours uses this GPU",
    });
    Vec::new()
}
