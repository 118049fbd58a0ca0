//! `top` for those who are not at a terminal: one frame as text, or the data of one as JSON.

use super::app::App;
use super::draw::{draw, full_height};
use super::news::Fresh;
use crate::view::View;
use crate::view::paper::Paper;
use crate::view::time::Reader;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use serde::Serialize;
use shipway_api::types::{JobView, NodeView, SiteView, UserView};
use shipway_model::Timestamp;

/// All that `top` shows, as of one moment.
#[derive(Debug, Serialize)]
pub struct Once {
    pub server: String,
    pub at: Timestamp,
    pub user: UserView,
    pub jobs: Vec<JobView>,
    /// There are older jobs than these.
    pub has_more: bool,
    pub nodes: Vec<NodeView>,
    /// Those that are batch systems.
    pub sites: Vec<SiteView>,
    #[serde(skip)]
    pub reader: Reader,
    #[serde(skip)]
    pub width: u16,
    #[serde(skip)]
    pub all: bool,
}

impl View for Once {
    fn text(&self, paper: &mut Paper) {
        let data = Fresh {
            user: self.user.clone(),
            jobs: self.jobs.clone(),
            has_more: self.has_more,
            nodes: self.nodes.clone(),
            sites: self.sites.clone(),
            open: None,
        };
        let mut app = App::new(self.server.clone(), data, self.reader.clone(), self.all);
        app.is_live = false;
        let height = full_height(&app, self.width);
        for line in lines(&app, self.width, height) {
            paper.line(&line);
        }
    }
}

/// The frame as lines of text.
pub fn lines(app: &App, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height))
        .expect("a screen in memory takes everything");
    terminal.draw(|frame| draw(frame, app)).expect("a screen in memory takes everything");
    let buffer = terminal.backend().buffer();
    let mut lines: Vec<String> = Vec::new();
    for y in 0..height {
        let mut line = String::new();
        let mut covered = 0;
        for x in 0..width {
            let symbol = buffer[(x, y)].symbol();
            // A wide character stands in two cells, of which the second says nothing.
            if covered == 0 {
                line.push_str(symbol);
                covered = unicode_width::UnicodeWidthStr::width(symbol).max(1);
            }
            covered -= 1;
        }
        lines.push(line.trim_end().to_string());
    }
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines
}
