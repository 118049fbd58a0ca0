//! What of the node a container sees besides its image: folders bound into it, and the network.
//! Texts as users write them, parsed and printed back. Whether a site allows a bind is not decided
//! here.

use crate::as_text::as_text;
use std::fmt;
use std::str::FromStr;

/// `SOURCE[:TARGET][:rw|:ro]`: read-only unless it says otherwise, at the same path unless it
/// names another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BindMount {
    pub source: String,
    pub target: String,
    pub writable: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadBind {
    #[error("`{0}` is not a bind (SOURCE[:TARGET][:rw])")]
    Form(String),
    #[error("the path `{0}` in a bind is not absolute, or has a `..`")]
    Path(String),
}

impl FromStr for BindMount {
    type Err = BadBind;

    fn from_str(text: &str) -> Result<Self, BadBind> {
        let bad = || BadBind::Form(text.chars().take(200).collect());
        let mut parts: Vec<&str> = text.split(':').collect();
        let writable = match parts.last() {
            Some(&"rw") if parts.len() > 1 => parts.pop().is_some(),
            Some(&"ro") if parts.len() > 1 => parts.pop().is_none(),
            _ => false,
        };
        let (source, target) = match parts[..] {
            [both] => (both, both),
            [source, target] => (source, target),
            _ => return Err(bad()),
        };
        BindMount::new(source.into(), target.into(), writable)
    }
}

impl BindMount {
    pub fn new(source: String, target: String, writable: bool) -> Result<Self, BadBind> {
        for path in [&source, &target] {
            let plain = path.split('/').all(|part| part != ".." && part != ".");
            if !path.starts_with('/') || !plain || path.contains(['\0', ':']) {
                return Err(BadBind::Path(path.chars().take(200).collect()));
            }
        }
        Ok(BindMount { source, target, writable })
    }
}

impl fmt::Display for BindMount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)?;
        if self.target != self.source {
            write!(f, ":{}", self.target)?;
        }
        if self.writable { f.write_str(":rw") } else { Ok(()) }
    }
}

as_text!(BindMount);
as_text!(Network);

/// What network a container sees.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "schema", schema(rename_all = "lowercase"))]
pub enum Network {
    /// The node's own.
    #[default]
    Host,
    None,
    /// Only a loopback device, of its own.
    Private,
}

impl Network {
    pub const fn as_str(self) -> &'static str {
        match self {
            Network::Host => "host",
            Network::None => "none",
            Network::Private => "private",
        }
    }

    #[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature serde asks for")]
    pub(crate) fn is_host(&self) -> bool {
        *self == Network::Host
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a network (host, none or private)")]
pub struct BadNetwork(String);

impl FromStr for Network {
    type Err = BadNetwork;

    fn from_str(text: &str) -> Result<Self, BadNetwork> {
        match text {
            "host" => Ok(Network::Host),
            "none" => Ok(Network::None),
            "private" => Ok(Network::Private),
            _ => Err(BadNetwork(text.chars().take(200).collect())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_reads_back() {
        for text in ["/data", "/data:rw", "/data:/inside", "/data:/inside:rw", "/a b/ü"] {
            let parsed: BindMount = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(parsed.to_string(), text);
        }
        assert_eq!("/a:ro".parse::<BindMount>().map(|bind| bind.to_string()), Ok("/a".into()));
        for network in [Network::Host, Network::None, Network::Private] {
            assert_eq!(network.to_string().parse(), Ok(network));
        }
    }

    #[test]
    fn what_is_no_bind_is_refused() {
        for text in ["", "rw", "data", "/a:b", "/a:/b:/c", "/a/../b", "/a:/./b", "/a:rw:rw", ":"] {
            assert!(text.parse::<BindMount>().is_err(), "{text}");
        }
    }
}
