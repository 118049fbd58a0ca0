//! `docker://`: an image in a registry, by the distribution protocol.

use super::Settings;
use super::blob::{Kept, Resuming};
use super::client::{Ask, Client, Part};
use super::registry_error::RegistryError;
use super::relay::Relay;
use crate::limits::DOCUMENT_LIMIT;
use crate::room::DiskRoom;
use crate::sources::manifest::{self, ACCEPTED, Descriptor, ImagePlan, Parsed, PlannedLayer};
use crate::sources::{Blob, Source, SourceError, sha256};
use crate::store::Origins;
use shipway_model::image_ref::DEFAULT_TAG;
use shipway_model::{Digest, ImageRef, RegistryRef};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

/// An index leads to a manifest; more steps than this are a circle.
const STEPS: usize = 4;
/// How often a small document is asked for when the network fails or the registry is busy.
const TRIES: u32 = 4;
/// Before the second try; doubled before each further one.
pub(super) const PAUSE: Duration = Duration::from_millis(300);

/// Layers are kept as they come where there is room for this many times all of them: unpacked they
/// are two or three times as large, and that is what they are fetched for.
const ROOM_TO_KEEP: u64 = 5;

/// Bytes, and the type they were sent as.
type Document = (Vec<u8>, Option<String>);
/// What a document must be: its digest and, where stated, its size.
type Wanted = (Digest, Option<u64>);

#[derive(Debug)]
pub struct Registry {
    pub(super) client: Client,
    at: RegistryRef,
    platform: String,
    /// Where bytes of layers are kept, to go on from after a break.
    partial: PathBuf,
    /// On the disk of that folder.
    pub(super) room: Arc<DiskRoom>,
    /// All layers, as they come. Known after the plan.
    size: OnceLock<u64>,
    /// Whether there is room to keep them so, as the first of them found it.
    keeps: OnceLock<bool>,
}

impl Registry {
    pub fn new(at: &RegistryRef, settings: &Settings, platform: &str, partial: &Path) -> Self {
        Registry {
            client: Client::new(&at.host, settings),
            at: at.clone(),
            platform: platform.to_owned(),
            partial: partial.to_path_buf(),
            room: Arc::new(DiskRoom::unknown()),
            size: OnceLock::new(),
            keeps: OnceLock::new(),
        }
    }

    /// The same, for a store that is not to take all of its disk.
    #[must_use]
    pub fn within(self, room: &Arc<DiskRoom>) -> Self {
        Registry { room: Arc::clone(room), ..self }
    }

    fn has_room_to_keep(&self) -> bool {
        let all = self.size.get().copied().unwrap_or(0);
        *self.keeps.get_or_init(|| self.room.could_take(all.saturating_mul(ROOM_TO_KEEP)))
    }

    pub(super) fn blob_path(&self, digest: &Digest) -> String {
        self.path(&format!("/v2/{}/blobs/{digest}", self.at.repository))
    }

    /// At whoever is asked.
    fn path(&self, path: &str) -> String {
        if self.client.relay.is_some() { Relay::path(&self.at.host, path) } else { path.to_owned() }
    }

    pub(super) fn manifest(
        &self,
        name: &str,
        wanted: Option<Wanted>,
    ) -> Result<Document, SourceError> {
        let path = self.path(&format!("/v2/{}/manifests/{name}", self.at.repository));
        // A digest stands behind an `@` where people write it, a tag behind a colon.
        let mark = if name.contains(':') { '@' } else { ':' };
        let what = format!("the image {}{mark}{name}", self.at.repository);
        self.document(&path, &what, wanted)
    }

    /// A document and the type it was sent as, checked against its digest where one is known.
    fn document(
        &self,
        path: &str,
        what: &str,
        wanted: Option<Wanted>,
    ) -> Result<Document, SourceError> {
        let accept = ACCEPTED.join(", ");
        let of = wanted.map(|(digest, _)| digest);
        let ask = Ask { path, what, of, accept: Some(&accept), part: Part::All };
        let (bytes, kind) = again(|| self.read(ask))?;
        if bytes.len() as u64 > DOCUMENT_LIMIT {
            let what = what.to_owned();
            return Err(SourceError::TooLarge { what, limit: DOCUMENT_LIMIT });
        }
        if let Some((wanted, size)) = wanted {
            let (what, found) = ("the document", sha256(&bytes));
            if let Some(size) = size.filter(|size| *size != bytes.len() as u64) {
                let found = bytes.len() as u64;
                return Err(SourceError::Size { what, wanted: size, found });
            }
            if found != wanted {
                return Err(SourceError::Digest { what, wanted, found });
            }
        }
        Ok((bytes, kind))
    }

    fn read(&self, ask: Ask<'_>) -> Result<Document, RegistryError> {
        let answer = self.client.get(ask)?;
        let kind = answer.headers().get("content-type");
        let kind = kind.and_then(|kind| kind.to_str().ok()).map(str::to_owned);
        let mut bytes = Vec::new();
        let read =
            answer.into_body().into_reader().take(DOCUMENT_LIMIT + 1).read_to_end(&mut bytes);
        let host = self.client.host.clone();
        read.map_err(|source| RegistryError::Read { host, source })?;
        Ok((bytes, kind))
    }

    fn start(&self) -> (String, Option<Digest>) {
        match (&self.at.digest, &self.at.tag) {
            (Some(digest), _) => (digest.to_string(), Some(*digest)),
            (None, Some(tag)) => (tag.clone(), None),
            (None, None) => (DEFAULT_TAG.to_owned(), None),
        }
    }

    /// What the reference leads to now.
    pub(super) fn digest_now(&self) -> Result<Digest, SourceError> {
        let (name, wanted) = self.start();
        let (bytes, kind) = self.manifest(&name, wanted.map(|digest| (digest, None)))?;
        manifest::parse(&bytes, kind.as_deref())?;
        Ok(sha256(&bytes))
    }

    fn kept(&self, layer: &PlannedLayer) -> Option<Kept> {
        let digest = layer.digest?;
        // From wherever it comes: a relay's beginning is not gone on with as the registry's own.
        let host = match &self.client.relay {
            Some(_) => format!("{} by {}", self.at.host, self.client.host),
            None => self.at.host.clone(),
        };
        let at = RegistryRef { host, ..self.at.clone() };
        Some(Kept::new(self.partial.join(partial_name(&at, &digest)), layer.size?))
    }

    /// From the reference to its manifest, over an index if there is one; each document is shown.
    pub(super) fn walk(
        &self,
        mut show: impl FnMut(Digest, &[u8], &Parsed) -> Result<(), SourceError>,
    ) -> Result<(), SourceError> {
        let (mut name, digest) = self.start();
        // What a tag means only the registry can say.
        if self.client.relay.is_some() && digest.is_none() {
            return Err(RegistryError::NoDigest { image: self.at.to_string() }.into());
        }
        let mut wanted = digest.map(|digest| (digest, None));
        for _ in 0..STEPS {
            let (bytes, kind) = self.manifest(&name, wanted)?;
            let parsed = manifest::parse(&bytes, kind.as_deref())?;
            show(sha256(&bytes), &bytes, &parsed)?;
            let Parsed::Index(all) = parsed else { return Ok(()) };
            let chosen = manifest::choose(&all, &self.platform)?;
            let digest = digest_of(chosen)?;
            (name, wanted) = (digest.to_string(), Some((digest, Some(chosen.size))));
        }
        Err(self.no_manifest().into())
    }

    pub(super) fn no_manifest(&self) -> RegistryError {
        let what = "a manifest behind all those indexes".into();
        RegistryError::NotFound { host: self.client.host.clone(), what }
    }

    fn plan_of(
        &self,
        image: Digest,
        config: &Descriptor,
        layers: &[Descriptor],
    ) -> Result<ImagePlan, SourceError> {
        let digest = digest_of(config)?;
        let wanted = Some((digest, Some(config.size)));
        let (config, _) = self.document(&self.blob_path(&digest), "the configuration", wanted)?;
        let plan = manifest::plan(image, &config, Some(layers), &self.platform)?;
        self.size
            .get_or_init(|| layers.iter().fold(0, |sum, layer| sum.saturating_add(layer.size)));
        Ok(plan)
    }
}

impl Source for Registry {
    fn plan(&self) -> Result<ImagePlan, SourceError> {
        let mut planned = None;
        self.walk(|digest, _, parsed| {
            if let Parsed::Manifest { config, layers } = parsed {
                planned = Some(self.plan_of(digest, config, layers)?);
            }
            Ok(())
        })?;
        planned.ok_or_else(|| self.no_manifest().into())
    }

    fn blob(&self, layer: &PlannedLayer) -> Result<Blob<'_>, SourceError> {
        let stated = layer.digest.zip(layer.size);
        let (digest, size) = stated.ok_or(manifest::ManifestError::NoBlob)?;
        let keeps = self.has_room_to_keep();
        Ok(Box::new(Resuming::new(self, digest, size, self.kept(layer), keeps)))
    }

    fn is_private(&self) -> bool {
        self.client.had_login()
    }

    fn registry(&self) -> Option<&str> {
        Some(&self.client.host)
    }

    /// Only the registry that the layer came from can tell: any other may say that it has what it
    /// has never seen. It hands out one byte to who may have all.
    fn could_fetch(&self, layer: &PlannedLayer, origins: &Origins) -> bool {
        let Some(digest) = layer.digest.filter(|it| origins.came_from(&self.client.host, it))
        else {
            return false;
        };
        let (path, what) = (self.blob_path(&digest), format!("the layer {digest}"));
        let (of, part) = (Some(digest), Part::FirstByte);
        let ask = Ask { path: &path, what: &what, of, accept: None, part };
        again(|| self.client.get(ask)).is_ok()
    }

    /// Who may read one repository may read all of it.
    fn plan_is_proof(&self, origin: &ImageRef) -> bool {
        let ImageRef::Registry(origin) = origin else { return false };
        // A relay that has a manifest need not have the rest, nor be let in by the registry.
        self.client.relay.is_none()
            && (&origin.host, &origin.repository) == (&self.at.host, &self.at.repository)
    }

    fn done(&self, layer: &PlannedLayer) {
        self.kept(layer).map(|kept| kept.discard());
    }

    fn discard(&self, layer: &PlannedLayer) -> bool {
        self.kept(layer).is_some_and(|kept| kept.discard())
    }
}

/// What was kept of a layer is gone on with by who may read the same repository, and nobody else:
/// a digest alone is no leave to have what it names.
pub fn partial_name(at: &RegistryRef, digest: &Digest) -> String {
    let from = format!("{}/{} {digest}", at.host, at.repository);
    blake3::hash(from.as_bytes()).to_hex().to_string()
}

pub(super) fn digest_of(descriptor: &Descriptor) -> Result<Digest, SourceError> {
    Ok(descriptor.digest.parse().map_err(manifest::ManifestError::from)?)
}

/// Whether the same question may be answered in a moment.
pub(super) fn may_pass(error: &RegistryError) -> bool {
    match error {
        RegistryError::Request { source, .. } => !matches!(
            **source,
            ureq::Error::HostNotFound
                | ureq::Error::Tls(_)
                | ureq::Error::BadUri(_)
                // Whoever waited a minute has waited long enough.
                | ureq::Error::Timeout(_)
        ),
        RegistryError::Read { .. } => true,
        RegistryError::Status { code, .. } | RegistryError::Relay { code, .. } => {
            *code == 429 || *code >= 500
        }
        _ => false,
    }
}

fn again<T>(mut ask: impl FnMut() -> Result<T, RegistryError>) -> Result<T, RegistryError> {
    for attempt in 0..TRIES - 1 {
        match ask() {
            Err(error) if may_pass(&error) => thread::sleep(PAUSE * 2u32.pow(attempt)),
            other => return other,
        }
    }
    ask()
}
