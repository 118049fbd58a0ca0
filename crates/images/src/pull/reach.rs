//! Which addresses are asked for images on behalf of others: those of the public internet, and what
//! the operator listed. Whoever may name an image may otherwise have the server or a root pilot
//! talk to what only they can reach: a service on loopback, the site's network, a cloud's metadata.
//!
//! Judged is the address that is connected to, after its name was looked up and for every request
//! there is: the registry's own, its token service's and wherever either sends us. Pure but for the
//! name service, which is asked once for each connection.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::NextTimeout;

/// Where requests may go.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Reach {
    /// For somebody's own process: it reaches what they reach.
    #[default]
    Everything,
    /// For others: public addresses, and these hosts wherever they are, as `HOST` or `HOST:PORT`.
    Public { listed: Vec<String> },
}

/// Not a public address, and not listed.
#[derive(Debug, thiserror::Error)]
#[error("it is not on the public internet, and not listed")]
pub(super) struct OutOfReach;

impl Reach {
    /// Whether a host may be asked at an address that its name led to.
    fn allows(&self, uri: &Uri, address: IpAddr) -> bool {
        match self {
            Reach::Everything => true,
            Reach::Public { listed } => is_public(address) || is_listed(listed, uri),
        }
    }

    /// Through a proxy names are looked up by the proxy, whose rules then hold; but a number in an
    /// address is nobody's to look up.
    pub(super) fn judge_number(&self, uri: &Uri) -> Result<(), OutOfReach> {
        let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
        match host.parse::<IpAddr>() {
            Ok(number) if !self.allows(uri, number) => Err(OutOfReach),
            _ => Ok(()),
        }
    }
}

fn is_listed(listed: &[String], uri: &Uri) -> bool {
    let Some(authority) = uri.authority() else { return false };
    let usual = if uri.scheme_str() == Some("http") { 80 } else { 443 };
    let with_port = format!("{}:{}", authority.host(), authority.port_u16().unwrap_or(usual));
    let is = |one: &String| {
        one.eq_ignore_ascii_case(authority.host()) || one.eq_ignore_ascii_case(&with_port)
    };
    listed.iter().any(is)
}

/// Whether an address belongs to the public internet, rather than to this machine, its network, or
/// whoever runs the machine.
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let is_ours = address.is_loopback() || address.is_private() || address.is_link_local();
    // "This" network; carriers' own (and a cloud's metadata); protocol assignments; benchmarks.
    let is_special = a == 0
        || (a == 100 && (64..128).contains(&b))
        || (a == 192 && b == 0 && c == 0)
        || (a == 198 && (18..20).contains(&b));
    // One cloud's host answers its guests at a public number.
    let is_host = address == Ipv4Addr::new(168, 63, 129, 16);
    // Multicast, reserved and broadcast are from 224 on.
    !(is_ours || is_special || is_host || a >= 224)
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let v4 = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        is_public_v4(Ipv4Addr::new(a, b, c, d))
    };
    match address.segments() {
        // IPv4 in one dress or another: mapped, translated.
        [0, 0, 0, 0, 0, 0xffff, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        | [0x2002, high, low, ..] => v4(high, low),
        // Compatible addresses (`::` and `::1` among them); tunnels to anywhere; what a site or its
        // translator keeps for itself.
        [0, 0, 0, 0, 0 | 0xffff, 0, ..] | [0x2001, 0, ..] | [0x64, 0xff9b, 1, ..] => false,
        // Only this block is given out; local, site-local, unique-local and multicast are outside.
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

/// Looks names up as usual, and keeps of what is found what may be connected to.
#[derive(Debug)]
pub(super) struct Judging {
    pub(super) reach: Reach,
    pub(super) names: DefaultResolver,
}

impl Resolver for Judging {
    fn resolve(
        &self,
        uri: &Uri,
        config: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let found = self.names.resolve(uri, config, timeout)?;
        let mut allowed = self.empty();
        for address in found.iter().filter(|address| self.reach.allows(uri, address.ip())) {
            allowed.push(*address);
        }
        if allowed.is_empty() { Err(ureq::Error::Other(Box::new(OutOfReach))) } else { Ok(allowed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_public_internet_is_public() {
        for (address, public) in [
            ("93.184.216.34", true),
            ("2606:2800:220:1::1", true),
            ("::ffff:93.184.216.34", true),
            ("64:ff9b::93.184.216.34", true),
            ("127.0.0.1", false),
            ("127.8.9.1", false),
            ("0.0.0.0", false),
            ("10.1.2.3", false),
            ("172.16.0.1", false),
            ("172.32.0.1", true),
            ("192.168.1.1", false),
            ("169.254.169.254", false),
            ("168.63.129.16", false),
            ("100.64.0.1", false),
            ("100.100.100.200", false),
            ("192.0.0.192", false),
            ("198.19.0.1", false),
            ("224.0.0.1", false),
            ("255.255.255.255", false),
            ("::", false),
            ("::1", false),
            ("::127.0.0.1", false),
            ("::ffff:127.0.0.1", false),
            ("::ffff:0:127.0.0.1", false),
            ("64:ff9b::10.0.0.1", false),
            ("64:ff9b:1::1", false),
            ("2002:7f00:1::", false),
            ("2001::1", false),
            ("fe80::1", false),
            ("fec0::1", false),
            ("fd00:ec2::254", false),
            ("ff02::1", false),
        ] {
            assert_eq!(is_public(address.parse().expect("an address")), public, "{address}");
        }
    }

    #[test]
    fn what_is_listed_is_reached_by_that_name_and_port() {
        let listed = ["10.0.0.5:5000".to_owned(), "hub.site".to_owned(), "[::1]:5000".to_owned()];
        for (uri, allowed) in [
            ("http://10.0.0.5:5000/v2/", true),
            ("http://10.0.0.5/v2/", false),
            ("http://10.0.0.5:22/", false),
            ("https://hub.site/v2/", true),
            ("https://HUB.site:8443/v2/", true),
            ("https://hub.site.evil.test/", false),
            ("http://[::1]:5000/v2/", true),
            ("http://169.254.169.254/", false),
        ] {
            let uri: Uri = uri.parse().expect("an address");
            assert_eq!(is_listed(&listed, &uri), allowed, "{uri}");
        }
    }
}
