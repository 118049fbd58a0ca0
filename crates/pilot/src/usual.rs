//! What tasks run on that name no image: the node's own files in a container, unless the site says
//! otherwise. It chooses; making containers is others' work.

use crate::runtimes::RuntimeChoice;
use shipway_model::ImageRef;
use shipway_runtime::{Runtime, again};
use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::sync::{Arc, OnceLock};

/// The word for plain processes.
const NONE: &str = "none";

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum DefaultImage {
    /// The site has said nothing: the node's own files, in containers where they can be made.
    #[default]
    Usual,
    /// Plain processes of the node.
    None,
    Named(ImageRef),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}; or `{NONE}`, for plain processes")]
pub struct DefaultImageError(String);

impl FromStr for DefaultImage {
    type Err = DefaultImageError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == NONE {
            return Ok(Self::None);
        }
        let image: ImageRef =
            text.parse().map_err(|error| DefaultImageError(format!("{error}")))?;
        // A pilot has a directory of its own.
        match image.place() {
            Some(place) if !place.starts_with('/') => {
                Err(DefaultImageError("write the whole path, from / on".into()))
            }
            _ => Ok(Self::Named(image)),
        }
    }
}

impl fmt::Display for DefaultImage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usual => Ok(()),
            Self::None => f.write_str(NONE),
            Self::Named(image) => image.fmt(f),
        }
    }
}

impl DefaultImage {
    /// Whether tasks that name no image could start at all.
    pub fn check(&self, runtime: &RuntimeChoice) -> Result<(), BadDefault> {
        let Self::Named(image) = self else { return Ok(()) };
        if *image == ImageRef::Host && *runtime != RuntimeChoice::Native {
            return Err(BadDefault::NotOnHost { runtime: runtime.to_string() });
        }
        let missing = image.place().filter(|place| !Path::new(place).exists());
        missing.map_or(Ok(()), |place| Err(BadDefault::Missing { place: place.into() }))
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadDefault {
    #[error("{runtime} makes no containers on the node's own files (--default-image host)")]
    NotOnHost { runtime: String },
    #[error("the image for tasks that name none is not there: {place}")]
    Missing { place: String },
}

impl BadDefault {
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NotOnHost { .. } => "name an image with --default-image, or leave --runtime out",
            Self::Missing { .. } => "name one that is there with --default-image, or leave it out",
        }
    }
}

/// What this node does with tasks that name no image; found out when first asked.
pub(crate) struct Usual {
    said: DefaultImage,
    choice: RuntimeChoice,
    runtime: Arc<dyn Runtime>,
    settled: OnceLock<Settled>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Settled {
    /// `None`: plain processes.
    image: Option<ImageRef>,
    why_plain: Option<String>,
}

impl Usual {
    pub(crate) fn new(
        said: DefaultImage,
        choice: RuntimeChoice,
        runtime: Arc<dyn Runtime>,
    ) -> Self {
        Self { said, choice, runtime, settled: OnceLock::new() }
    }

    /// `None`: plain processes. Starts a container to find out, the first time.
    pub(crate) fn image(&self) -> Option<&ImageRef> {
        self.settled().image.as_ref()
    }

    /// Why tasks are plain processes although nobody asked for it.
    pub(crate) fn why_plain(&self) -> Option<&str> {
        self.settled().why_plain.as_deref()
    }

    fn settled(&self) -> &Settled {
        self.settled.get_or_init(|| match &self.said {
            DefaultImage::None => Settled { image: None, why_plain: None },
            DefaultImage::Named(image) => Settled { image: Some(image.clone()), why_plain: None },
            DefaultImage::Usual if self.choice != RuntimeChoice::Native => {
                plain(&format!("{} makes none on the node's own files", self.choice))
            }
            DefaultImage::Usual => match problem(&self.runtime) {
                None => Settled { image: Some(ImageRef::Host), why_plain: None },
                Some(found) => plain(&found),
            },
        })
    }
}

fn plain(why: &str) -> Settled {
    let note = format!("tasks without an image are not in containers: {why}");
    Settled { image: None, why_plain: Some(note) }
}

/// On a thread of its own: what the main thread starts would be taken for something that a task
/// left.
fn problem(runtime: &Arc<dyn Runtime>) -> Option<String> {
    let runtime = Arc::clone(runtime);
    let findings = again::thread("trying", move || runtime.check()).ok()?.join().ok()?;
    findings.into_iter().find(|finding| finding.problem.is_some()).map(|finding| finding.found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_as_it_is_written() {
        for text in ["none", "host", "dir:/srv/tree"] {
            assert_eq!(text.parse::<DefaultImage>().unwrap().to_string(), text);
        }
        let error = "dir:tree".parse::<DefaultImage>().unwrap_err().to_string();
        assert!(error.contains("from / on") && error.contains("`none`"), "{error}");
    }

    #[test]
    fn only_our_own_way_has_the_nodes_files() {
        let crun: RuntimeChoice = "crun".parse().unwrap();
        let host: DefaultImage = "host".parse().unwrap();
        assert!(host.check(&crun).unwrap_err().hint().contains("--default-image"));
        assert_eq!(host.check(&RuntimeChoice::Native), Ok(()));
        assert_eq!(DefaultImage::Usual.check(&crun), Ok(()));
        let absent: DefaultImage = "dir:/no/such/tree".parse().unwrap();
        assert!(absent.check(&crun).unwrap_err().to_string().contains("/no/such/tree"));
    }
}
