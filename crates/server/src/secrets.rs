//! Random secrets and their hashes. A secret is shown once and never kept; what is kept is SHA-256
//! of 160 random bits, which needs no slow hash because it cannot be guessed.
#![warn(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unreachable,
    clippy::unwrap_used
)]

use crate::documents::{Document, DocumentError, Documents};
use ring::hmac;
use sha2::{Digest, Sha256};
use shipway_core::command::AskSite;
use shipway_core::site::SiteKind;
use shipway_model::{Actor, AllocationId, PilotId, Timestamp};
use std::io::{self, BufWriter};

const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// `prefix` tells people (and scanners for leaked secrets) what they are looking at.
pub fn new_secret(prefix: &str) -> String {
    format!("{prefix}{}", random_word(32))
}

/// A pilot that is to come, with what will let it in.
#[derive(Debug, Clone)]
pub struct NewPilot {
    site: SiteKind,
    pub allocation: AllocationId,
    pub pilot: PilotId,
    pub token: String,
}

/// From which the tokens of pilots are made that the server starts itself. What the core keeps is
/// a token's hash; so that a site can be asked once more after a crash, the token itself must not
/// be lost with the process that made it.
#[derive(Debug)]
pub struct PilotKey(hmac::Key);

impl PilotKey {
    const BYTES: usize = 32;

    /// Of this server; made at the first start. One that is damaged is not replaced: pilots that
    /// were asked for with it would not be let in, and nobody would know why.
    pub fn open(documents: &dyn Documents) -> Result<PilotKey, DocumentError> {
        let key = match documents.read(Document::PilotKey)? {
            Some(kept) if kept.len() == Self::BYTES => kept,
            Some(kept) => {
                let source = format!("it has {} bytes instead of {}", kept.len(), Self::BYTES);
                let place = documents.place(Document::PilotKey);
                return Err(DocumentError { act: "use", place, source: source.into() });
            }
            None => {
                let fresh = random_bytes(Self::BYTES);
                documents.write(Document::PilotKey, &fresh)?;
                fresh
            }
        };
        Ok(PilotKey(hmac::Key::new(hmac::HMAC_SHA256, &key)))
    }

    /// By which this server is known at batch systems. It says nothing about the key.
    pub fn name(&self) -> String {
        word(hmac::sign(&self.0, b"the server's name at batch systems").as_ref())
            .chars()
            .take(10)
            .collect()
    }

    pub fn token_of(&self, pilot: &PilotId) -> String {
        let signed = hmac::sign(&self.0, pilot.as_str().as_bytes());
        format!("shp_{}", word(signed.as_ref()))
    }
}

/// With a key the token can be made again.
#[expect(clippy::expect_used, reason = "nothing from outside is in it, and each start makes one")]
pub fn new_pilot(site: SiteKind, key: Option<&PilotKey>) -> NewPilot {
    let word = random_word(10);
    let pilot = PilotId::new(&format!("{}{word}", site.prefix()));
    let allocation = AllocationId::new(&format!("a-{word}"));
    let pilot = pilot.expect("letters and a dash are a good id");
    let token = key.map_or_else(|| new_secret("shp_"), |key| key.token_of(&pilot));
    let allocation = allocation.expect("letters and a dash are a good id");
    NewPilot { site, allocation, pilot, token }
}

/// An allocation that a batch system is asked for, and the pilot of each of its nodes. Each has a
/// token of its own, which can be made again.
pub fn new_batch_pilots(key: &PilotKey, nodes: u32) -> (AllocationId, Vec<NewPilot>) {
    let first = new_pilot(SiteKind::Batch, Some(key));
    let allocation = first.allocation.clone();
    let others = (1..nodes).map(|_| {
        let other = new_pilot(SiteKind::Batch, Some(key));
        NewPilot { allocation: allocation.clone(), ..other }
    });
    let pilots = std::iter::once(first).chain(others).collect();
    (allocation, pilots)
}

impl NewPilot {
    /// What asks for it; the secret is not in it.
    pub fn ask(&self, by: Option<Actor>, expires: Option<Timestamp>) -> AskSite {
        let (allocation, pilot) = (self.allocation.clone(), self.pilot.clone());
        AskSite { by, site: self.site, allocation, pilot, hash: hash(&self.token), expires }
    }
}

/// A random word of letters and digits; five bits a letter.
pub fn random_word(letters: usize) -> String {
    word(&random_bytes(letters))
}

#[expect(clippy::expect_used, reason = "without chance there is no secret that is one")]
fn random_bytes(count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    getrandom::fill(&mut bytes).expect("the kernel has random bytes");
    bytes
}

#[expect(clippy::indexing_slicing, reason = "five bits, of thirty-two letters")]
fn word(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| char::from(ALPHABET[usize::from(byte % 32)])).collect()
}

#[expect(clippy::indexing_slicing, reason = "four bits, of sixteen digits")]
pub fn hash(secret: &str) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digest = Sha256::digest(secret.as_bytes());
    let pair = |byte: &u8| [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]];
    digest.iter().flat_map(pair).map(char::from).collect()
}

/// A short digest of a specification, to tell a client's repeat from a mistake, and its size. Of
/// its JSON, which is never there as a whole.
#[expect(clippy::expect_used, reason = "types of ours, with texts for keys; nothing is written")]
pub fn digest_of(spec: &impl serde::Serialize) -> (u64, usize) {
    let mut hashing = BufWriter::new(Hashing(Sha256::new(), 0));
    serde_json::to_writer(&mut hashing, spec).expect("a spec is plain data");
    let hashing = hashing.into_inner().expect("nothing is written anywhere");
    let (digest, size) = (hashing.0.finalize(), hashing.1);
    let first = digest.first_chunk().copied().unwrap_or_default();
    // JSON readers that know only floats keep 53 bits; a wider number would not come back.
    (u64::from_be_bytes(first) >> 11, size)
}

/// What is hashed, and how much that was.
#[derive(Debug)]
struct Hashing(Sha256, usize);

impl io::Write for Hashing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        self.1 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::documents::HomeFiles;

    #[test]
    fn a_token_can_be_made_again_in_its_own_home_alone() {
        let homes = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
        let [one, other] = homes.each_ref().map(|home| HomeFiles::of(home.path()));
        let key = PilotKey::open(&one).expect("made");
        let [new, next] = [(); 2].map(|()| new_pilot(SiteKind::ThisMachine, Some(&key)));
        assert_ne!(new.token, next.token);
        assert_eq!(new.token.len(), new_secret("shp_").len());
        let again = PilotKey::open(&one).expect("read");
        assert_eq!(again.token_of(&new.pilot), new.token);
        let elsewhere = PilotKey::open(&other).expect("made");
        assert_ne!(elsewhere.token_of(&new.pilot), new.token);
    }

    #[test]
    fn a_damaged_key_is_refused_and_left_as_it_is() {
        let home = tempfile::tempdir().expect("a folder");
        let documents = HomeFiles::of(home.path());
        for bytes in [0, 31, 33] {
            let damaged = vec![7; bytes];
            documents.write(Document::PilotKey, &damaged).expect("written");
            let error = PilotKey::open(&documents).expect_err("no key");
            let said = shipway_api::causes::causes(&error);
            let why = format!("pilots.key: it has {bytes} bytes instead of 32");
            assert!(said.starts_with("cannot use ") && said.ends_with(&why), "{said}");
            assert_eq!(documents.read(Document::PilotKey).expect("read"), Some(damaged));
        }
    }

    #[test]
    fn secrets_differ_and_hash_alike() {
        let (one, two) = (new_secret("shw_"), new_secret("shw_"));
        assert_ne!(one, two);
        assert_eq!(one.len(), 36);
        assert_eq!(hash(&one), hash(&one));
        assert_ne!(hash(&one), hash(&two));
    }
}
