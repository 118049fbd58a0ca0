//! The name of whoever started this server, from the system's list of users.

use shipway_model::UserName;

/// The account's name, or `owner` when the account has none we can use.
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
