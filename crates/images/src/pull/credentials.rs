//! Who we are to a registry: names and passwords from files, or from the helper programs that
//! those files name. They never stand in a program's arguments or environment, and never in what
//! is printed.

use super::helper::{self, HelperError};
use base64::Engine as _;
use serde::Deserialize;
use shipway_model::Login;
use shipway_model::image_ref::DEFAULT_REGISTRY;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// Under this name Docker's own tool keeps the password of its own registry.
const DOCKER_KEY: &str = "https://index.docker.io/v1/";

#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    #[error("cannot read the credentials in {}", .path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("the credentials in {} are not of the form `docker login` writes", .path.display())]
    Form { path: PathBuf },
}

/// A login as a header says it.
pub(super) fn basic(Login { user, password }: &Login) -> String {
    let pair = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}"));
    format!("Basic {pair}")
}

/// Logins by registry.
#[derive(Debug, Clone, Default)]
pub struct Credentials {
    logins: BTreeMap<String, Login>,
    /// Programs to ask, by registry.
    helpers: BTreeMap<String, String>,
    /// Programs to ask about any registry, in this order.
    stores: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct File {
    #[serde(default)]
    auths: BTreeMap<String, Entry>,
    #[serde(default)]
    cred_helpers: BTreeMap<String, String>,
    #[serde(default)]
    creds_store: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Entry {
    #[serde(default)]
    auth: String,
}

impl Credentials {
    /// As `add`; a file that is not there holds nothing.
    pub fn add_if_there(&mut self, path: &Path) -> Result<(), CredentialsError> {
        match self.add(path) {
            Err(CredentialsError::Read { source, .. })
                if source.kind() == io::ErrorKind::NotFound =>
            {
                Ok(())
            }
            other => other,
        }
    }

    /// Adds what a file holds, in the form of Docker's `config.json`. What was added before wins.
    pub fn add(&mut self, path: &Path) -> Result<(), CredentialsError> {
        let unread = |source| CredentialsError::Read { path: path.into(), source };
        let text = std::fs::read(path).map_err(unread)?;
        let form = || CredentialsError::Form { path: path.into() };
        let file: File = serde_json::from_slice(&text).map_err(|_| form())?;
        for (key, name) in file.cred_helpers {
            self.helpers.entry(host_of(&key)).or_insert(name);
        }
        self.stores.extend(file.creds_store);
        for (key, entry) in file.auths {
            // Entries of other kinds (kept by a helper program) have no password here.
            if entry.auth.is_empty() {
                continue;
            }
            let login = decode(&entry.auth).ok_or_else(form)?;
            self.logins.entry(host_of(&key)).or_insert(login);
        }
        Ok(())
    }

    /// Adds one that is known already.
    pub fn insert(&mut self, host: &str, login: Login) {
        self.logins.insert(host.to_owned(), login);
    }

    /// The login for a registry: as it stands in a file, or from a helper.
    pub fn of(&self, host: &str) -> Result<Option<Login>, HelperError> {
        if let Some(login) = self.logins.get(host) {
            return Ok(Some(login.clone()));
        }
        let key = if host == DEFAULT_REGISTRY { DOCKER_KEY } else { host };
        if let Some(name) = self.helpers.get(host) {
            return helper::ask(name, key);
        }
        for name in &self.stores {
            if let Some(login) = helper::ask(name, key)? {
                return Ok(Some(login));
            }
        }
        Ok(None)
    }
}

/// Keys are hosts, or addresses with a scheme and a path.
fn host_of(key: &str) -> String {
    if key == DOCKER_KEY {
        return DEFAULT_REGISTRY.to_owned();
    }
    let key = key.strip_prefix("https://").or_else(|| key.strip_prefix("http://")).unwrap_or(key);
    key.split('/').next().unwrap_or_default().to_owned()
}

fn decode(auth: &str) -> Option<Login> {
    let bytes = base64::engine::general_purpose::STANDARD.decode(auth.trim()).ok()?;
    let text = String::from_utf8(bytes).ok()?;
    let (user, password) = text.split_once(':')?;
    Some(Login { user: user.into(), password: password.trim_end_matches('\0').into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logins_are_read_from_files_and_never_shown() {
        let dir = tempfile::tempdir().expect("directory");
        let path = dir.path().join("config.json");
        let text = r#"{"auths": {"https://index.docker.io/v1/": {"auth": "YWRhOnNlY3JldA=="},
            "a.example:5000": {"auth": "YWRhOng6eQ=="}, "empty.example": {}}}"#;
        std::fs::write(&path, text).expect("written");
        let mut all = Credentials::default();
        all.add(&path).expect("read");
        all.add_if_there(&dir.path().join("none")).expect("nothing there");
        let password = |host| all.of(host).expect("no helper").map(|login| login.password);
        assert_eq!(password("docker.io").as_deref(), Some("secret"));
        assert_eq!(password("a.example:5000").as_deref(), Some("x:y"));
        assert_eq!(password("empty.example"), None);
        assert!(!format!("{all:?}").contains("secret"));
        std::fs::write(&path, r#"{"auths": {"a": {"auth": "!"}}}"#).expect("written");
        assert!(matches!(Credentials::default().add(&path), Err(CredentialsError::Form { .. })));
    }
}
