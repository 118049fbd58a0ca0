//! `unsquashfs` on a file of ours, held to limits: memory, time, bytes and files. A squashfs is a
//! file system, and reading a hostile one is no small matter; the tool that sites have and keep
//! patched does it, in a process group of its own that is killed as a whole when it takes too much.
//!
//! What it wrote is judged again like any layer, by the walk that reads it.

use super::{SourceError, failed};
use crate::layer::decode::read_chunk;
use crate::limits::{Limits, OverLimit, ToolLimits};
use crate::room::DiskRoom;
use crate::sif::SifError;
use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process_group, prlimit};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Megabytes for blocks on their way, of each of its two queues.
const QUEUE_MEGABYTES: &str = "64";
/// Threads that unpack; the rest of the machine runs tasks.
const PROCESSORS: u64 = 2;
/// Between two looks at how far it is.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Counting files takes time too: at most this part of it.
const COUNTING_PART: u32 = 10;
/// Bytes of what it says that are kept.
const SAID: u64 = 4 << 10;

/// The file system at an offset of a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Squashed<'a> {
    pub(super) image: &'a Path,
    pub(super) offset: u64,
}

/// Unpacks a file system into a new directory.
pub(super) fn unsquash(
    from: Squashed<'_>,
    tree: &Path,
    limits: Limits,
    room: &DiskRoom,
) -> Result<(), SourceError> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    unsquash_by(&path, from, tree, limits, room)
}

/// The same by the first `unsquashfs` of a `PATH`.
fn unsquash_by(
    path: &OsStr,
    from: Squashed<'_>,
    tree: &Path,
    limits: Limits,
    room: &DiskRoom,
) -> Result<(), SourceError> {
    let image = from.image;
    let size = fs::metadata(image).map_err(failed("look at", image))?.len();
    let most = limits.bytes.min(limits.ratio_after.max(size.saturating_mul(limits.ratio)));
    let mut child = start(path, from, tree).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => SourceError::Sif(SifError::NoUnsquashfs),
        _ => failed("run unsquashfs on", image)(error),
    })?;
    let listening = child.stderr.take().map(|pipe| {
        let thread = thread::Builder::new().name("unsquashfs".into());
        thread.spawn(move || listen(pipe))
    });
    let (said, listens) = match listening.transpose() {
        Ok(said) => (said, Ok(())),
        Err(error) => (None, Err(error)),
    };
    let ended = listens.and_then(|()| hold(&mut child, most, limits.tool));
    let ended = ended.and_then(|()| watch(&mut child, tree, (most, limits), room));
    if !matches!(ended, Ok(Ok(_))) {
        end(&mut child);
    }
    let said = said.and_then(|said| said.join().ok()).unwrap_or_default();
    let status = ended.map_err(failed("watch unsquashfs on", image))?.map_err(SifError::Over)?;
    // 2 means that not all could be set (devices, owners), which an ordinary user cannot.
    if matches!(status.code(), Some(0 | 2)) && tree.is_dir() {
        return Ok(());
    }
    let line = said.lines().next().unwrap_or("it said nothing");
    let line = shipway_model::plain_text::clean(line).chars().take(200).collect();
    Err(SifError::Unsquashfs(line).into())
}

fn start(path: &OsStr, from: Squashed<'_>, tree: &Path) -> io::Result<Child> {
    let mut command = Command::new("unsquashfs");
    command.args(["-no-progress", "-no-xattrs", "-force"]);
    command.args(["-processors", &PROCESSORS.to_string()]);
    command.args(["-data-queue", QUEUE_MEGABYTES, "-frag-queue", QUEUE_MEGABYTES]);
    command.args(["-offset", &from.offset.to_string(), "-dest"]).arg(tree).arg(from.image);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    // Nothing of ours is its business.
    command.env_clear().env("PATH", path);
    command.process_group(0).spawn()
}

/// Limits that the kernel keeps.
fn hold(child: &mut Child, most: u64, tool: ToolLimits) -> io::Result<()> {
    let pid = pid_of(child)?;
    let limits = [
        (Resource::As, tool.memory),
        // All its threads for as long.
        (Resource::Cpu, PROCESSORS * tool.within.as_secs().max(1)),
        (Resource::Fsize, most),
        (Resource::Core, 0),
    ];
    for (what, most) in limits {
        let limit = Rlimit { current: Some(most), maximum: Some(most) };
        match prlimit(Some(pid), what, limit) {
            // It has ended already, which is for `watch` to see.
            Ok(_) | Err(rustix::io::Errno::SRCH) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

/// Waits for its end, or until it has taken too much.
fn watch(
    child: &mut Child,
    tree: &Path,
    (most, limits): (u64, Limits),
    room: &DiskRoom,
) -> io::Result<Result<ExitStatus, OverLimit>> {
    let began = Instant::now();
    let (mut count_at, mut seen) = (began, 0);
    loop {
        if let Some(status) = child.try_wait()? {
            // A quick one may have filled the disk between two looks, and failed of that.
            room.begin(0).map_err(io::Error::other)?;
            return Ok(measure(tree, most, limits).map(|()| status));
        }
        let now = Instant::now();
        if now.duration_since(began) > limits.tool.within {
            return Ok(Err(OverLimit::Time(limits.tool.within.as_secs())));
        }
        let written = written(child.id());
        if written > most {
            return Ok(Err(OverLimit::Bytes(most)));
        }
        room.take(written.saturating_sub(seen))?;
        seen = written;
        if now >= count_at {
            if count(tree, limits.entries) > limits.entries {
                return Ok(Err(OverLimit::Entries(limits.entries)));
            }
            count_at = Instant::now() + now.elapsed() * COUNTING_PART;
        }
        thread::sleep(LOOK_EVERY);
    }
}

/// What the process has written so far, as the kernel counts it.
fn written(pid: u32) -> u64 {
    let counts = fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
    let wrote = counts.lines().find_map(|line| line.strip_prefix("wchar: "));
    wrote.and_then(|count| count.parse().ok()).unwrap_or(0)
}

/// Files and directories below a directory, as far as one more than `most`. What goes away or is
/// closed to us counts as nothing: the walk that reads the tree will say so.
fn count(tree: &Path, most: u64) -> u64 {
    let mut waiting: Vec<PathBuf> = vec![tree.to_path_buf()];
    let mut found = 0;
    while let Some(dir) = waiting.pop() {
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            found += 1;
            if found > most {
                return found;
            }
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                waiting.push(entry.path());
            }
        }
    }
    found
}

/// Judges what is there when all is: a quick one is over between two looks.
fn measure(tree: &Path, most: u64, limits: Limits) -> Result<(), OverLimit> {
    let mut waiting: Vec<PathBuf> = vec![tree.to_path_buf()];
    let (mut files, mut bytes) = (0, 0);
    while let Some(dir) = waiting.pop() {
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            let Ok(found) = entry.metadata() else { continue };
            files += 1;
            bytes += if found.is_file() { found.len() } else { 0 };
            if files > limits.entries {
                return Err(OverLimit::Entries(limits.entries));
            }
            if bytes > most {
                return Err(OverLimit::Bytes(most));
            }
            if found.is_dir() {
                waiting.push(entry.path());
            }
        }
    }
    Ok(())
}

/// Kills it and whatever it started, and waits for it.
fn end(child: &mut Child) {
    if let Ok(pid) = pid_of(child) {
        let _ = kill_process_group(pid, Signal::KILL);
    }
    let _ = child.wait();
}

fn pid_of(child: &Child) -> io::Result<Pid> {
    let raw = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    raw.ok_or_else(|| io::Error::other("a process without a number"))
}

/// The beginning of what it says; the rest is read and dropped, so that it never waits for us.
fn listen(pipe: impl Read) -> String {
    let (mut said, mut rest) = (Vec::new(), pipe.take(SAID));
    let _ = rest.read_to_end(&mut said);
    let _ = io::copy(&mut rest.into_inner(), &mut io::sink());
    String::from_utf8_lossy(&said).into_owned()
}

/// A copy that is ours alone, so that nobody changes it while it is unpacked.
pub(super) fn private_copy(from: &mut impl Read, to: &Path, room: &DiskRoom) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut file = File::options().read(true).write(true).create_new(true).mode(0o600).open(to)?;
    loop {
        let chunk = read_chunk(from)?;
        if chunk.is_empty() {
            return Ok(file);
        }
        room.take(chunk.len() as u64)?;
        file.write_all(&chunk)?;
    }
}

#[cfg(test)]
#[path = "unsquash_tests.rs"]
mod tests;
