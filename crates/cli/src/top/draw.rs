//! The model as a frame. Pure: the same model on the same area gives the same frame.
//!
//! A small terminal shows one panel and names the others; a tall one shows all of them, nodes and
//! GPUs side by side where there is room. Sites have a panel where there are some.

mod footer;
mod grid;
mod header;
mod jobs;
mod nodes;
mod overlays;
pub mod pages;
mod sites;
pub mod style;

use super::app::{App, Panel};
use grid::Grid;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;
use style::{Look, Tone};

/// With this many lines between header and footer all panels are shown at once.
const TALL: u16 = 30;
/// From here on nodes and GPUs stand side by side.
const WIDE: u16 = 120;
/// What no terminal of use is smaller than.
const LEAST: (u16, u16) = (30, 8);

pub fn draw(frame: &mut Frame<'_>, app: &App) {
    let area = frame.area();
    if area.width < LEAST.0 || area.height < LEAST.1 {
        frame.render_widget(Paragraph::new("too small (q: quit)"), area);
        return;
    }
    let look = Look { colour: app.colour };
    let below = if app.is_live { 2 } else { 0 };
    let rows = [Constraint::Length(2), Constraint::Fill(1), Constraint::Length(below)];
    let [top, middle, bottom] = area.layout(&Layout::vertical(rows));
    header::draw(frame, top, app, look);
    match app.pages.last() {
        Some(page) => pages::draw(frame, middle, app, page, look),
        None => panels(frame, middle, app, look),
    }
    if app.is_live {
        footer::draw(frame, bottom, app, look);
        overlays::draw(frame, middle, app, look);
    }
}

/// Lines that a frame needs to show everything.
pub fn full_height(app: &App, width: u16) -> u16 {
    let (nodes, gpus) = (lines_of(app.data.nodes.len()), lines_of(app.gpus().len()));
    let below = if width >= WIDE { nodes.max(gpus) } else { nodes.saturating_add(gpus) };
    let all = lines_of(app.jobs().len()).saturating_add(below).saturating_add(2);
    all.saturating_add(lines_of_sites(app))
}

/// Nothing where there are none.
fn lines_of_sites(app: &App) -> u16 {
    if app.data.sites.is_empty() { 0 } else { lines_of(app.sites().len()) }
}

/// A title, a heading, the rows, and a line between this panel and the next.
fn lines_of(rows: usize) -> u16 {
    u16::try_from(rows + 3).unwrap_or(u16::MAX)
}

fn panels(frame: &mut Frame<'_>, area: Rect, app: &App, look: Look) {
    if app.is_live && area.height < TALL {
        let parts = Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]);
        let [title, body] = area.layout(&parts);
        frame.render_widget(tabs(app, look), title);
        return grid(app, app.panel, area.width).draw(frame, body, look, true);
    }
    let (nodes, gpus) = (lines_of(app.data.nodes.len()), lines_of(app.gpus().len()));
    // Jobs keep the larger half, and all that the others do not need; sites a part of the rest.
    let most = if app.is_live { area.height / 2 } else { area.height };
    let sites = lines_of_sites(app).min(if app.is_live { most / 3 } else { most });
    let parts = Layout::vertical([Constraint::Fill(1), Constraint::Length(sites)]);
    let [area, last] = area.layout(&parts);
    if sites > 0 {
        one_panel(frame, last, app, look, Panel::Sites);
    }
    let most = most - sites;
    if area.width >= WIDE {
        let below = nodes.max(gpus).min(most);
        let parts = Layout::vertical([Constraint::Fill(1), Constraint::Length(below)]);
        let [top, bottom] = area.layout(&parts);
        let halves = Layout::horizontal([Constraint::Fill(1), Constraint::Fill(1)]).spacing(2);
        let [left, right] = bottom.layout(&halves);
        one_panel(frame, top, app, look, Panel::Jobs);
        one_panel(frame, left, app, look, Panel::Nodes);
        one_panel(frame, right, app, look, Panel::Gpus);
        return;
    }
    let (nodes, gpus) = (nodes.min(most / 2), gpus.min(most - nodes.min(most / 2)));
    let parts = [Constraint::Fill(1), Constraint::Length(nodes), Constraint::Length(gpus)];
    let [first, second, third] = area.layout(&Layout::vertical(parts));
    for (part, panel) in [first, second, third].into_iter().zip(Panel::ALL) {
        one_panel(frame, part, app, look, panel);
    }
}

fn one_panel(frame: &mut Frame<'_>, area: Rect, app: &App, look: Look, panel: Panel) {
    let parts = Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]);
    let [title, body] = area.layout(&parts);
    let has_focus = app.is_live && app.panel == panel;
    frame.render_widget(Line::from(panel_title(app, look, panel, has_focus)), title);
    grid(app, panel, area.width).draw(frame, body, look, has_focus);
}

fn grid(app: &App, panel: Panel, width: u16) -> Grid {
    match panel {
        Panel::Jobs => jobs::grid(app, width),
        Panel::Nodes => nodes::nodes(app, width),
        Panel::Gpus => nodes::gpus(app, width),
        Panel::Sites => sites::grid(app),
    }
}

/// The names of all panels, in their order, with what there is to say about the one shown.
fn tabs(app: &App, look: Look) -> Line<'static> {
    let mut spans = Vec::new();
    for panel in app.panels() {
        if *panel == app.panel {
            spans.extend(panel_title(app, look, *panel, true));
        } else {
            spans.push(look.span(Tone::Plain, format!("  {}", name(app, *panel))));
        }
        spans.push(Span::raw("  "));
    }
    Line::from(spans)
}

fn name(app: &App, panel: Panel) -> String {
    match panel {
        Panel::Jobs => {
            let more = if app.data.has_more { "+" } else { "" };
            format!("Jobs {}{more}", app.jobs().len())
        }
        Panel::Nodes => format!("Nodes {}", app.data.nodes.len()),
        Panel::Gpus => format!("GPUs {}", app.gpus().len()),
        Panel::Sites => format!("Sites {}", app.data.sites.len()),
    }
}

/// The panel that has the keys is marked by a sign, not by colour alone.
fn panel_title(app: &App, look: Look, panel: Panel, has_focus: bool) -> Vec<Span<'static>> {
    let mark = if has_focus { "▶ " } else { "  " };
    let mark = if app.is_live { mark } else { "" };
    let mut spans = vec![look.span(Tone::Strong, format!("{mark}{}", name(app, panel)))];
    if panel == Panel::Jobs {
        let whose = if app.list.all { "everybody's" } else { "mine" };
        let mut said = format!("  {whose}, by {}", app.list.sort.as_str());
        if !app.list.filter.is_empty() {
            said.push_str(", with `");
            said.push_str(&style::clean_cut(&app.list.filter, 30));
            said.push('`');
        }
        spans.push(look.span(Tone::Faint, said));
    }
    spans
}
