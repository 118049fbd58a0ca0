//! What becomes of the model when something happens, and what is then to be asked. Pure: nothing
//! here waits, and the time is told.

mod act;
mod keys;
mod open;

use super::app::{App, Link};
use super::log_text::LogText;
use super::news::{Ask, Fresh, Input, News, Ticket};
use super::pages::{Detail, LogPane, Page};
use crate::view;
use crate::view::output::Stream;
use crate::view::why::WhyView;
use shipway_api::types::{JobView, LiveEvent, Why};
use shipway_model::TaskId;

pub fn update(app: &mut App, input: Input) -> Vec<Ask> {
    match input {
        Input::Key(key) => keys::key(app, key),
        Input::Size { width, height } => {
            app.size = (width, height);
            Vec::new()
        }
        Input::Time(now) => {
            app.reader.now = now;
            Vec::new()
        }
        Input::News(news) => heard(app, news),
    }
}

fn heard(app: &mut App, news: News) -> Vec<Ask> {
    match news {
        News::Fresh(fresh) => return refreshed(app, *fresh),
        News::Events(events) => return happened(app, &events),
        News::InTouch { url } => {
            app.server = url;
            app.link = Link::InTouch;
            return vec![Ask::Refresh(app.wanted())];
        }
        News::OutOfTouch { why } => out_of_touch(app, why),
        News::Spec(job) => return specified(app, *job),
        News::Why(why) => explained(app, &why),
        News::Output { ticket, stream, bytes } => written(app, ticket, stream, &bytes),
        News::OutputAgain { ticket } => {
            if let Some(pane) = log(app).filter(|pane| pane.ticket == ticket) {
                (pane.text, pane.from_end) = (LogText::default(), 0);
            }
        }
        News::OutputEnded { ticket } => output_ended(app, ticket),
        News::Done(Ok(text)) => app.say(text),
        News::Done(Err(text)) => app.complain(text),
    }
    Vec::new()
}

fn refreshed(app: &mut App, fresh: Fresh) -> Vec<Ask> {
    app.data = fresh;
    app.select_something();
    for page in &mut app.pages {
        if let Page::Detail(detail) = page
            && let Some((job, tasks)) =
                app.data.open.as_ref().filter(|(job, _)| job.id == detail.job.id)
        {
            detail.renew(job.clone(), tasks.tasks.clone(), &app.reader);
        }
    }
    match app.pages.last() {
        Some(Page::Why { job, .. }) => vec![Ask::Why(*job)],
        _ => Vec::new(),
    }
}

/// Anything that happened makes the lists old. A task that is being followed and starts again is
/// followed again.
fn happened(app: &mut App, events: &[LiveEvent]) -> Vec<Ask> {
    let mut asks = vec![Ask::Refresh(app.wanted())];
    let started = |task: TaskId| {
        events.iter().any(|event| match event {
            LiveEvent::TasksStarted { job, tasks } => {
                *job == task.job && tasks.contains(&task.index)
            }
            _ => false,
        })
    };
    let next = Ticket(app.ticket.0 + 1);
    if let Some(pane) = log(app).filter(|pane| pane.is_over && started(pane.task)) {
        pane.text.note("-- it runs again --");
        (pane.is_over, pane.ticket) = (false, next);
        asks.push(Ask::Follow(pane.task, next));
        app.ticket = next;
    }
    asks
}

/// Says it once, with the time it began; trying again does not begin anew.
fn out_of_touch(app: &mut App, why: String) {
    let since = match app.link {
        Link::InTouch => app.reader.now,
        Link::OutOfTouch { since, .. } => since,
    };
    app.link = Link::OutOfTouch { since, why };
}

fn specified(app: &mut App, job: JobView) -> Vec<Ask> {
    if app.opening.take_if(|opening| *opening == job.id).is_some() && app.pages.is_empty() {
        app.pages.push(Page::Detail(Detail::new(job, &app.reader)));
        return vec![Ask::Refresh(app.wanted())];
    }
    let mut details = app.pages.iter_mut().filter_map(|page| match page {
        Page::Detail(detail) => Some(detail),
        Page::Why { .. } | Page::Log(_) => None,
    });
    if let Some(detail) = details.find(|detail| detail.job.id == job.id) {
        detail.specify(job, &app.reader);
    }
    Vec::new()
}

fn explained(app: &mut App, why: &Why) {
    for page in &mut app.pages {
        if let Page::Why { job, text, .. } = page
            && *job == why.job
        {
            let shown = WhyView { why: why.clone(), reader: app.reader.clone() };
            *text = Some(view::text(&shown, false));
        }
    }
}

fn log(app: &mut App) -> Option<&mut LogPane> {
    app.pages.iter_mut().find_map(|page| match page {
        Page::Log(pane) => Some(pane),
        Page::Detail(_) | Page::Why { .. } => None,
    })
}

fn written(app: &mut App, ticket: Ticket, stream: Stream, bytes: &[u8]) {
    let Some(pane) = log(app).filter(|pane| pane.ticket == ticket) else { return };
    let lines = |text: &LogText| text.len() + usize::try_from(text.dropped).unwrap_or(usize::MAX);
    let before = lines(&pane.text);
    pane.text.push(stream, bytes);
    if pane.from_end > 0 {
        // Who has scrolled back goes on seeing the same lines.
        pane.from_end += lines(&pane.text).saturating_sub(before);
    }
}

fn output_ended(app: &mut App, ticket: Ticket) {
    if let Some(pane) = log(app).filter(|pane| pane.ticket == ticket) {
        pane.text.note("-- end of the output --");
        pane.is_over = true;
    }
}
