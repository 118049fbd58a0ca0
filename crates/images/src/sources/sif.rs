//! `sif:FILE`: the primary partition of an Apptainer image, unpacked by `unsquashfs` into a
//! directory of ours and read from there like any layer.
//!
//! A squashfs is a file system, and reading a hostile one is no small matter; the tool that sites
//! have and keep patched does it, in a process of its own.

use super::manifest::{ImagePlan, PlannedLayer};
use super::{Blob, Source, SourceError, failed, open_file};
use crate::layer::decode::read_chunk;
use crate::sif::{self, HEADER, Primary, SifError};
use crate::store::RunConfig;
use crate::walk;
use sha2::{Digest as _, Sha256};
use shipway_model::Digest;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

#[derive(Debug)]
pub struct Sif {
    file: PathBuf,
    platform: String,
    /// Ours, and emptied by whoever gave it.
    scratch: PathBuf,
}

impl Sif {
    pub fn new(file: &Path, platform: &str, scratch: &Path) -> Self {
        let (file, scratch) = (file.to_path_buf(), scratch.to_path_buf());
        Sif { file, platform: platform.to_owned(), scratch }
    }

    fn primary(&self) -> Result<Primary, SourceError> {
        let mut file = open_file(&self.file)?;
        let length = file.metadata().map_err(failed("look at", &self.file))?.len();
        let mut bytes = [0; HEADER];
        let short = |error: io::Error| match error.kind() {
            io::ErrorKind::UnexpectedEof => SifError::NotSif.into(),
            _ => failed("read", &self.file)(error),
        };
        file.read_exact(&mut bytes).map_err(short)?;
        let table = sif::header(&bytes, length)?;
        file.seek(SeekFrom::Start(table.offset)).map_err(failed("read", &self.file))?;
        let mut bytes = vec![0; usize::try_from(table.bytes()).expect("below the limit")];
        file.read_exact(&mut bytes).map_err(short)?;
        Ok(sif::primary(&bytes, length)?)
    }

    fn digest(&self) -> Result<Digest, SourceError> {
        let mut file = open_file(&self.file)?;
        let mut hash = Sha256::new();
        loop {
            let chunk = read_chunk(&mut file).map_err(failed("read", &self.file))?;
            if chunk.is_empty() {
                return Ok(Digest(hash.finalize().into()));
            }
            hash.update(&chunk);
        }
    }

    fn unsquash(&self, primary: Primary) -> Result<PathBuf, SourceError> {
        let tree = self.scratch.join("squashed");
        let mut command = Command::new("unsquashfs");
        command.args(["-no-progress", "-no-xattrs", "-force", "-offset"]);
        command.arg(primary.offset.to_string()).arg("-dest").arg(&tree).arg(&self.file);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        // Nothing of ours is its business.
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        let done = command.output().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => SourceError::Sif(SifError::NoUnsquashfs),
            _ => failed("run unsquashfs on", &self.file)(error),
        })?;
        // 2 means that not all could be set (devices, owners), which an ordinary user cannot.
        if !matches!(done.status.code(), Some(0 | 2)) || !tree.is_dir() {
            let said = String::from_utf8_lossy(&done.stderr);
            let line = said.lines().next().unwrap_or("it said nothing");
            let line = shipway_model::plain_text::clean(line).chars().take(200).collect();
            return Err(SifError::Unsquashfs(line).into());
        }
        Ok(tree)
    }
}

impl Source for Sif {
    fn plan(&self) -> Result<ImagePlan, SourceError> {
        let primary = self.primary()?;
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

    fn blob(&self, _: &PlannedLayer) -> Result<Blob<'_>, SourceError> {
        let tree = self.unsquash(self.primary()?)?;
        let (reader, writer) = io::pipe().map_err(failed("make a pipe for", &self.file))?;
        let walking = thread::spawn(move || walk::archive(&tree, writer));
        Ok(Box::new(Walked { reader, walking: Some(walking) }))
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
