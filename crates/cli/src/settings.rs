//! From the environment to settings: where the data lies, which server is meant, how to print.
//!
//! The environment is read once, here; commands are given the result.

use shipway_api::client::{Client, ClientError};
use shipway_api::local;
use shipway_model::Timestamp;
use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    #[error("no server is running in {}", .home.display())]
    NoLocalServer { home: PathBuf },
    #[error("cannot read {}, the file that leads to the server of this machine", .path.display())]
    LocalServer {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot tell where the data lies: neither SHIPWAY_HOME nor HOME is set")]
    NoHome,
    #[error("the value of {name} is not UTF-8")]
    NotText { name: &'static str },
    #[error("the value of SHIPWAY_TOKEN is not a token: it has spaces or control characters")]
    NotAToken,
}

/// Where the server is and how to be let in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    pub url: String,
    pub token: Option<String>,
    pub certificate: Option<PathBuf>,
    /// The token of its owner, of a server that was found by its home.
    pub of_home: Option<String>,
}

impl Server {
    /// Each client sends one request at a time; whoever needs two at once takes two.
    pub fn connect(&self) -> Result<Client, ClientError> {
        let client = Client::new(&self.url, self.token.clone(), self.certificate.clone())?;
        Ok(match &self.of_home {
            Some(token) => client.of_home(token.clone()),
            None => client,
        })
    }
}

/// A place to look variables up: the environment, or a test's table.
pub type Lookup<'a> = &'a dyn Fn(&'static str) -> Option<OsString>;

pub fn home(lookup: Lookup<'_>) -> Result<PathBuf, SettingsError> {
    if let Some(home) = set(lookup, "SHIPWAY_HOME") {
        return Ok(home.into());
    }
    let home = set(lookup, "HOME").ok_or(SettingsError::NoHome)?;
    Ok(Path::new(&home).join(".local/share/shipway"))
}

/// `SHIPWAY_URL` when it is set, the server of this machine otherwise. A token of one's own
/// works for both: that is how to act as somebody else on one's own machine.
pub fn server(lookup: Lookup<'_>) -> Result<Server, SettingsError> {
    let token = text(lookup, "SHIPWAY_TOKEN")?.map(|token| token.trim().to_string());
    // It travels in a header, which holds no line breaks.
    if token.as_ref().is_some_and(|token| !token.bytes().all(|byte| byte.is_ascii_graphic())) {
        return Err(SettingsError::NotAToken);
    }
    let certificate = set(lookup, "SHIPWAY_CA").map(PathBuf::from);
    if let Some(url) = text(lookup, "SHIPWAY_URL")? {
        return Ok(Server { url, token, certificate, of_home: None });
    }
    let home = home(lookup)?;
    let found = local::read(&home).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => SettingsError::NoLocalServer { home: home.clone() },
        _ => SettingsError::LocalServer { path: local::path(&home), source },
    })?;
    Ok(Server {
        url: found.url,
        token: token.or_else(|| Some(found.token.clone())),
        of_home: Some(found.token),
        certificate: certificate.or(found.certificate),
    })
}

/// An empty variable counts as one that is not set, as elsewhere in Unix.
fn set(lookup: Lookup<'_>, name: &'static str) -> Option<OsString> {
    lookup(name).filter(|value| !value.is_empty())
}

fn text(lookup: Lookup<'_>, name: &'static str) -> Result<Option<String>, SettingsError> {
    let read = |value: OsString| value.into_string().map_err(|_| SettingsError::NotText { name });
    set(lookup, name).map(read).transpose()
}

pub fn environment(name: &'static str) -> Option<OsString> {
    std::env::var_os(name)
}

/// How to print: for a program or a person, and with which colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Output {
    pub json: bool,
    /// Colours on standard output; text without them is complete.
    pub colour: bool,
}

impl Output {
    pub fn resolve(json: bool, lookup: Lookup<'_>) -> Self {
        let wanted = set(lookup, "NO_COLOR").is_none();
        Output { json, colour: wanted && !json && io::stdout().is_terminal() }
    }
}

/// The one clock of the command line; views are told the time.
pub fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lookup(
        table: &'static [(&'static str, &'static str)],
    ) -> impl Fn(&'static str) -> Option<OsString> {
        move |name| table.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into())
    }

    #[test]
    fn the_home_is_the_variable_or_below_home() {
        for (table, expected) in [
            (&[("SHIPWAY_HOME", "/data"), ("HOME", "/home/ada")][..], Some("/data")),
            (&[("HOME", "/home/ada")], Some("/home/ada/.local/share/shipway")),
            (
                &[("SHIPWAY_HOME", ""), ("HOME", "/home/ada")],
                Some("/home/ada/.local/share/shipway"),
            ),
            (&[], None),
        ] {
            assert_eq!(home(&lookup(table)).ok(), expected.map(PathBuf::from), "{table:?}");
        }
    }

    #[test]
    fn a_url_needs_no_local_server() {
        let table = &[("SHIPWAY_URL", "https://head:1"), ("SHIPWAY_TOKEN", "t\n")];
        let found = server(&lookup(table)).expect("settings");
        let (url, token) = ("https://head:1".into(), Some("t".into()));
        let expected = Server { url, token, certificate: None, of_home: None };
        assert_eq!(found, expected);
    }

    #[test]
    fn the_local_server_is_found_by_its_file_and_ones_own_token_goes_first() {
        let dir = tempfile::tempdir().expect("directory");
        let home = dir.path().to_path_buf();
        let with = |token: Option<&'static str>| {
            let home = home.clone();
            server(&move |name| match name {
                "SHIPWAY_HOME" => Some(home.clone().into()),
                "SHIPWAY_TOKEN" => token.map(Into::into),
                _ => None,
            })
        };
        assert!(matches!(with(None), Err(SettingsError::NoLocalServer { .. })));
        std::fs::write(local::path(&home), "not json").expect("written");
        assert!(matches!(with(None), Err(SettingsError::LocalServer { .. })));
        let file = r#"{"url":"http://127.0.0.1:1","token":"owner","pid":1}"#;
        std::fs::write(local::path(&home), file).expect("written");
        assert_eq!(with(None).expect("found").token.as_deref(), Some("owner"));
        assert_eq!(with(Some("ada")).expect("found").token.as_deref(), Some("ada"));
    }
}
