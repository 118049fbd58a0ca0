//! Who is asking: from a bearer token to a user in a role. What they may do is the core's business.
//!
//! The table is a copy of what the state says about users and tokens, made anew after each commit
//! that changes it, so that checking a token does not have to wait for the writer.
#![warn(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unreachable,
    clippy::unwrap_used
)]

use crate::clock::Clock;
use crate::locks::Shared;
use crate::secrets;
use shipway_api::{proof, ticket};
use shipway_core::site::{PilotToken, SiteKind};
use shipway_core::{Event, State};
use shipway_model::{Actor, Millis, PilotId, Role, Timestamp, UserName, UserNumber};
use std::collections::HashMap;
use std::sync::{Arc, RwLock};
use tokio::sync::{Notify, watch};

#[derive(Debug)]
pub struct Auth {
    /// The token of whoever started this server; it is in no journal.
    owner: (String, Actor),
    table: RwLock<Table>,
    /// Counts how often tokens have ended: whoever answers for longer looks again then.
    ended: watch::Sender<u64>,
    /// There is another table.
    renewed: Notify,
}

/// Tokens by their hashes.
#[derive(Debug, Default)]
pub struct Table {
    people: HashMap<String, (Actor, Timestamp)>,
    /// When each token ends, by its id.
    ends: HashMap<Arc<str>, Timestamp>,
    pilots: HashMap<String, LetIn>,
    /// The hashes by what they are asked for; see `shipway_api::proof`.
    names: HashMap<String, String>,
    numbers: HashMap<String, UserNumber>,
}

impl Table {
    /// What the state says about who may come in.
    pub fn of(state: &State) -> Self {
        let mut table = Table::default();
        for token in state.tokens().values() {
            let Some(user) = state.users().get(&token.user) else { continue };
            let id: Arc<str> = token.id.as_str().into();
            let actor = Actor {
                user: token.user.clone(),
                role: user.role,
                groups: Arc::default(),
                since: state.users().since(&token.user),
                token: Some(Arc::clone(&id)),
            };
            table.people.insert(token.hash.clone(), (actor, token.expires));
            table.ends.insert(id, token.expires);
        }
        let pilots = state.pilot_tokens().iter();
        let let_in = |(pilot, token): (&PilotId, &PilotToken)| {
            Some((token.hash.clone(), LetIn::of(state, pilot, token)?))
        };
        table.pilots = pilots.filter_map(let_in).collect();
        let numbers = state.users().iter().map(|(name, user)| (name.to_string(), user.number));
        table.numbers = numbers.collect();
        let hashes = table.people.keys().chain(table.pilots.keys());
        table.names = hashes.map(|hash| (proof::name(hash), hash.clone())).collect();
        table
    }

    fn lets_in(&self, token: &str, now: Timestamp) -> bool {
        self.ends.get(token).is_some_and(|ends| *ends > now)
    }

    /// Whether somebody who was let in by the one before is not by this one.
    fn ends_some_of(&self, before: &Table) -> bool {
        before.ends.keys().any(|id| !self.ends.contains_key(id))
    }
}

/// A pilot whose token is good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LetIn {
    pub pilot: PilotId,
    pub site: SiteKind,
    expires: Option<Timestamp>,
}

impl LetIn {
    fn of(state: &State, pilot: &PilotId, token: &PilotToken) -> Option<Self> {
        let site = state.kind_of(&token.allocation)?;
        Some(LetIn { pilot: pilot.clone(), site, expires: token.expires })
    }

    fn is_good(&self, now: Timestamp) -> bool {
        self.expires.is_none_or(|expires| now < expires)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Denied {
    NoToken,
    UnknownToken,
    Expired,
}

impl Auth {
    pub fn new(owner_secret: &str, owner: UserName) -> Self {
        let actor = Actor::new(owner, Role::Admin);
        Auth {
            owner: (secrets::hash(owner_secret), actor),
            table: RwLock::default(),
            ended: watch::Sender::new(0),
            renewed: Notify::new(),
        }
    }

    pub fn install(&self, table: Table) {
        let mut current = self.table.changed();
        let some_end = table.ends_some_of(&current);
        *current = table;
        drop(current);
        self.renewed.notify_one();
        if some_end {
            self.look_again();
        }
    }

    /// Whether somebody who came in earlier would still be let in.
    pub fn still_lets_in(&self, actor: &Actor, now: Timestamp) -> bool {
        let Some(token) = &actor.token else { return true };
        self.table.seen().lets_in(token, now)
    }

    /// How long the token that somebody came in with is good for.
    pub fn left_of(&self, actor: &Actor, now: Timestamp) -> Option<Millis> {
        let table = self.table.seen();
        Some(table.ends.get(actor.token.as_ref()?)?.since(now))
    }

    /// Changes whenever a token has ended.
    pub fn endings(&self) -> watch::Receiver<u64> {
        self.ended.subscribe()
    }

    fn look_again(&self) {
        self.ended.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Sees to it that answers end with the tokens whose time is over: no commit tells of those.
    /// For as long as the server runs.
    pub async fn watch_the_clock(self: Arc<Self>, clock: Clock) {
        loop {
            match self.next_end(clock.now()) {
                None => self.renewed.notified().await,
                Some(at) => tokio::select! {
                    () = self.renewed.notified() => {}
                    () = tokio::time::sleep(clock.until(at)) => self.look_again(),
                },
            }
        }
    }

    fn next_end(&self, now: Timestamp) -> Option<Timestamp> {
        let table = self.table.seen();
        table.ends.values().filter(|ends| **ends > now).min().copied()
    }

    /// What shows that this is the server which keeps the token that is asked for, at the end of
    /// this connection. `None`: it keeps no such token.
    pub fn prove(&self, question: &str, between: &str) -> Option<String> {
        let (name, nonce) = proof::read(question)?;
        let table = self.table.seen();
        let is_owners = proof::name(&self.owner.0) == name;
        let hash = if is_owners { Some(&self.owner.0) } else { table.names.get(name) };
        hash.map(|hash| proof::answer(hash, nonce, between))
    }

    /// Whoever started this server.
    pub fn owner(&self) -> &UserName {
        &self.owner.1.user
    }

    /// Hashes are compared, never secrets, so the time a comparison takes tells nothing useful.
    pub fn person(&self, secret: Option<&str>, now: Timestamp) -> Result<Actor, Denied> {
        let hash = secrets::hash(secret.ok_or(Denied::NoToken)?);
        if hash == self.owner.0 {
            return Ok(self.owner.1.clone());
        }
        let table = self.table.seen();
        match table.people.get(&hash) {
            None => Err(Denied::UnknownToken),
            Some((_, expires)) if *expires <= now => Err(Denied::Expired),
            Some((actor, _)) => Ok(actor.clone()),
        }
    }

    /// What a user is counted as; `None` for those who are not, and for the owner.
    pub fn number(&self, user: &str) -> Option<UserNumber> {
        self.table.seen().numbers.get(user).copied()
    }

    /// A pilot's token is good for that pilot only.
    pub fn pilot(&self, secret: &str, now: Timestamp) -> Option<LetIn> {
        let hash = secrets::hash(secret);
        let found = self.table.seen().pilots.get(&hash).cloned();
        found.filter(|found| found.is_good(now))
    }

    /// Whether a pilot made this that would be let in now. People's tokens make no tickets.
    pub fn is_of_a_pilot(&self, ticket: &ticket::Shown, now: Timestamp) -> bool {
        let table = self.table.seen();
        let Some(hash) = table.names.get(&ticket.name) else { return false };
        let is_good = table.pilots.get(hash).is_some_and(|pilot| pilot.is_good(now));
        is_good && ticket.is_signed_with(hash)
    }
}

/// Whether it may change who comes in.
pub(crate) fn changes_doors(event: &Event) -> bool {
    matches!(
        event,
        Event::UserAdded { .. }
            | Event::UserRemoved { .. }
            | Event::TokenIssued { .. }
            | Event::TokenRevoked { .. }
            | Event::TokensExpired { .. }
            | Event::AllocationAsked { .. }
            | Event::PilotTokenEnded { .. }
            | Event::PilotEnded { .. }
    )
}
