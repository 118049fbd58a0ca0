//! An image of a registry as it lies there, by digests: for whoever hands it on and unpacks
//! nothing of it.

use super::blob::Resuming;
use super::client::{Ask, Part};
use super::registry::{Registry, digest_of};
use super::registry_error::RegistryError;
use crate::sources::manifest::{self, Parsed};
use crate::sources::{Blob, SourceError};
use shipway_model::Digest;

/// What an image is made of.
#[derive(Debug)]
pub struct Unopened {
    /// Of what the reference led to.
    pub digest: Digest,
    /// Manifests, and indexes before them.
    pub documents: Vec<(Digest, Vec<u8>)>,
    /// Its configuration and its layers.
    pub blobs: Vec<Digest>,
}

impl Registry {
    /// For the platform of this registry; its layers are not fetched.
    pub fn unopened(&self) -> Result<Unopened, SourceError> {
        let (mut documents, mut blobs) = (Vec::new(), Vec::new());
        self.walk(|digest, bytes, parsed| {
            documents.push((digest, bytes.to_vec()));
            if let Parsed::Manifest { config, layers } = parsed {
                let all = std::iter::once(config).chain(layers).map(digest_of);
                blobs = all.collect::<Result<_, _>>()?;
            }
            Ok(())
        })?;
        let digest = documents.first().map(|(digest, _)| *digest);
        let digest = digest.ok_or_else(|| self.no_manifest())?;
        Ok(Unopened { digest, documents, blobs })
    }

    /// A manifest or an index, verified.
    pub fn document_of(&self, digest: &Digest) -> Result<Vec<u8>, SourceError> {
        let (bytes, kind) = self.manifest(&digest.to_string(), Some((*digest, None)))?;
        // Nothing else is handed on under this name.
        manifest::parse(&bytes, kind.as_deref())?;
        Ok(bytes)
    }

    /// A layer or a configuration as it comes, with its size. Not verified yet.
    pub fn blob_of(&self, digest: &Digest) -> Result<(u64, Blob<'_>), SourceError> {
        let (path, what) = (self.blob_path(digest), format!("the layer {digest}"));
        let ask =
            Ask { path: &path, what: &what, of: Some(*digest), accept: None, part: Part::All };
        let answer = self.client.get(ask)?;
        let size = answer.body().content_length();
        let size = size.ok_or_else(|| RegistryError::Answer {
            host: self.client.host.clone(),
            what: "a layer without its size",
        })?;
        let reader = Box::new(answer.into_body().into_reader());
        Ok((size, Box::new(Resuming::opened(self, *digest, size, reader))))
    }
}

/// What `sha256sum` would say of it, as the bytes come.
#[derive(Debug, Default)]
pub struct Summing(sha2::Sha256);

impl Summing {
    pub fn add(&mut self, bytes: &[u8]) {
        sha2::Digest::update(&mut self.0, bytes);
    }

    pub fn digest(self) -> Digest {
        Digest(sha2::Digest::finalize(self.0).into())
    }
}
