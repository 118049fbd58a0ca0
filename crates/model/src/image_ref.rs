//! Where an image is: a reference as users write it, parsed, checked and printed back.
//!
//! Nothing here looks whether the image exists; that is the work of `shipway-images`.

use crate::as_text::as_text;
use std::fmt;
use std::str::FromStr;

/// The registry meant when a reference names none, as every container tool has it.
pub const DEFAULT_REGISTRY: &str = "docker.io";
/// The tag meant when neither tag nor digest is named.
pub const DEFAULT_TAG: &str = "latest";
/// The distribution specification's limit for a name, its host included.
const NAME_LIMIT: usize = 255;
/// The distribution specification's limit for a tag.
const TAG_LIMIT: usize = 128;
/// Longer than any path a kernel takes.
const TEXT_LIMIT: usize = 4096;

/// A SHA-256: the only algorithm taken, because all of ours is compared by it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 32]);

/// `docker://`: an image in a registry.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RegistryRef {
    /// Host and, if written, port.
    pub host: String,
    pub repository: String,
    pub tag: Option<String>,
    /// When given, it decides; the tag is only for people.
    pub digest: Option<Digest>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a registry: write it as images do, as in registry.example.org:5000")]
pub struct BadRegistry(String);

/// A registry as references name it: a host and, if needed, a port.
pub fn registry_name(text: &str) -> Result<String, BadRegistry> {
    match format!("docker://{text}/x").parse() {
        Ok(ImageRef::Registry(at)) if at.host == text => Ok(at.host),
        _ => Err(BadRegistry(text.chars().take(200).collect())),
    }
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ImageRef {
    Registry(RegistryRef),
    /// An OCI image layout; the tag chooses when it holds several images.
    OciDir {
        dir: String,
        tag: Option<String>,
        /// Here and below: when given, what lies there must be this image, and no later one.
        digest: Option<Digest>,
    },
    /// What `docker save` writes.
    DockerArchive {
        file: String,
        digest: Option<Digest>,
    },
    /// An Apptainer image.
    Sif {
        file: String,
        digest: Option<Digest>,
    },
    /// A file tree, used as it is.
    Dir {
        path: String,
    },
    /// The node's own file tree.
    Host,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadImageRef {
    #[error("`{text}` is not an image{}", nearest(.near.as_deref()))]
    Form { text: String, near: Option<String> },
    #[error("`{text}` is not the name of an image in a registry: {why}")]
    Name { text: String, why: &'static str },
    #[error("`{text}` is not a digest (write sha256: and 64 digits from 0 to f)")]
    Digest { text: String },
    #[error("`{form}` needs a path after it, without control characters")]
    Path { form: &'static str },
}

fn nearest(near: Option<&str>) -> String {
    match near {
        Some(near) => format!("; did you mean `{near}`?"),
        None => " (write docker://NAME:TAG, oci:DIR[:TAG], docker-archive:FILE, sif:FILE, \
                 dir:PATH or host)"
            .to_owned(),
    }
}

impl ImageRef {
    /// The file or folder it names, if it names one of a machine.
    pub fn place(&self) -> Option<&str> {
        match self {
            ImageRef::OciDir { dir: place, .. }
            | ImageRef::DockerArchive { file: place, .. }
            | ImageRef::Sif { file: place, .. }
            | ImageRef::Dir { path: place } => Some(place),
            ImageRef::Registry(_) | ImageRef::Host => None,
        }
    }

    /// The same image with its file or folder elsewhere.
    #[must_use]
    pub fn at(self, place: String) -> ImageRef {
        match self {
            ImageRef::OciDir { tag, digest, .. } => ImageRef::OciDir { dir: place, tag, digest },
            ImageRef::DockerArchive { digest, .. } => {
                ImageRef::DockerArchive { file: place, digest }
            }
            ImageRef::Sif { digest, .. } => ImageRef::Sif { file: place, digest },
            ImageRef::Dir { .. } => ImageRef::Dir { path: place },
            ImageRef::Registry(_) | ImageRef::Host => self,
        }
    }

    /// The one image it means, whatever its tag or file comes to hold later.
    pub fn digest(&self) -> Option<Digest> {
        match self {
            ImageRef::Registry(at) => at.digest,
            ImageRef::OciDir { digest, .. }
            | ImageRef::DockerArchive { digest, .. }
            | ImageRef::Sif { digest, .. } => *digest,
            ImageRef::Dir { .. } | ImageRef::Host => None,
        }
    }

    /// The same reference, meaning this image for ever.
    #[must_use]
    pub fn pinned(mut self, image: Digest) -> ImageRef {
        match &mut self {
            ImageRef::Registry(RegistryRef { digest, .. })
            | ImageRef::OciDir { digest, .. }
            | ImageRef::DockerArchive { digest, .. }
            | ImageRef::Sif { digest, .. } => *digest = Some(image),
            ImageRef::Dir { .. } | ImageRef::Host => {}
        }
        self
    }

    /// Whether this is the other one with a digest added.
    pub fn is_pin_of(&self, other: &ImageRef) -> bool {
        self.digest().is_some_and(|digest| other.clone().pinned(digest) == *self)
    }

    /// Whether it must be unpacked into a store before it can run.
    pub fn is_stored(&self) -> bool {
        !matches!(self, ImageRef::Dir { .. } | ImageRef::Host)
    }
}

impl FromStr for ImageRef {
    type Err = BadImageRef;

    fn from_str(text: &str) -> Result<Self, BadImageRef> {
        if text == "host" {
            return Ok(ImageRef::Host);
        }
        if text.len() <= TEXT_LIMIT
            && let Some((form, rest)) = text.split_once(':')
        {
            match (form, rest.strip_prefix("//")) {
                ("docker", Some(name)) => return registry(name).map(ImageRef::Registry),
                ("oci", None) => return oci_dir(rest),
                ("docker-archive", None) => {
                    let (rest, digest) = pin(rest)?;
                    let file = path("docker-archive:", rest)?;
                    return Ok(ImageRef::DockerArchive { file, digest });
                }
                ("sif", None) => {
                    let (rest, digest) = pin(rest)?;
                    return Ok(ImageRef::Sif { file: path("sif:", rest)?, digest });
                }
                ("dir", None) => return path("dir:", rest).map(|path| ImageRef::Dir { path }),
                _ => {}
            }
        }
        Err(BadImageRef::Form { text: short(text), near: guess(text) })
    }
}

/// What somebody who wrote this most likely meant, if that would be right.
fn guess(text: &str) -> Option<String> {
    let (form, rest) = text.split_once(':').unwrap_or(("", text));
    let path = rest.trim_start_matches("//");
    let ends = |end: &str| text.len() > end.len() && text.ends_with(end);
    let near = match form {
        "docker" => format!("docker://{}", rest.trim_start_matches('/')),
        "oci" | "docker-archive" | "sif" | "dir" => format!("{form}:{path}"),
        "oras" | "shub" | "library" | "http" | "https" => format!("docker://{path}"),
        "sandbox" => format!("dir:{path}"),
        _ if ends(".sif") => format!("sif:{text}"),
        _ if ends(".tar") => format!("docker-archive:{text}"),
        _ if text.starts_with(['/', '.', '~']) => format!("dir:{text}"),
        _ => format!("docker://{text}"),
    };
    // A guess that is as wrong as what it replaces helps nobody.
    (near != text && near.parse::<ImageRef>().is_ok()).then_some(near)
}

fn path(form: &'static str, text: &str) -> Result<String, BadImageRef> {
    if text.is_empty() || text.starts_with("//") || text.contains(char::is_control) {
        return Err(BadImageRef::Path { form });
    }
    Ok(text.to_owned())
}

/// The digest at the end, if there is one. Other `@` belong to the path.
fn pin(text: &str) -> Result<(&str, Option<Digest>), BadImageRef> {
    match text.rsplit_once('@') {
        Some((place, digest)) if digest.starts_with("sha256:") => {
            Ok((place, Some(digest.parse()?)))
        }
        _ => Ok((text, None)),
    }
}

fn oci_dir(text: &str) -> Result<ImageRef, BadImageRef> {
    let (text, digest) = pin(text)?;
    let tagged = text.rsplit_once(':').filter(|(dir, tag)| !dir.is_empty() && is_tag(tag));
    let (dir, tag) = tagged.map_or((text, None), |(dir, tag)| (dir, Some(tag.to_owned())));
    Ok(ImageRef::OciDir { dir: path("oci:", dir)?, tag, digest })
}

fn registry(text: &str) -> Result<RegistryRef, BadImageRef> {
    let bad = |why| BadImageRef::Name { text: short(text), why };
    if let Some((_, host)) = text.split_once('@').filter(|(user, _)| !user.contains('/'))
        && host.contains('/')
    {
        // What stands before the host may be a password: it is not repeated.
        let why = "names and passwords do not go into it; log in instead (docs/images.md)";
        return Err(BadImageRef::Name { text: short(&format!("…@{host}")), why });
    }
    let (named, digest) = match text.split_once('@') {
        Some((named, digest)) => (named, Some(digest.parse()?)),
        None => (text, None),
    };
    let (host, path) = match named.split_once('/') {
        Some((host, path)) if is_host_like(host) => (host, path),
        _ => (DEFAULT_REGISTRY, named),
    };
    let (path, tag) = match path.rsplit_once(':') {
        Some((path, tag)) => (path, Some(tag)),
        None => (path, None),
    };
    if !is_host(host) {
        return Err(bad("the part before the first `/` is not a host"));
    }
    if tag.is_some_and(|tag| !is_tag(tag)) {
        return Err(bad("a tag has letters, digits, `_`, `.` and `-`, 128 at most"));
    }
    if path.contains(|c: char| c.is_ascii_uppercase()) {
        return Err(bad("the name has capital letters"));
    }
    if path.is_empty() || !path.split('/').all(is_component) {
        return Err(bad("names are small letters and digits, joined by `.`, `_`, `-` or `/`"));
    }
    let bare = host == DEFAULT_REGISTRY && !path.contains('/');
    let repository = if bare { format!("library/{path}") } else { path.to_owned() };
    if host.len() + 1 + repository.len() > NAME_LIMIT {
        return Err(bad("it is longer than 255 letters"));
    }
    Ok(RegistryRef { host: host.to_owned(), repository, tag: tag.map(str::to_owned), digest })
}

/// The rule by which every tool tells a host from the first part of a name.
fn is_host_like(text: &str) -> bool {
    text.contains(['.', ':', '[']) || text == "localhost"
}

pub(crate) fn is_host(text: &str) -> bool {
    let (name, port) = match text.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => (name, Some(port)),
        _ => (text, None),
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
    let bracketed = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    let named = match bracketed {
        Some(six) => !six.is_empty() && six.chars().all(|c| c.is_ascii_hexdigit() || c == ':'),
        None => !name.is_empty() && name.chars().all(plain) && !name.starts_with(['-', '.']),
    };
    named && port.is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port > 0))
}

fn is_tag(text: &str) -> bool {
    let mut letters = text.chars();
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.len() <= TAG_LIMIT
        && letters.next().is_some_and(word)
        && letters.all(|c| word(c) || c == '.' || c == '-')
}

/// Letters and digits, with `.`, `_`, `__` or dashes between them.
fn is_component(text: &str) -> bool {
    let word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let inner = text.chars().all(|c| word(c) || matches!(c, '.' | '_' | '-'));
    let ends = text.starts_with(word) && text.ends_with(word);
    inner && ends && !text.contains("..") && !text.contains("___") && !text.contains("._")
}

fn short(text: &str) -> String {
    text.chars().take(200).collect()
}

impl fmt::Display for ImageRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // A registry's reference writes its own digest.
            ImageRef::Registry(at) => return write!(f, "docker://{at}"),
            ImageRef::OciDir { dir, tag: Some(tag), .. } => write!(f, "oci:{dir}:{tag}")?,
            ImageRef::OciDir { dir, tag: None, .. } => write!(f, "oci:{dir}")?,
            ImageRef::DockerArchive { file, .. } => write!(f, "docker-archive:{file}")?,
            ImageRef::Sif { file, .. } => write!(f, "sif:{file}")?,
            ImageRef::Dir { path } => write!(f, "dir:{path}")?,
            ImageRef::Host => f.write_str("host")?,
        }
        self.digest().map_or(Ok(()), |digest| write!(f, "@{digest}"))
    }
}

impl fmt::Display for RegistryRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let short = self.repository.strip_prefix("library/");
        match short.filter(|_| self.host == DEFAULT_REGISTRY) {
            Some(name) => f.write_str(name)?,
            None => write!(f, "{}/{}", self.host, self.repository)?,
        }
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        match &self.digest {
            Some(digest) => write!(f, "@{digest}"),
            None => Ok(()),
        }
    }
}

impl Digest {
    pub fn hex(&self) -> String {
        let digit = |nibble: u8| char::from_digit(u32::from(nibble), 16);
        self.0.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).flatten().collect()
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Digest {
    type Err = BadImageRef;

    fn from_str(text: &str) -> Result<Self, BadImageRef> {
        let bad = || BadImageRef::Digest { text: short(text) };
        let hex = text.strip_prefix("sha256:").filter(|hex| hex.len() == 64).ok_or_else(bad)?;
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(hex.as_bytes().chunks_exact(2)) {
            let small = pair.iter().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f'));
            let pair = str::from_utf8(pair).ok().filter(|_| small).ok_or_else(bad)?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| bad())?;
        }
        Ok(Digest(bytes))
    }
}

as_text!(ImageRef);
as_text!(Digest);

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn what_is_printed_reads_back() {
        for text in [
            "host",
            "dir:/cvmfs/images/a:b",
            "sif:./x.sif",
            "docker-archive:a.tar",
            "oci:/data/layout",
            "oci:/data/layout:v1.2",
            "docker://ubuntu",
            "docker://ubuntu:22.04",
            "docker://docker.io/nvidia/cuda:12.4.1-base",
            "docker://localhost/a",
            "docker://127.0.0.1:5000/a/b__c/d-e:x_1",
            "docker://[::1]:5000/a:1",
            &format!("docker://a.example/b@{DIGEST}"),
            &format!("docker://a.example/b:1@{DIGEST}"),
            &format!("oci:/data/layout:v1.2@{DIGEST}"),
            &format!("docker-archive:a@b.tar@{DIGEST}"),
            &format!("sif:x.sif@{DIGEST}"),
            "sif:ada@cern.sif",
        ] {
            let parsed: ImageRef = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(parsed.to_string(), text);
        }
        // Two ways to write one name.
        assert_eq!(
            "docker://docker.io/library/ubuntu:1".parse::<ImageRef>(),
            "docker://ubuntu:1".parse()
        );
    }

    #[test]
    fn the_nearest_right_form_is_named() {
        for (text, near) in [
            ("ubuntu:22.04", "docker://ubuntu:22.04"),
            ("docker:ubuntu", "docker://ubuntu"),
            ("docker:/ubuntu", "docker://ubuntu"),
            ("oci://layout", "oci:layout"),
            ("/images/x.sif", "sif:/images/x.sif"),
            ("saved.tar", "docker-archive:saved.tar"),
            ("/srv/tree", "dir:/srv/tree"),
            ("sif:///x.sif", "sif:/x.sif"),
        ] {
            let error = text.parse::<ImageRef>().expect_err(text).to_string();
            assert!(error.contains(&format!("`{near}`")) || error.contains("path"), "{error}");
        }
    }

    #[test]
    fn what_no_registry_takes_is_refused() {
        for (text, why) in [
            ("docker://", "names are"),
            ("docker://Ubuntu", "capital"),
            ("docker://a/../b", "names are"),
            ("docker://a//b", "names are"),
            ("docker://a:b:c", "names are"),
            ("docker://a:.x", "a tag"),
            ("docker://a@sha512:00", "not a digest"),
            ("docker://a@sha256:00", "not a digest"),
            ("docker://host.example:0/a", "not a host"),
            ("docker://user@host.example/a", "log in instead"),
            ("docker://user:secret@host.example:5000/a:1", "`…@host.example:5000/a:1`"),
            ("sif:x@sha256:00", "not a digest"),
            ("sif:", "needs a path"),
            ("dir:a\nb", "needs a path"),
            ("", "is not an image"),
        ] {
            let error = text.parse::<ImageRef>().expect_err(text).to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
