//! The helper: the process a pilot starts and watches, outside the container.
//!
//! It reads the plan, becomes the task's user, starts the first process inside and waits for it.
//! It ends exactly as the task did, signal or code. Signals to its group reach the task, which is
//! in the same group; the helper itself only dies of KILL, and then so does everything inside.

use super::apart::stand_apart;
use super::error::{Doing, SetupError};
use super::identity::{self, Identity, say};
use super::init::{self, Init, Opened, Who};
use super::owner;
use super::person;
use super::process;
use super::root;
use super::sys::{Namespaces, block_signals, die_of, fork_into, own_users};
use super::{WITH_BOTH, WITH_KEEPER, WITH_STDIN};
use crate::again::{is_for_now, patiently};
use crate::plan::{Bind, Container, Network, Person, Root};
use crate::report::{Ending, HelperTask, Letter, Why};
use rustix::fs::{FileType, Mode, OFlags, fstat, open};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{
    Pid, Resource, Rlimit, Signal, WaitOptions, kill_process, setrlimit, waitpid,
};
use std::io::{self, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::ExitCode;

/// The whole of the hidden command. Must be called before any thread is started.
pub fn main() -> ExitCode {
    let received = stand_apart().map_err(io::Error::other).and_then(|()| receive());
    match received {
        Ok((mut letter, HelperTask::Container(container), keeper)) => {
            // While this is whoever started it: the folder may be closed to the task's account.
            letter.tell_in(container.told.as_deref());
            run(&letter, *container, keeper)
        }
        Ok((letter, HelperTask::Process(process, env), keeper)) => {
            code(process::run(&letter, &process, &env, keeper))
        }
        Ok((_, HelperTask::Hold, _)) => hold(),
        Err(error) => {
            // There is no letter to answer in; the caller's log of the task has to do.
            let _nobody_reads = writeln!(io::stderr(), "cannot read the plan: {error}");
            code(Why::Container.exit_code())
        }
    }
}

/// For a program that does something as somebody else: what a helper is asked to do before it
/// turns into another program is done, and this one goes on. No other process of whoever it is
/// then can look into it, at any time: it was root's, or hidden, before it became theirs, and no
/// program was started since. Must be called before any thread is started. The code to exit with
/// where it fails.
pub fn become_asked() -> Result<(), ExitCode> {
    let hidden = identity::hide().and_then(|()| stand_apart()).map_err(io::Error::other);
    match hidden.and_then(|()| receive()) {
        Ok((letter, HelperTask::Process(process, _), keeper)) => {
            process::become_it(&letter, &process, keeper).map_err(code)?;
            // The kernel may have forgotten it with the change of user.
            identity::hide().map_err(|_| code(Why::Container.exit_code()))
        }
        Ok(_) | Err(_) => Err(code(Why::Container.exit_code())),
    }
}

/// What came by standard input.
type Received = (Letter, HelperTask, Option<OwnedFd>);

/// Takes the letter from standard input, and puts there what the task shall read.
fn receive() -> io::Result<Received> {
    /// Above the standard descriptors.
    const FIRST_FREE: i32 = 3;
    let given = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), FIRST_FREE)?;
    let is_socket = FileType::from_raw_mode(fstat(&given)?.st_mode) == FileType::Socket;
    let (letter, stdin, keeper) =
        if is_socket { receive_all(&given)? } else { (given, None, None) };
    let nothing = || open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
    let stdin = stdin.map_or_else(nothing, Ok)?;
    rustix::stdio::dup2_stdin(stdin)?;
    let (letter, order) = Letter::read(letter)?;
    Ok((letter, order, keeper))
}

/// Letter, standard input and the keeper's namespace, sent over a socket with a byte that says
/// which of them.
fn receive_all(socket: &OwnedFd) -> io::Result<(OwnedFd, Option<OwnedFd>, Option<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    recvmsg(socket, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let mut files = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(sent) = message {
            files.extend(sent);
        }
    }
    let mut files = files.into_iter();
    match (byte[0], files.next(), files.next(), files.next()) {
        (WITH_STDIN, Some(letter), Some(stdin), None) => Ok((letter, Some(stdin), None)),
        (WITH_KEEPER, Some(letter), Some(keeper), None) => Ok((letter, None, Some(keeper))),
        (WITH_BOTH, Some(letter), stdin @ Some(_), keeper @ Some(_)) => Ok((letter, stdin, keeper)),
        _ => Err(io::Error::other("not the descriptors that were announced")),
    }
}

/// Waits in a user namespace of its own, where another process names the ids, until nobody holds
/// the other end of its standard input.
fn hold() -> ExitCode {
    let held = own_users().map_err(io::Error::from).and_then(|()| {
        io::stdout().write_all(b".")?;
        io::stdout().flush()?;
        io::stdin().read(&mut [0]).map(drop)
    });
    match held {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _nobody_reads = writeln!(io::stderr(), "{error}");
            code(Why::Container.exit_code())
        }
    }
}

fn run(letter: &Letter, container: Container, keeper: Option<OwnedFd>) -> ExitCode {
    let scratch = container.scratch.clone();
    match start(letter, container, keeper) {
        Ok(Side::Outside(init)) => {
            let ending = wait_for(init, letter);
            root::release(scratch.as_ref());
            end_like(&ending)
        }
        // It has told how its program ended; where it could not, nobody is to take this for that.
        Ok(Side::Inside) => code(NOTHING_TOLD),
        Err(error) => {
            let told = error.told();
            let exit = told.why.exit_code();
            let _nobody_reads = letter.report(&Ending::NotStarted(told));
            code(exit)
        }
    }
}

enum Side {
    Outside(Pid),
    /// The first process inside, at its end.
    Inside,
}

fn start(
    letter: &Letter,
    mut container: Container,
    keeper: Option<OwnedFd>,
) -> Result<Side, SetupError> {
    let act = |act| move |source| SetupError::Act { act, source };
    block_signals().map_err(act("block signals"))?;
    for path in &container.cgroups {
        say(&path.to_string_lossy(), "0")?;
    }
    // Nowhere in particular: others may see where a process stands.
    rustix::process::chdir("/").doing("enter", "/")?;
    let mut tree = None;
    let (identity, naming, opened) = if let Some(person) = container.person {
        person::join(&keeper.ok_or(SetupError::NoKeeper)?, Some(person))?;
        let (named, naming) = pipe_with(PipeFlags::CLOEXEC).doing("make", "a pipe")?;
        let not_yet = container.binds.iter().map(|_| None).collect();
        (Who::Person(named), Some((person, naming)), not_yet)
    } else {
        tree = open_our_tree(&mut container)?;
        let opened = open_our_binds(&container)?;
        (Who::Own(identity::prepare(container.user.as_ref())?), None, opened)
    };
    let (helper, ours) = pipe_with(PipeFlags::CLOEXEC).doing("make", "a pipe")?;
    let namespaces = match container.network {
        Network::Host => Namespaces::ALWAYS,
        Network::None | Network::Loopback => Namespaces::ALWAYS.and(Namespaces::NETWORK),
    };
    let letter = letter.again().map_err(act("copy the letter"))?;
    // Made by root where this is root: whoever makes a user namespace has all rights in it, and
    // so would every other process of the task's account.
    let forked = patiently(|| fork_into(namespaces));
    if let Some(init) = forked.map_err(no_namespaces)? {
        if let Who::Own(identity) = &identity
            && identity.by_root
        {
            name_account(init, *identity, &ours)?;
        }
        // Closed by our end, and by nothing else: that is how the other side knows.
        std::mem::forget(ours);
        if let Some((person, naming)) = naming {
            name_it(init, person, &naming)?;
        }
        return Ok(Side::Outside(init));
    }
    drop((ours, naming));
    Init { container, letter, identity, helper, tree, opened }.run();
    Ok(Side::Inside)
}

fn no_namespaces(source: io::Error) -> SetupError {
    if is_for_now(&source) {
        return SetupError::NoRoom { source };
    }
    SetupError::Act { act: "make namespaces", source }
}

/// Says who is in the new user namespace, and lets its first process go on. Where that fails it
/// goes nowhere, and ends with this process.
fn name_it(init: Pid, person: Person, naming: &OwnedFd) -> Result<(), SetupError> {
    person::name(init, person)?;
    rustix::io::write(naming, b".").doing("tell", "the first process inside")?;
    person::give_up_rights()
}

/// The same where root makes a container for an account, which this process then becomes too.
fn name_account(init: Pid, account: Identity, go: &OwnedFd) -> Result<(), SetupError> {
    let named = account.map(&init.as_raw_nonzero().to_string());
    named.and_then(|()| account.become_it()).inspect_err(|_| bury(init))?;
    rustix::io::write(go, b".").doing("tell", "the first process inside").map(drop)
}

/// Ends the first process before it has begun: it must not say anything of its own.
fn bury(init: Pid) {
    let _already_dead = kill_process(init, Signal::KILL);
    let _gone = waitpid(Some(init), WaitOptions::empty());
}

/// While this is root: the task's account could not enter the store. The first process inside has
/// the descriptor too, and finds the tree by it.
fn open_our_tree(container: &mut Container) -> Result<Option<OwnedFd>, SetupError> {
    let (Root::Tree(tree), Some(user)) = (&container.root, &container.user) else {
        return Ok(None);
    };
    if !container.tree_is_ours || !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    let tree = owner::mapped(tree, user)?;
    container.root = Root::Tree(format!("/proc/self/fd/{}", tree.as_raw_fd()).into());
    Ok(Some(tree))
}

/// While this is root: the task's account could not enter the folders above its own.
fn open_our_binds(container: &Container) -> Result<Vec<Option<Opened>>, SetupError> {
    let user = container.user.as_ref().filter(|_| rustix::process::geteuid().is_root());
    let open = |bind: &Bind| match user {
        Some(user) if bind.ours => init::open_own_bind(bind, user).map(Some),
        _ => Ok(None),
    };
    container.binds.iter().map(open).collect()
}

fn wait_for(init: Pid, letter: &Letter) -> Ending {
    loop {
        match waitpid(Some(init), WaitOptions::empty()) {
            // Without a word it was killed from outside, and everything inside with it.
            Ok(Some((_, status))) => {
                if let Some(ending) = letter.reported().or_else(|| init::ending(status)) {
                    return ending;
                }
            }
            Ok(None) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => unreachable!("our child is ours until it is waited for: {errno}"),
        }
    }
}

fn end_like(ending: &Ending) -> ExitCode {
    match ending {
        Ending::Exit(number) => code(*number),
        Ending::NotStarted(told) => code(told.why.exit_code()),
        Ending::Signal { number, .. } => {
            // A core of the helper is of use to nobody.
            let no_core = Rlimit { current: Some(0), maximum: Some(0) };
            let _refused = setrlimit(Resource::Core, no_core);
            if let Some(signal) = Signal::from_named_raw(*number) {
                die_of(signal);
            }
            code(SIGNAL_EXIT_BASE + number)
        }
    }
}

/// Of a first process whose word of the end did not arrive.
const NOTHING_TOLD: i32 = 125;

/// What a shell reports for a process that a signal ended.
const SIGNAL_EXIT_BASE: i32 = 128;

fn code(number: i32) -> ExitCode {
    ExitCode::from(u8::try_from(number & 0xFF).expect("eight bits"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;

    #[test]
    fn a_limit_that_others_have_reached_is_no_fault_of_the_task() {
        let why = |errno: Errno| no_namespaces(errno.into()).told().why;
        for for_now in [Errno::NOSPC, Errno::AGAIN, Errno::NOMEM, Errno::USERS] {
            assert_eq!(why(for_now), Why::NoRoom, "{for_now}");
        }
        assert_eq!(why(Errno::PERM), Why::Container);
    }
}
