//! The people's side: submissions that are repeated until they are answered.

use super::{Happening, World};
use crate::server::Then;
use shipway_model::{Actor, JobId, JobSpec};
use shipway_shell::{Member, Submission, Wish, WriteError};

/// How long a client waits for an answer before it asks again.
const PATIENCE: u64 = 5_000;

/// A job somebody wants.
#[derive(Debug)]
pub struct Wanted {
    pub by: Actor,
    pub spec: JobSpec,
    /// Without one it is never asked for again, because that might make two jobs.
    pub key: Option<String>,
    pub state: WishState,
    /// No node could ever run it.
    pub hopeless: bool,
    sent: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WishState {
    Unanswered,
    Accepted(JobId),
    Refused(&'static str),
}

impl World {
    /// Asks for a job now; the answer comes later, or the question is repeated.
    pub fn wish(&mut self, by: Actor, spec: JobSpec, key: Option<String>, hopeless: bool) -> usize {
        let state = WishState::Unanswered;
        self.wishes.push(Wanted { by, spec, key, state, hopeless, sent: 0 });
        let wish = self.wishes.len() - 1;
        self.send_wish(wish);
        wish
    }

    pub fn send_wish(&mut self, wish: usize) {
        let delay = self.dice.between(self.settings.delay);
        let again = self.wishes[wish].key.is_some() && self.dice.chance(self.settings.duplicate);
        self.wishes[wish].sent += 1;
        let sent = self.wishes[wish].sent;
        self.after(delay, Happening::Submits { wish });
        if again {
            self.after(delay * 3, Happening::Submits { wish });
        }
        self.after(PATIENCE, Happening::NoReply { wish, sent });
    }

    pub(super) fn deliver_submission(&mut self, wish: usize) {
        let wanted = &self.wishes[wish];
        let submission = Submission {
            by: wanted.by.clone(),
            jobs: vec![Member { spec: wanted.spec.clone(), after: Vec::new() }],
            digest: digest(&wanted.spec),
            key: wanted.key.clone(),
            size: 0,
        };
        if let Some(server) = &mut self.server {
            server.ask(Wish::Submit(Box::new(submission)), Then::Reply { wish });
        }
        self.wake_server();
    }

    pub(super) fn replied(&mut self, wish: usize, answer: Result<JobId, WriteError>) {
        let key = self.wishes[wish].key.clone();
        let state = match answer {
            Ok(job) => WishState::Accepted(job),
            Err(WriteError::Rejected(rejection)) => WishState::Refused(rejection.code()),
            // It is asked for again.
            Err(WriteError::NotDurable(_)) => return,
            Err(error) => return self.fail(format!("key {key:?} was answered by {error:?}")),
        };
        let known = &self.wishes[wish].state;
        if *known != WishState::Unanswered && *known != state {
            let what = format!("key {key:?} was answered by {known:?}, then by {state:?}");
            return self.fail(what);
        }
        self.wishes[wish].state = state;
    }

    pub(super) fn no_reply(&mut self, wish: usize, sent: u32) {
        let wanted = &self.wishes[wish];
        let open = wanted.state == WishState::Unanswered && wanted.key.is_some();
        if open && wanted.sent == sent {
            self.send_wish(wish);
        }
    }

    pub fn accepted(&self) -> impl Iterator<Item = (JobId, &Wanted)> {
        self.wishes.iter().filter_map(|wish| match wish.state {
            WishState::Accepted(job) => Some((job, wish)),
            WishState::Unanswered | WishState::Refused(_) => None,
        })
    }

    /// Whatever was accepted is known after any crash.
    pub(super) fn check_promises_kept(&mut self) {
        let Some(server) = &self.server else { return };
        let known =
            |job: &JobId| server.state().job(*job).is_some() || self.disk.record(*job).is_some();
        let forgotten = self.accepted().map(|(job, _)| job).find(|job| !known(job));
        if let Some(job) = forgotten {
            self.fail(format!("job {job} was accepted and is forgotten after a restart"));
        }
    }
}

/// Tells a repeat from a mistake (FNV-1a over the specification's JSON).
fn digest(spec: &JobSpec) -> u64 {
    let text = serde_json::to_string(spec).expect("a specification is plain data");
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, mix)
}
