//! Acting for an account with its rights and no more, on one thread.
//!
//! Root reads what an account may not. So whatever root looks at because an account named it is
//! looked at like this: what the account could not have seen is then not there for us either.
//! Only the thread that asks is changed, and only for as long as it takes.

use crate::plan::User;
use rustix::process::geteuid;
use shipway_trees::Borrowed;
use std::io;

/// Does something with the rights of an account. Without one, or where this process is not root,
/// it is done with its own.
pub fn with_rights_of<T>(user: Option<&User>, act: impl FnOnce() -> T) -> io::Result<T> {
    let other = |user: &&User| user.uid != 0 && geteuid().is_root();
    let Some(user) = user.filter(other) else { return Ok(act()) };
    let _own_again = Borrowed::take(user.uid, user.gid, &user.groups)?;
    Ok(act())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    /// Whether others can be acted for. Where not is said; on the build machine it is an error.
    pub(crate) fn is_root() -> bool {
        let is_root = geteuid().is_root();
        assert!(is_root || std::env::var_os("CI").is_none(), "this must run as root in CI");
        if !is_root {
            println!("skipped: only root can act for others");
        }
        is_root
    }

    #[test]
    fn what_the_account_may_not_see_is_not_seen_and_rights_come_back() {
        if !is_root() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
        let nobody = User { uid: 65_534, gid: 65_534, groups: Vec::new() };
        let list = || std::fs::read_dir(dir.path()).map(drop).map_err(|error| error.kind());
        assert_eq!(with_rights_of(None, list).unwrap(), Ok(()));
        let refused = Err(io::ErrorKind::PermissionDenied);
        assert_eq!(with_rights_of(Some(&nobody), list).unwrap(), refused);
        assert_eq!(list(), Ok(()), "and its own again");
        let panicked =
            std::panic::catch_unwind(|| with_rights_of(Some(&nobody), || panic!("in between")));
        assert!(panicked.is_err() && list() == Ok(()), "whatever happened meanwhile");
    }
}
