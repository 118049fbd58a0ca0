//! Commands as processes of this machine, each in a group of its own, so that it can be ended with
//! all it started.
//!
//! One thread reads and writes all three pipes: what a command leaves behind in the background may
//! hold them open for hours, and nobody waits for that. It tries nothing twice.

use super::{MAX_OUTPUT, Output, Way, WayError};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, waitid};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// What is kept of standard error: words for people. The rest is read and let go.
const MAX_ERRORS: usize = 64 * 1024;
/// What the server's own environment may give a command. Anything else, its secrets first, stays.
const PASSED_ON: [&str; 5] = ["PATH", "HOME", "USER", "SLURM_CONF", "CONDOR_CONFIG"];
/// An end is seen this late at most, where the pipes do not tell of it.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// For pipes that stay open after the command has ended: by then what it said is in them.
const LINGER: Duration = Duration::from_millis(200);
const CHUNK: usize = 16 * 1024;

#[derive(Debug, Clone)]
pub struct Local {
    vars: Vec<(String, String)>,
}

impl Local {
    /// `vars` are set for each command, and win over what the server's own environment has.
    pub fn new(vars: Vec<(String, String)>) -> Local {
        Local { vars }
    }

    fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        let own = PASSED_ON.iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
        // Their messages are compared with what we know of them, so they must not be translated.
        command.args(arguments).env_clear().envs(own).env("LANG", "C");
        command.envs(self.vars.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.process_group(0);
        command
    }
}

impl Way for Local {
    fn run(&self, words: &[&str], input: &[u8], within: Duration) -> Result<Output, WayError> {
        let until = Instant::now() + within;
        let (program, arguments) = words.split_first().unwrap_or((&"", &[]));
        let broken = |source| WayError::NotStarted { program: (*program).to_string(), source };
        let mut child = self.command(program, arguments).spawn().map_err(broken)?;
        let talk = Talk::with(&mut child, input);
        let ended = talk.and_then(|mut talk| talk.listen(&child, until).map(|end| (talk, end)));
        if !matches!(ended, Ok((_, End::Itself(_)))) {
            end_group(&child);
        }
        // It is dead, or was just killed.
        let _ = child.wait();
        let program = (*program).to_string();
        match ended.map_err(|source| WayError::NotStarted { program: program.clone(), source })? {
            (talk, End::Itself(code)) => {
                Ok(Output { code, stdout: talk.said, stderr: talk.complained })
            }
            (_, End::TooSlow) => Err(WayError::TooSlow { program, within }),
            (_, End::TooMuch) => Err(WayError::TooMuch { program }),
        }
    }
}

/// The group has the number of its leader, which is nobody else's until the leader is waited for.
fn end_group(leader: &Child) {
    let _ = rustix::process::kill_process_group(Pid::from_child(leader), Signal::KILL);
}

enum End {
    Itself(Option<i32>),
    TooSlow,
    TooMuch,
}

/// The pipes of one command. Each goes when its other end has closed.
struct Talk<'a> {
    stdin: Option<ChildStdin>,
    /// What it was not told yet.
    input: &'a [u8],
    stdout: Option<ChildStdout>,
    said: Vec<u8>,
    stderr: Option<ChildStderr>,
    complained: Vec<u8>,
}

impl<'a> Talk<'a> {
    fn with(child: &mut Child, input: &'a [u8]) -> io::Result<Talk<'a>> {
        let (said, complained) = (Vec::new(), Vec::new());
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let stderr = child.stderr.take();
        let talk = Talk { stdin, input, stdout, said, stderr, complained };
        talk.stdin.as_ref().map_or(Ok(()), never_wait)?;
        talk.stdout.as_ref().map_or(Ok(()), never_wait)?;
        talk.stderr.as_ref().map_or(Ok(()), never_wait)?;
        Ok(talk)
    }

    fn listen(&mut self, child: &Child, until: Instant) -> io::Result<End> {
        let mut ended: Option<(Option<i32>, Instant)> = None;
        loop {
            let heard = self.exchange()?;
            if self.said.len() > MAX_OUTPUT {
                return Ok(End::TooMuch);
            }
            let now = Instant::now();
            if ended.is_none() {
                ended = exit_of(child)?.map(|status| (status.exit_status(), now + LINGER));
            }
            let silent = self.stdout.is_none() && self.stderr.is_none();
            match ended {
                Some((code, linger)) if silent || now >= linger => return Ok(End::Itself(code)),
                _ if now >= until => return Ok(End::TooSlow),
                _ if !heard => self.pause(until.saturating_duration_since(now))?,
                _ => {}
            }
        }
    }

    /// Whatever goes without waiting. True if something did.
    fn exchange(&mut self) -> io::Result<bool> {
        let told = self.feed();
        let said = take(&mut self.stdout, &mut self.said, usize::MAX)?;
        let complained = take(&mut self.stderr, &mut self.complained, MAX_ERRORS)?;
        Ok(told || said || complained)
    }

    fn feed(&mut self) -> bool {
        let Some(stdin) = &mut self.stdin else { return false };
        if self.input.is_empty() {
            self.stdin = None;
            return true;
        }
        match stdin.write(self.input) {
            Ok(count) => self.input = self.input.get(count..).unwrap_or_default(),
            Err(error) if passes(&error) => return false,
            // It does not want to hear the rest; what it makes of that is its own answer.
            Err(_) => self.stdin = None,
        }
        true
    }

    fn pause(&self, at_most: Duration) -> io::Result<()> {
        let stdin = self.stdin.iter().map(|it| PollFd::new(it, PollFlags::OUT));
        let stdout = self.stdout.iter().map(|it| PollFd::new(it, PollFlags::IN));
        let stderr = self.stderr.iter().map(|it| PollFd::new(it, PollFlags::IN));
        let mut pipes: Vec<PollFd> = stdin.chain(stdout).chain(stderr).collect();
        let limit = Timespec::try_from(at_most.min(LOOK_EVERY)).unwrap_or_default();
        match poll(&mut pipes, Some(&limit)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }
}

fn never_wait(pipe: impl AsFd) -> io::Result<()> {
    let flags = rustix::fs::fcntl_getfl(&pipe)?;
    Ok(rustix::fs::fcntl_setfl(&pipe, flags | OFlags::NONBLOCK)?)
}

fn passes(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// Reads once, and keeps at most `keep` bytes of all. True if there was something, or its end.
fn take(pipe: &mut Option<impl Read>, kept: &mut Vec<u8>, keep: usize) -> io::Result<bool> {
    let Some(open) = pipe else { return Ok(false) };
    let mut chunk = [0; CHUNK];
    match open.read(&mut chunk) {
        Ok(0) => *pipe = None,
        Ok(count) => {
            let room = keep.saturating_sub(kept.len());
            kept.extend(chunk.iter().take(count.min(room)));
        }
        Err(error) if passes(&error) => return Ok(false),
        Err(error) => return Err(error),
    }
    Ok(true)
}

/// How it ended, once it has. It stays unwaited for: its number must remain its own.
fn exit_of(child: &Child) -> io::Result<Option<WaitIdStatus>> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    Ok(waitid(WaitId::Pid(Pid::from_child(child)), options)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_mins(1);

    fn sh(script: &str, input: &[u8], within: Duration) -> Result<Output, WayError> {
        Local::new(vec![("GIVEN".into(), "yes".into())]).run(&["sh", "-c", script], input, within)
    }

    #[test]
    fn words_and_input_reach_the_command_as_they_stand() {
        let words =
            ["sh", "-c", "cat; printf '<%s>' \"$@\"; echo e >&2; exit 3", "sh", "a b", "$x"];
        let output = Local::new(Vec::new()).run(&words, b"in\n", LONG).expect("it runs");
        assert_eq!(output.code, Some(3));
        assert_eq!(String::from_utf8_lossy(&output.stdout), "in\n<a b><$x>");
        assert_eq!(output.stderr, b"e\n");
    }

    #[test]
    fn the_environment_is_what_was_chosen() {
        let output = sh("env | cut -d= -f1 | sort | tr '\\n' ' '", b"", LONG).expect("it runs");
        let names = String::from_utf8_lossy(&output.stdout).into_owned();
        let named = |name: &str| names.split_whitespace().any(|it| it == name);
        assert!(named("GIVEN") && named("LANG") && named("PATH"), "{names}");
        assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some() && !named("CARGO_MANIFEST_DIR"));
    }

    #[test]
    fn what_is_slow_is_killed_with_all_it_started() {
        let folder = tempfile::tempdir().expect("a folder");
        let script = format!("sleep 1000 & echo $! > {0}/pid; wait", folder.path().display());
        let failed = sh(&script, b"", Duration::from_millis(500)).expect_err("too slow");
        assert!(
            matches!(&failed, WayError::TooSlow { program, .. } if program == "sh"),
            "{failed}"
        );
        let pid = std::fs::read_to_string(folder.path().join("pid")).expect("it had started");
        let status = format!("/proc/{}/stat", pid.trim());
        let gone = || std::fs::read_to_string(&status).map_or(true, |stat| stat.contains(") Z "));
        until(gone);
    }

    /// Another process waits for what was killed, some time.
    fn until(done: impl Fn() -> bool) {
        let deadline = Instant::now() + LONG;
        while !done() {
            assert!(Instant::now() < deadline);
            // tidy: allow(sleep-in-test) because it is the pause between two looks
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn what_stays_in_the_background_is_not_waited_for() {
        let folder = tempfile::tempdir().expect("a folder");
        let pid = folder.path().join("pid");
        let script = format!("setsid sleep 1000 & echo $! > {}; echo said", pid.display());
        let output = sh(&script, b"", LONG).expect("it ends");
        assert_eq!((output.code, output.stdout), (Some(0), b"said\n".to_vec()));
        let pid = std::fs::read_to_string(pid).expect("it had started");
        let pid = Pid::from_raw(pid.trim().parse().expect("a number")).expect("a pid");
        rustix::process::kill_process(pid, Signal::KILL).expect("it is still there");
    }

    #[test]
    fn output_has_its_bounds_and_errors_are_cut() {
        let failed = sh("head -c 70000000 /dev/zero", b"", LONG).expect_err("too much");
        assert!(matches!(failed, WayError::TooMuch { .. }), "{failed}");
        let output = sh("head -c 300000 /dev/zero >&2; echo ok", b"", LONG).expect("it runs");
        assert_eq!((output.stderr.len(), output.stdout.len()), (MAX_ERRORS, 3));
    }

    #[test]
    fn much_input_is_told_while_it_answers_and_may_stay_unread() {
        let input = vec![b'x'; 3_000_000];
        let output = sh("cat", &input, LONG).expect("it runs");
        assert_eq!(output.stdout.len(), input.len());
        assert_eq!(sh("true", &input, LONG).expect("it runs").code, Some(0));
    }

    #[test]
    fn a_signal_is_no_code_and_no_program_is_an_error() {
        assert_eq!(sh("kill -TERM $$", b"", LONG).expect("it runs").code, None);
        let failed = Local::new(Vec::new()).run(&["/no/such/program"], b"", LONG);
        assert!(matches!(failed, Err(WayError::NotStarted { .. })), "{failed:?}");
        assert!(Local::new(Vec::new()).run(&[], b"", LONG).is_err());
    }
}
