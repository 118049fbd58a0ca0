//! How a server shows that it is the one a token belongs to, before it is given the token.
//!
//! Without TLS anybody on a machine can listen at the address of a server that has ended, and would
//! be sent everybody's tokens; a pilot would even take orders from them. So whoever connects asks
//! first, with a random number: only who keeps the token's hash can answer. Neither the question
//! nor the answer says anything about the token. With TLS the certificate shows the same.
//!
//! The answer holds for the address that the server was reached at, so that nobody can pass the
//! question on to a server that listens elsewhere. Through a tunnel it is another one than the
//! client's, which whoever made the tunnel says (`TUNNEL`).

use ring::hmac::{HMAC_SHA256, Key, sign, verify};
use ring::rand::{SecureRandom, SystemRandom};
use std::net::SocketAddr;

/// The heading of the question, of the answer, and of the address that the answer is true for.
pub const QUESTION: &str = "shipway-prove";
pub const ANSWER: &str = "shipway-proof";
pub const ADDRESS: &str = "shipway-address";
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

    /// What the answer of a server shows, that was reached at `peer`.
    pub fn judge(&self, said: Said<'_>, peer: SocketAddr) -> Shown {
        let tunnel = std::env::var(TUNNEL).ok();
        self.judge_through(said, peer, tunnel.as_deref())
    }

    fn judge_through(&self, said: Said<'_>, peer: SocketAddr, tunnel: Option<&str>) -> Shown {
        let expected = match tunnel {
            Some(end) if !end.is_empty() => end.to_owned(),
            _ => SocketAddr::new(peer.ip().to_canonical(), peer.port()).to_string(),
        };
        let key = Key::new(HMAC_SHA256, self.key.as_bytes());
        let proves = |address: &str| {
            let signed = text_to_prove(&self.nonce, address);
            let answer = said.answer.and_then(unhex).unwrap_or_default();
            verify(&key, signed.as_bytes(), &answer).is_ok()
        };
        match said.address {
            _ if proves(&expected) => Shown::IsTheServer,
            Some(address) if proves(address) => Shown::IsElsewhere(address.to_owned()),
            _ => Shown::IsAnother,
        }
    }
}

/// The headings of an answer.
#[derive(Debug, Clone, Copy)]
pub struct Said<'a> {
    pub answer: Option<&'a str>,
    pub address: Option<&'a str>,
}

impl<'a> Said<'a> {
    pub fn of(headings: &'a http::HeaderMap) -> Self {
        let text = |name| headings.get(name).and_then(|value| value.to_str().ok());
        Said { answer: text(ANSWER), address: text(ADDRESS) }
    }
}

/// Who answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shown {
    /// A server that keeps the token, at the address that was asked.
    IsTheServer,
    /// Somebody who passes on what such a server says that listens there: a tunnel, or an impostor.
    IsElsewhere(String),
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

/// The answer of a server that keeps this hash and listens there.
pub fn answer(hash: &str, nonce: &str, address: &str) -> String {
    signed(hash, &text_to_prove(nonce, address))
}

fn text_to_prove(nonce: &str, address: &str) -> String {
    format!("{TO_PROVE}{nonce}\n{address}")
}

fn signed(hash: &str, text: &str) -> String {
    hex(sign(&Key::new(HMAC_SHA256, hash.as_bytes()), text.as_bytes()).as_ref())
}

/// Of a token, as servers keep it.
fn hash(token: &str) -> String {
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

    fn at(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    #[test]
    fn only_who_keeps_the_hash_answers_and_only_for_its_address() {
        let question = Question::about("shw_secret").expect("random numbers");
        let heading = question.heading();
        let (found, nonce) = read(&heading).expect("as it was sent");
        let kept = hash("shw_secret");
        assert_eq!(found, name(&kept));
        assert!(!heading.contains(&kept), "it says nothing of the token");
        let right = answer(&kept, nonce, "127.0.0.1:1");
        let said = |answer, address| Said { answer: Some(answer), address: Some(address) };
        let shown = |said, peer| question.judge_through(said, peer, None);
        assert_eq!(shown(said(&right, "127.0.0.1:1"), at(1)), Shown::IsTheServer);
        let passed_on = shown(said(&right, "127.0.0.1:1"), at(2));
        assert_eq!(passed_on, Shown::IsElsewhere("127.0.0.1:1".into()));
        assert_eq!(shown(said(&right, "127.0.0.1:2"), at(2)), Shown::IsAnother);
        let through = |end| question.judge_through(said(&right, "x"), at(2), Some(end));
        assert_eq!(through("127.0.0.1:1"), Shown::IsTheServer, "a tunnel to it");
        assert_eq!(through("127.0.0.1:3"), Shown::IsAnother);
        let other = answer(&hash("shw_other"), nonce, "127.0.0.1:1");
        for wrong in [other.as_str(), "", "x", "00", &right[1..], found] {
            assert_eq!(shown(said(wrong, "127.0.0.1:1"), at(1)), Shown::IsAnother, "{wrong}");
        }
        let again = Question::about("shw_secret").expect("random numbers");
        let old = again.judge_through(said(&right, "127.0.0.1:1"), at(1), None);
        assert_eq!(old, Shown::IsAnother, "an old answer is none");
    }

    #[test]
    fn what_is_no_question_is_not_read() {
        for wrong in ["", "a", "a b", &format!("a {}", "0".repeat(31))] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
