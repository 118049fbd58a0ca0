//! The server's stream of events: read, resumed by number when it breaks, and told to the loop.

use super::fetch::Way;
use super::news::News;
use shipway_api::causes::causes;
use shipway_api::client::ClientError;
use shipway_api::routes;
use shipway_api::types::LiveEvent;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

/// The server says something every 15 seconds, if only that it is there.
const QUIET_FOR: Duration = Duration::from_secs(45);
const CONNECT_WITHIN: Duration = Duration::from_secs(10);
const FIRST_WAIT: Duration = Duration::from_millis(100);
const LONGEST_WAIT: Duration = Duration::from_secs(2);
/// A line longer than this is not one of ours.
const LONGEST_LINE: usize = 4 << 20;

#[derive(Debug, thiserror::Error)]
enum Broken {
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("the server has been silent for too long")]
    Silent,
    #[error("the server ended the stream of events")]
    Ended,
}

/// Watches until nobody listens any more.
pub async fn watch(way: &Way, to: mpsc::Sender<News>) {
    let mut reader = EventReader::default();
    let mut wait = FIRST_WAIT;
    while let Err(broken) = listen(way, &mut reader, &to, &mut wait).await {
        reader.begin_anew();
        let why = causes(&broken);
        if to.send(News::OutOfTouch { why }).await.is_err() {
            return;
        }
        sleep(wait).await;
        wait = (wait * 2).min(LONGEST_WAIT);
    }
}

/// `Ok` when the loop has gone.
async fn listen(
    way: &Way,
    reader: &mut EventReader,
    to: &mpsc::Sender<News>,
    wait: &mut Duration,
) -> Result<(), Broken> {
    let client = way.connect()?;
    let after = reader.last.map(|last| format!("?after={last}")).unwrap_or_default();
    let path = format!("{}{after}", routes::EVENTS);
    let opened = timeout(CONNECT_WITHIN, client.stream(&path)).await;
    let mut body = opened.map_err(|_| Broken::Silent)??;
    if to.send(News::InTouch { url: client.url() }).await.is_err() {
        return Ok(());
    }
    *wait = FIRST_WAIT;
    loop {
        let piece = timeout(QUIET_FOR, body.next()).await.map_err(|_| Broken::Silent)??;
        let events = reader.read(&piece.ok_or(Broken::Ended)?);
        if !events.is_empty() && to.send(News::Events(events)).await.is_err() {
            return Ok(());
        }
    }
}

/// Server-sent events from pieces of bytes, however they are cut.
#[derive(Debug, Default)]
struct EventReader {
    line: Vec<u8>,
    data: String,
    id: Option<u64>,
    /// The number to resume after.
    last: Option<u64>,
}

impl EventReader {
    /// What came of an unfinished event comes again.
    fn begin_anew(&mut self) {
        *self = EventReader { last: self.last, ..EventReader::default() };
    }

    fn read(&mut self, bytes: &[u8]) -> Vec<LiveEvent> {
        let mut events = Vec::new();
        for byte in bytes {
            if *byte == b'\n' {
                let line = std::mem::take(&mut self.line);
                events.extend(self.take(&String::from_utf8_lossy(&line)));
            } else if self.line.len() < LONGEST_LINE {
                self.line.push(*byte);
            }
        }
        events
    }

    fn take(&mut self, line: &str) -> Option<LiveEvent> {
        let line = line.trim_end_matches('\r');
        if !line.is_empty() {
            let (name, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match name {
                "data" => self.data.push_str(value),
                "id" => self.id = value.parse().ok(),
                // Comments keep the connection alive; other fields are not used.
                _ => {}
            }
            return None;
        }
        self.last = self.id.take().or(self.last);
        let data = std::mem::take(&mut self.data);
        // An event of a kind not known yet still means that something changed.
        (!data.is_empty()).then(|| serde_json::from_str(&data).unwrap_or(LiveEvent::Reset))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shipway_model::JobId;

    #[test]
    fn events_are_read_however_they_are_cut() {
        let text = ": hello\n\ndata: {\"what\":\"job_submitted\",\"job\":7}\nid: 12\n\n\
                    data:{\"what\":\"news_of_tomorrow\"}\r\n\r\n: still there\n\n";
        let expected = [LiveEvent::JobSubmitted { job: JobId(7) }, LiveEvent::Reset];
        for cut in 0..text.len() {
            let mut reader = EventReader::default();
            let mut events = reader.read(&text.as_bytes()[..cut]);
            events.extend(reader.read(&text.as_bytes()[cut..]));
            assert_eq!(events, expected, "cut at {cut}");
            assert_eq!(reader.last, Some(12), "the number is kept for resuming");
        }
    }

    #[test]
    fn half_an_event_is_forgotten_when_the_connection_breaks() {
        let mut reader = EventReader::default();
        assert_eq!(reader.read(b"id: 3\n\ndata: {\"what\":\"reset\"}\nid: 4\nda"), []);
        reader.begin_anew();
        assert_eq!(reader.last, Some(3));
        assert_eq!(reader.read(b"data: {\"what\":\"reset\"}\nid: 4\n\n"), [LiveEvent::Reset]);
    }
}
