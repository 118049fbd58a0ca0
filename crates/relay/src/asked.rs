//! What a request asks for. All of it is from outside: nothing here touches a file or a network,
//! and nothing that is not read here reaches one. Of the path only a registry's name, a repository
//! and a digest are left, each of its own type.

use http::{HeaderMap, Method, StatusCode, header};
use shipway_api::ticket::{self, Shown};
use shipway_model::{Digest, ImageRef, RegistryRef};

/// Why somebody does not get what they ask for. The words are shown to whoever runs the task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) code: StatusCode,
    pub(crate) words: String,
}

impl Refusal {
    pub(crate) fn new(code: StatusCode, words: impl Into<String>) -> Self {
        Refusal { code, words: words.into() }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A manifest, or an index of some.
    Document,
    /// A layer or a configuration.
    Blob,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Asked {
    /// With the digest of what is wanted.
    pub(crate) at: RegistryRef,
    pub(crate) digest: Digest,
    pub(crate) kind: Kind,
    pub(crate) part: Part,
    pub(crate) ticket: Shown,
}

/// From one byte on, to another one or the end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) from: u64,
    pub(crate) last: Option<u64>,
}

impl Part {
    pub(crate) fn is_all(self) -> bool {
        self == Part::default()
    }

    /// From where to where of so many bytes. `None`: there is no such part.
    pub(crate) fn within(self, size: u64) -> Option<(u64, u64)> {
        let end = self.last.map_or(size, |last| last.saturating_add(1).min(size));
        let is_there = self.from < end || (size == 0 && self.is_all());
        is_there.then_some((self.from, end))
    }
}

pub(crate) fn read(method: &Method, path: &str, headers: &HeaderMap) -> Result<Asked, Refusal> {
    if method != Method::GET {
        return Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "content can be read only"));
    }
    let nothing = || Refusal::new(StatusCode::NOT_FOUND, "there is nothing at this address");
    let (at, digest, kind) = what(path).ok_or_else(nothing)?;
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let ticket = text(ticket::HEADING).and_then(ticket::read);
    let ticket = ticket.filter(|shown| shown.digest == digest).ok_or_else(no_pilot)?;
    let part = text(header::RANGE.as_str()).and_then(part).unwrap_or_default();
    Ok(Asked { at, digest, kind, part, ticket })
}

pub(crate) fn no_pilot() -> Refusal {
    let words = "it hands out content to pilots of its server only";
    Refusal::new(StatusCode::UNAUTHORIZED, words)
}

/// `/v2/REGISTRY/REPOSITORY/manifests/DIGEST`, or `blobs`.
fn what(path: &str) -> Option<(RegistryRef, Digest, Kind)> {
    let mut parts = path.strip_prefix("/v2/")?.rsplitn(3, '/');
    let digest: Digest = parts.next()?.parse().ok()?;
    let kind = match parts.next()? {
        "manifests" => Kind::Document,
        "blobs" => Kind::Blob,
        _ => return None,
    };
    let named = parts.next()?;
    // The rules of references, and no others.
    let Ok(ImageRef::Registry(at)) = format!("docker://{named}@{digest}").parse() else {
        return None;
    };
    let has_registry = named.split('/').next() == Some(at.host.as_str());
    (has_registry && at.tag.is_none() && at.digest == Some(digest)).then_some((at, digest, kind))
}

/// What is not understood is all of it, as the rules of HTTP have it.
fn part(range: &str) -> Option<Part> {
    let (from, last) = range.strip_prefix("bytes=")?.split_once('-')?;
    let last = if last.is_empty() { None } else { Some(last.parse().ok()?) };
    Some(Part { from: from.parse().ok()?, last })
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    const DIGEST: Digest = Digest([7; 32]);

    fn asked(path: &str, range: Option<&'static str>) -> Result<Asked, u16> {
        let mut headers = HeaderMap::new();
        let shown = ticket::ticket("shp_x", &DIGEST);
        headers.insert(ticket::HEADING, HeaderValue::from_str(&shown).expect("text"));
        headers.extend(range.map(|range| (header::RANGE, HeaderValue::from_static(range))));
        read(&Method::GET, path, &headers).map_err(|refusal| refusal.code.as_u16())
    }

    #[test]
    fn a_request_names_a_registry_a_repository_and_a_digest() {
        let found = asked(&format!("/v2/127.0.0.1:5000/a/b/blobs/{DIGEST}"), None).expect("good");
        let at = (found.at.host.as_str(), found.at.repository.as_str());
        assert_eq!(at, ("127.0.0.1:5000", "a/b"));
        assert_eq!((found.digest, found.kind), (DIGEST, Kind::Blob));
        assert!(found.part.is_all());
        let path = format!("/v2/docker.io/library/x/manifests/{DIGEST}");
        assert_eq!(asked(&path, None).map(|it| it.kind), Ok(Kind::Document));
    }

    #[test]
    fn whatever_else_is_in_a_path_is_refused() {
        for path in [
            "",
            "/",
            "/v2/",
            "/v2/a.example/x/blobs/sha256:00",
            "/v2/a.example/x/tags/list",
            "/v2/a.example/x/manifests/latest",
            &format!("/v2/a.example/../../etc/blobs/{DIGEST}"),
            &format!("/v2/a.example/%2e%2e/x/blobs/{DIGEST}"),
            &format!("/v2/a.example//x/blobs/{DIGEST}"),
            &format!("/v2/../blobs/{DIGEST}"),
            &format!("/v2/blobs/{DIGEST}"),
            &format!("/v2/library/x/blobs/{DIGEST}"),
            &format!("/v2/user:pass@a.example/x/blobs/{DIGEST}"),
            &format!("/v2/a.example/x@{DIGEST}/blobs/{DIGEST}"),
            &format!("/v2/a.example/x:tag/blobs/{DIGEST}"),
            &format!("/v2/a.example/x\0/blobs/{DIGEST}"),
            &format!("/v2/a.example/x/blobs/{DIGEST}/.."),
            &format!("/v2/a.example/x/blobs/{}", DIGEST.to_string().to_uppercase()),
            &format!("/v1/a.example/x/blobs/{DIGEST}"),
        ] {
            assert_eq!(asked(path, None), Err(404), "{path}");
        }
    }

    #[test]
    fn only_a_ticket_for_the_very_digest_is_taken() {
        let other = Digest([8; 32]);
        assert_eq!(asked(&format!("/v2/a.example/x/blobs/{other}"), None), Err(401));
        let path = format!("/v2/a.example/x/blobs/{DIGEST}");
        let none = read(&Method::GET, &path, &HeaderMap::new());
        assert_eq!(none.map_err(|it| it.code.as_u16()), Err(401));
        let put = read(&Method::PUT, &path, &HeaderMap::new());
        assert_eq!(put.map_err(|it| it.code.as_u16()), Err(405));
    }

    #[test]
    fn parts_stay_within_what_is_there() {
        let path = format!("/v2/a.example/x/blobs/{DIGEST}");
        for (range, size, expected) in [
            (None, 10, Some((0, 10))),
            (None, 0, Some((0, 0))),
            (Some("bytes=4-"), 10, Some((4, 10))),
            (Some("bytes=0-0"), 10, Some((0, 1))),
            (Some("bytes=2-99"), 10, Some((2, 10))),
            (Some("bytes=10-"), 10, None),
            (Some("bytes=5-4"), 10, None),
            (Some("bytes=0-18446744073709551615"), 10, Some((0, 10))),
            (Some("bytes=-3"), 10, Some((0, 10))),
            (Some("bytes=a-b"), 10, Some((0, 10))),
        ] {
            let part = asked(&path, range).expect("good").part;
            assert_eq!(part.within(size), expected, "{range:?}");
        }
    }
}
