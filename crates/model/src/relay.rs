//! Where a relay listens, as people write it: a host and a port. What a relay is for is in
//! `docs/sites.md`; that it is there is nothing this type knows.

use crate::as_text::as_text;
use crate::image_ref::is_host;
use std::fmt;
use std::str::FromStr;

/// A name cannot be longer.
const LONGEST: usize = 255;

/// `HOST:PORT`; an IPv6 address in brackets.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RelayAddress(String);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not the address of a relay (HOST:PORT, as in login1:7448)")]
pub struct BadRelayAddress(String);

impl RelayAddress {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for RelayAddress {
    type Err = BadRelayAddress;

    fn from_str(text: &str) -> Result<Self, BadRelayAddress> {
        let has_port = text.rsplit_once(':').is_some_and(|(_, port)| !port.ends_with(']'));
        if text.len() > LONGEST || !has_port || !is_host(text) {
            return Err(BadRelayAddress(text.chars().take(80).collect()));
        }
        Ok(RelayAddress(text.to_owned()))
    }
}

impl fmt::Display for RelayAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

as_text!(RelayAddress);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relay_is_a_host_and_a_port() {
        for good in ["login1:7448", "10.0.0.1:1", "[fd00::1]:7448", "a.b-c.example:65535"] {
            assert_eq!(good.parse::<RelayAddress>().map(|it| it.to_string()).as_deref(), Ok(good));
        }
        for bad in [
            "",
            "login1",
            "login1:",
            "login1:0",
            "login1:65536",
            "[fd00::1]",
            "a b:1",
            "-x:1",
            ":1",
        ] {
            assert!(bad.parse::<RelayAddress>().is_err(), "{bad}");
        }
        for bad in ["https://login1:7448", "login1:7448/x", "login1:7448@x", "a\nb:1"] {
            assert!(bad.parse::<RelayAddress>().is_err(), "{bad}");
        }
    }
}
