//! The loop: waits for keys, for the server and for the clock, hands each to the model, does what
//! the model asks, and draws. It decides nothing.

use super::app::App;
use super::doer::Doer;
use super::fetch::Way;
use super::news::{Input, News};
use super::screen::{Screen, keys};
use super::update::update;
use crate::failure::{Exit, Failure};
use crate::settings;
use ratatui::crossterm::event::Event;
use ratatui::crossterm::terminal;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, sleep_until};

/// What the server says is drawn this often at most; a key at once.
const FRAME: Duration = Duration::from_millis(100);
/// The clock and the ages on the screen.
const CLOCK: Duration = Duration::from_secs(1);
/// News on their way to the loop; more make the server's stream wait.
const NEWS: usize = 256;

#[derive(Debug)]
struct Sources {
    keys: mpsc::Receiver<Event>,
    news: mpsc::Receiver<News>,
    clock: Interval,
    ends: [Signal; 3],
}

enum Happened {
    /// Somebody types, or the window changed: they wait for the answer.
    Person(Input),
    Other(Input),
    Nothing,
    /// It is time to draw.
    Frame,
    /// The terminal is gone, or somebody ends us.
    End,
}

pub async fn run(mut app: App, way: Way) -> Result<Exit, Failure> {
    let (to, news) = mpsc::channel(NEWS);
    let end = |kind| signal(kind).map_err(Failure::Runtime);
    let ends =
        [end(SignalKind::terminate())?, end(SignalKind::hangup())?, end(SignalKind::interrupt())?];
    let mut clock = interval(CLOCK);
    clock.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut doer = Doer::start(way, app.wanted(), to);
    let mut screen = Screen::enter().map_err(Failure::Output)?;
    if let Ok((width, height)) = terminal::size() {
        app.size = (width, height);
    }
    let mut sources = Sources { keys: keys(), news, clock, ends };
    stay(&mut app, &mut doer, &mut screen, &mut sources).await
}

async fn stay(
    app: &mut App,
    doer: &mut Doer,
    screen: &mut Screen,
    sources: &mut Sources,
) -> Result<Exit, Failure> {
    let mut next_frame = Instant::now();
    let mut is_old = true;
    loop {
        let (input, now) = match sources.next(next_frame, is_old).await {
            Happened::End => return Ok(Exit::INTERRUPTED),
            Happened::Nothing => continue,
            Happened::Frame => {
                screen.draw(app).map_err(Failure::Output)?;
                (is_old, next_frame) = (false, Instant::now() + FRAME);
                continue;
            }
            Happened::Person(input) => (input, true),
            Happened::Other(input) => (input, false),
        };
        for ask in update(app, input) {
            if !doer.run(ask) {
                return Ok(Exit::DONE);
            }
        }
        is_old = true;
        if now {
            next_frame = Instant::now();
        }
    }
}

impl Sources {
    /// In this order: whoever floods us with news keeps neither keys nor frames waiting.
    async fn next(&mut self, frame: Instant, is_old: bool) -> Happened {
        let [terminate, hangup, interrupt] = &mut self.ends;
        tokio::select! {
            biased;
            _ = terminate.recv() => Happened::End,
            _ = hangup.recv() => Happened::End,
            _ = interrupt.recv() => Happened::End,
            event = self.keys.recv() => match event {
                Some(Event::Key(key)) => Happened::Person(Input::Key(key)),
                Some(Event::Resize(width, height)) => {
                    Happened::Person(Input::Size { width, height })
                }
                Some(_) => Happened::Nothing,
                None => Happened::End,
            },
            () = sleep_until(frame), if is_old => Happened::Frame,
            _ = self.clock.tick() => Happened::Other(Input::Time(settings::now())),
            news = self.news.recv() => match news {
                Some(news) => Happened::Other(Input::News(news)),
                None => Happened::End,
            },
        }
    }
}
