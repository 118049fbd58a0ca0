//! `pull`: from a reference to an image in the store. Chooses the source; `ensure` does the work.

mod auth;
mod blob;
mod client;
mod credentials;
mod registry;

pub use client::RegistryError;
pub use credentials::{Credentials, CredentialsError};
pub use registry::Registry;

use crate::ensure::{Ensure, Ensured, ImageError};
use crate::limits::Limits;
use crate::progress::Progress;
use crate::sources::docker_archive::DockerArchive;
use crate::sources::manifest::this_platform;
use crate::sources::oci_dir::OciDir;
use crate::sources::settled;
use crate::sources::sif::Sif;
use crate::store::Session;
use shipway_model::{Digest, ImageRef, Timestamp};
use std::path::Path;

/// What a site or a user sets once.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    pub limits: Limits,
    pub credentials: Credentials,
    /// Registries, as `host[:port]`, that are reached without TLS. Loopback always is.
    pub insecure: Vec<String>,
}

/// One pull to be done.
pub struct Pull<'a> {
    pub session: &'a Session,
    pub settings: &'a Settings,
    pub progress: &'a dyn Progress,
    pub now: Timestamp,
}

impl std::fmt::Debug for Pull<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pull").field("settings", self.settings).finish_non_exhaustive()
    }
}

impl Pull<'_> {
    /// Sees to it that the image is in the store. What a digest names is not asked for again.
    pub fn run(&self, reference: &ImageRef) -> Result<Ensured, ImageError> {
        let name = settled(reference.clone());
        let platform = this_platform();
        let ensure = Ensure {
            session: self.session,
            limits: self.settings.limits,
            progress: self.progress,
            now: self.now,
        };
        match &name {
            ImageRef::Registry(at) => {
                if let Some(image) = at.digest.and_then(|digest| self.known(&name, &digest)) {
                    self.session.store().mark_used(&image);
                    return Ok(Ensured { image, fetched: false });
                }
                let partial = self.session.store().root().join("partial");
                let registry = Registry::new(at, self.settings, &platform, &partial);
                ensure.run(&name, &registry)
            }
            ImageRef::OciDir { dir, tag } => {
                ensure.run(&name, &OciDir::new(Path::new(dir), tag.as_deref(), &platform))
            }
            ImageRef::DockerArchive { file } => {
                ensure.run(&name, &DockerArchive::new(Path::new(file), &platform))
            }
            ImageRef::Sif { file } => {
                let scratch = self.session.scratch_once()?;
                ensure.run(&name, &Sif::new(Path::new(file), &platform, &scratch.path))
            }
            ImageRef::Dir { .. } | ImageRef::Host => Err(ImageError::NotPulled(name)),
        }
    }

    /// The image of a digest that was asked for before: content cannot change under a digest.
    fn known(&self, name: &ImageRef, digest: &Digest) -> Option<Digest> {
        let store = self.session.store();
        let direct = store.image(digest).ok().flatten().map(|record| record.image);
        direct.or_else(|| store.named(name))
    }
}
