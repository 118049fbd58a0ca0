//! An image on its way in: a bar on a terminal, plain lines elsewhere. On standard error: it is
//! talk.

use super::talk;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use shipway_images::progress::{Phase, Progress};
use shipway_model::{Bytes, ImageRef};
use std::io::{self, IsTerminal};
use std::sync::atomic::{AtomicUsize, Ordering};

#[derive(Debug)]
pub struct Fetching {
    name: String,
    bar: Option<ProgressBar>,
    done: AtomicUsize,
    layers: AtomicUsize,
}

impl Fetching {
    pub fn new(reference: &ImageRef) -> Self {
        let bar = io::stderr().is_terminal().then(bar);
        let (done, layers) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Fetching { name: reference.to_string(), bar, done, layers }
    }

    /// Takes the bar away, so that what follows stands alone.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    fn say(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.set_message(text.to_owned()),
            None => talk::say(format_args!("{}: {text}", self.name)),
        }
    }
}

impl Progress for Fetching {
    fn phase(&self, phase: Phase) {
        match phase {
            Phase::Resolving => self.say("asking what it is made of"),
            Phase::Waiting => self.say("another process fetches it; waiting"),
            Phase::Fetching { layers, reused, bytes } => {
                self.layers.store(layers, Ordering::Relaxed);
                if let (Some(bar), Some(bytes)) = (&self.bar, bytes) {
                    bar.set_length(bytes);
                }
                let size = bytes.map(|bytes| format!(", {}", Bytes(bytes))).unwrap_or_default();
                self.say(&format!("fetching {layers} layers{size}; {reused} are here"));
            }
            Phase::Building => self.say("making the tree"),
            Phase::Publishing => self.say("writing to disk"),
        }
    }

    fn bytes(&self, _layer: usize, count: u64) {
        if let Some(bar) = &self.bar {
            bar.inc(count);
        }
    }

    fn layer_done(&self, _layer: usize) {
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        self.say(&format!("{done} of {} layers unpacked", self.layers.load(Ordering::Relaxed)));
    }
}

fn bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {bytes}/{total_bytes} {msg}");
    let style = style.expect("the template is a constant").progress_chars("=> ");
    ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr()).with_style(style)
}
