//! What users have given us to open registries with, for the images of their jobs: kept in one
//! document that only the server can read, and handed to pilots with the tasks that need it.
//!
//! It is in no journal, in no answer, in no task's environment and in no program's arguments.
#![warn(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unreachable,
    clippy::unwrap_used
)]

use crate::documents::{Document, DocumentError, Documents};
use crate::locks::Locked;
use shipway_model::image_ref::{BadRegistry, RegistryRef, registry_name};
use shipway_model::{ImageRef, Login, UserName};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// Registries of one user; people have a handful.
pub const MAX_REGISTRIES: usize = 64;
/// Bytes of a name or a password; tokens of some registries are long.
pub const MAX_PASSWORD_BYTES: usize = 16 * 1024;
/// Names are shown, all of one user's in one answer.
pub const MAX_NAME_BYTES: usize = 256;

#[derive(Debug, thiserror::Error)]
pub enum LoginError {
    #[error(transparent)]
    Keep(#[from] DocumentError),
    #[error("the logins that were kept are damaged")]
    Form(#[source] serde_json::Error),
    #[error(
        "a login has a name of at most {MAX_NAME_BYTES} bytes without control characters and a \
         password of at most {MAX_PASSWORD_BYTES} bytes"
    )]
    Size,
    #[error("logins for {MAX_REGISTRIES} registries are kept already, the most for one user")]
    TooMany,
    #[error("the token was revoked or has expired meanwhile")]
    UserGone,
    #[error(transparent)]
    Host(#[from] BadRegistry),
}

type Table = BTreeMap<UserName, BTreeMap<String, Login>>;

#[derive(Debug)]
pub struct Logins {
    documents: Arc<dyn Documents>,
    /// What is on disk. Held for a look at it, never while something is written.
    table: Mutex<Arc<Table>>,
    /// Held by whoever changes it.
    writing: Mutex<()>,
}

impl Logins {
    pub fn open(documents: Arc<dyn Documents>) -> Result<Self, LoginError> {
        let table = match documents.read(Document::RegistryLogins)? {
            Some(text) => serde_json::from_slice(&text).map_err(LoginError::Form)?,
            None => Table::new(),
        };
        Ok(Logins { documents, table: Mutex::new(Arc::new(table)), writing: Mutex::default() })
    }

    /// Returns when it is on disk. What was kept for this registry before is replaced.
    ///
    /// Whether the user may still have one is asked with the table in hand: what is kept before a
    /// user is removed is forgotten with them, and after it nothing is.
    pub fn keep(
        &self,
        user: &UserName,
        host: &str,
        login: Login,
        may: impl Fn() -> bool,
    ) -> Result<(), LoginError> {
        let fits = |text: &str, most| !text.is_empty() && text.len() <= most;
        let is_name = fits(&login.user, MAX_NAME_BYTES) && !login.user.contains(char::is_control);
        if !is_name || !fits(&login.password, MAX_PASSWORD_BYTES) {
            return Err(LoginError::Size);
        }
        let host = registry_name(host)?;
        self.change(|table| {
            if !may() {
                return Err(LoginError::UserGone);
            }
            let own = table.entry(user.clone()).or_default();
            if own.len() >= MAX_REGISTRIES && !own.contains_key(&host) {
                return Err(LoginError::TooMany);
            }
            own.insert(host, login);
            Ok(())
        })
    }

    /// Whether there was one.
    pub fn forget(&self, user: &UserName, host: &str) -> Result<bool, LoginError> {
        let host = registry_name(host)?;
        self.change(|table| Ok(table.get_mut(user).is_some_and(|own| own.remove(&host).is_some())))
    }

    /// All of those who are no users: a server that ended between a removal and this left theirs.
    pub fn keep_only(&self, is_user: impl Fn(&UserName) -> bool) -> Result<(), LoginError> {
        self.change(|table| {
            table.retain(|user, _| is_user(user));
            Ok(())
        })
    }

    /// All of a user who is gone.
    pub fn forget_user(&self, user: &UserName) -> Result<(), LoginError> {
        self.change(|table| {
            table.remove(user);
            Ok(())
        })
    }

    /// Registries, and under which name one is known there.
    pub fn of(&self, user: &UserName) -> Vec<(String, String)> {
        let table = self.table();
        let own = table.get(user).into_iter().flatten();
        own.map(|(host, login)| (host.clone(), login.user.clone())).collect()
    }

    /// For an image of a user's job.
    pub fn find(&self, user: &str, image: Option<&ImageRef>) -> Option<Login> {
        let Some(ImageRef::Registry(RegistryRef { host, .. })) = image else { return None };
        let table = self.table();
        if table.is_empty() {
            return None; // As on most servers, and for every task.
        }
        table.get(&user.parse::<UserName>().ok()?)?.get(host).cloned()
    }

    fn table(&self) -> Arc<Table> {
        Arc::clone(&self.table.locked())
    }

    /// The change holds when it is on disk, and not before.
    fn change<A>(
        &self,
        change: impl FnOnce(&mut Table) -> Result<A, LoginError>,
    ) -> Result<A, LoginError> {
        let _alone = self.writing.locked();
        let before = self.table();
        let mut changed = Table::clone(&before);
        let answer = change(&mut changed)?;
        if changed != *before {
            let which = Document::RegistryLogins;
            let text = serde_json::to_vec(&changed).map_err(|error| DocumentError {
                act: "put together",
                place: self.documents.place(which),
                source: error.into(),
            })?;
            self.documents.write(which, &text)?;
            *self.table.locked() = Arc::new(changed);
        }
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::documents::HomeFiles;
    use std::path::Path;

    fn open(home: &Path) -> Result<Logins, LoginError> {
        Logins::open(Arc::new(HomeFiles::of(home)))
    }

    fn ada() -> UserName {
        UserName::new("ada").unwrap()
    }

    fn login(password: &str) -> Login {
        Login { user: "ada".into(), password: password.into() }
    }

    #[test]
    fn what_is_kept_is_there_after_a_restart() {
        let home = tempfile::tempdir().unwrap();
        let logins = open(home.path()).unwrap();
        logins.keep(&ada(), "example.org:5000", login("one"), || true).unwrap();
        logins.keep(&ada(), "example.org:5000", login("two"), || true).unwrap();
        let logins = open(home.path()).unwrap();
        let image: ImageRef = "docker://example.org:5000/a/b:1".parse().unwrap();
        assert_eq!(logins.find("ada", Some(&image)), Some(login("two")));
        assert_eq!(logins.find("bob", Some(&image)), None);
        assert_eq!(logins.of(&ada()), [("example.org:5000".to_owned(), "ada".to_owned())]);
        assert!(!format!("{:?}", logins.find("ada", Some(&image))).contains("two"));
        assert!(logins.forget(&ada(), "example.org:5000").unwrap());
        assert!(!logins.forget(&ada(), "example.org:5000").unwrap());
        assert_eq!(open(home.path()).unwrap().find("ada", Some(&image)), None);
    }

    /// Asked in the middle of a change, by whoever sends tasks out or lists their own.
    #[test]
    fn nobody_waits_for_a_change_that_is_written() {
        let home = tempfile::tempdir().unwrap();
        let logins = open(home.path()).unwrap();
        logins.keep(&ada(), "a.org", login("x"), || true).unwrap();
        let looked = || logins.of(&ada()).len() == 1;
        logins.keep(&ada(), "b.org", login("x"), looked).unwrap();
        assert_eq!(logins.of(&ada()).len(), 2);
    }

    #[test]
    fn what_is_no_registry_or_too_large_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let logins = open(home.path()).unwrap();
        for host in ["", "a/b", "https://example.org", "ubuntu", "a b.org", "x@y.org"] {
            assert!(matches!(
                logins.keep(&ada(), host, login("x"), || true),
                Err(LoginError::Host(_))
            ));
        }
        logins.keep(&ada(), "docker.io", login("x"), || true).unwrap();
        assert!(logins.forget(&ada(), "docker.io").unwrap());
        for name in ["a".repeat(MAX_NAME_BYTES + 1), "a\u{1}b".into()] {
            let named = Login { user: name, ..login("x") };
            assert!(matches!(logins.keep(&ada(), "a.org", named, || true), Err(LoginError::Size)));
        }
        let long = login(&"x".repeat(MAX_PASSWORD_BYTES + 1));
        assert!(matches!(logins.keep(&ada(), "a.org", long, || true), Err(LoginError::Size)));
        assert!(matches!(logins.keep(&ada(), "a.org", login(""), || true), Err(LoginError::Size)));
        for number in 0..MAX_REGISTRIES {
            logins.keep(&ada(), &format!("r{number}.org"), login("x"), || true).unwrap();
        }
        assert!(matches!(
            logins.keep(&ada(), "a.org", login("x"), || true),
            Err(LoginError::TooMany)
        ));
        logins.forget_user(&ada()).unwrap();
        assert_eq!(logins.of(&ada()), []);
    }

    #[test]
    fn what_is_damaged_is_not_taken_for_empty() {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("registry-logins.json"), "{").unwrap();
        assert!(matches!(open(home.path()), Err(LoginError::Form(_))));
    }
}
