//! Frames of several sizes and modes, as snapshots of their text.

use super::{MINUTE, NOW, app, fresh, from, hear, job, open_array, press, press_all, sites};
use crate::top::app::{App, Panel};
use crate::top::draw::draw;
use crate::top::news::{Fresh, Input, News};
use crate::top::plain::{Once, lines};
use crate::top::update::update;
use crate::view;
use crate::view::output::Stream;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::KeyCode;
use ratatui::style::Color;
use serde_json::json;
use shipway_model::Timestamp;

fn check(name: &str, app: &App, width: u16, height: u16) {
    let frame = lines(app, width, height).join("\n");
    insta::with_settings!({ omit_expression => true, prepend_module_to_snapshot => false }, {
        insta::assert_snapshot!(name, frame);
    });
}

#[test]
fn panels() {
    let mut app = app();
    check("top_80x24_jobs", &app, 80, 24);
    press(&mut app, KeyCode::Tab);
    check("top_80x24_nodes", &app, 80, 24);
    press(&mut app, KeyCode::Tab);
    check("top_80x24_gpus", &app, 80, 24);
    check("top_80x50_stacked", &app, 80, 50);
    check("top_160x50", &app, 160, 50);
    press_all(&mut app, "1a");
    check("top_200x60_everybody", &app, 200, 60);
}

#[test]
fn sites_have_a_panel_where_there_are_some() {
    let mut app = app();
    press(&mut app, KeyCode::Char('4'));
    assert_eq!(app.panel, Panel::Jobs, "there are none");
    hear(&mut app, News::Fresh(Box::new(Fresh { sites: from(sites()), ..fresh("admin") })));
    press(&mut app, KeyCode::Char('4'));
    check("top_80x24_sites", &app, 80, 24);
    press(&mut app, KeyCode::Down);
    check("top_80x50_sites", &app, 80, 50);
    check("top_160x50_sites", &app, 160, 50);
    hear(&mut app, News::Fresh(Box::new(fresh("admin"))));
    assert_eq!(app.panel, Panel::Jobs, "they are gone");
}

#[test]
fn details() {
    let mut app = app();
    open_array(&mut app);
    check("top_80x24_details", &app, 80, 24);
    check("top_160x50_details", &app, 160, 50);
    press_all(&mut app, "jc");
    check("top_80x24_cancel_task", &app, 80, 24);
}

#[test]
fn reasons_and_output() {
    let mut app = app();
    app.list.selected = Some(shipway_model::JobId(16));
    press(&mut app, KeyCode::Char('w'));
    check("top_80x24_why_asked", &app, 80, 24);
    let why = json!({"job": 16, "state": "waiting", "reasons": [super::busy()]});
    hear(&mut app, News::Why(Box::new(super::from(why))));
    check("top_80x24_why", &app, 80, 24);
    press(&mut app, KeyCode::Esc);
    app.list.selected = Some(shipway_model::JobId(14));
    press(&mut app, KeyCode::Char('l'));
    check("top_80x24_output_none", &app, 80, 24);
    let ticket = app.ticket;
    let write = |app: &mut App, stream, text: &'static str| {
        let bytes = text.as_bytes().into();
        hear(app, News::Output { ticket, stream, bytes });
    };
    write(&mut app, Stream::Stdout, "epoch 1\n\x1b[2J\x1b[31mepoch 2\x1b[0m\n 10%\r100%\n");
    write(&mut app, Stream::Stderr, "careful: \u{202e}drawkcab\n");
    let long = "0123456789".repeat(9) + "\n";
    let bytes = long.into_bytes().into();
    hear(&mut app, News::Output { ticket, stream: Stream::Stdout, bytes });
    hear(&mut app, News::OutputEnded { ticket });
    check("top_80x24_output", &app, 80, 24);
}

#[test]
fn overlays_and_trouble() {
    let mut app = app();
    press(&mut app, KeyCode::Char('?'));
    check("top_80x24_help", &app, 80, 24);
    press(&mut app, KeyCode::Esc);
    press_all(&mut app, "/higgs");
    check("top_80x24_filter", &app, 80, 24);
    press(&mut app, KeyCode::Enter);
    press(&mut app, KeyCode::Char('c'));
    check("top_80x24_cancel", &app, 80, 24);
    press(&mut app, KeyCode::Char('n'));
    hear(&mut app, News::OutOfTouch { why: "cannot reach the server at http://x".into() });
    update(&mut app, Input::Time(Timestamp(NOW + MINUTE)));
    check("top_80x24_out_of_touch", &app, 80, 24);
}

#[test]
fn little_data_and_little_room() {
    let mut app = app();
    let none = Fresh { jobs: Vec::new(), nodes: Vec::new(), ..fresh("user") };
    hear(&mut app, News::Fresh(Box::new(none)));
    check("top_80x24_empty", &app, 80, 24);
    hear(&mut app, News::Fresh(Box::new(fresh("user"))));
    check("top_40x10", &app, 40, 10);
    press_all(&mut app, "/project=higgs");
    let line = |app: &App, width| lines(app, width, 8)[6].clone();
    assert_eq!(line(&app, 40), "filter: project=higgs", "the hint makes room");
    assert_eq!(line(&app, 50), "filter: project=higgs   (Enter: keep, Esc: clear)");
    press_all(&mut app, " and a lot more of it");
    assert_eq!(line(&app, 40), "filter: …ect=higgs and a lot more of it");
    press(&mut app, KeyCode::Esc);
    // Whatever the window is dragged to, nothing may panic.
    open_array(&mut app);
    for (width, height) in [(0, 0), (1, 1), (29, 7), (30, 8), (31, 300), (500, 8)] {
        lines(&app, width.max(1), height.max(1));
        press(&mut app, KeyCode::Char('?'));
        lines(&app, width.max(1), height.max(1));
        press(&mut app, KeyCode::Esc);
    }
}

#[test]
fn many_jobs_are_scrolled_with_the_selection() {
    let mut app = app();
    let jobs =
        (1..=20).map(|id| super::from(job(id, &format!("job-{id}"), "running", [0, 0, 1, 0])));
    hear(&mut app, News::Fresh(Box::new(Fresh { jobs: jobs.collect(), ..fresh("admin") })));
    press(&mut app, KeyCode::End);
    let frame = lines(&app, 80, 16).join("\n");
    assert!(frame.contains("> 1 ") && !frame.contains("job-20"), "{frame}");
}

#[test]
fn nobody_steers_my_terminal() {
    let mut app = app();
    let evil = "a\u{1b}[2J\u{202e}b\u{9b}31m\u{200b}\n\u{7}";
    let mut data = fresh("admin");
    data.jobs[0].name = evil.into();
    data.jobs[0].labels.insert("project".into(), evil.into());
    data.nodes[0].ad.notes = vec![evil.into()];
    data.nodes[0].gpus[0].device.model = evil.into();
    hear(&mut app, News::Fresh(Box::new(data)));
    app.list.selected = Some(shipway_model::JobId(17));
    let mut seen = String::new();
    let mut look = |app: &App| seen.push_str(&lines(app, 200, 60).concat());
    look(&app);
    press(&mut app, KeyCode::Char('c'));
    look(&app);
    press(&mut app, KeyCode::Char('n'));
    press(&mut app, KeyCode::Enter);
    look(&app);
    hear(&mut app, News::Done(Err(evil.into())));
    look(&app);
    press(&mut app, KeyCode::Esc);
    hear(&mut app, News::OutOfTouch { why: evil.into() });
    look(&app);
    assert!(seen.contains("a?[2J?b"), "the name is shown");
    let steering = seen.chars().find(|c| shipway_model::plain_text::steers(*c));
    assert_eq!(steering, None);
}

fn buffer(app: &App) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(160, 50)).expect("memory");
    terminal.draw(|frame| draw(frame, app)).expect("memory");
    terminal.backend().buffer().clone()
}

#[test]
fn colours_are_the_terminals_own_and_leave_the_words_alone() {
    let mut app = app();
    let plain = buffer(&app);
    app.colour = true;
    let coloured = buffer(&app);
    let allowed = [Color::Reset, Color::Red, Color::Green, Color::Cyan];
    for (one, other) in plain.content().iter().zip(coloured.content()) {
        assert_eq!(one.symbol(), other.symbol());
        assert_eq!((one.fg, one.bg, other.bg), (Color::Reset, Color::Reset, Color::Reset));
        assert!(allowed.contains(&other.fg), "{:?}", other.fg);
    }
    assert_ne!(plain, coloured);
}

#[test]
fn once_is_a_whole_frame_without_keys() {
    let Fresh { user, jobs, has_more, nodes, .. } = fresh("admin");
    let sites: Vec<_> = from(sites());
    let once = |width| Once {
        sites: sites.clone(),
        server: "http://127.0.0.1:7447".into(),
        at: Timestamp(NOW),
        user: user.clone(),
        jobs: jobs.clone(),
        has_more,
        nodes: nodes.clone(),
        reader: app().reader,
        width,
        all: true,
    };
    let text = view::text(&once(120), false);
    insta::with_settings!({ omit_expression => true, prepend_module_to_snapshot => false }, {
        insta::assert_snapshot!("top_once", text);
        insta::assert_snapshot!("top_once_narrow", view::text(&once(60), false));
    });
    let data: serde_json::Value = serde_json::from_str(&view::json(&once(120))).expect("JSON");
    assert_eq!(data["jobs"].as_array().map(Vec::len), Some(6));
    assert_eq!(data["nodes"][0]["gpus"][0]["tasks"][0], "14/0");
    assert_eq!(data["sites"][0]["troubles"][0]["kind"], "refused");
    assert_eq!(data["sites"][0]["heard"], NOW - 8_000);
}
