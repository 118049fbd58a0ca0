//! Files of people who are kept apart by ids: the pilot itself can neither enter nor remove them.
//! A process that joined their keeper does it, with the rights over all of them or with those of
//! one person. What it does there is in `stage.rs`, and when in `staging.rs` and `removing.rs`.

use super::copying::{Copied, Copying, NOTHING_MOVED, Stop, failed};
use crate::accounts::Whom;
use crate::helper::of_this_program;
use crate::leftovers::NODE_KEY_VARIABLE;
use crate::stage::talk::{Talk, Word};
use crate::stage::{COMMAND, Plan, Report};
use rustix::fs::{MemfdFlags, memfd_create};
use shipway_runtime::native::{Helper, Keeper, Start};
use shipway_runtime::plan::{Process, User, Within};
use shipway_runtime::runtime::{Launch, LaunchError};
use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

/// With whose rights files are copied.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum As {
    #[default]
    Pilot,
    User(User),
    /// Somebody in the keeper's user namespace.
    Within(Within),
}

/// Starts this program once more, to do something with files.
pub(super) struct Hands {
    helper: Helper,
    node_key: String,
    keeper: Option<Arc<Keeper>>,
}

impl As {
    pub(super) fn of(whom: &Whom) -> Self {
        match whom {
            Whom::Pilot | Whom::Guest => Self::Pilot,
            Whom::Account(account) => Self::User(account.user.clone()),
            Whom::Person(somebody) => Self::Within(Within::Person(somebody.person)),
        }
    }

    /// The account, where it is one.
    pub(super) const fn user(&self) -> Option<&User> {
        match self {
            Self::User(user) => Some(user),
            Self::Pilot | Self::Within(_) => None,
        }
    }
}

impl std::fmt::Debug for Hands {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hands").field("keeper", &self.keeper).finish_non_exhaustive()
    }
}

/// For so long it is tried to hand a plan over, and so long is between two tries.
const FOR_ROOM: Duration = Duration::from_mins(10);
const BETWEEN: Duration = Duration::from_millis(if cfg!(test) { 1 } else { 1_000 });

impl Hands {
    pub(super) fn new(node_key: String, keeper: Option<Arc<Keeper>>) -> Self {
        Self { helper: of_this_program(COMMAND), node_key, keeper }
    }

    /// Whether there are people whose files the pilot itself cannot reach.
    pub(super) const fn reach_further(&self) -> bool {
        self.keeper.is_some()
    }

    /// The same, patiently: what a task has made is not lost because somebody has all of what it
    /// takes to hand the plan over. Whoever copies has a thread for it.
    fn launch_patiently(
        &self,
        (plan, end): (&Plan, Option<&OwnedFd>),
        by: &As,
        stop: &Stop,
    ) -> Result<Launch, LaunchError> {
        while_there_is_no_room(stop, || {
            let (plan, handed) = to_hand_over(plan.clone(), by);
            let stdin = match end {
                Some(end) => end.try_clone(),
                None => written(&plan).map(OwnedFd::from),
            };
            self.launch(stdin.map_err(LaunchError::Letter)?, handed, by)
        })
    }

    /// What to start for a plan.
    fn launch(&self, stdin: OwnedFd, handed: Vec<PathBuf>, by: &As) -> Result<Launch, LaunchError> {
        let start = Start { argv: Vec::new(), env: Vec::new(), stdin: Some(stdin) };
        let process = Process { cwd: "/".into(), ..Process::default() };
        let mut launch = match by {
            As::Pilot => self.helper.before(start, &process),
            As::User(user) => {
                self.helper.before(start, &Process { user: Some(user.clone()), ..process })
            }
            As::Within(within) => {
                let keeper = self.keeper.as_ref().ok_or(LaunchError::NoKeeper)?;
                let process = Process { within: Some(*within), handed, ..process };
                keeper.before(&self.helper, start, &process)
            }
        }?;
        launch.marks.push((NODE_KEY_VARIABLE.into(), (&self.node_key).into()));
        Ok(launch)
    }

    /// Has a plan carried out, and waits until it is or nothing moves any more.
    pub(super) fn carry_out(&self, plan: &Plan, by: &As, stop: &Stop) -> Copied {
        let started = self
            .launch_patiently((plan, None), by, stop)
            .map_err(|error| failed(&error))
            .and_then(|launch| {
                let (command, after) = launch.into_command();
                let copying = Copying::start(command, stop).map_err(|error| failed(&error))?;
                Ok((copying, after))
            });
        match started {
            Err(problem) => Copied { result: Err(problem), left: None },
            Ok((copying, after)) => copying.attend(&after, NOTHING_MOVED, &AtomicU64::new(0)),
        }
    }

    /// The same with somebody who speaks to the process meanwhile, on a thread of their own. What
    /// they have to complain of comes before what the process says; while `moved` changes, it is
    /// not taken for one that hangs.
    pub(super) fn carry_out_talking(
        &self,
        plan: &Plan,
        by: &As,
        (stop, moved): (&Stop, &AtomicU64),
        speak: impl FnOnce(&Talk) -> Result<(), String> + Send,
    ) -> Copied {
        let started = (|| {
            let (talk, end) = Talk::pair().map_err(|error| failed(&error))?;
            let launch = self.launch_patiently((plan, Some(&end)), by, stop);
            let (command, after) = launch.map_err(|error| failed(&error))?.into_command();
            let (plan, _) = to_hand_over(plan.clone(), by);
            let text = serde_json::to_vec(&plan).expect("plain data");
            talk.say_long(Word::Plan, &text).map_err(|error| failed(&error))?;
            drop(end);
            let copying = Copying::start(command, stop).map_err(|error| failed(&error))?;
            Ok((copying, after, talk))
        })();
        let (copying, after, talk) = match started {
            Ok(started) => started,
            Err(problem) => return Copied { result: Err(problem), left: None },
        };
        std::thread::scope(|scope| {
            let speaking = scope.spawn(|| {
                let spoken = speak(&talk);
                // Whatever was wrong: the process waits for nothing more.
                talk.no_more();
                spoken
            });
            let copied = copying.attend(&after, NOTHING_MOVED, moved);
            // Also where it hangs and holds its end: nobody waits for it.
            talk.close();
            let spoken = speaking.join().unwrap_or_else(|_| Err("files did not travel".into()));
            match (spoken, &copied.result) {
                (Err(problem), Ok(Report { problem: None, .. }) | Err(_)) => {
                    Copied { result: Err(problem), ..copied }
                }
                (Err(told), Ok(Report { problem: Some(_), .. })) if !stop.is_wanted() => {
                    // The process was left without an answer: why is what matters.
                    Copied { result: Err(told), ..copied }
                }
                _ => copied,
            }
        })
    }
}

/// As it is told to whoever carries it out, and what they are handed with it.
fn to_hand_over(plan: Plan, by: &As) -> (Plan, Vec<PathBuf>) {
    match by {
        As::Within(Within::Person(_)) => plan.handed(),
        As::Pilot | As::User(_) | As::Within(Within::Keeper) => (plan, Vec::new()),
    }
}

fn while_there_is_no_room<T>(
    stop: &Stop,
    mut launch: impl FnMut() -> Result<T, LaunchError>,
) -> Result<T, LaunchError> {
    let until = Instant::now() + FOR_ROOM;
    loop {
        match launch() {
            Err(error) if error.is_for_now() && Instant::now() < until && !stop.is_wanted() => {
                std::thread::sleep(BETWEEN);
            }
            done => return done,
        }
    }
}

/// In memory, where the other side reads it from the start.
fn written(plan: &Plan) -> io::Result<File> {
    let mut file = File::from(memfd_create("plan", MemfdFlags::CLOEXEC)?);
    file.write_all(&serde_json::to_vec(plan).expect("plain data"))?;
    file.rewind()?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;

    fn refused<T>(errno: Errno) -> Result<T, LaunchError> {
        Err(LaunchError::Letter(errno.into()))
    }

    /// Far more often than it is tried for one start of a task.
    #[test]
    fn files_are_handed_over_when_there_is_room_again() {
        let mut tries = 0;
        let handed = while_there_is_no_room(&Stop::default(), || {
            tries += 1;
            if tries < 100 { refused(Errno::TOOMANYREFS) } else { Ok(tries) }
        });
        assert_eq!(handed.expect("in the end"), 100);
    }

    #[test]
    fn what_is_stopped_or_cannot_work_is_not_tried_again() {
        let stop = Stop::default();
        let mut tries = 0;
        let wrong = while_there_is_no_room(&stop, || {
            tries += 1;
            refused::<()>(Errno::ACCESS)
        });
        assert!(wrong.is_err() && tries == 1, "{tries} tries");
        let stopped = while_there_is_no_room(&stop, || {
            tries += 1;
            stop.now();
            refused::<()>(Errno::TOOMANYREFS)
        });
        assert!(stopped.is_err() && tries == 2, "{tries} tries");
    }
}
