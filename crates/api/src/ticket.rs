//! How a pilot shows a relay that it is one of the server's, without showing it its token: a ticket
//! for one piece of content, which the relay has judged by the server (`routes::TICKET`).
//!
//! It is signed with what the server keeps of the token, for this purpose alone (`proof.rs` signs
//! for others), and names the digest that is asked for. Whoever reads it on the way has seen the
//! content too, and can ask for nothing else with it. It is good as long as the token is.

use crate::proof;
use shipway_model::Digest;
use std::fmt;

/// The heading by which it is shown, to the relay and by it to the server.
pub const HEADING: &str = "shipway-ticket";

/// What is signed begins differently for each purpose.
const TO_HAVE: &str = "shipway relayed content\n";
/// The longest that is read: a name, a digest, a signature.
const LONGEST: usize = 256;

/// As a pilot shows it.
pub fn ticket(token: &str, digest: &Digest) -> String {
    let hash = proof::hash(token);
    format!("{} {digest} {}", proof::name(&hash), proof::signed(&hash, &text(digest)))
}

/// One that was shown.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shown {
    /// What the token is found by.
    pub name: String,
    pub digest: Digest,
    signature: String,
}

/// `None`: it is no ticket.
pub fn read(shown: &str) -> Option<Shown> {
    let mut words = shown.split(' ').filter(|_| shown.len() <= LONGEST);
    let (name, digest, signature) = (words.next()?, words.next()?, words.next()?);
    let digest = digest.parse().ok().filter(|_| words.next().is_none())?;
    Some(Shown { name: name.to_owned(), digest, signature: signature.to_owned() })
}

impl Shown {
    /// Whether it was signed with the token of which this is kept.
    pub fn is_signed_with(&self, hash: &str) -> bool {
        proof::is_signed(hash, &text(&self.digest), &self.signature)
    }
}

/// As it was shown.
impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.name, self.digest, self.signature)
    }
}

fn text(digest: &Digest) -> String {
    format!("{TO_HAVE}{digest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_is_good_for_one_token_and_one_digest() {
        let (one, other) = (Digest([1; 32]), Digest([2; 32]));
        let shown = read(&ticket("shp_secret", &one)).expect("a ticket");
        let kept = proof::hash("shp_secret");
        assert_eq!((shown.name.as_str(), shown.digest), (proof::name(&kept).as_str(), one));
        assert!(shown.is_signed_with(&kept));
        assert_eq!(shown.to_string(), ticket("shp_secret", &one));
        assert!(!shown.is_signed_with(&proof::hash("shp_other")));
        assert!(!Shown { digest: other, ..shown.clone() }.is_signed_with(&kept));
        // What the server signs to show who it is is no ticket.
        let proven = proof::answer(&kept, "00", &one.to_string());
        assert!(!Shown { signature: proven, ..shown }.is_signed_with(&kept));
    }

    #[test]
    fn what_is_no_ticket_is_not_read() {
        let good = ticket("shp_secret", &Digest([1; 32]));
        let long = format!("{}{good}", "x".repeat(LONGEST));
        let short = good.get(..good.len() - 65).expect("longer than that");
        for wrong in ["", "a b c", &format!("{good} x"), short, &long] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
