//! Cancelling and running again.

use super::{app, open_array, press, press_all};
use crate::top::app::{App, Overlay};
use crate::top::news::{Act, Ask};
use ratatui::crossterm::event::KeyCode;
use shipway_api::types::Selection;
use shipway_model::{JobId, TaskIndex};

fn jobs(id: u64) -> Selection {
    Selection { jobs: vec![JobId(id)], ..Selection::default() }
}

#[test]
fn only_a_clear_yes_cancels() {
    use KeyCode::{Char, Enter, Esc};
    for (answer, asks, is_closed) in [
        (Char('y'), vec![Ask::Act(Act::Cancel, jobs(15))], true),
        (Char('Y'), vec![Ask::Act(Act::Cancel, jobs(15))], true),
        (Char('n'), vec![], true),
        (Char('q'), vec![], true),
        (Esc, vec![], true),
        (Enter, vec![], false),
        (Char('j'), vec![], false),
    ] {
        let mut app = app();
        assert_eq!(press(&mut app, Char('c')), [], "it is asked first");
        assert_eq!(press(&mut app, answer), asks, "{answer:?}");
        assert_eq!(app.overlay == Overlay::None, is_closed, "{answer:?}");
    }
}

/// The job or task that the question names is the one that is cancelled, whatever is selected by
/// the time of the answer.
#[test]
fn the_question_holds_what_was_selected() {
    let mut app = app();
    press(&mut app, KeyCode::Char('c'));
    app.list.selected = Some(JobId(14));
    assert_eq!(press(&mut app, KeyCode::Char('y')), [Ask::Act(Act::Cancel, jobs(15))]);
}

#[test]
fn in_details_the_task_or_the_whole_job() {
    let task = Selection { tasks: vec![JobId(15).task(TaskIndex(481))], ..Selection::default() };
    for (key, selection) in [('c', task), ('C', jobs(15))] {
        let mut app = app();
        open_array(&mut app);
        press(&mut app, KeyCode::Char('c'));
        assert!(is_refused(&app), "the first task has failed already");
        press(&mut app, KeyCode::Down);
        press(&mut app, KeyCode::Char(key));
        let asks = press(&mut app, KeyCode::Char('y'));
        assert_eq!(asks, [Ask::Act(Act::Cancel, selection)], "{key}");
    }
}

fn is_refused(app: &App) -> bool {
    app.overlay == Overlay::None && app.notice.as_ref().is_some_and(|notice| notice.is_bad)
}

#[test]
fn what_makes_no_sense_is_said_and_not_asked() {
    for (selected, key) in [(12, 'c'), (13, 'c'), (12, 'r'), (14, 'r')] {
        let mut app = app();
        app.list.selected = Some(JobId(selected));
        assert_eq!(press(&mut app, KeyCode::Char(key)), [], "{selected} {key}");
        assert!(is_refused(&app), "{selected} {key}: {:?}", app.notice);
    }
    for key in ['c', 'r', 'w', 'l'] {
        let mut app = app();
        press_all(&mut app, &format!("2{key}"));
        assert!(is_refused(&app) && app.pages.is_empty(), "{key} on a node");
    }
}

#[test]
fn failed_tasks_run_again_without_a_question() {
    for selected in [13, 15] {
        let mut app = app();
        app.list.selected = Some(JobId(selected));
        let asks = press(&mut app, KeyCode::Char('r'));
        assert_eq!(asks, [Ask::Act(Act::Retry, jobs(selected))]);
    }
}
