//! Starts one process, and says plainly why it could not.
//!
//! Everything is started as by `posix_spawn`, several times faster than fork and exec in a big
//! process. The program is given by its path: the search along `PATH` happens here, where it also
//! gives the better message.

use super::{Before, Contained, Request, StdinFile, Ticket, graves, lock};
use rustix::fs::{Access, FileType, OFlags, access, fcntl_setfl, fstat};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use shipway_api::causes::causes;
use shipway_runtime::again::{self, patiently};
use shipway_runtime::native::{Apart, Start};
use shipway_runtime::reach::{self, Use};
use shipway_runtime::runtime::{After, Launch, LaunchError};
use shipway_runtime::share::{self, Share};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime};

/// Where a program is looked for when the task's environment has no `PATH`.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// How often, and after which pause, a program that is open for writing is tried again. Whoever
/// wrote it has often just closed it, while a process being started beside us holds a copy of
/// the descriptor for the blink until it reaches its own program.
const BUSY_TRIES: u32 = 10;
const BUSY_PAUSE: Duration = Duration::from_millis(5);

/// How long the place of a program is remembered: the tasks of a job all run the same one, and
/// looking through a long `PATH` costs as much as any other part of a start.
const REMEMBERED_FOR: Duration = Duration::from_secs(1);

/// Why a process could not be started. The texts name the program and the directory, because the
/// person who reads them wrote both.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    #[error("cannot start a task: the command is empty")]
    EmptyCommand,
    #[error("cannot start `{program}`: no such program in PATH ({searched})")]
    NotInPath { program: String, searched: String },
    #[error("cannot start `{program}` in {cwd}: no such file")]
    NoProgram { program: String, cwd: String },
    #[error(
        "cannot start `{program}` in {cwd}: the interpreter named in its first line is missing"
    )]
    NoInterpreter { program: String, cwd: String },
    #[error("cannot start `{program}`: the working directory {cwd} does not exist")]
    NoDirectory { program: String, cwd: String },
    #[error("cannot start `{program}`: the working directory {cwd} cannot be entered")]
    DirectoryRefused { program: String, cwd: String },
    #[error("cannot start `{program}` in {cwd}: it is not executable by this user")]
    NotExecutable { program: String, cwd: String },
    #[error("cannot start `{program}` in {cwd}: the file is open for writing")]
    BeingWritten { program: String, cwd: String },
    #[error(
        "cannot start `{program}` in {cwd}: it is neither a script nor a program for this node"
    )]
    NotAProgram { program: String, cwd: String },
    #[error("cannot start `{program}` in {cwd}: arguments and environment are too long")]
    TooLong { program: String, cwd: String },
    #[error("cannot start `{program}` in {cwd}: an argument or variable holds a NUL byte")]
    NulByte { program: String, cwd: String },
    #[error("cannot start `{program}` in {cwd}: the node has no room for another process")]
    NoRoom { program: String, cwd: String, source: Errno },
    #[error(
        "cannot watch `{program}`: the pilot's user has no room for it (open files, or watches: \
         sysctl fs.epoll.max_user_watches)"
    )]
    NoWatch { program: String, source: Errno },
    #[error("cannot read its standard input {file}")]
    Stdin { file: String, source: Errno },
    #[error("cannot read its standard input {file}: it is not a plain file of the task's user")]
    StdinKind { file: String },
    #[error("cannot read its standard input: {message}")]
    StdinClosed { message: String },
    #[error(
        "cannot start `{program}`: the output of another task of yours is kept busy by a process \
         that has its pipe; end that process"
    )]
    OutputHeld { program: String },
    /// The node has no room for another, whosoever.
    #[error("{message}")]
    NoContainer { message: String },
    /// It says itself what could not be done.
    #[error("{message}")]
    Container { message: String },
    #[error("cannot start `{program}` in {cwd}")]
    System { program: String, cwd: String, source: Errno },
}

pub(super) struct Launched {
    pub(super) pid: Pid,
    pub(super) pidfd: OwnedFd,
    pub(super) out: OwnedFd,
    pub(super) err: OwnedFd,
    /// Our copies of the writing ends. While they are there no pipe hangs up, so a task that ends
    /// wakes us once, by its end, and not by each pipe before.
    pub(super) writing: [OwnedFd; 2],
    /// What says how the task in a container ended.
    pub(super) after: Option<After>,
    pub(super) started: SystemTime,
    pub(super) clock: Instant,
}

/// What is the same for every process of a pool.
pub(super) struct Launcher {
    /// Node key and attempt key: variables by which processes are found again.
    marks: [(&'static str, String); 2],
    null: File,
    /// What a plain process has of this one's limits.
    share: Share,
    /// The last program that was looked up.
    found: Mutex<Option<Found>>,
}

struct Found {
    name: OsString,
    path: OsString,
    program: PathBuf,
    until: Instant,
}

impl Launcher {
    pub(super) fn new(marks: [(&'static str, String); 2]) -> io::Result<Self> {
        let (null, share) = (File::open("/dev/null")?, Share::of_tasks());
        Ok(Self { marks, null, share, found: Mutex::default() })
    }

    pub(super) fn attempt_key(&self, ticket: Ticket) -> String {
        format!("{}.{}", self.marks[1].1, ticket.0)
    }

    pub(super) fn launch(&self, request: &Request) -> Result<Launched, StartError> {
        if let Some(contained) = &request.container {
            return self.launch_container(contained, request);
        }
        if let Some(before) = &request.before {
            return self.launch_by_helper(before, request);
        }
        let name = request.argv.first().ok_or(StartError::EmptyCommand)?;
        let program = self.find_program(name, request)?;
        let stdin = stdin_of(request)?;
        self.launch_program(&program, request, stdin.as_ref())
            .map_err(|error| explain(&error, &program, request))
    }

    /// The process that becomes the container. Both it and the task carry the marks by which
    /// they are found again.
    fn launch_container(
        &self,
        contained: &Contained,
        request: &Request,
    ) -> Result<Launched, StartError> {
        let mut container = contained.container.clone();
        let marks = self.marks(request.ticket);
        container.env.extend(marks.clone().map(|(name, value)| (name.to_owned(), value)));
        let launch = contained.runtime.launch(&container, stdin_of(request)?);
        let mut launch = launch.map_err(|error| not_launched(&error))?;
        launch.marks.extend(marks.map(|(name, value)| (name.into(), value.into())));
        spawn_launch(launch, request)
    }

    /// The process that turns into the task when it has done what has to be done first.
    fn launch_by_helper(&self, before: &Before, request: &Request) -> Result<Launched, StartError> {
        if request.argv.is_empty() {
            return Err(StartError::EmptyCommand);
        }
        let (argv, env) = (request.argv.clone(), request.env.clone());
        let start = Start { argv, env, stdin: stdin_of(request)? };
        let launch = before.helper.before(start, &before.process);
        let mut launch = launch.map_err(|error| not_launched(&error))?;
        let marks = self.marks(request.ticket);
        launch.marks.extend(marks.map(|(name, value)| (name.into(), value.into())));
        spawn_launch(launch, request)
    }

    fn marks(&self, ticket: Ticket) -> [(&'static str, String); 2] {
        let [node, attempt] = &self.marks;
        [(node.0, node.1.clone()), (attempt.0, self.attempt_key(ticket))]
    }

    fn find_program(&self, name: &OsStr, request: &Request) -> Result<PathBuf, StartError> {
        if name.as_bytes().contains(&b'/') {
            return Ok(PathBuf::from(name));
        }
        let path = request.env.iter().rev().find(|(name, _)| name == "PATH");
        let path = path.map_or(OsStr::new(DEFAULT_PATH), |(_, value)| value);
        let now = Instant::now();
        let is_it = |it: &&Found| it.until > now && it.name == name && it.path == path;
        if let Some(found) = lock(&self.found).as_ref().filter(is_it) {
            return Ok(found.program.clone());
        }
        let program = search(name, path, request)?;
        // With a relative entry it depends on where the task stands.
        if std::env::split_paths(path).all(|directory| directory.is_absolute()) {
            let (name, path, until) = (name.into(), path.into(), now + REMEMBERED_FOR);
            *lock(&self.found) = Some(Found { name, path, program: program.clone(), until });
        }
        Ok(program)
    }

    fn launch_program(
        &self,
        program: &Path,
        request: &Request,
        stdin: Option<&OwnedFd>,
    ) -> io::Result<Launched> {
        let stdin = stdin.map_or(self.null.as_fd(), AsFd::as_fd);
        let marks = self.marks(request.ticket).map(|(name, value)| (name.into(), value.into()));
        let env = request.env.iter().cloned().chain(marks);
        let apart = Apart::new(program, request.argv.iter().cloned(), env)?;
        let apart = apart.standing_in(&request.cwd)?;
        // Whatever else is started takes its share itself.
        spawn(|streams| apart.spawn_with(streams, &self.share), stdin, request)
    }
}

fn spawn_launch(launch: Launch, request: &Request) -> Result<Launched, StartError> {
    let program = launch.program.clone();
    let files = share::usual_files().map(|(name, value)| (name.into(), value.into()));
    let started = Apart::new(&launch.program, launch.argv, launch.marks.into_iter().chain(files))
        .and_then(|apart| spawn(|streams| apart.spawn(streams), launch.stdin.as_fd(), request));
    match started {
        Ok(launched) => Ok(Launched { after: Some(launch.after), ..launched }),
        Err(error) if again::is_for_now(&error) => Err(explain(&error, &program, request)),
        Err(error) => Err(StartError::Container { message: causes(&error) }),
    }
}

/// What keeps a container, or a process of somebody else's, from being begun.
fn not_launched(error: &LaunchError) -> StartError {
    let message = causes(error);
    if error.is_for_now() {
        StartError::NoContainer { message }
    } else {
        StartError::Container { message }
    }
}

/// Opened here, where a slow file system holds up nobody else.
fn stdin_of(request: &Request) -> Result<Option<OwnedFd>, StartError> {
    request.stdin.as_ref().map(open_stdin).transpose()
}

fn open_stdin(stdin: &StdinFile) -> Result<OwnedFd, StartError> {
    let file = || shown(&stdin.path);
    let failed = |source| StartError::Stdin { file: file(), source };
    // Without waiting: it may be a pipe that nobody writes to.
    let mut flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    if stdin.of.is_some() {
        flags |= OFlags::NOFOLLOW;
    }
    let opened = reach::open(rustix::fs::CWD, &stdin.path, flags).map_err(failed)?;
    if let Some(reach) = &stdin.reach {
        let judged = reach.judge(&opened, &stdin.path, Use::Read);
        judged.map_err(|error| StartError::StdinClosed { message: error.to_string() })?;
    }
    let found = fstat(&opened).map_err(failed)?;
    let is_plain = FileType::from_raw_mode(found.st_mode) == FileType::RegularFile;
    if !is_plain || stdin.of.is_some_and(|uid| uid != found.st_uid) {
        return Err(StartError::StdinKind { file: file() });
    }
    fcntl_setfl(&opened, OFlags::empty()).map_err(failed)?;
    Ok(opened)
}

/// What a process reads, and the two that it writes to.
type Streams<'a> = [BorrowedFd<'a>; 3];

/// In a session, and so a group, of its own, with its output in two pipes, or all of it in the
/// first.
fn spawn(
    start: impl Fn(Streams<'_>) -> io::Result<Pid>,
    stdin: BorrowedFd<'_>,
    request: &Request,
) -> io::Result<Launched> {
    let (out, out_end) = output_pipe()?;
    let (err, mut err_end) = output_pipe()?;
    if request.one_stream {
        err_end = out_end.try_clone()?;
    }
    if let Some(slot) = &request.slot
        && let Err(error) = slot.enter()
    {
        tracing::warn!(%error, "a task starts without a limit on its processes");
    }
    let pid = start_unless_busy(|| start([stdin, out_end.as_fd(), err_end.as_fd()]))?;
    let (started, clock) = (SystemTime::now(), Instant::now());
    // It runs: from here on it is not started again.
    let pidfd = patiently(|| Ok(pidfd_open(pid, PidfdFlags::empty())?));
    let pidfd = pidfd.inspect_err(|_| end_unwatched(pid)).map_err(io::Error::other)?;
    let writing = [out_end, err_end];
    Ok(Launched { pid, pidfd, out, err, writing, after: None, started, clock })
}

fn start_unless_busy(start: impl Fn() -> io::Result<Pid>) -> io::Result<Pid> {
    for _ in 1..BUSY_TRIES {
        match start() {
            Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy => {
                std::thread::sleep(BUSY_PAUSE);
            }
            other => return other,
        }
    }
    start()
}

/// A pipe whose reading end never blocks: a task can open that end by way of `/proc` and take
/// bytes that we were told are there. The writing end blocks, as programs expect.
fn output_pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (reading, writing) = pipe_with(PipeFlags::CLOEXEC)?;
    fcntl_setfl(&reading, OFlags::NONBLOCK)?;
    Ok((reading, writing))
}

/// For a process we cannot watch: it must not run unseen.
fn end_unwatched(pid: Pid) {
    let _already_dead = kill_process_group(pid, Signal::KILL);
    graves::bury(pid);
}

fn search(name: &OsStr, path: &OsStr, request: &Request) -> Result<PathBuf, StartError> {
    let mut refused = None;
    for directory in std::env::split_paths(path) {
        // An entry of PATH may be relative; the task stands in its own directory, not in ours.
        let candidate = request.cwd.join(directory).join(name);
        match access(&candidate, Access::EXEC_OK) {
            Ok(()) if candidate.is_file() => return Ok(candidate),
            Err(Errno::ACCESS) => refused = Some(candidate),
            Ok(()) | Err(_) => {}
        }
    }
    // What is there but may not be run is tried all the same: the kernel's answer names it.
    refused.ok_or_else(|| not_found(name, path, request))
}

fn not_found(name: &OsStr, path: &OsStr, request: &Request) -> StartError {
    let program = name.to_string_lossy().into_owned();
    if !request.cwd.is_dir() {
        return StartError::NoDirectory { program, cwd: shown(&request.cwd) };
    }
    StartError::NotInPath { program, searched: path.to_string_lossy().into_owned() }
}

/// The error for a process that was started and ended at once, because it could not be watched.
pub(super) fn unwatched(error: &io::Error, request: &Request) -> StartError {
    let program = request.argv.first().map(|name| name.to_string_lossy().into_owned());
    StartError::NoWatch {
        program: program.unwrap_or_default(),
        source: Errno::from_io_error(error).unwrap_or(Errno::NOMEM),
    }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// The kernel answers with one number for several mistakes; a look at the files tells them apart.
fn explain(error: &io::Error, path: &Path, request: &Request) -> StartError {
    let (program, cwd) = (shown(path), shown(&request.cwd));
    let Some(errno) = Errno::from_io_error(error) else {
        let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<io::Error>());
        return match cause.and_then(Errno::from_io_error) {
            Some(source) => StartError::NoWatch { program, source },
            // The only failure that does not come from the kernel.
            None => StartError::NulByte { program, cwd },
        };
    };
    match errno {
        Errno::NOENT | Errno::NOTDIR if !request.cwd.is_dir() => {
            StartError::NoDirectory { program, cwd }
        }
        Errno::NOENT if request.cwd.join(path).exists() => {
            StartError::NoInterpreter { program, cwd }
        }
        Errno::NOENT | Errno::NOTDIR => StartError::NoProgram { program, cwd },
        Errno::ACCESS if access(&request.cwd, Access::EXEC_OK).is_err() => {
            StartError::DirectoryRefused { program, cwd }
        }
        Errno::ACCESS | Errno::PERM => StartError::NotExecutable { program, cwd },
        Errno::TXTBSY => StartError::BeingWritten { program, cwd },
        Errno::NOEXEC => StartError::NotAProgram { program, cwd },
        Errno::TOOBIG => StartError::TooLong { program, cwd },
        _ if again::is_for_now(error) => StartError::NoRoom { program, cwd, source: errno },
        source => StartError::System { program, cwd, source },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Descriptors that somebody else has under way, say.
    #[test]
    fn what_cannot_be_handed_over_just_now_is_given_back() {
        let refused = |errno: Errno| not_launched(&LaunchError::Letter(errno.into()));
        let given_back = refused(Errno::TOOMANYREFS);
        assert!(matches!(given_back, StartError::NoContainer { .. }), "{given_back:?}");
        let failed = refused(Errno::ACCESS);
        assert!(matches!(failed, StartError::Container { .. }), "{failed:?}");
    }
}
