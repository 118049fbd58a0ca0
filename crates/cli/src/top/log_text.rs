//! What a task wrote, as lines that are safe to show: escape sequences are taken out, a carriage
//! return begins the line anew, as a progress bar means it. Only the newest lines are kept.

use crate::view::output::Stream;
use shipway_model::plain_text::steers;
use std::collections::VecDeque;

/// Enough to scroll back through; the whole output is what `shipway logs` prints.
const LINES_KEPT: usize = 5_000;
/// A longer line goes on as another one, so that one line cannot fill the memory.
const LINE_CHARS: usize = 4_000;
const TAB: usize = 8;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// `None`: the line is our own.
    pub stream: Option<Stream>,
    pub text: String,
}

#[derive(Debug, Default)]
pub struct LogText {
    done: VecDeque<LogLine>,
    out: Writer,
    err: Writer,
    /// Lines that were let go.
    pub dropped: u64,
}

/// Where one stream stands in its line.
#[derive(Debug, Default)]
struct Writer {
    line: String,
    length: usize,
    /// The beginning of a character whose rest has not come.
    rest: Vec<u8>,
    escape: Escape,
    /// A carriage return came: what follows replaces the line, unless it is the line's end.
    returned: bool,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Escape {
    #[default]
    None,
    /// After ESC.
    Begun,
    /// `ESC [`, up to a final character.
    Sequence,
    /// `ESC ]` and the like, up to BEL or the terminator.
    Text,
    /// ESC inside of a text: one more character ends it.
    TextEnd,
}

impl LogText {
    pub fn push(&mut self, stream: Stream, bytes: &[u8]) {
        let writer = match stream {
            Stream::Stdout => &mut self.out,
            Stream::Stderr => &mut self.err,
        };
        let mut ended = Vec::new();
        for c in writer.decode(bytes).chars() {
            ended.extend(writer.take(c));
        }
        self.done.extend(ended.into_iter().map(|text| LogLine { stream: Some(stream), text }));
        while self.done.len() > LINES_KEPT {
            self.done.pop_front();
            self.dropped += 1;
        }
    }

    /// A line of our own between two outputs; what stood unfinished is finished.
    pub fn note(&mut self, text: &str) {
        for (stream, writer) in [(Stream::Stdout, &mut self.out), (Stream::Stderr, &mut self.err)] {
            if !writer.line.is_empty() {
                let text = std::mem::take(&mut writer.line);
                self.done.push_back(LogLine { stream: Some(stream), text });
            }
            *writer = Writer::default();
        }
        self.done.push_back(LogLine { stream: None, text: text.into() });
    }

    /// Finished lines, then what is being written.
    pub fn lines(&self) -> impl DoubleEndedIterator<Item = (Option<Stream>, &str)> {
        let open = [(Stream::Stdout, &self.out), (Stream::Stderr, &self.err)];
        let open = open.into_iter().filter(|(_, writer)| !writer.line.is_empty());
        let done = self.done.iter().map(|line| (line.stream, line.text.as_str()));
        done.chain(open.map(|(stream, writer)| (Some(stream), writer.line.as_str())))
    }

    pub fn len(&self) -> usize {
        self.lines().count()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Writer {
    /// As text; a character that is cut in two waits for its rest.
    fn decode(&mut self, bytes: &[u8]) -> String {
        let mut all = std::mem::take(&mut self.rest);
        all.extend_from_slice(bytes);
        let whole = match std::str::from_utf8(&all) {
            Err(error) if error.error_len().is_none() => {
                // Only when everything before the cut is good: else the bytes are no text anyway.
                self.rest = all.split_off(error.valid_up_to());
                all
            }
            _ => all,
        };
        String::from_utf8_lossy(&whole).into_owned()
    }

    /// The finished line, when this character ends one.
    fn take(&mut self, c: char) -> Option<String> {
        match (self.escape, c) {
            (Escape::Begun, '[') => self.escape = Escape::Sequence,
            (Escape::Begun, ']' | 'P' | 'X' | '^' | '_') => self.escape = Escape::Text,
            // A character set is named by one more character, which is left: it is harmless.
            (Escape::Begun | Escape::TextEnd, _)
            | (Escape::Sequence, '\u{40}'..='\u{7e}')
            | (Escape::Text, '\u{7}') => self.escape = Escape::None,
            (Escape::Text, '\u{1b}') => self.escape = Escape::TextEnd,
            // No title or sequence goes over lines: an unfinished one must not swallow the rest.
            (Escape::Sequence | Escape::Text, '\n') => {
                self.escape = Escape::None;
                return self.write('\n');
            }
            (Escape::Sequence | Escape::Text, _) => {}
            (Escape::None, '\u{1b}') => self.escape = Escape::Begun,
            (Escape::None, c) => return self.write(c),
        }
        None
    }

    fn write(&mut self, c: char) -> Option<String> {
        if c == '\n' {
            return Some(self.end());
        }
        if c == '\r' {
            self.returned = true;
            return None;
        }
        if std::mem::take(&mut self.returned) {
            self.line.clear();
            self.length = 0;
        }
        match c {
            '\t' => {
                let spaces = TAB - self.length % TAB;
                self.line.extend(std::iter::repeat_n(' ', spaces));
                self.length += spaces;
            }
            '\u{8}' => self.length -= usize::from(self.line.pop().is_some()),
            c if steers(c) => {}
            c => {
                self.line.push(c);
                self.length += 1;
            }
        }
        (self.length >= LINE_CHARS).then(|| self.end())
    }

    fn end(&mut self) -> String {
        self.returned = false;
        self.length = 0;
        std::mem::take(&mut self.line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(pieces: &[&[u8]]) -> Vec<String> {
        let mut text = LogText::default();
        for piece in pieces {
            text.push(Stream::Stdout, piece);
        }
        text.lines().map(|(_, line)| line.to_string()).collect()
    }

    #[test]
    fn only_text_is_left_of_what_tasks_write() {
        for (pieces, expected) in [
            (&[&b"one\ntwo"[..], b" more\n"][..], &["one", "two more"][..]),
            (&[b"\x1b[31mred\x1b[0m \x1b]0;title\x07x \x1bPq\x1b\\y"], &["red x y"]),
            (&[b"10%\r20%\r100%\r\nend"], &["100%", "end"]),
            (&["a\u{202e}b\u{9b}2Jc\u{7}".as_bytes()], &["ab2Jc"]),
            (&[b"a\tb"], &["a       b"]),
            (&[b"\xc3", b"\xa9\xff!\n"], &["é\u{fffd}!"]),
            (&[b"\x1b]0;never ends\nnext\n"], &["", "next"]),
            (&[b"ab\x08c\n"], &["ac"]),
        ] {
            assert_eq!(shown(pieces), expected, "{pieces:?}");
        }
    }

    #[test]
    fn the_memory_it_takes_is_bounded() {
        let mut text = LogText::default();
        text.push(Stream::Stdout, "line\n".repeat(LINES_KEPT + 7).as_bytes());
        assert_eq!((text.len(), text.dropped), (LINES_KEPT, 7));
        let long = shown(&["x".repeat(LINE_CHARS + 1).as_bytes()]);
        assert_eq!(long.iter().map(String::len).collect::<Vec<_>>(), [LINE_CHARS, 1]);
    }

    #[test]
    fn the_streams_do_not_mix_within_a_line() {
        let mut text = LogText::default();
        text.push(Stream::Stdout, b"out");
        text.push(Stream::Stderr, b"err\n");
        text.push(Stream::Stdout, b"put\n");
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines, [(Some(Stream::Stderr), "err"), (Some(Stream::Stdout), "output")]);
        text.push(Stream::Stdout, b"open");
        text.note("-- attempt 1 has ended --");
        let last: Vec<_> = text.lines().skip(2).map(|(_, line)| line).collect();
        assert_eq!(last, ["open", "-- attempt 1 has ended --"]);
    }
}
