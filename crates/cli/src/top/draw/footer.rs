//! The two lines at the bottom: what was said or is being typed, and the keys.

use super::jobs::reason;
use super::style::{Look, Tone, clean_cut, clean_end};
use crate::top::app::{App, Link, Overlay, Panel};
use crate::top::pages::Page;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Modifier;
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr;

type Key = (&'static str, &'static str);

/// The most wanted first: what does not fit is left to the help.
const OVER_PANELS: &[Key] = &[
    ("Enter", "show"),
    ("w", "why"),
    ("l", "log"),
    ("c", "cancel"),
    ("r", "retry"),
    ("/", "filter"),
    ("Tab", "panel"),
    ("s", "sort"),
    ("a", "all"),
    ("↑↓", "move"),
];
const IN_DETAIL: &[Key] = &[
    ("Esc", "back"),
    ("l", "log"),
    ("c", "cancel task"),
    ("C", "cancel job"),
    ("r", "retry"),
    ("w", "why"),
    ("↑↓", "move"),
];
const IN_LOG: &[Key] = &[("Esc", "back"), ("↑↓", "scroll"), ("End", "newest"), ("c", "cancel")];
const IN_WHY: &[Key] = &[("Esc", "back"), ("↑↓", "scroll"), ("c", "cancel"), ("r", "retry")];
const ALWAYS: &[Key] = &[("?", "help"), ("q", "quit")];

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, app: &App, look: Look) {
    let [said, keys] = area.layout(&Layout::vertical([Constraint::Length(1); 2]));
    frame.render_widget(message(app, look, usize::from(area.width)), said);
    let own = match app.pages.last() {
        None => OVER_PANELS,
        Some(Page::Detail(_)) => IN_DETAIL,
        Some(Page::Log(_)) => IN_LOG,
        Some(Page::Why { .. }) => IN_WHY,
    };
    frame.render_widget(key_line(own, look, usize::from(area.width)), keys);
}

fn message(app: &App, look: Look, width: usize) -> Line<'static> {
    if app.overlay == Overlay::Filter {
        return filter(&app.list.filter, look, width);
    }
    if let Link::OutOfTouch { why, .. } = &app.link {
        return Line::from(look.span(Tone::Bad, clean_cut(why, width)));
    }
    let Some(notice) = &app.notice else {
        return Line::from(look.span(Tone::Plain, clean_cut(&whole_reason(app), width)));
    };
    let tone = if notice.is_bad { Tone::Bad } else { Tone::Plain };
    Line::from(look.span(tone, clean_cut(&notice.text, width)))
}

/// Where there is little room the hint goes first, then the beginning: whoever types looks at the
/// end.
fn filter(typed: &str, look: Look, width: usize) -> Line<'static> {
    const LABEL: &str = "filter: ";
    const HINT: &str = "  (Enter: keep, Esc: clear)";
    /// The cursor stands behind the last letter.
    const CURSOR: &str = " ";
    let room = width.saturating_sub(LABEL.width() + CURSOR.width());
    let text = clean_end(typed, room);
    let hint = if text.width() + HINT.width() <= room { HINT } else { "" };
    let cursor = ratatui::style::Style::new().add_modifier(Modifier::REVERSED);
    Line::from(vec![
        Span::raw(format!("{LABEL}{text}")),
        Span::styled(CURSOR, cursor),
        look.span(Tone::Faint, hint.into()),
    ])
}

/// The reason of the selected job: the list has seldom room for all of it.
fn whole_reason(app: &App) -> String {
    let is_listed = app.pages.is_empty() && app.panel == Panel::Jobs;
    let job = app.list.selected.filter(|_| is_listed).and_then(|id| app.find(id));
    let said = job.map(|job| (job.id, reason(app, job))).filter(|(_, reason)| !reason.is_empty());
    said.map(|(id, reason)| format!("{id}: {reason}")).unwrap_or_default()
}

fn key_line(own: &[Key], look: Look, width: usize) -> Line<'static> {
    let wide = |(key, word): &Key| key.width() + word.width() + 3;
    // The last one needs no gap behind it.
    let mut left = (width + 2).saturating_sub(ALWAYS.iter().map(wide).sum());
    let fits = own.iter().take_while(|key| {
        let fits = wide(key) <= left;
        left = left.saturating_sub(wide(key));
        fits
    });
    let mut spans = Vec::new();
    for (key, word) in fits.chain(ALWAYS) {
        spans.push(look.span(Tone::Strong, (*key).to_string()));
        spans.push(Span::raw(format!(" {word}  ")));
    }
    Line::from(spans)
}
