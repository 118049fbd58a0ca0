//! `pull`: from a reference to an image in the store. Chooses the source; `ensure` does the work.
//! And `pin`: from what a tag or a file holds now to the digest that means it for ever.

mod auth;
mod blob;
mod client;
mod credentials;
mod helper;
mod registry;

pub use client::RegistryError;
pub use credentials::{Credentials, CredentialsError, Login};
pub use helper::HelperError;
pub use registry::Registry;

use crate::ensure::{Ensure, Ensured, ImageError};
use crate::limits::Limits;
use crate::progress::Progress;
use crate::sources::docker_archive::DockerArchive;
use crate::sources::manifest::{ImagePlan, this_platform};
use crate::sources::oci_dir::OciDir;
use crate::sources::sif::Sif;
use crate::sources::{Source, SourceError, settled};
use crate::store::Session;
use shipway_model::{ImageRef, Timestamp};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Names a file with logins.
pub const LOGINS: &str = "SHIPWAY_REGISTRY_LOGINS";
/// Names registries, with commas between them.
const INSECURE: &str = "SHIPWAY_INSECURE_REGISTRIES";

/// What a site or a user sets once.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    pub limits: Limits,
    pub credentials: Credentials,
    /// Registries, as `host[:port]`, that are reached without TLS. Loopback always is.
    pub insecure: Vec<String>,
}

impl Settings {
    /// From the environment: a site's file with logins, then the one that `docker login` writes;
    /// and which registries have no TLS.
    pub fn of(lookup: impl Fn(&'static str) -> Option<OsString>) -> Result<Self, CredentialsError> {
        let mut settings = Settings::default();
        if let Some(site) = lookup(LOGINS) {
            settings.credentials.add(Path::new(&site))?;
        }
        let home = || lookup("HOME").map(|home| Path::new(&home).join(".docker"));
        if let Some(dir) = lookup("DOCKER_CONFIG").map(PathBuf::from).or_else(home) {
            settings.credentials.add_if_there(&dir.join("config.json"))?;
        }
        let insecure = lookup(INSECURE).unwrap_or_default();
        let hosts = insecure.to_string_lossy();
        let hosts = hosts.split(',').map(str::trim).filter(|host| !host.is_empty());
        settings.insecure.extend(hosts.map(str::to_owned));
        Ok(settings)
    }
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
    /// The same, for somebody who may not be let in: an image that needed a login is asked for
    /// with theirs before they have it, also when it is here already.
    pub fn run_for_one(&self, reference: &ImageRef) -> Result<Ensured, ImageError> {
        let ensured = self.run(reference)?;
        let record = self.session.store().image(&ensured.image)?;
        if !ensured.fetched && record.is_some_and(|record| record.private) {
            plan(reference, self.settings)?;
        }
        Ok(ensured)
    }

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
        if let Some(image) = self.session.store().pinned(&name) {
            self.session.store().mark_used(&image);
            return Ok(Ensured { image, fetched: false });
        }
        match &name {
            ImageRef::Registry(at) => {
                let partial = self.session.store().root().join("partial");
                ensure.run(&name, &Registry::new(at, self.settings, &platform, &partial))
            }
            ImageRef::Sif { file, .. } => {
                let scratch = self.session.scratch_once()?;
                ensure.run(&name, &Sif::new(Path::new(file), &platform, &scratch.path))
            }
            other => match in_files(other, &platform) {
                Some(source) => ensure.run(&name, &*source),
                None => Err(ImageError::NotPulled(name.into())),
            },
        }
    }
}

/// Images that lie in files and need no room to be looked at.
fn in_files(image: &ImageRef, platform: &str) -> Option<Box<dyn Source>> {
    match image {
        ImageRef::OciDir { dir, tag, .. } => {
            Some(Box::new(OciDir::new(Path::new(dir), tag.as_deref(), platform)))
        }
        ImageRef::DockerArchive { file, .. } => {
            Some(Box::new(DockerArchive::new(Path::new(file), platform)))
        }
        ImageRef::Sif { file, .. } => {
            // Looked at, not unpacked: it needs no scratch.
            Some(Box::new(Sif::new(Path::new(file), platform, Path::new(""))))
        }
        ImageRef::Registry(_) | ImageRef::Dir { .. } | ImageRef::Host => None,
    }
}

/// What an image is made of, without fetching it; nothing of one that is used where it lies.
pub fn plan(image: &ImageRef, settings: &Settings) -> Result<Option<ImagePlan>, SourceError> {
    let (name, platform) = (settled(image.clone()), this_platform());
    match &name {
        ImageRef::Registry(at) => {
            Registry::new(at, settings, &platform, Path::new("")).plan().map(Some)
        }
        other => in_files(other, &platform).map(|source| source.plan()).transpose(),
    }
}

/// Whether a registry lets somebody in.
pub fn try_login(host: &str, login: Login, settings: &Settings) -> Result<(), RegistryError> {
    let mut settings = settings.clone();
    settings.credentials.insert(host, login);
    let ask = client::Ask { path: "/v2/", what: "its door", accept: None, from: 0 };
    client::Client::new(host, &settings).get(ask).map(drop)
}

/// The reference with the digest of what it leads to now. Of an image in a registry that is for
/// several platforms, the digest of them all: each node takes its own.
pub fn pin(reference: ImageRef, settings: &Settings) -> Result<ImageRef, SourceError> {
    if reference.digest().is_some() {
        return Ok(reference);
    }
    let platform = this_platform();
    let digest = match &reference {
        ImageRef::Registry(at) => {
            Registry::new(at, settings, &platform, Path::new("")).digest_now()?
        }
        other => match in_files(other, &platform) {
            Some(source) => source.plan()?.image,
            None => return Ok(reference),
        },
    };
    Ok(settled(reference).pinned(digest))
}
