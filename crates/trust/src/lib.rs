//! Which certificates this machine trusts, wherever its distribution keeps them. For all who open
//! encrypted connections; what they do with them is theirs.
//!
//! `SSL_CERT_FILE` and `SSL_CERT_DIR` are taken as OpenSSL takes them, in place of all else.
#![warn(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unreachable,
    clippy::unwrap_used
)]

use rustls::pki_types::CertificateDer;
use rustls_native_certs::load_certs_from_paths;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

const CERT_FILE: &str = "SSL_CERT_FILE";
const CERT_DIR: &str = "SSL_CERT_DIR";

/// One file with all of them; whoever manages certificates keeps one of these up to date.
const FILES: [&str; 6] = [
    "etc/ssl/certs/ca-certificates.crt", // Debian, Ubuntu, Arch, Gentoo, NixOS
    "etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", // Fedora, RHEL, Alma, Rocky
    "etc/pki/tls/certs/ca-bundle.crt",   // older RHEL
    "etc/ssl/ca-bundle.pem",             // SUSE
    "etc/ssl/cert.pem",                  // Alpine
    "etc/pki/tls/cacert.pem",
];
/// A file for each. Looked at last: there are hundreds.
const DIRS: [&str; 2] = ["etc/ssl/certs", "etc/pki/tls/certs"];

/// Nothing is trusted, so nobody could be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("found no certificates to trust {0}")]
pub struct NoCertificates(Looked);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Looked {
    /// What the environment named, and what was wrong with it.
    Named(Vec<PathBuf>, Option<String>),
    Usual(PathBuf),
}

impl fmt::Display for Looked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |paths: &mut dyn Iterator<Item = PathBuf>| {
            paths.map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
        };
        match self {
            Looked::Named(paths, why) => {
                write!(f, "in {}", list(&mut paths.iter().cloned()))?;
                if let Some(why) = why {
                    write!(f, ": {why}")?;
                }
                write!(f, "; {CERT_FILE} and {CERT_DIR} name what is looked at alone")
            }
            Looked::Usual(root) => {
                let mut usual = FILES.iter().chain(&DIRS).map(|path| root.join(path));
                write!(
                    f,
                    "in {}; install the package ca-certificates, or name a file with {CERT_FILE}",
                    list(&mut usual),
                )
            }
        }
    }
}

/// Those that connections to others are checked against. At least one.
pub fn certificates() -> Result<Vec<CertificateDer<'static>>, NoCertificates> {
    certificates_of(std::env::var_os, Path::new("/"))
}

fn certificates_of(
    lookup: impl Fn(&'static str) -> Option<OsString>,
    root: &Path,
) -> Result<Vec<CertificateDer<'static>>, NoCertificates> {
    let set = |name| lookup(name).filter(|value| !value.is_empty());
    let (file, dirs) = (set(CERT_FILE), set(CERT_DIR));
    if file.is_some() || dirs.is_some() {
        return named(file.map(PathBuf::from), &dirs.unwrap_or_default());
    }
    let from_file = |path: &str| load_certs_from_paths(Some(&root.join(path)), None).certs;
    let from_dir = |path: &str| load_certs_from_paths(None, Some(&root.join(path))).certs;
    let mut places = FILES.iter().map(|path| from_file(path));
    let found = places.find(|found| !found.is_empty());
    let found = found.or_else(|| DIRS.iter().map(|path| from_dir(path)).find(|it| !it.is_empty()));
    found.ok_or_else(|| NoCertificates(Looked::Usual(root.to_owned())))
}

fn named(
    file: Option<PathBuf>,
    dirs: &OsString,
) -> Result<Vec<CertificateDer<'static>>, NoCertificates> {
    let dirs = std::env::split_paths(dirs).filter(|dir| !dir.as_os_str().is_empty());
    let dirs: Vec<PathBuf> = dirs.collect();
    let mut found = load_certs_from_paths(file.as_deref(), None);
    for dir in &dirs {
        let more = load_certs_from_paths(None, Some(dir));
        found.certs.extend(more.certs);
        found.errors.extend(more.errors);
    }
    if found.certs.is_empty() {
        let why = found.errors.first().map(ToString::to_string);
        return Err(NoCertificates(Looked::Named(file.into_iter().chain(dirs).collect(), why)));
    }
    Ok(found.certs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// What is inside is nobody's business here: that is judged where it is used.
    fn pem(letter: char) -> String {
        let body = letter.to_string().repeat(64);
        format!("-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----\n")
    }

    fn write(root: &Path, place: &str, text: &str) -> PathBuf {
        let path = root.join(place);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(&path, text).expect("written");
        path
    }

    fn count(root: &Path, set: &[(&str, &Path)]) -> Result<usize, String> {
        let lookup = |name| {
            let found = set.iter().find(|(known, _)| *known == name);
            found.map(|(_, path)| path.as_os_str().to_owned())
        };
        let found = certificates_of(lookup, root).map_err(|error| error.to_string());
        found.map(|found| found.len())
    }

    #[test]
    fn they_are_found_wherever_a_distribution_keeps_them() {
        for place in
            FILES.iter().map(ToString::to_string).chain(DIRS.map(|dir| dir.to_owned() + "/a.pem"))
        {
            let root = tempfile::tempdir().expect("directory");
            write(root.path(), &place, &(pem('A') + &pem('B')));
            assert_eq!(count(root.path(), &[]), Ok(2), "{place}");
        }
    }

    #[test]
    fn an_empty_list_is_passed_over() {
        let root = tempfile::tempdir().expect("directory");
        write(root.path(), FILES[0], "");
        write(root.path(), FILES[3], &pem('A'));
        assert_eq!(count(root.path(), &[]), Ok(1));
    }

    #[test]
    fn what_the_environment_names_is_taken_alone() {
        let root = tempfile::tempdir().expect("directory");
        write(root.path(), FILES[0], &(pem('A') + &pem('B')));
        let own = write(root.path(), "own/one.pem", &pem('C'));
        assert_eq!(count(root.path(), &[(CERT_FILE, &own)]), Ok(1));
        assert_eq!(count(root.path(), &[(CERT_DIR, own.parent().expect("a folder"))]), Ok(1));
        assert_eq!(count(root.path(), &[(CERT_FILE, Path::new(""))]), Ok(2), "empty is not set");
    }

    #[test]
    fn none_is_an_error_that_says_where_and_what_to_do() {
        let root = tempfile::tempdir().expect("directory");
        let error = count(root.path(), &[]).expect_err("nothing there");
        for part in FILES.iter().chain(&DIRS).chain(&["install the package", CERT_FILE]) {
            assert!(error.contains(part), "{part}: {error}");
        }
        write(root.path(), FILES[0], &pem('A'));
        let nowhere = root.path().join("nowhere.pem");
        let error = count(root.path(), &[(CERT_FILE, &nowhere)]).expect_err("the named one");
        assert!(error.contains("nowhere.pem") && error.contains(CERT_FILE), "{error}");
    }
}
