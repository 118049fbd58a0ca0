//! What lies over the panels: a job's details, its reasons, the output of a task.

use super::jobs;
use super::style::{Look, Tone, clean_cut, wrap};
use crate::top::app::App;
use crate::top::pages::{Detail, LogPane, Page};
use crate::view::output::Stream;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Text};

/// The tasks of a job keep this many lines below its facts.
const LEAST_TASKS: u16 = 6;
/// Lines of the header, the footer and the title of a page.
const BESIDE_TEXT: u16 = 5;
/// Before what was written to standard error.
const STDERR_MARK: &str = "! ";

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, app: &App, page: &Page, look: Look) {
    match page {
        Page::Detail(detail) => draw_detail(frame, area, app, detail, look),
        Page::Why { job, text, scroll } => {
            let title = format!("Why: job {job}");
            let text = text.as_deref().unwrap_or("…");
            let body = titled(frame, area, look, &title);
            let lines = wrapped(text, body.width);
            let last = last_scroll(text, app.size);
            let shown = lines.into_iter().skip((*scroll).min(last)).map(Line::from);
            frame.render_widget(Text::from(shown.collect::<Vec<_>>()), body);
        }
        Page::Log(pane) => draw_log(frame, area, pane, look),
    }
}

fn titled(frame: &mut Frame<'_>, area: Rect, look: Look, title: &str) -> Rect {
    let parts = Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]);
    let [top, body] = area.layout(&parts);
    let title = clean_cut(title, usize::from(area.width));
    frame.render_widget(Line::from(look.span(Tone::Strong, title)), top);
    body
}

/// How far a text can be scrolled on a terminal of this size: to its last screenful.
pub(crate) fn last_scroll(text: &str, (width, height): (u16, u16)) -> usize {
    wrapped(text, width).len().saturating_sub(usize::from(height.saturating_sub(BESIDE_TEXT)))
}

fn wrapped(text: &str, width: u16) -> Vec<String> {
    text.lines().flat_map(|line| wrap(line, usize::from(width))).collect()
}

fn draw_detail(frame: &mut Frame<'_>, area: Rect, app: &App, detail: &Detail, look: Look) {
    let facts = wrapped(&detail.facts, area.width);
    let most = area.height.saturating_sub(LEAST_TASKS + 1);
    let wanted = u16::try_from(facts.len()).unwrap_or(u16::MAX);
    let parts = [Constraint::Length(wanted.min(most)), Constraint::Length(1), Constraint::Fill(1)];
    let [top, between, below] = area.layout(&Layout::vertical(parts));
    let mut lines: Vec<Line<'_>> = facts.into_iter().map(Line::from).collect();
    if let Some(first) = lines.first_mut() {
        first.style = look.style(Tone::Strong);
    }
    if wanted > most && top.height > 0 {
        lines.truncate(usize::from(top.height) - 1);
        lines.push(Line::from(look.span(Tone::Faint, "  … (w: why)".into())));
    }
    frame.render_widget(Text::from(lines), top);
    let shown = detail.tasks.len();
    let of = match detail.job.tasks as usize {
        all if all > shown && shown > 0 => format!("Tasks {shown} of {all}"),
        all => format!("Tasks {all}"),
    };
    frame.render_widget(Line::from(look.span(Tone::Strong, of)), between);
    jobs::tasks(app, detail, area.width).draw(frame, below, look, true);
}

fn draw_log(frame: &mut Frame<'_>, area: Rect, pane: &LogPane, look: Look) {
    let state = match (pane.is_over, pane.from_end) {
        (_, 1..) => format!("{} lines below (End: newest)", pane.from_end),
        (true, 0) => "ended".to_string(),
        (false, 0) => "live".to_string(),
    };
    let title = format!("Output of task {}  {state}", pane.task);
    let body = titled(frame, area, look, &title);
    if pane.text.is_empty() {
        frame.render_widget(look.span(Tone::Faint, "nothing yet".into()), body);
        return;
    }
    let room = usize::from(body.height);
    // From below, as far as there is room: a long output is not wrapped as a whole.
    let mut rows: Vec<Line<'static>> = Vec::new();
    let from_end = pane.from_end.min(pane.text.len().saturating_sub(1));
    for (stream, text) in pane.text.lines().rev().skip(from_end) {
        let (mark, tone) = match stream {
            None => ("", Tone::Faint),
            Some(Stream::Stdout) => ("", Tone::Plain),
            Some(Stream::Stderr) => (STDERR_MARK, Tone::Busy),
        };
        let mut pieces = cut_rows(text, usize::from(body.width).saturating_sub(mark.len()));
        pieces.reverse();
        let line =
            |piece| Line::from(vec![look.span(Tone::Faint, mark.into()), look.span(tone, piece)]);
        rows.extend(pieces.into_iter().map(line));
        if rows.len() >= room {
            break;
        }
    }
    rows.truncate(room);
    rows.reverse();
    frame.render_widget(Text::from(rows), body);
}

/// Output is cut where the line is full, not between words: its columns mean something.
fn cut_rows(text: &str, width: usize) -> Vec<String> {
    use unicode_width::UnicodeWidthChar;
    let mut rows = vec![String::new()];
    let mut used = 0;
    for c in text.chars() {
        let wide = c.width().unwrap_or(0);
        if used + wide > width && used > 0 {
            rows.push(String::new());
            used = 0;
        }
        used += wide;
        rows.last_mut().expect("never empty").push(c);
    }
    rows
}
