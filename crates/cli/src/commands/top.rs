//! `top`: the live view; or one frame of it, for who is not at a terminal.

use super::Context;
use crate::args::jobs::TopArgs;
use crate::failure::{Exit, Failure};
use crate::settings;
use crate::top::app::{App, JOBS_AT_ONCE};
use crate::top::fetch::{Older, Way, fetch};
use crate::top::news::Wanted;
use crate::top::plain::Once;
use crate::top::run;
use crate::top::screen::Screen;
use crate::view;
use crate::view::time::Reader;
use ratatui::crossterm::terminal;
use std::io::{self, IsTerminal};

/// The width of a frame that goes into a file or a pipe.
const PLAIN_WIDTH: u16 = 120;

pub async fn run(context: &Context, args: &TopArgs) -> Result<Exit, Failure> {
    let is_once = args.once || context.output.json;
    if !is_once && !Screen::is_possible() {
        return Err(Failure::NotATerminal);
    }
    let wanted = Wanted { all: args.all, limit: JOBS_AT_ONCE, open: None, is_operator: false };
    let data = fetch(&context.client, wanted, &mut Older::default()).await?;
    let (server, reader) = (context.client.url(), Reader::here());
    if is_once {
        let once = Once {
            server,
            at: settings::now(),
            user: data.user,
            jobs: data.jobs,
            has_more: data.has_more,
            nodes: data.nodes,
            sites: data.sites,
            reader,
            width: width(),
            all: args.all,
        };
        view::show(&once, context.output)?;
        return Ok(Exit::DONE);
    }
    let mut app = App::new(server, data, reader, args.all);
    app.colour = context.output.colour;
    Box::pin(run::run(app, Way { first: context.server.clone() })).await
}

fn width() -> u16 {
    let size = if io::stdout().is_terminal() { terminal::size().ok() } else { None };
    size.map_or(PLAIN_WIDTH, |(width, _)| width.max(40))
}
