//! What stands before everything else: the help, and a question.

use super::style::{Look, Tone, clean_cut};
use crate::top::app::{App, Overlay};
use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Block, Clear};
use unicode_width::UnicodeWidthStr;

const HELP: &[(&str, &str)] = &[
    ("↑ ↓  j k", "move (PgUp, PgDn, Home, End too)"),
    ("Tab  1 2 3 4", "jobs, nodes, GPUs, sites"),
    ("Enter", "details of the job; of a GPU: the job on it"),
    ("w", "why the job waits"),
    ("l  f", "follow the output of the task"),
    ("c", "cancel the job; in details: the task (C: the job)"),
    ("r", "run what failed or was cancelled again"),
    ("/", "filter by name, label, owner or id"),
    ("s", "sort by state, newest, name"),
    ("a", "everybody's jobs, or mine (for operators)"),
    ("Esc", "back; clears the filter"),
    ("q  Ctrl-C", "quit; jobs go on"),
];
const KEY_WIDTH: usize = 13;

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, app: &App, look: Look) {
    match &app.overlay {
        Overlay::None | Overlay::Filter => {}
        Overlay::Help => {
            let lines = HELP.iter().map(|(keys, what)| {
                let gap = " ".repeat(KEY_WIDTH.saturating_sub(keys.width()));
                let keys = look.span(Tone::Strong, format!("{keys}{gap}"));
                Line::from(vec![keys, ratatui::text::Span::raw(*what)])
            });
            boxed(frame, area, look, " Keys (any key closes this) ", lines.collect());
        }
        Overlay::Cancel { what, .. } => {
            let question = format!("Cancel {what}?");
            let question = clean_cut(&question, usize::from(area.width).saturating_sub(6));
            let lines = vec![
                Line::from(look.span(Tone::Strong, question)),
                Line::from("What waits is dropped, what runs is stopped."),
                Line::default(),
                Line::from("y: yes   n: no"),
            ];
            boxed(frame, area, look, " Cancel ", lines);
        }
    }
}

fn boxed(
    frame: &mut Frame<'_>,
    area: Rect,
    look: Look,
    title: &'static str,
    lines: Vec<Line<'static>>,
) {
    let text = Text::from(lines);
    let width = text.width().max(title.width()) + 4;
    let width = u16::try_from(width).unwrap_or(u16::MAX).min(area.width);
    let height = u16::try_from(text.height() + 2).unwrap_or(u16::MAX).min(area.height);
    let place = area.centered(Constraint::Length(width), Constraint::Length(height));
    let block = Block::bordered().title(title).border_style(look.style(Tone::Strong));
    let block = block.padding(ratatui::widgets::Padding::horizontal(1));
    let inner = block.inner(place);
    frame.render_widget(Clear, place);
    frame.render_widget(block, place);
    frame.render_widget(text, inner);
}
