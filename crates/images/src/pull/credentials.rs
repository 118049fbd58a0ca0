//! Who we are to a registry: names and passwords from files, and from nowhere else. They never
//! stand in a program's arguments or environment, and never in what is printed.

use base64::Engine as _;
use serde::Deserialize;
use shipway_model::image_ref::DEFAULT_REGISTRY;
use std::collections::BTreeMap;
use std::fmt;
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

/// A name and a password.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    pub user: String,
    pub password: String,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").field("user", &self.user).finish_non_exhaustive()
    }
}

impl Login {
    /// As a header says it.
    pub fn basic(&self) -> String {
        let pair = format!("{}:{}", self.user, self.password);
        format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(pair))
    }
}

/// Logins by registry.
#[derive(Debug, Clone, Default)]
pub struct Credentials {
    logins: BTreeMap<String, Login>,
}

#[derive(Debug, Deserialize)]
struct File {
    #[serde(default)]
    auths: BTreeMap<String, Entry>,
}

#[derive(Debug, Deserialize)]
struct Entry {
    #[serde(default)]
    auth: String,
}

impl Credentials {
    /// Adds what a file holds, in the form of Docker's `config.json`. A file that is not there
    /// holds nothing; what was added before wins.
    pub fn add(&mut self, path: &Path) -> Result<(), CredentialsError> {
        let text = match std::fs::read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(source) => return Err(CredentialsError::Read { path: path.into(), source }),
            Ok(text) => text,
        };
        let form = || CredentialsError::Form { path: path.into() };
        let file: File = serde_json::from_slice(&text).map_err(|_| form())?;
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

    pub fn of(&self, host: &str) -> Option<&Login> {
        self.logins.get(host)
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
            "a.example:5000": {"auth": "YWRhOng6eQ=="}, "helped.example": {}}, "credsStore": "x"}"#;
        std::fs::write(&path, text).expect("written");
        let mut all = Credentials::default();
        all.add(&path).expect("read");
        all.add(&dir.path().join("none")).expect("nothing there");
        assert_eq!(all.of("docker.io").map(|login| login.password.as_str()), Some("secret"));
        assert_eq!(all.of("a.example:5000").map(|login| login.password.as_str()), Some("x:y"));
        assert_eq!(all.of("helped.example"), None);
        assert!(!format!("{all:?}").contains("secret"));
        std::fs::write(&path, r#"{"auths": {"a": {"auth": "!"}}}"#).expect("written");
        assert!(matches!(Credentials::default().add(&path), Err(CredentialsError::Form { .. })));
    }
}
