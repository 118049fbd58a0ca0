//! Who is asking: from a bearer token to a user in a role. What they may do is the core's business.
//!
//! The table is a copy of what the state says about users and tokens, made anew after each commit
//! that changes it, so that checking a token does not have to wait for the writer.

use crate::secrets;
use shipway_core::State;
use shipway_model::{Actor, PilotId, Role, Timestamp, UserName};
use std::collections::HashMap;
use std::sync::RwLock;

#[derive(Debug)]
pub struct Auth {
    /// The token of whoever started this server; it is in no journal.
    owner: (String, Actor),
    table: RwLock<Table>,
}

/// Tokens by their hashes.
#[derive(Debug, Default)]
pub struct Table {
    people: HashMap<String, (Actor, Timestamp)>,
    pilots: HashMap<String, PilotId>,
}

impl Table {
    /// What the state says about who may come in.
    pub fn of(state: &State) -> Self {
        let people = state.tokens().values().filter_map(|token| {
            let role = state.users().get(&token.user)?.role;
            let actor = Actor { user: token.user.clone(), role };
            Some((token.hash.clone(), (actor, token.expires)))
        });
        let pilots = state.pilot_tokens().iter();
        Table {
            people: people.collect(),
            pilots: pilots.map(|(pilot, hash)| (hash.clone(), pilot.clone())).collect(),
        }
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
        let actor = Actor { user: owner, role: Role::Admin };
        Auth { owner: (secrets::hash(owner_secret), actor), table: RwLock::default() }
    }

    pub fn install(&self, table: Table) {
        *self.table.write().expect("no writer panics") = table;
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
        let table = self.table.read().expect("no writer panics");
        match table.people.get(&hash) {
            None => Err(Denied::UnknownToken),
            Some((_, expires)) if *expires <= now => Err(Denied::Expired),
            Some((actor, _)) => Ok(actor.clone()),
        }
    }

    /// A pilot's token is good for that pilot only.
    pub fn pilot(&self, secret: &str) -> Option<PilotId> {
        let hash = secrets::hash(secret);
        self.table.read().expect("no writer panics").pilots.get(&hash).cloned()
    }
}
