//! Which subordinate id somebody has on this node. The server counts its users and never gives a
//! number twice; the number says which of the ids it is, so that it is the same each time and on
//! each node with the same ids, and nothing has to be remembered.

use super::{NoAccount, REMEMBERED, REMEMBERED_FOR, Somebody, Whose, asked};
use shipway_runtime::plan::Person;
use shipway_runtime::subids::Given;
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Instant;

/// Whose an id is on the node already: a user, or a group.
type Look = fn(u32, u32) -> Option<(u32, String)>;

#[derive(Debug)]
pub struct Ids {
    given: Given,
    look: Look,
    /// What was found, and until when it is believed: accounts come and go.
    known: BTreeMap<Person, (Instant, Option<(u32, String)>)>,
}

impl Ids {
    pub fn new(given: Given) -> Self {
        Self { given, look: taken, known: BTreeMap::new() }
    }

    /// Somebody's id; never one that is an account's or a group's, and never somebody else's.
    pub(super) fn of(&mut self, whose: Whose<'_>, own: &str) -> Result<Somebody, NoAccount> {
        let (user, own) = (whose.user.to_string(), own.to_string());
        let Some(number) = NonZeroU32::new(whose.number) else {
            return Err(NoAccount::Unknown { user });
        };
        let person = self.given.person(number);
        let ids = person.and_then(|person| Some((person, self.given.ids(person)?)));
        let Some((person, (uid, gid))) = ids else {
            return Err(NoAccount::NoId { user, own, given: self.given.people() });
        };
        match self.taken(person, uid, gid) {
            Some((id, taken)) => Err(NoAccount::Taken { user, id, taken, own }),
            None => Ok(Somebody { name: user, person }),
        }
    }

    fn taken(&mut self, person: Person, uid: u32, gid: u32) -> Option<(u32, String)> {
        let now = Instant::now();
        if let Some((_, found)) = self.known.get(&person).filter(|(until, _)| *until > now) {
            return found.clone();
        }
        if self.known.len() >= REMEMBERED {
            self.known.clear();
        }
        let found = (self.look)(uid, gid);
        self.known.insert(person, (now + REMEMBERED_FOR, found.clone()));
        found
    }
}

/// Asks the node: a directory service may count its people where somebody gave ids away.
fn taken(uid: u32, gid: u32) -> Option<(u32, String)> {
    let named = |database: &str, id: u32| {
        let line = asked(&["getent", database, &id.to_string()])?;
        let name = line.split(':').next().filter(|name| !name.is_empty())?;
        Some((id, name.to_string()))
    };
    let user = named("passwd", uid).map(|(id, name)| (id, format!("the account {name}")));
    user.or_else(|| named("group", gid).map(|(id, name)| (id, format!("the group {name}"))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use shipway_runtime::subids::Holder;

    fn ids(look: Look) -> Ids {
        let holder = Holder { name: "svc".into(), uid: 990, gid: 990 };
        let line = "svc:600000:3\n";
        Ids { look, ..Ids::new(Given::read(holder, line, line)) }
    }

    fn said(ids: &mut Ids, user: &str, number: u32) -> Result<u32, String> {
        let whose = Whose { user, is_owner: false, number };
        let found = ids.of(whose, "svc").map_err(|error| error.to_string())?;
        Ok(found.person.uid.get())
    }

    #[test]
    fn everybody_has_an_id_of_their_own_or_is_refused() {
        let mut free = ids(|_, _| None);
        assert_eq!((said(&mut free, "ada", 1), said(&mut free, "bob", 3)), (Ok(3), Ok(1)));
        let left = said(&mut free, "eve", 4).unwrap_err();
        assert!(left.contains("no id is left for eve") && left.contains("3 were given"), "{left}");
        assert!(said(&mut free, "gone", 0).unwrap_err().contains("no longer knows user gone"));
    }

    #[test]
    fn an_id_of_an_account_is_nobody_elses() {
        let mut some = ids(|uid, gid| {
            assert_eq!(uid, gid);
            (uid == 600_001).then(|| (uid, "the account carl".into()))
        });
        assert_eq!((said(&mut some, "ada", 1), said(&mut some, "eve", 3)), (Ok(3), Ok(1)));
        let taken = said(&mut some, "bob", 2).unwrap_err();
        assert!(taken.contains("600001") && taken.contains("the account carl"), "{taken}");
    }

    #[test]
    fn the_node_is_asked_whose_an_id_is() {
        assert_eq!(taken(0, 0), Some((0, "the account root".into())));
        assert_eq!(taken(1_879_048_190, 1_879_048_190), None);
    }
}
