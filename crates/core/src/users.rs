//! Who may use the server: the users by name, each with a role and a number.
//!
//! A name can be removed and given again; the number is counted on and never given twice. Not here:
//! what a role may do (`decide/`), and how much somebody has used (`usage.rs`).

use serde::{Deserialize, Serialize};
use shipway_model::{JobId, Role, UserName, UserNumber};
use std::collections::BTreeMap;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    pub role: Role,
    pub number: UserNumber,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "StoredUsers")]
pub struct Users {
    known: BTreeMap<UserName, User>,
    /// The largest number that was ever given.
    last: u32,
    /// For names that were somebody's who was removed: the first job that is not that person's.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    before: BTreeMap<UserName, JobId>,
}

impl Users {
    pub fn get(&self, user: &UserName) -> Option<&User> {
        self.known.get(user)
    }
    pub fn iter(&self) -> impl Iterator<Item = (&UserName, &User)> {
        self.known.iter()
    }
    pub fn len(&self) -> usize {
        self.known.len()
    }
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// From which job on a name means whoever has it now.
    pub fn since(&self, name: &UserName) -> JobId {
        self.before.get(name).copied().unwrap_or(JobId(0))
    }

    /// For the next user to come.
    pub fn next_number(&self) -> UserNumber {
        UserNumber(self.last.saturating_add(1))
    }

    pub(crate) fn add(&mut self, name: UserName, role: Role, number: Option<UserNumber>) {
        let number = number.unwrap_or(self.next_number());
        self.last = self.last.max(number.0);
        self.known.insert(name, User { role, number });
    }

    pub(crate) fn remove(&mut self, name: &UserName, before: Option<JobId>) {
        self.known.remove(name);
        self.before.extend(before.map(|before| (name.clone(), before)));
    }
}

/// As snapshots have it. Those from before users had numbers have only names and roles: they are
/// counted in the order of their names.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum StoredUsers {
    Numbered {
        known: BTreeMap<UserName, User>,
        last: u32,
        #[serde(default)]
        before: BTreeMap<UserName, JobId>,
    },
    Roles(BTreeMap<UserName, Role>),
}

impl From<StoredUsers> for Users {
    fn from(written: StoredUsers) -> Self {
        match written {
            StoredUsers::Numbered { known, last, before } => Users { known, last, before },
            StoredUsers::Roles(roles) => {
                let mut users = Users::default();
                for (name, role) in roles {
                    users.add(name, role, None);
                }
                users
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_of_old_snapshots_are_counted_by_name() {
        let users: Users = serde_json::from_str(r#"{"bob":"user","ada":"admin"}"#).unwrap();
        let ada = User { role: Role::Admin, number: UserNumber(1) };
        let bob = User { role: Role::User, number: UserNumber(2) };
        let found: Vec<_> = users.iter().map(|(name, user)| (name.as_str(), *user)).collect();
        assert_eq!(found, [("ada", ada), ("bob", bob)]);
        let again = serde_json::to_string(&users).unwrap();
        assert_eq!(serde_json::from_str::<Users>(&again).unwrap(), users);
    }
}
