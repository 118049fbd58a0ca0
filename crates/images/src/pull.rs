//! `pull`: from a reference to an image in the store. Chooses the source; `ensure` does the work.
//! And `pin`: from what a tag or a file holds now to the digest that means it for ever.

mod auth;
mod blob;
mod client;
mod credentials;
mod helper;
mod reach;
mod registry;
mod registry_error;
mod relay;
mod unopened;

pub use credentials::{Credentials, CredentialsError};
pub use helper::HelperError;
pub use reach::Reach;
pub use registry::{Registry, partial_name};
pub use registry_error::RegistryError;
pub use relay::{Relay, is_away};
pub use unopened::{Summing, Unopened};

use crate::ensure::{Ensure, Ensured, ImageError};
use crate::limits::Limits;
use crate::progress::Progress;
use crate::room::DiskRoom;
use crate::sources::docker_archive::DockerArchive;
use crate::sources::manifest::{ImagePlan, this_platform};
use crate::sources::oci_dir::OciDir;
use crate::sources::sif::Sif;
use crate::sources::{Judge, Source, SourceError, settled};
use crate::store::{Holder, Store, StoreError};
use shipway_model::{Digest, ImageRef, Login, Timestamp};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Names a file with logins.
pub const LOGINS: &str = "SHIPWAY_REGISTRY_LOGINS";
/// Both name registries, with commas between them.
const INSECURE: &str = "SHIPWAY_INSECURE_REGISTRIES";
const PRIVATE: &str = "SHIPWAY_PRIVATE_REGISTRIES";

/// What a site or a user sets once.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    pub limits: Limits,
    pub credentials: Credentials,
    /// Registries, as `host[:port]`, that are reached without TLS. Loopback always is.
    pub insecure: Vec<String>,
    /// Where requests may go.
    pub reach: Reach,
    /// Which files may be read.
    pub judge: Judge,
    /// Through which all registries are asked, where they cannot be reached.
    pub relay: Option<Relay>,
}

/// Whose job an image is for, to whoever asks on behalf of many.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum JobOf {
    /// The very person whose process this is.
    Owner,
    Others,
}

impl Settings {
    /// From the environment of a person who asks for themselves: a site's file with logins, then
    /// the one that `docker login` writes; and which registries have no TLS.
    pub fn of(lookup: impl Fn(&'static str) -> Option<OsString>) -> Result<Self, CredentialsError> {
        let mut settings = Settings::of_site(&lookup)?;
        let home = || lookup("HOME").map(|home| Path::new(&home).join(".docker"));
        if let Some(dir) = lookup("DOCKER_CONFIG").map(PathBuf::from).or_else(home) {
            settings.credentials.add_if_there(&dir.join("config.json"))?;
        }
        Ok(settings)
    }

    /// The same for whoever asks on behalf of many: a server, or a pilot. What `docker login` wrote
    /// for the one who started it opens nothing for anybody else. What the operator has listed by
    /// name may be anywhere, everything else must be on the public internet.
    pub fn for_job(
        of: JobOf,
        lookup: impl Fn(&'static str) -> Option<OsString>,
    ) -> Result<Self, CredentialsError> {
        let mut settings = match of {
            JobOf::Owner => Settings::of(&lookup)?,
            JobOf::Others => Settings::of_site(&lookup)?,
        };
        let listed = hosts(lookup(PRIVATE)).into_iter().chain(settings.insecure.clone());
        settings.reach = Reach::Public { listed: listed.collect() };
        Ok(settings)
    }

    /// What was said to be for all who use a site.
    fn of_site(
        lookup: impl Fn(&'static str) -> Option<OsString>,
    ) -> Result<Self, CredentialsError> {
        let mut settings = Settings::default();
        if let Some(site) = lookup(LOGINS) {
            settings.credentials.add(Path::new(&site))?;
        }
        settings.insecure = hosts(lookup(INSECURE));
        Ok(settings)
    }
}

fn hosts(listed: Option<OsString>) -> Vec<String> {
    let listed = listed.unwrap_or_default();
    let listed = listed.to_string_lossy();
    let hosts = listed.split(',').map(str::trim).filter(|host| !host.is_empty());
    hosts.map(str::to_owned).collect()
}

/// One pull to be done.
pub struct Pull<'a> {
    pub holder: &'a Holder,
    pub settings: &'a Settings,
    pub progress: &'a dyn Progress,
    pub now: Timestamp,
}

impl std::fmt::Debug for Pull<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pull").field("settings", self.settings).finish_non_exhaustive()
    }
}

/// Who has shown that they have all bytes of which images. Bytes that somebody had once they may
/// have again, so this is not asked for each task; it is forgotten with the process.
#[derive(Debug, Clone, Default)]
pub struct Shown(Arc<Mutex<BTreeSet<(String, Digest)>>>);

impl Shown {
    fn has(&self, user: &str, image: Digest) -> bool {
        let shown = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        shown.contains(&(user.to_owned(), image))
    }

    fn add(&self, user: &str, image: Digest) {
        let mut shown = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        shown.insert((user.to_owned(), image));
    }

    /// Whether a user may have an image that is here without another question: everybody may, or
    /// they have shown it.
    pub fn may_have(&self, store: &Store, user: &str, image: &Digest) -> Result<bool, StoreError> {
        let record = store.image(image)?;
        let is_free = record.is_some_and(|record| !record.needs_proof());
        Ok(is_free || self.has(user, *image))
    }
}

impl Pull<'_> {
    /// For one of several users of a store. What is here is given to who could have fetched it: who
    /// is let in by the registry it came from, or brings its bytes along.
    pub fn run_for_one(
        &self,
        reference: &ImageRef,
        user: &str,
        shown: &Shown,
    ) -> Result<Ensured, ImageError> {
        let name = settled(reference.clone());
        let store = self.holder.store();
        if let Some(image) = store.pinned(&name)
            && shown.may_have(store, user, &image)?
        {
            store.mark_used(&image);
            return Ok(Ensured { image, fetched: false });
        }
        let ensured = self.ensure(&name, true)?;
        if name.place().is_some() {
            shown.add(user, ensured.image);
        }
        Ok(ensured)
    }

    /// Sees to it that the image is in the store, for whom it belongs to. What a digest names is
    /// not asked for again.
    pub fn run(&self, reference: &ImageRef) -> Result<Ensured, ImageError> {
        let name = settled(reference.clone());
        if let Some(image) = self.holder.store().pinned(&name) {
            self.holder.store().mark_used(&image);
            return Ok(Ensured { image, fetched: false });
        }
        self.ensure(&name, false)
    }

    fn ensure(&self, name: &ImageRef, for_others: bool) -> Result<Ensured, ImageError> {
        let platform = this_platform();
        let room = Arc::new(DiskRoom::of(self.holder.store().root()));
        let ensure = Ensure {
            holder: self.holder,
            limits: self.settings.limits,
            progress: self.progress,
            room: Arc::clone(&room),
            now: self.now,
            for_others,
        };
        match name {
            ImageRef::Registry(at) => {
                let partial = self.holder.store().root().join("partial");
                let registry = Registry::new(at, self.settings, &platform, &partial);
                ensure.run(name, &registry.within(&room))
            }
            ImageRef::Sif { file, .. } => {
                let scratch = self.holder.scratch_once()?;
                let limits = self.settings.limits;
                let sif = Sif::new(Path::new(file), &platform, &scratch.path, limits);
                ensure.run(name, &sif.within(&room).judged_by(&self.settings.judge))
            }
            other => match in_files(other, &platform, &self.settings.judge) {
                Some(source) => ensure.run(name, &*source),
                None => Err(ImageError::NotPulled(name.clone().into())),
            },
        }
    }
}

/// Images that lie in files and need no room to be looked at.
fn in_files(image: &ImageRef, platform: &str, judge: &Judge) -> Option<Box<dyn Source>> {
    match image {
        ImageRef::OciDir { dir, tag, .. } => {
            Some(Box::new(OciDir::new(Path::new(dir), tag.as_deref(), platform, judge)))
        }
        ImageRef::DockerArchive { file, .. } => {
            Some(Box::new(DockerArchive::new(Path::new(file), platform, judge)))
        }
        ImageRef::Sif { file, .. } => {
            // Looked at, not unpacked: it needs no scratch.
            let limits = Limits::default();
            let sif = Sif::new(Path::new(file), platform, Path::new(""), limits);
            Some(Box::new(sif.judged_by(judge)))
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
        other => {
            let source = in_files(other, &platform, &settings.judge);
            source.map(|source| source.plan()).transpose()
        }
    }
}

/// Whether a registry lets somebody in.
pub fn try_login(host: &str, login: Login, settings: &Settings) -> Result<(), RegistryError> {
    let mut settings = settings.clone();
    settings.credentials.insert(host, login);
    let part = client::Part::All;
    let ask = client::Ask { path: "/v2/", what: "its door", of: None, accept: None, part };
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
        other => match in_files(other, &platform, &settings.judge) {
            Some(source) => source.plan()?.image,
            None => return Ok(reference),
        },
    };
    Ok(settled(reference).pinned(digest))
}
