//! Keys that move, open, filter and sort.

use super::{app, busy, fresh, hear, job, open_array, press, press_all};
use crate::top::app::{Overlay, Panel, Sort};
use crate::top::news::{Ask, Fresh, Input, News, Ticket};
use crate::top::pages::Page;
use crate::top::plain::lines;
use crate::top::update::update;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use shipway_model::limits::MAX_PAGE;
use shipway_model::{JobId, TaskIndex};

/// In the order of the list: 15, 14, 16, 17, 13, 12.
#[test]
fn the_selection_moves_and_stops_at_the_ends() {
    use KeyCode::{Char, Down, End, Home, PageDown, Up};
    for (keys, selected) in [
        (&[][..], 15),
        (&[Down], 14),
        (&[Char('j'), Char('j')], 16),
        (&[Down, Down, Char('k')], 14),
        (&[Up], 15),
        (&[End], 12),
        (&[PageDown, Down], 12),
        (&[Char('G'), Home], 15),
    ] {
        let mut app = app();
        for key in keys {
            press(&mut app, *key);
        }
        assert_eq!(app.list.selected, Some(JobId(selected)), "{keys:?}");
    }
}

#[test]
fn the_selection_stays_on_its_job_when_others_come_and_go() {
    let mut app = app();
    press(&mut app, KeyCode::Down);
    let mut data = fresh("admin");
    data.jobs.insert(0, super::from(job(19, "new", "running", [0, 0, 1, 0])));
    hear(&mut app, News::Fresh(Box::new(data.clone())));
    assert_eq!(app.list.selected, Some(JobId(14)));
    data.jobs.retain(|job| job.id != JobId(14));
    hear(&mut app, News::Fresh(Box::new(data)));
    assert_eq!(app.list.selected, Some(JobId(19)), "gone: the first one");
}

#[test]
fn panels_take_turns() {
    use KeyCode::{BackTab, Char, Tab};
    for (keys, panel) in [
        (&[Tab][..], Panel::Nodes),
        (&[Tab, Tab], Panel::Gpus),
        (&[Tab, Tab, Tab], Panel::Jobs),
        (&[BackTab], Panel::Gpus),
        (&[Char('2')], Panel::Nodes),
        (&[Char('3'), Char('1')], Panel::Jobs),
        (&[Char('3'), Char('/')], Panel::Jobs),
    ] {
        let mut app = app();
        for key in keys {
            press(&mut app, *key);
        }
        assert_eq!(app.panel, panel, "{keys:?}");
    }
}

#[test]
fn the_filter_looks_at_names_labels_owners_and_ids() {
    for (typed, found) in [
        ("train", &[14, 16][..]),
        ("TRAIN-R", &[14]),
        ("higgs", &[15]),
        ("project=h", &[15]),
        ("17", &[17]),
        ("ada", &[15, 14, 16, 17, 13, 12]),
        ("nothing", &[]),
    ] {
        let mut app = app();
        press(&mut app, KeyCode::Char('/'));
        press_all(&mut app, typed);
        let ids: Vec<u64> = app.jobs().iter().map(|job| job.id.0).collect();
        assert_eq!(ids, found, "{typed}");
        assert_eq!(app.list.selected.map(|id| id.0), found.first().copied());
        press(&mut app, KeyCode::Enter);
        assert_eq!((app.overlay.clone(), app.jobs().len()), (Overlay::None, found.len()));
        press(&mut app, KeyCode::Esc);
        assert_eq!(app.jobs().len(), 6, "cleared");
    }
}

/// `q` and `c` are letters there.
#[test]
fn what_is_typed_into_the_filter_does_nothing_else() {
    let mut app = app();
    assert_eq!(press_all(&mut app, "/qcr?"), []);
    assert_eq!(app.list.filter, "qcr?");
    press(&mut app, KeyCode::Backspace);
    assert_eq!(app.list.filter, "qcr");
}

#[test]
fn orders() {
    let order = |sort| {
        let mut app = app();
        app.list.sort = sort;
        app.jobs().iter().map(|job| job.id.0).collect::<Vec<_>>()
    };
    assert_eq!(order(Sort::State), [15, 14, 16, 17, 13, 12]);
    assert_eq!(order(Sort::Newest), [17, 16, 15, 14, 13, 12]);
    assert_eq!(order(Sort::Name), [13, 12, 17, 15, 16, 14]);
    let mut app = app();
    press_all(&mut app, "sss");
    assert_eq!(app.list.sort, Sort::State, "around");
}

#[test]
fn the_end_of_the_list_fetches_more_up_to_a_limit() {
    let mut app = app();
    app.data.has_more = true;
    let Some(Ask::Refresh(wanted)) = press(&mut app, KeyCode::End).pop() else { panic!("none") };
    assert_eq!(wanted.limit, 400);
    for _ in 0..10 {
        press(&mut app, KeyCode::Down);
    }
    assert_eq!(app.list.limit, MAX_PAGE);
    assert_eq!(press(&mut app, KeyCode::Down), [], "no more than that");
}

#[test]
fn everybodys_jobs_are_for_operators() {
    let mut app = app();
    let asks = press(&mut app, KeyCode::Char('a'));
    assert!(matches!(&asks[..], [Ask::Refresh(wanted)] if wanted.all));
    app.data = Fresh { ..fresh("user") };
    app.list.all = false;
    assert_eq!(press(&mut app, KeyCode::Char('a')), []);
    assert!(!app.list.all && app.notice.is_some_and(|notice| notice.is_bad));
}

#[test]
fn pages_open_and_close() {
    let mut app = app();
    open_array(&mut app);
    assert_eq!(app.wanted().open, Some(JobId(15)));
    press(&mut app, KeyCode::Down);
    let followed = press(&mut app, KeyCode::Char('l'));
    let task = JobId(15).task(TaskIndex(481));
    assert_eq!(followed, [Ask::Follow(task, Ticket(1))]);
    assert_eq!(press(&mut app, KeyCode::Char('l')), [], "it is followed already");
    assert_eq!(press(&mut app, KeyCode::Esc), [Ask::Unfollow]);
    assert!(matches!(&app.pages[..], [Page::Detail(detail)] if detail.selected == 1));
    assert_eq!(press(&mut app, KeyCode::Char('w')), [Ask::Why(JobId(15))]);
    press(&mut app, KeyCode::Esc);
    press(&mut app, KeyCode::Esc);
    assert!(app.pages.is_empty());
    assert_eq!(app.wanted().open, None);
}

#[test]
fn output_of_an_array_asks_which_task_and_a_gpu_knows_it() {
    let mut app = app();
    let asks = press(&mut app, KeyCode::Char('l'));
    assert!(asks.contains(&Ask::Spec(JobId(15))), "{asks:?}");
    assert!(app.notice.as_ref().is_some_and(|notice| notice.text.contains("choose")));
    press(&mut app, KeyCode::Esc);
    press(&mut app, KeyCode::Down);
    let alone = press(&mut app, KeyCode::Char('f'));
    assert_eq!(alone, [Ask::Follow(JobId(14).task(TaskIndex(0)), Ticket(1))]);
    press(&mut app, KeyCode::Esc);
    press_all(&mut app, "3j");
    let on_gpu = press(&mut app, KeyCode::Char('l'));
    assert_eq!(on_gpu, [Ask::Follow(JobId(15).task(TaskIndex(481)), Ticket(2))]);
    press(&mut app, KeyCode::Esc);
    press(&mut app, KeyCode::End);
    assert_eq!(press(&mut app, KeyCode::Char('l')), [], "nobody uses this one");
    assert!(app.notice.is_some_and(|notice| notice.is_bad));
}

#[test]
fn reasons_are_scrolled_to_their_last_screenful() {
    let mut app = app();
    update(&mut app, Input::Size { width: 40, height: 12 });
    app.list.selected = Some(JobId(16));
    press(&mut app, KeyCode::Char('w'));
    let reasons = [busy(), busy(), busy(), busy()];
    let many = serde_json::json!({"job": 16, "state": "waiting", "reasons": reasons});
    hear(&mut app, News::Why(Box::new(super::from(many))));
    let shown = |app: &_| lines(app, 40, 12).join("\n");
    assert!(!shown(&app).contains("  4. needs"), "{}", shown(&app));
    press(&mut app, KeyCode::End);
    let last = shown(&app);
    assert!(last.contains("  4. needs"), "{last}");
    press(&mut app, KeyCode::Up);
    assert_ne!(shown(&app), last, "one step back is one line");
}

#[test]
fn a_job_that_is_not_listed_is_opened_when_it_has_come() {
    let mut app = app();
    app.data.jobs.retain(|job| job.id != JobId(14));
    press(&mut app, KeyCode::Char('3'));
    assert_eq!(press(&mut app, KeyCode::Enter), [Ask::Spec(JobId(14))]);
    assert!(app.pages.is_empty());
    let found = super::from(job(14, "train-resnet", "running", [0, 0, 1, 0]));
    hear(&mut app, News::Spec(Box::new(found)));
    assert_eq!(app.wanted().open, Some(JobId(14)));
}

#[test]
fn two_ways_out_and_one_that_is_none() {
    let key = |code, modifiers| Input::Key(KeyEvent::new(code, modifiers));
    let mut app = app();
    assert_eq!(press(&mut app, KeyCode::Char('q')), [Ask::Quit]);
    let control_c = key(KeyCode::Char('c'), KeyModifiers::CONTROL);
    press(&mut app, KeyCode::Char('/'));
    assert_eq!(update(&mut app, control_c.clone()), [Ask::Quit], "even while typing");
    press(&mut app, KeyCode::Esc);
    press(&mut app, KeyCode::Char('c'));
    assert_eq!(update(&mut app, control_c), [Ask::Quit], "even when asked");
    press(&mut app, KeyCode::Esc);
    let mut released = KeyEvent::new(KeyCode::Char('q'), KeyModifiers::NONE);
    released.kind = KeyEventKind::Release;
    assert_eq!(update(&mut app, Input::Key(released)), []);
}
