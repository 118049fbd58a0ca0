//! The two lines at the top: where, who, when; and everything in numbers.

use super::style::{Look, Tone, clean_cut};
use crate::top::app::{App, Link};
use crate::view::nodes::gpus_used;
use crate::view::time::short;
use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::Modifier;
use ratatui::text::{Line, Span};
use shipway_model::JobState;

/// In the order people care.
const STATES: [JobState; 6] = [
    JobState::Running,
    JobState::Waiting,
    JobState::Held,
    JobState::Failed,
    JobState::Succeeded,
    JobState::Cancelled,
];

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, app: &App, look: Look) {
    let [first, second] = area.layout(&Layout::vertical([Constraint::Length(1); 2]));
    let user = &app.data.user;
    let right = clock_or_trouble(app, look);
    let room = usize::from(area.width).saturating_sub(right.width() + 2);
    let left = format!("{}  {} ({})", app.server, user.user, user.role.as_str());
    let left = clean_cut(&left, room.saturating_sub(9));
    let spans = vec![look.span(Tone::Strong, "shipway".into()), Span::raw("  "), Span::raw(left)];
    frame.render_widget(Line::from(spans), first);
    frame.render_widget(right.alignment(Alignment::Right), first);
    frame.render_widget(numbers(app, look), second);
}

fn clock_or_trouble(app: &App, look: Look) -> Line<'static> {
    match &app.link {
        Link::InTouch => {
            let moment = app.reader.moment(app.reader.now);
            let clock = moment.split(' ').next_back().unwrap_or_default().to_string();
            Line::from(look.span(Tone::Faint, clock))
        }
        Link::OutOfTouch { since, .. } => {
            let span = short(app.reader.now.since(*since));
            let text = format!(" out of touch for {span}, trying again ");
            let style = look.style(Tone::Bad).add_modifier(Modifier::REVERSED | Modifier::BOLD);
            Line::from(Span::styled(text, style))
        }
    }
}

/// What is free comes first: a narrow terminal cuts the end.
fn numbers(app: &App, look: Look) -> Line<'static> {
    let gpus = app.gpus();
    let used = gpus_used(gpus.iter().map(|at| at.gpu));
    let nodes = &app.data.nodes;
    let connected = nodes.iter().filter(|node| node.link == "connected").count();
    let mut spans = vec![
        look.span(Tone::Faint, "GPUs ".into()),
        Span::raw(format!("{used}/{} used", gpus.len())),
        look.span(Tone::Faint, "  nodes ".into()),
        Span::raw(connected.to_string()),
    ];
    if connected < nodes.len() {
        let away = format!(" (+{} away)", nodes.len() - connected);
        spans.push(look.span(Tone::Bad, away));
    }
    spans.push(look.span(Tone::Faint, "  jobs ".into()));
    let count = |state| app.data.jobs.iter().filter(|job| job.state == state).count();
    let counts = STATES.into_iter().map(|state| (state, count(state)));
    let counts: Vec<_> = counts.filter(|(_, count)| *count > 0).collect();
    if counts.is_empty() {
        spans.push(Span::raw("none"));
    }
    for (at, (state, count)) in counts.into_iter().enumerate() {
        spans.push(Span::raw(if at == 0 { "" } else { ", " }));
        spans.push(look.span(Tone::of_job(state), format!("{count} {state}")));
    }
    Line::from(spans)
}
