//! How a server shows that it is the one a token belongs to, before it is given the token.
//!
//! Without TLS anybody on a machine can listen at the address of a server that has ended, and would
//! be sent everybody's tokens; a pilot would even take orders from them. So whoever connects asks
//! first, with a random number: only who keeps the token's hash can answer. Neither the question
//! nor the answer says anything about the token. With TLS the certificate shows the same.
//!
//! The answer holds for one connection, by the addresses of both its ends: whoever passes the
//! question on to the server has a connection of their own to it, and gets an answer for that one.
//! So does a tunnel; whoever made it says where it leads (`TUNNEL`), and answers for its end.

use ring::hmac::{HMAC_SHA256, Key, sign, verify};
use ring::rand::{SecureRandom, SystemRandom};
use std::fmt;
use std::net::SocketAddr;

/// The heading of the question, of the answer, and of the ends that the answer is true for.
pub const QUESTION: &str = "shipway-prove";
pub const ANSWER: &str = "shipway-proof";
pub const BETWEEN: &str = "shipway-between";
/// The variable that names the address of the server at the other end of a tunnel.
pub const TUNNEL: &str = "SHIPWAY_TUNNEL_TO";

const NONCE_BYTES: usize = 16;
/// What is signed for each purpose begins differently, so that no answer can be used for another.
const TO_FIND: &str = "shipway token\n";
const TO_PROVE: &str = "shipway server\n";

/// One question about one token.
#[derive(Debug, Clone)]
pub struct Question {
    key: String,
    nonce: String,
}

impl Question {
    /// `None`: the kernel has no random numbers.
    pub fn about(token: &str) -> Option<Self> {
        let mut nonce = [0; NONCE_BYTES];
        SystemRandom::new().fill(&mut nonce).ok()?;
        Some(Question { key: hash(token), nonce: hex(&nonce) })
    }

    /// As it is sent.
    pub fn heading(&self) -> String {
        format!("{} {}", name(&self.key), self.nonce)
    }

    /// What an answer over a connection with these ends shows.
    pub fn judge(&self, said: Said<'_>, ends: Ends) -> Shown {
        let tunnel = std::env::var(TUNNEL).ok().filter(|end| !end.is_empty());
        self.judge_through(said, ends, tunnel.as_deref())
    }

    fn judge_through(&self, said: Said<'_>, ends: Ends, tunnel: Option<&str>) -> Shown {
        let Some(between) = said.between.filter(|between| self.is_proven(said.answer, between))
        else {
            return Shown::IsAnother;
        };
        let server = between.split(' ').next().unwrap_or_default();
        let is_right = match tunnel {
            Some(end) => server == end,
            None => between == ends.to_string(),
        };
        if is_right { Shown::IsTheServer } else { Shown::PassesOn(server.to_owned()) }
    }

    fn is_proven(&self, answer: Option<&str>, between: &str) -> bool {
        let signed = text_to_prove(&self.nonce, between);
        is_signed(&self.key, &signed, answer.unwrap_or_default())
    }
}

/// A connection, by the addresses of its ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ends {
    pub server: SocketAddr,
    pub client: SocketAddr,
}

/// As it is signed: first the server's.
impl fmt::Display for Ends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A socket for both kinds of addresses has names of its own for those of the older kind.
        let plain = |at: SocketAddr| SocketAddr::new(at.ip().to_canonical(), at.port());
        write!(f, "{} {}", plain(self.server), plain(self.client))
    }
}

/// The headings of an answer.
#[derive(Debug, Clone, Copy)]
pub struct Said<'a> {
    pub answer: Option<&'a str>,
    pub between: Option<&'a str>,
}

impl<'a> Said<'a> {
    pub fn of(headings: &'a http::HeaderMap) -> Self {
        let text = |name| headings.get(name).and_then(|value| value.to_str().ok());
        Said { answer: text(ANSWER), between: text(BETWEEN) }
    }
}

/// Who answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shown {
    /// A server that keeps the token, at the other end of this very connection.
    IsTheServer,
    /// Somebody who passes on what such a server says, reached at this address: a tunnel, or an
    /// impostor.
    PassesOn(String),
    /// Another program, or a server that does not keep the token.
    IsAnother,
}

/// The name of a token and the number, of a question as it was sent.
pub fn read(heading: &str) -> Option<(&str, &str)> {
    let (name, nonce) = heading.split_once(' ')?;
    (nonce.len() == 2 * NONCE_BYTES).then_some((name, nonce))
}

/// What a token is found by, of its hash.
pub fn name(hash: &str) -> String {
    signed(hash, TO_FIND)
}

/// The answer of a server that keeps this hash, for the connection that the question came over.
pub fn answer(hash: &str, nonce: &str, between: &str) -> String {
    signed(hash, &text_to_prove(nonce, between))
}

fn text_to_prove(nonce: &str, between: &str) -> String {
    format!("{TO_PROVE}{nonce}\n{between}")
}

pub(crate) fn signed(hash: &str, text: &str) -> String {
    hex(sign(&Key::new(HMAC_SHA256, hash.as_bytes()), text.as_bytes()).as_ref())
}

/// Compared in constant time.
pub(crate) fn is_signed(hash: &str, text: &str, signature: &str) -> bool {
    let key = Key::new(HMAC_SHA256, hash.as_bytes());
    verify(&key, text.as_bytes(), &unhex(signature).unwrap_or_default()).is_ok()
}

/// Of a token, as servers keep it.
pub(crate) fn hash(token: &str) -> String {
    hex(ring::digest::digest(&ring::digest::SHA256, token.as_bytes()).as_ref())
}

fn hex(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from_digit(u32::from(value), 16).unwrap_or_default();
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let pairs = text.as_bytes().chunks(2);
    let byte = |pair: &[u8]| {
        let pair = std::str::from_utf8(pair).ok().filter(|pair| pair.len() == 2)?;
        u8::from_str_radix(pair, 16).ok()
    };
    pairs.map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(server: u16, client: u16) -> Ends {
        let at = |port| SocketAddr::from(([127, 0, 0, 1], port));
        Ends { server: at(server), client: at(client) }
    }

    #[test]
    fn only_who_keeps_the_hash_answers_and_only_for_this_connection() {
        let question = Question::about("shw_secret").expect("random numbers");
        let heading = question.heading();
        let (found, nonce) = read(&heading).expect("as it was sent");
        let kept = hash("shw_secret");
        assert_eq!(found, name(&kept));
        assert!(!heading.contains(&kept), "it says nothing of the token");
        let between = ends(1, 70).to_string();
        assert_eq!(between, "127.0.0.1:1 127.0.0.1:70");
        let right = answer(&kept, nonce, &between);
        let said = |answer| Said { answer: Some(answer), between: Some(&between) };
        let shown = |said, ends| question.judge_through(said, ends, None);
        assert_eq!(shown(said(&right), ends(1, 70)), Shown::IsTheServer);
        // Passed on from another port, or by somebody who listened there before.
        for other in [ends(2, 70), ends(1, 71)] {
            assert_eq!(shown(said(&right), other), Shown::PassesOn("127.0.0.1:1".into()));
        }
        let claimed = Said { answer: Some(&right), between: Some("127.0.0.1:1 127.0.0.1:71") };
        assert_eq!(shown(claimed, ends(1, 71)), Shown::IsAnother);
        let through = |end| question.judge_through(said(&right), ends(9, 71), Some(end));
        assert_eq!(through("127.0.0.1:1"), Shown::IsTheServer, "a tunnel to it");
        assert_eq!(through("127.0.0.1:3"), Shown::PassesOn("127.0.0.1:1".into()));
        let other = answer(&hash("shw_other"), nonce, &between);
        for wrong in [other.as_str(), "", "x", "00", right.get(1..).unwrap(), found] {
            assert_eq!(shown(said(wrong), ends(1, 70)), Shown::IsAnother, "{wrong}");
        }
        let again = Question::about("shw_secret").expect("random numbers");
        let old = again.judge_through(said(&right), ends(1, 70), None);
        assert_eq!(old, Shown::IsAnother, "an old answer is none");
    }

    #[test]
    fn what_is_no_question_is_not_read() {
        for wrong in ["", "a", "a b", &format!("a {}", "0".repeat(31))] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
