//! What each key does, where it is pressed.

use super::{act, open};
use crate::top::app::{App, JOBS_AT_ONCE, Overlay, Panel};
use crate::top::draw::pages::last_scroll;
use crate::top::news::{Act, Ask};
use crate::top::pages::Page;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use shipway_model::limits::MAX_PAGE;

/// Lines moved by Page Up and Page Down.
const PAGE_STEP: isize = 10;
/// More than any list has.
const FAR: isize = 1_000_000;
/// Names are at most this long.
const FILTER_CHARS: usize = 200;

pub(super) fn key(app: &mut App, key: KeyEvent) -> Vec<Ask> {
    // Some terminals tell of the key's going up too.
    if key.kind == KeyEventKind::Release {
        return Vec::new();
    }
    let with_control = key.modifiers.contains(KeyModifiers::CONTROL);
    if with_control {
        return if key.code == KeyCode::Char('c') { vec![Ask::Quit] } else { Vec::new() };
    }
    match &mut app.overlay {
        Overlay::None => plain(app, key.code),
        Overlay::Help => {
            app.overlay = Overlay::None;
            Vec::new()
        }
        Overlay::Filter => filter(app, key.code),
        Overlay::Cancel { .. } => answer(app, key.code),
    }
}

fn plain(app: &mut App, key: KeyCode) -> Vec<Ask> {
    app.notice = None;
    match key {
        KeyCode::Char('q') => return vec![Ask::Quit],
        KeyCode::Char('?') => app.overlay = Overlay::Help,
        KeyCode::Esc | KeyCode::Backspace => return back(app),
        KeyCode::Up | KeyCode::Char('k') => return step(app, -1),
        KeyCode::Down | KeyCode::Char('j') => return step(app, 1),
        KeyCode::PageUp => return step(app, -PAGE_STEP),
        KeyCode::PageDown | KeyCode::Char(' ') => return step(app, PAGE_STEP),
        KeyCode::Home | KeyCode::Char('g') => return step(app, -FAR),
        KeyCode::End | KeyCode::Char('G') => return step(app, FAR),
        KeyCode::Char('w') => return open::why(app),
        KeyCode::Char('l' | 'f') => return open::log(app),
        KeyCode::Char('c') => act::ask_to_cancel(app, false),
        KeyCode::Char('C') => act::ask_to_cancel(app, true),
        KeyCode::Char('r') => return act::retry(app),
        KeyCode::Enter if app.pages.is_empty() => return open::detail(app),
        other if app.pages.is_empty() => return over_the_panels(app, other),
        _ => {}
    }
    Vec::new()
}

fn over_the_panels(app: &mut App, key: KeyCode) -> Vec<Ask> {
    match key {
        KeyCode::Tab | KeyCode::Right => turn(app, 1),
        KeyCode::BackTab | KeyCode::Left => turn(app, app.panels().len() - 1),
        KeyCode::Char(digit @ '1'..='4') => {
            let panel = app.panels().get(usize::from(digit as u8 - b'1'));
            app.panel = panel.copied().unwrap_or(app.panel);
        }
        KeyCode::Char('/') => {
            app.panel = Panel::Jobs;
            app.overlay = Overlay::Filter;
        }
        KeyCode::Char('s') => app.list.sort = app.list.sort.next(),
        KeyCode::Char('a') if app.is_operator() => {
            app.list.all = !app.list.all;
            return vec![Ask::Refresh(app.wanted())];
        }
        KeyCode::Char('a') => app.complain("only an operator may see the jobs of others"),
        _ => {}
    }
    Vec::new()
}

fn turn(app: &mut App, by: usize) {
    let panels = app.panels();
    let at = panels.iter().position(|panel| *panel == app.panel).unwrap_or(0);
    app.panel = panels[(at + by) % panels.len()];
}

fn back(app: &mut App) -> Vec<Ask> {
    match app.pages.pop() {
        Some(Page::Log(_)) => vec![Ask::Unfollow],
        Some(Page::Detail(_) | Page::Why { .. }) => Vec::new(),
        None => {
            app.list.filter.clear();
            app.select_something();
            Vec::new()
        }
    }
}

fn moved(at: usize, by: isize, count: usize) -> usize {
    at.saturating_add_signed(by).min(count.saturating_sub(1))
}

fn step(app: &mut App, by: isize) -> Vec<Ask> {
    match app.pages.last_mut() {
        None => return step_in_panel(app, by),
        Some(Page::Detail(detail)) => {
            detail.selected = moved(detail.selected, by, detail.tasks.len());
        }
        Some(Page::Why { text, scroll, .. }) => {
            let last = last_scroll(text.as_deref().unwrap_or_default(), app.size);
            *scroll = moved(*scroll, by, last + 1);
        }
        // Counted from below: up is more.
        Some(Page::Log(pane)) => pane.from_end = moved(pane.from_end, -by, pane.text.len()),
    }
    Vec::new()
}

fn step_in_panel(app: &mut App, by: isize) -> Vec<Ask> {
    match app.panel {
        Panel::Nodes => app.node = moved(app.node, by, app.data.nodes.len()),
        Panel::Gpus => app.gpu = moved(app.gpu, by, app.gpus().len()),
        Panel::Sites => app.site = moved(app.site, by, app.sites().len()),
        Panel::Jobs => {
            let jobs = app.jobs();
            let at = jobs.iter().position(|job| Some(job.id) == app.list.selected).unwrap_or(0);
            let to = moved(at, by, jobs.len());
            let is_last = to + 1 == jobs.len() && by > 0;
            app.list.selected = jobs.get(to).map(|job| job.id);
            if is_last && app.data.has_more && app.list.limit < MAX_PAGE {
                app.list.limit = (app.list.limit + JOBS_AT_ONCE).min(MAX_PAGE);
                return vec![Ask::Refresh(app.wanted())];
            }
        }
    }
    Vec::new()
}

/// The list follows what is typed.
fn filter(app: &mut App, key: KeyCode) -> Vec<Ask> {
    match key {
        KeyCode::Char(c) if app.list.filter.chars().count() < FILTER_CHARS => {
            app.list.filter.push(c);
        }
        KeyCode::Backspace => drop(app.list.filter.pop()),
        KeyCode::Esc => {
            app.list.filter.clear();
            app.overlay = Overlay::None;
        }
        KeyCode::Enter | KeyCode::Up | KeyCode::Down => app.overlay = Overlay::None,
        _ => {}
    }
    app.select_something();
    Vec::new()
}

/// Only a clear yes is one.
fn answer(app: &mut App, key: KeyCode) -> Vec<Ask> {
    match (key, std::mem::replace(&mut app.overlay, Overlay::None)) {
        (KeyCode::Char('y' | 'Y'), Overlay::Cancel { what, selection }) => {
            app.say(format!("cancelling {what} …"));
            vec![Ask::Act(Act::Cancel, selection)]
        }
        (KeyCode::Char('n' | 'N' | 'q') | KeyCode::Esc, _) => Vec::new(),
        (_, question) => {
            app.overlay = question;
            Vec::new()
        }
    }
}
