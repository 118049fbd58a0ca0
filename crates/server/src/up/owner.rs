//! Whoever started this server: the name, from the system's list of users, and the token.

use crate::secrets;
use shipway_api::local;
use shipway_model::UserName;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// The account's name, or `owner` when the account has none we can use.
#[expect(clippy::expect_used, reason = "it is a word of ours that is taken then")]
pub(super) fn name() -> UserName {
    let uid = rustix::process::getuid().as_raw().to_string();
    let accounts = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let named = accounts.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == uid).then(|| name.to_string())
    });
    let name = named.and_then(|name| UserName::new(&name).ok());
    name.unwrap_or_else(|| UserName::new("owner").expect("a good name"))
}

/// A new token; but after a crash the one that was good until then, so that commands that stayed
/// with their jobs are still let in.
pub(super) fn secret(home: &Path) -> String {
    let meta = std::fs::metadata(local::path(home));
    let is_private = meta.is_ok_and(|meta| meta.permissions().mode() & 0o777 == 0o600);
    let left = local::read(home).ok().filter(|_| is_private).map(|left| left.token);
    let fresh = secrets::new_secret("shw_");
    // One that was written by hand could be guessed.
    left.filter(|token| token.len() == fresh.len()).unwrap_or(fresh)
}
