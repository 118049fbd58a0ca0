//! Text being written: lines, with colour where it is wanted, and never a control character that
//! came from somebody else.

pub use shipway_model::plain_text::clean;
use shipway_model::{JobState, TaskState};

/// What a piece of text means; how that looks is decided when it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    Plain,
    Strong,
    Faint,
    Good,
    Bad,
    Busy,
}

impl Tone {
    /// The terminal's code for it.
    fn code(self) -> Option<&'static str> {
        match self {
            Tone::Plain => None,
            Tone::Strong => Some("1"),
            Tone::Faint => Some("2"),
            Tone::Bad => Some("31"),
            Tone::Good => Some("32"),
            Tone::Busy => Some("36"),
        }
    }

    pub fn of_job(state: JobState) -> Tone {
        match state {
            JobState::Held | JobState::Waiting => Tone::Plain,
            JobState::Running => Tone::Busy,
            JobState::Succeeded => Tone::Good,
            JobState::Failed => Tone::Bad,
            JobState::Cancelled => Tone::Faint,
        }
    }

    pub fn of_task(state: TaskState) -> Tone {
        match state {
            TaskState::Waiting => Tone::Plain,
            TaskState::Placed | TaskState::Running => Tone::Busy,
            TaskState::Succeeded => Tone::Good,
            TaskState::Failed => Tone::Bad,
            TaskState::Cancelled => Tone::Faint,
        }
    }
}

#[derive(Debug)]
pub struct Paper {
    text: String,
    colour: bool,
}

impl Paper {
    pub fn new(colour: bool) -> Self {
        Paper { text: String::new(), colour }
    }

    pub fn write(&mut self, tone: Tone, text: &str) {
        let text = clean(text);
        match tone.code().filter(|_| self.colour && !text.is_empty()) {
            Some(code) => {
                for part in ["\x1b[", code, "m", &text, "\x1b[0m"] {
                    self.text.push_str(part);
                }
            }
            None => self.text.push_str(&text),
        }
    }

    pub fn line(&mut self, text: &str) {
        self.write(Tone::Plain, text);
        self.end_line();
    }

    pub fn end_line(&mut self) {
        let kept = self.text.trim_end_matches(' ').len();
        self.text.truncate(kept);
        self.text.push('\n');
    }

    pub fn into_text(self) -> String {
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_changes_nothing_but_colour() {
        let write = |colour| {
            let mut paper = Paper::new(colour);
            paper.write(Tone::Bad, "failed");
            paper.end_line();
            paper.into_text()
        };
        assert_eq!(write(false), "failed\n");
        assert_eq!(write(true), "\x1b[31mfailed\x1b[0m\n");
    }

    #[test]
    fn nobody_steers_my_terminal() {
        let mut paper = Paper::new(false);
        paper.line("a\x1b[2Jb\u{9b}1m\nc");
        paper.line("left\u{202e}tfel \u{2067}x\u{feff}");
        assert_eq!(paper.into_text(), "a?[2Jb?1m?c\nleft?tfel ?x?\n");
    }
}
