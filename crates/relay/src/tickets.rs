//! Whether a pilot of the server asks: the server judges tickets, and what it found good is
//! remembered for a minute. So a pilot whose token has ended gets nothing more after that.

use crate::asked::{Refusal, no_pilot};
use http::StatusCode;
use shipway_api::causes::causes;
use shipway_api::client::{Client, ClientError};
use shipway_api::routes;
use shipway_api::ticket::{self, Shown};
use shipway_api::types::TicketJudged;
use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Mutex as Turn;

/// Questions to the server at the same time. Others wait, and whoever came first goes first.
const AT_ONCE: usize = 4;
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
const REMEMBERED: Duration = Duration::from_mins(1);
/// A ticket takes a few hundred bytes.
const MOST_REMEMBERED: usize = 16_384;

#[derive(Debug)]
pub(crate) struct Tickets {
    /// Each asks one question at a time.
    clients: Vec<Turn<Client>>,
    next: AtomicUsize,
    good: Mutex<HashMap<Shown, Instant>>,
}

impl Tickets {
    pub(crate) fn new(server: &str, certificate: Option<&Path>) -> Result<Self, ClientError> {
        let client = |_| Ok(Turn::new(Client::new(server, None, certificate.map(Into::into))?));
        let clients = (0..AT_ONCE).map(client).collect::<Result<_, ClientError>>()?;
        Ok(Tickets { clients, next: AtomicUsize::new(0), good: Mutex::default() })
    }

    fn good(&self) -> MutexGuard<'_, HashMap<Shown, Instant>> {
        self.good.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) async fn judge(&self, shown: &Shown) -> Result<(), Refusal> {
        let until = self.good().get(shown).copied();
        if until.is_some_and(|until| Instant::now() < until) {
            return Ok(());
        }
        // Why is for the log: whoever shows a ticket is a stranger until it is good.
        let unknown = |why: String| {
            tracing::info!("the server does not say whether a pilot asks: {why}");
            let words = "it cannot ask the server whether a pilot asks; it is asked again";
            Refusal::new(StatusCode::SERVICE_UNAVAILABLE, words)
        };
        let answer = tokio::time::timeout(ANSWER_WITHIN, self.ask(shown)).await;
        let answer = answer.map_err(|_| unknown("no answer".into()))?;
        if !answer.map_err(|error| unknown(causes(&error)))?.good {
            return Err(no_pilot());
        }
        self.remember(shown.clone(), Instant::now());
        Ok(())
    }

    async fn ask(&self, shown: &Shown) -> Result<TicketJudged, ClientError> {
        let at = self.next.fetch_add(1, Ordering::Relaxed) % AT_ONCE;
        let client = self.clients.get(at).ok_or_else(|| ClientError::BadUrl(String::new()))?;
        let client = client.lock().await;
        let shown = shown.to_string();
        let headings = [(ticket::HEADING, &*shown)];
        match client.get_with(routes::TICKET, &headings).await {
            // The server may have closed the one that was kept, or was started anew.
            Err(ClientError::Broken { .. }) => client.get_with(routes::TICKET, &headings).await,
            other => other,
        }
    }

    fn remember(&self, shown: Shown, now: Instant) {
        let mut good = self.good();
        if good.len() >= MOST_REMEMBERED {
            good.retain(|_, until| now < *until);
        }
        if good.len() >= MOST_REMEMBERED {
            good.clear();
        }
        good.insert(shown, now + REMEMBERED);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shipway_model::Digest;

    #[test]
    fn what_is_remembered_has_an_end() {
        let tickets = Tickets::new("https://127.0.0.1:1", None).expect("an address");
        let now = Instant::now();
        let shown = |at: usize| {
            let mut digest = [0; 32];
            digest[..8].copy_from_slice(&at.to_le_bytes());
            ticket::read(&ticket::ticket("shp_x", &Digest(digest))).expect("a ticket")
        };
        for at in 0..=MOST_REMEMBERED {
            tickets.remember(shown(at), now);
        }
        assert_eq!(tickets.good().len(), 1, "all were as new: it begins anew");
        tickets.remember(shown(1), now + REMEMBERED);
        assert_eq!(tickets.good().len(), 2);
    }
}
