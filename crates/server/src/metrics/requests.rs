//! HTTP requests by route, method and kind of answer, with how long each took to its first byte.
//!
//! A route is a template of ours (`/api/v1/jobs/{job}`) and a method one of the usual; everything
//! else is `other`, so that no request can make a label.

use super::histogram::Histogram;
use super::text::{Kind, Text};
use crate::locks::Locked;
use shipway_api::routes::ENDPOINTS;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

/// Microseconds. The last ones are for answers that wait for something on purpose.
const BOUNDS: &[u64] = &[
    500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 1_000_000, 5_000_000,
    60_000_000,
];
const METHODS: [&str; 5] = ["GET", "POST", "DELETE", "PUT", "HEAD"];
const OTHER: &str = "other";
const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// One lock, held for a few additions: a request costs a thousand times as much.
#[derive(Debug, Default)]
pub struct Requests {
    seen: Mutex<BTreeMap<(&'static str, &'static str), Seen>>,
}

#[derive(Debug)]
struct Seen {
    classes: [u64; CLASSES.len()],
    seconds: Histogram,
}

impl Requests {
    pub fn answered(&self, route: &str, method: &str, status: u16, took: Duration) {
        let key = (known(route, ENDPOINTS.iter().map(|e| e.path)), known(method, METHODS));
        let mut seen = self.seen.locked();
        let fresh = || Seen { classes: Default::default(), seconds: Histogram::new(BOUNDS, 6) };
        let entry = seen.entry(key).or_insert_with(fresh);
        let class = usize::from(status / 100).clamp(1, CLASSES.len()) - 1;
        if let Some(count) = entry.classes.get_mut(class) {
            *count += 1;
        }
        entry.seconds.observe(super::micros(took));
    }

    pub(super) fn write(&self, text: &mut Text) {
        let seen = self.seen.locked();
        let help = "HTTP requests answered, by route and kind of status.";
        text.family("shipway_http_requests_total", Kind::Counter, help);
        for ((route, method), seen) in seen.iter() {
            for (class, count) in CLASSES.iter().zip(seen.classes).filter(|(_, count)| *count > 0) {
                let labels = [("route", *route), ("method", *method), ("status", class)];
                text.sample(&labels, count);
            }
        }
        let help = "Time to the first byte of the answer; some answers wait for something.";
        text.family("shipway_http_request_duration_seconds", Kind::Histogram, help);
        for ((route, method), seen) in seen.iter() {
            seen.seconds.write(text, &[("route", route), ("method", method)]);
        }
    }
}

fn known(word: &str, words: impl IntoIterator<Item = &'static str>) -> &'static str {
    words.into_iter().find(|known| *known == word).unwrap_or(OTHER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_request_makes_a_label() {
        let requests = Requests::default();
        for number in 0..1_000 {
            let word = format!("/{number}\"");
            requests.answered(&word, &word, 999, Duration::ZERO);
        }
        let mut text = Text::default();
        requests.write(&mut text);
        let page = text.finish();
        assert!(page.contains("{route=\"other\",method=\"other\",status=\"5xx\"} 1000"), "{page}");
        assert!(page.lines().count() < 30, "{page}");
    }
}
