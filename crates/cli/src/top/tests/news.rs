//! What the server says, and what becomes of it.

use super::{MINUTE, NOW, app, fresh, hear, open_array, press};
use crate::top::app::{App, Link};
use crate::top::news::{Ask, Input, News, Ticket};
use crate::top::pages::{LogPane, Page};
use crate::top::update::update;
use crate::view::output::Stream;
use ratatui::crossterm::event::KeyCode;
use shipway_api::types::LiveEvent;
use shipway_model::{JobId, TaskIndex, Timestamp};

#[test]
fn anything_that_happens_makes_the_lists_old() {
    let mut app = app();
    let wanted = app.wanted();
    let happened = News::Events(vec![LiveEvent::JobSubmitted { job: JobId(18) }]);
    assert_eq!(hear(&mut app, happened), [Ask::Refresh(wanted)]);
    let back = News::InTouch { url: "http://127.0.0.1:1".into() };
    assert_eq!(hear(&mut app, back), [Ask::Refresh(wanted)], "what was missed is fetched");
    assert_eq!(app.server, "http://127.0.0.1:1");
}

#[test]
fn being_out_of_touch_is_counted_from_its_beginning() {
    let mut app = app();
    let lost = |why: &str| News::OutOfTouch { why: why.into() };
    hear(&mut app, lost("first"));
    update(&mut app, Input::Time(Timestamp(NOW + MINUTE)));
    hear(&mut app, lost("second"));
    let expected = Link::OutOfTouch { since: Timestamp(NOW), why: "second".into() };
    assert_eq!(app.link, expected);
    assert_eq!(app.jobs().len(), 6, "what was known is still shown");
    hear(&mut app, News::InTouch { url: "http://127.0.0.1:7447".into() });
    assert_eq!(app.link, Link::InTouch);
}

#[test]
fn reasons_are_asked_anew_while_they_are_looked_at() {
    let mut app = app();
    press(&mut app, KeyCode::Char('w'));
    let asks = hear(&mut app, News::Fresh(Box::new(fresh("admin"))));
    assert_eq!(asks, [Ask::Why(JobId(15))]);
}

/// The lists come without specifications; the open job keeps its own.
#[test]
fn details_stay_whole_when_they_are_renewed() {
    let mut app = app();
    open_array(&mut app);
    let Some(Page::Detail(detail)) = app.pages.last() else { panic!("no details") };
    assert!(detail.facts.contains("scan.py") && detail.facts.contains("480 succeeded"));
    assert_eq!(detail.tasks.len(), 3);
    // A list that does not have the job leaves the details as they were.
    hear(&mut app, News::Fresh(Box::new(fresh("admin"))));
    let Some(Page::Detail(detail)) = app.pages.last() else { panic!("no details") };
    assert_eq!(detail.tasks.len(), 3);
}

fn following() -> (App, Ticket) {
    let mut app = app();
    press(&mut app, KeyCode::Down);
    press(&mut app, KeyCode::Char('l'));
    let ticket = app.ticket;
    (app, ticket)
}

fn write(app: &mut App, ticket: Ticket, text: &str) {
    let bytes = text.as_bytes().to_vec().into();
    hear(app, News::Output { ticket, stream: Stream::Stdout, bytes });
}

fn pane(app: &App) -> &LogPane {
    match app.pages.last() {
        Some(Page::Log(pane)) => pane,
        other => panic!("not the output: {other:?}"),
    }
}

#[test]
fn output_of_an_earlier_look_is_not_mixed_in() {
    let (mut app, first) = following();
    write(&mut app, first, "one\n");
    press(&mut app, KeyCode::Esc);
    press(&mut app, KeyCode::Char('l'));
    write(&mut app, first, "late\n");
    assert!(pane(&app).text.is_empty());
    let second = app.ticket;
    write(&mut app, second, "one\n");
    assert_eq!(pane(&app).text.len(), 1);
}

#[test]
fn who_has_scrolled_back_keeps_the_place() {
    let (mut app, ticket) = following();
    write(&mut app, ticket, "1\n2\n3\n4\n");
    press(&mut app, KeyCode::Up);
    assert_eq!(pane(&app).from_end, 1);
    write(&mut app, ticket, "5\n6\n");
    assert_eq!(pane(&app).from_end, 3);
    press(&mut app, KeyCode::End);
    write(&mut app, ticket, "7\n");
    assert_eq!(pane(&app).from_end, 0, "at the end it stays at the end");
}

#[test]
fn a_task_that_runs_again_is_followed_again() {
    let (mut app, ticket) = following();
    write(&mut app, ticket, "1\n");
    let started = |tasks| News::Events(vec![LiveEvent::TasksStarted { job: JobId(14), tasks }]);
    let again = |asks: Vec<Ask>| asks.into_iter().find(|ask| matches!(ask, Ask::Follow(..)));
    assert_eq!(again(hear(&mut app, started(vec![TaskIndex(0)]))), None, "it is followed now");
    hear(&mut app, News::OutputEnded { ticket });
    assert_eq!(again(hear(&mut app, started(vec![TaskIndex(1)]))), None, "another task");
    let task = JobId(14).task(TaskIndex(0));
    let expected = Ask::Follow(task, Ticket(ticket.0 + 1));
    assert_eq!(again(hear(&mut app, started(vec![TaskIndex(0)]))), Some(expected));
    assert!(!pane(&app).is_over);
    let ticket = app.ticket;
    hear(&mut app, News::OutputAgain { ticket });
    assert!(pane(&app).text.is_empty(), "after a broken connection all of it comes once more");
}
