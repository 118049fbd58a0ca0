//! `oci:DIR[:tag]`: an OCI image layout on disk. The folder is opened once, and no link in it is
//! followed.

use super::manifest::{self, Descriptor, ImagePlan, Parsed, PlannedLayer};
use super::opening::{Folder, Judge};
use super::{Blob, Source, SourceError, failed, sha256};
use crate::limits::DOCUMENT_LIMIT;
use serde::Deserialize;
use shipway_model::Digest;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

const TAG: &str = "org.opencontainers.image.ref.name";
/// An index may lead to an index; more steps than this are a circle.
const STEPS: usize = 4;

#[derive(Debug)]
pub struct OciDir {
    dir: PathBuf,
    judge: Judge,
    opened: OnceLock<Folder>,
    tag: Option<String>,
    platform: String,
}

#[derive(Debug, Deserialize)]
struct Index {
    manifests: Vec<Descriptor>,
}

impl OciDir {
    pub fn new(dir: &Path, tag: Option<&str>, platform: &str, judge: &Judge) -> Self {
        OciDir {
            dir: dir.to_path_buf(),
            judge: judge.clone(),
            opened: OnceLock::new(),
            tag: tag.map(str::to_owned),
            platform: platform.to_owned(),
        }
    }

    fn folder(&self) -> Result<&Folder, SourceError> {
        if let Some(folder) = self.opened.get() {
            return Ok(folder);
        }
        let folder = Folder::open(&self.dir, &self.judge)?;
        Ok(self.opened.get_or_init(|| folder))
    }

    fn open_blob(&self, digest: &Digest) -> Result<File, SourceError> {
        self.folder()?.file(&["blobs", "sha256"], &digest.hex())
    }

    /// A document, verified.
    fn document(&self, at: &Descriptor, what: &'static str) -> Result<Vec<u8>, SourceError> {
        let wanted: Digest = at.digest.parse().map_err(manifest::ManifestError::from)?;
        let bytes = read_limited(self.open_blob(&wanted)?, &self.dir)?;
        if bytes.len() as u64 != at.size {
            return Err(SourceError::Size { what, wanted: at.size, found: bytes.len() as u64 });
        }
        let found = sha256(&bytes);
        if found != wanted {
            return Err(SourceError::Digest { what, wanted, found });
        }
        Ok(bytes)
    }

    fn start(&self) -> Result<Descriptor, SourceError> {
        let bytes = read_limited(self.folder()?.file(&[], "index.json")?, &self.dir)?;
        let index: Index = manifest::json(&bytes, "index")?;
        let all = index.manifests;
        let tag_of = |one: &Descriptor| one.annotations.get(TAG).cloned();
        let tags: Vec<String> = all.iter().filter_map(tag_of).collect();
        let chosen = match &self.tag {
            Some(tag) => all.into_iter().find(|one| tag_of(one).as_ref() == Some(tag)),
            None if all.len() > 1 => {
                return Err(SourceError::Several { path: self.dir.clone(), tags });
            }
            None => all.into_iter().next(),
        };
        let none = || SourceError::None { path: self.dir.clone(), tag: self.tag.clone() };
        chosen.ok_or_else(none)
    }
}

impl Source for OciDir {
    fn plan(&self) -> Result<ImagePlan, SourceError> {
        let mut at = self.start()?;
        for _ in 0..STEPS {
            let bytes = self.document(&at, "the manifest")?;
            match manifest::parse(&bytes, Some(&at.media_type))? {
                Parsed::Index(all) => at = manifest::choose(&all, &self.platform)?.clone(),
                Parsed::Manifest { config, layers } => {
                    let image = sha256(&bytes);
                    let config = self.document(&config, "the configuration")?;
                    return Ok(manifest::plan(image, &config, Some(&layers), &self.platform)?);
                }
            }
        }
        Err(SourceError::None { path: self.dir.clone(), tag: self.tag.clone() })
    }

    fn blob(&self, layer: &PlannedLayer) -> Result<Blob<'_>, SourceError> {
        let digest = layer.digest.ok_or(manifest::ManifestError::NoBlob)?;
        Ok(Box::new(self.open_blob(&digest)?))
    }
}

/// A file that should be small, and is not trusted to be.
fn read_limited(file: File, path: &Path) -> Result<Vec<u8>, SourceError> {
    let mut bytes = Vec::new();
    file.take(DOCUMENT_LIMIT + 1).read_to_end(&mut bytes).map_err(failed("read", path))?;
    if bytes.len() as u64 > DOCUMENT_LIMIT {
        let what = path.display().to_string();
        return Err(SourceError::TooLarge { what, limit: DOCUMENT_LIMIT });
    }
    Ok(bytes)
}
