//! How a server shows that it is the one a token belongs to, before it is given the token.
//!
//! Without TLS anybody on a machine can listen at the address of a server that has ended, and would
//! be sent everybody's tokens; a pilot would even take orders from them. So whoever connects asks
//! first, with a random number: only who keeps the token's hash can answer. Neither the question
//! nor the answer says anything about the token. With TLS the certificate shows the same.
//!
//! The answer names the address that the server listens at, so that nobody can pass the question on
//! to a server that has moved; through a tunnel it is another one, which whoever made it knows.

use ring::hmac::{HMAC_SHA256, Key, sign, verify};
use ring::rand::{SecureRandom, SystemRandom};

/// The heading of the question, of the answer, and of the address that the answer is true for.
pub const QUESTION: &str = "shipway-prove";
pub const ANSWER: &str = "shipway-proof";
pub const ADDRESS: &str = "shipway-address";

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

    /// Whether only a server that knows the token, and listens there, can have said this.
    pub fn is_answered_by(&self, answer: &str, address: &str) -> bool {
        let signed = text_to_prove(&self.nonce, address);
        let key = Key::new(HMAC_SHA256, self.key.as_bytes());
        unhex(answer).is_some_and(|answer| verify(&key, signed.as_bytes(), &answer).is_ok())
    }
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

    #[test]
    fn only_who_keeps_the_hash_answers_and_only_for_its_address() {
        let question = Question::about("shw_secret").expect("random numbers");
        let heading = question.heading();
        let (found, nonce) = read(&heading).expect("as it was sent");
        let kept = hash("shw_secret");
        assert_eq!(found, name(&kept));
        assert!(!heading.contains(&kept), "it says nothing of the token");
        let right = answer(&kept, nonce, "127.0.0.1:1");
        assert!(question.is_answered_by(&right, "127.0.0.1:1"));
        assert!(!question.is_answered_by(&right, "127.0.0.1:2"));
        let other = answer(&hash("shw_other"), nonce, "127.0.0.1:1");
        assert!(!question.is_answered_by(&other, "127.0.0.1:1"));
        for wrong in ["", "x", "00", &right[1..], found] {
            assert!(!question.is_answered_by(wrong, "127.0.0.1:1"), "{wrong}");
        }
        let again = Question::about("shw_secret").expect("random numbers");
        assert!(!again.is_answered_by(&right, "127.0.0.1:1"), "an old answer is none");
    }

    #[test]
    fn what_is_no_question_is_not_read() {
        for wrong in ["", "a", "a b", &format!("a {}", "0".repeat(31))] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
