//! What a registry asks for before it answers, and whether it may have it. Pure.

use ureq::http::Uri;

/// What a 401 asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Challenge {
    Basic,
    Bearer { realm: String, service: Option<String>, scope: Option<String> },
}

/// Reads `WWW-Authenticate`; none when it asks for something we do not have.
pub(super) fn challenge(header: &str) -> Option<Challenge> {
    let (scheme, rest) = header.trim().split_once(' ').unwrap_or((header.trim(), ""));
    if scheme.eq_ignore_ascii_case("basic") {
        return Some(Challenge::Basic);
    }
    if !scheme.eq_ignore_ascii_case("bearer") {
        return None;
    }
    let (mut realm, mut service, mut scope) = (None, None, None);
    for (key, value) in parameters(rest) {
        match key.to_ascii_lowercase().as_str() {
            "realm" => realm = Some(value),
            "service" => service = Some(value),
            "scope" => scope = Some(value),
            _ => {}
        }
    }
    Some(Challenge::Bearer { realm: realm?, service, scope })
}

/// `a="b",c="d e"`; commas inside quotes belong to the value.
fn parameters(mut text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    while let Some((key, rest)) = text.split_once('=') {
        let key = key.trim_matches([' ', ',']).to_owned();
        let (value, after) = match rest.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').unwrap_or((quoted, "")),
            None => rest.split_once(',').unwrap_or((rest, "")),
        };
        found.push((key, value.trim().to_owned()));
        text = after;
    }
    found
}

/// Whether a password for `registry` may be shown to the host that hands out its tokens. Any
/// registry can name any host; only one of the same house is told.
pub(super) fn may_have_password(registry: &str, realm: &Uri) -> bool {
    let Some(host) = realm.host() else { return false };
    let registry = bare(registry);
    if host == registry {
        return true;
    }
    if realm.scheme_str() != Some("https") {
        return false;
    }
    let below = |domain: &str| host.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'));
    let Some((_, parent)) = registry.split_once('.') else { return false };
    below(registry) || (is_a_house(parent) && (host == parent || below(parent)))
}

fn bare(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => host,
    }
}

/// Whether everything below a domain is one organisation's. `example.org` is; `co.uk` is not:
/// short names below a country are shared.
fn is_a_house(domain: &str) -> bool {
    let labels: Vec<&str> = domain.split('.').collect();
    let numeric = domain.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    match labels[..] {
        [_] | [] => false,
        [second, top] => !numeric && (top.len() > 2 || second.len() > 3),
        _ => !numeric,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_are_read() {
        let header =
            r#"Bearer realm="https://a/t?x=1",service="r", scope="repository:a/b:pull,push""#;
        let Some(Challenge::Bearer { realm, service, scope }) = challenge(header) else {
            panic!("bearer");
        };
        assert_eq!((realm.as_str(), service.as_deref()), ("https://a/t?x=1", Some("r")));
        assert_eq!(scope.as_deref(), Some("repository:a/b:pull,push"));
        assert_eq!(challenge("Basic realm=\"x\""), Some(Challenge::Basic));
        assert_eq!(challenge("Negotiate"), None);
        assert_eq!(challenge("Bearer service=\"x\""), None);
    }

    #[test]
    fn passwords_stay_in_the_house() {
        for (registry, realm, allowed) in [
            ("docker.io", "https://auth.docker.io/token", true),
            ("registry.example.org", "https://registry.example.org/t", true),
            ("registry.example.org", "https://login.example.org/t", true),
            ("registry.example.org", "https://example.org/t", true),
            ("127.0.0.1:5000", "http://127.0.0.1:5001/t", true),
            ("registry.example.org", "http://login.example.org/t", false),
            ("registry.example.org", "https://evil.test/t", false),
            ("registry.example.org", "https://evilexample.org/t", false),
            ("registry.co.uk", "https://evil.co.uk/t", false),
            ("example.org", "https://other.org/t", false),
            ("10.0.0.1", "https://11.0.0.1/t", false),
            ("docker.io", "https://evil.io/t", false),
        ] {
            let realm: Uri = realm.parse().expect("address");
            assert_eq!(may_have_password(registry, &realm), allowed, "{registry} {realm}");
        }
    }
}
