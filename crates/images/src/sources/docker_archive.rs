//! `docker-archive:FILE`: what `docker save` and its relatives write, a tar of layers.

use super::manifest::{self, ImagePlan, PlannedLayer};
use super::opening::{Judge, Piece, open_file};
use super::{Blob, Source, SourceError, failed, sha256};
use crate::limits::DOCUMENT_LIMIT;
use crate::path;
use crate::tar::{Kind, TarReader};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// An archive of images has a handful of members a layer.
const MEMBER_LIMIT: usize = 10_000;

#[derive(Debug)]
pub struct DockerArchive {
    file: PathBuf,
    judge: Judge,
    /// The same one each time, whatever its path leads to meanwhile.
    opened: OnceLock<Arc<File>>,
    platform: String,
    /// Where layers lie in the file, known after the plan.
    layers: OnceLock<Vec<ByteRange>>,
}

#[derive(Debug, Clone, Copy)]
struct ByteRange {
    offset: u64,
    size: u64,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct SavedImage {
    config: String,
    layers: Vec<String>,
    #[serde(default)]
    repo_tags: Option<Vec<String>>,
}

impl DockerArchive {
    pub fn new(file: &Path, platform: &str, judge: &Judge) -> Self {
        DockerArchive {
            file: file.to_path_buf(),
            judge: judge.clone(),
            opened: OnceLock::new(),
            platform: platform.to_owned(),
            layers: OnceLock::new(),
        }
    }

    fn opened(&self) -> Result<&Arc<File>, SourceError> {
        if let Some(file) = self.opened.get() {
            return Ok(file);
        }
        let file = open_file(&self.file, &self.judge)?;
        Ok(self.opened.get_or_init(|| Arc::new(file)))
    }

    fn bad(&self, why: &'static str) -> SourceError {
        SourceError::Archive { path: self.file.clone(), why }
    }

    /// Where every file of the archive lies; links lead to the files they name.
    fn members(&self) -> Result<BTreeMap<Vec<u8>, ByteRange>, SourceError> {
        let all = Piece::new(self.opened()?, 0, u64::MAX);
        let mut tar = TarReader::new(Counted { inner: BufReader::new(all), read: 0 });
        let mut files = BTreeMap::new();
        let mut links = Vec::new();
        let malformed = |_| self.bad("its archive is malformed");
        while let Some(member) = tar.next_member().map_err(malformed)? {
            let name = path::normal(&member.path).map_err(|_| self.bad("a member's path"))?;
            match member.kind {
                Kind::File => {
                    let (offset, size) = (tar.input().read, tar.left());
                    files.insert(name, ByteRange { offset, size });
                }
                // Older versions link layers that are there twice.
                Kind::Symlink => {
                    let (dir, _) = path::split(&name).unwrap_or_default();
                    links.push((beside(dir, &member.link), name));
                }
                Kind::HardLink => links.push((path::normal(&member.link).ok(), name)),
                _ => {}
            }
            if files.len() + links.len() > MEMBER_LIMIT {
                return Err(self.bad("it has too many members"));
            }
        }
        for (to, name) in links {
            if let Some(place) = to.and_then(|to| files.get(&to).copied()) {
                files.insert(name, place);
            }
        }
        Ok(files)
    }

    fn document(&self, at: ByteRange) -> Result<Vec<u8>, SourceError> {
        if at.size > DOCUMENT_LIMIT {
            let what = self.file.display().to_string();
            return Err(SourceError::TooLarge { what, limit: DOCUMENT_LIMIT });
        }
        let mut bytes = Vec::new();
        self.open(at)?.read_to_end(&mut bytes).map_err(failed("read", &self.file))?;
        Ok(bytes)
    }

    fn open(&self, at: ByteRange) -> Result<Piece, SourceError> {
        Ok(Piece::new(self.opened()?, at.offset, at.size))
    }
}

/// `../ID/layer.tar` from a directory of the archive.
fn beside(dir: &[u8], link: &[u8]) -> Option<Vec<u8>> {
    match link.strip_prefix(b"../") {
        Some(rest) => {
            let up = path::split(dir).map_or(&b""[..], |(up, _)| up);
            path::normal(&[up, b"/", rest].concat()).ok()
        }
        None => path::normal(&[dir, b"/", link].concat()).ok(),
    }
}

impl Source for DockerArchive {
    fn plan(&self) -> Result<ImagePlan, SourceError> {
        let members = self.members()?;
        let place = |name: &str, why| {
            let name = path::normal(name.as_bytes()).unwrap_or_default();
            members.get(&name).copied().ok_or_else(|| self.bad(why))
        };
        let list = self.document(place("manifest.json", "it has no manifest.json")?)?;
        let mut saved: Vec<SavedImage> = manifest::json(&list, "manifest")?;
        if saved.len() > 1 {
            let tags = saved.into_iter().filter_map(|image| image.repo_tags).flatten().collect();
            return Err(SourceError::Several { path: self.file.clone(), tags });
        }
        let none = || SourceError::None { path: self.file.clone(), tag: None };
        let image = saved.pop().ok_or_else(none)?;
        let config = self.document(place(&image.config, "its configuration is missing")?)?;
        let plan = manifest::plan(sha256(&config), &config, None, &self.platform)?;
        let mut layers = Vec::new();
        for name in &image.layers {
            layers.push(place(name, "one of its layers is missing")?);
        }
        if layers.len() != plan.layers.len() {
            let (layers, diff_ids) = (layers.len(), plan.layers.len());
            return Err(manifest::ManifestError::Count { layers, diff_ids }.into());
        }
        self.layers.get_or_init(|| layers);
        Ok(plan)
    }

    fn blob(&self, layer: &PlannedLayer) -> Result<Blob<'_>, SourceError> {
        let place = self.layers.get().and_then(|layers| layers.get(layer.number));
        let place = place.ok_or_else(|| self.bad("one of its layers is missing"))?;
        Ok(Box::new(self.open(*place)?))
    }
}

/// Knows how far it has been read.
struct Counted<R> {
    inner: R,
    read: u64,
}

impl<R: BufRead> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.read += count as u64;
        Ok(count)
    }
}

impl<R: BufRead> BufRead for Counted<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.inner.fill_buf()
    }

    fn consume(&mut self, count: usize) {
        self.read += count as u64;
        self.inner.consume(count);
    }
}
