//! `sif:FILE`: the primary partition of an Apptainer image, unpacked by `unsquashfs` into a
//! directory of ours and read from there like any layer.
//!
//! The file is opened once. What is unpacked is a copy of our own whose digest is that of the
//! image: whoever may write the file cannot change it between the look and the unpacking.

use super::manifest::{ImagePlan, PlannedLayer};
use super::opening::{Judge, open_file};
use super::unsquash::{Squashed, private_copy, unsquash};
use super::{Blob, Source, SourceError, failed};
use crate::layer::decode::read_chunk;
use crate::limits::Limits;
use crate::room::DiskRoom;
use crate::sif::{self, HEADER, Primary, SifError};
use crate::store::RunConfig;
use crate::walk;
use sha2::{Digest as _, Sha256};
use shipway_model::{Digest, ImageRef};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::thread;

#[derive(Debug)]
pub struct Sif {
    file: PathBuf,
    judge: Judge,
    opened: OnceLock<File>,
    platform: String,
    /// Ours, and emptied by whoever gave it.
    scratch: PathBuf,
    limits: Limits,
    /// On the disk of the scratch.
    room: Arc<DiskRoom>,
}

impl Sif {
    pub fn new(file: &Path, platform: &str, scratch: &Path, limits: Limits) -> Self {
        Sif {
            file: file.to_path_buf(),
            judge: Judge::default(),
            opened: OnceLock::new(),
            platform: platform.to_owned(),
            scratch: scratch.to_path_buf(),
            limits,
            room: Arc::new(DiskRoom::unknown()),
        }
    }

    /// The same, to be unpacked where not all of the disk is for it.
    #[must_use]
    pub fn within(self, room: &Arc<DiskRoom>) -> Self {
        Sif { room: Arc::clone(room), ..self }
    }

    /// The same, for somebody who may not read everything.
    #[must_use]
    pub fn judged_by(self, judge: &Judge) -> Self {
        Sif { judge: judge.clone(), ..self }
    }

    /// The file from its beginning: the same one each time, whatever the path leads to meanwhile.
    fn open(&self) -> Result<&File, SourceError> {
        let file = if let Some(file) = self.opened.get() {
            file
        } else {
            let file = open_file(&self.file, &self.judge)?;
            self.opened.get_or_init(|| file)
        };
        let mut at = file;
        at.seek(SeekFrom::Start(0)).map_err(failed("read", &self.file))?;
        Ok(file)
    }

    fn primary(&self, mut file: &File) -> Result<Primary, SourceError> {
        let length = file.metadata().map_err(failed("look at", &self.file))?.len();
        let mut bytes = [0; HEADER];
        let short = |error: io::Error| match error.kind() {
            io::ErrorKind::UnexpectedEof => SifError::NotSif.into(),
            _ => failed("read", &self.file)(error),
        };
        file.seek(SeekFrom::Start(0)).map_err(failed("read", &self.file))?;
        file.read_exact(&mut bytes).map_err(short)?;
        let table = sif::header(&bytes, length)?;
        file.seek(SeekFrom::Start(table.offset)).map_err(failed("read", &self.file))?;
        let length_of_table = usize::try_from(table.bytes()).map_err(|_| sif::SifError::Header)?;
        let mut bytes = vec![0; length_of_table];
        file.read_exact(&mut bytes).map_err(short)?;
        Ok(sif::primary(&bytes, length)?)
    }

    fn digest(&self) -> Result<Digest, SourceError> {
        let mut hashing = Hashing { inner: self.bounded()?, hash: Sha256::new() };
        loop {
            let chunk = read_chunk(&mut hashing).map_err(failed("read", &self.file))?;
            if chunk.is_empty() {
                return Ok(hashing.digest());
            }
        }
    }

    /// No more than an image may have: a file may grow while it is read.
    fn bounded(&self) -> Result<io::Take<&File>, SourceError> {
        let (file, limit) = (self.open()?, self.limits.bytes);
        let length = file.metadata().map_err(failed("look at", &self.file))?.len();
        if length > limit {
            let what = self.file.display().to_string();
            return Err(SourceError::TooLarge { what, limit });
        }
        Ok(file.take(limit))
    }

    /// The tree of a copy whose digest is this one.
    fn unpacked(&self, wanted: Digest) -> Result<PathBuf, SourceError> {
        let (copy, tree) = (self.scratch.join("copy.sif"), self.scratch.join("squashed"));
        let length = self.open()?.metadata().map_err(failed("look at", &self.file))?.len();
        self.room.begin(length).map_err(io::Error::other).map_err(failed("copy", &self.file))?;
        let mut hashing = Hashing { inner: self.bounded()?, hash: Sha256::new() };
        let copied = private_copy(&mut hashing, &copy, &self.room);
        let file = copied.map_err(failed("copy", &self.file))?;
        let found = hashing.digest();
        if found != wanted {
            return Err(SourceError::Digest { what: "the file", wanted, found });
        }
        let primary = self.primary(&file)?;
        unsquash(
            Squashed { image: &copy, offset: primary.offset },
            &tree,
            self.limits,
            &self.room,
        )?;
        let _ = std::fs::remove_file(&copy);
        Ok(tree)
    }
}

/// Passes bytes on and hashes them.
struct Hashing<R> {
    inner: R,
    hash: Sha256,
}

impl<R> Hashing<R> {
    fn digest(self) -> Digest {
        Digest(self.hash.finalize().into())
    }
}

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.hash.update(buffer.get(..count).unwrap_or_default());
        Ok(count)
    }
}

impl Source for Sif {
    fn plan(&self) -> Result<ImagePlan, SourceError> {
        let primary = self.primary(self.open()?)?;
        let found = format!("linux/{}", primary.architecture);
        if found != self.platform {
            let wanted = self.platform.clone();
            let found = primary.architecture;
            return Err(SifError::Architecture { wanted, found }.into());
        }
        // The file is one piece: its digest is the image's, and that of its only layer.
        let image = self.digest()?;
        let layer =
            PlannedLayer { diff_id: image, digest: None, size: None, number: 0, is_checked: true };
        let (platform, config) = (self.platform.clone(), RunConfig::default());
        Ok(ImagePlan { image, platform, config, layers: vec![layer] })
    }

    fn blob(&self, layer: &PlannedLayer) -> Result<Blob<'_>, SourceError> {
        let tree = self.unpacked(layer.diff_id)?;
        let (reader, writer) = io::pipe().map_err(failed("make a pipe for", &self.file))?;
        let walking = thread::Builder::new().spawn(move || walk::archive(&tree, writer));
        let walking = walking.map_err(failed("start a thread for", &self.file))?;
        Ok(Box::new(Walked { reader, walking: Some(walking) }))
    }

    /// All of its bytes were read for it.
    fn plan_is_proof(&self, _: &ImageRef) -> bool {
        true
    }
}

/// The archive of a walk; the walk's own failure is the reader's.
struct Walked {
    reader: io::PipeReader,
    walking: Option<thread::JoinHandle<io::Result<()>>>,
}

impl Read for Walked {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.reader.read(buffer)?;
        if count == 0
            && let Some(walking) = self.walking.take()
        {
            let stopped = || io::Error::from(io::ErrorKind::BrokenPipe);
            walking.join().map_err(|_| stopped()).flatten()?;
        }
        Ok(count)
    }
}
