//! Whose a folder is, and with whose rights it is gone through.
//!
//! Root may remove everything, so it must not remove for others what they could not: somebody may
//! have moved into their folder what is not theirs. What is in a folder of somebody else's is
//! therefore removed with the rights of its owner, by user and group. These are enough for all
//! that the owner has made there; further groups would only reach what others share with them.

use crate::rights::Borrowed;
use rustix::fs::Stat;
use rustix::io::Errno;

/// Somebody who is not root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Owner {
    uid: u32,
    gid: u32,
}

impl Owner {
    /// `None` where it is root's.
    pub(crate) const fn of(found: &Stat) -> Option<Self> {
        if found.st_uid == 0 {
            return None;
        }
        Some(Self { uid: found.st_uid, gid: found.st_gid })
    }
}

/// Whose rights this thread has at the moment; its own again when this is dropped.
#[derive(Debug, Default)]
pub(crate) struct Acting(Option<(Owner, Borrowed)>);

impl Acting {
    /// From now on with those of this owner, or with our own.
    pub(crate) fn by(&mut self, owner: Option<Owner>) -> Result<(), Errno> {
        if self.0.as_ref().map(|(owner, _)| *owner) == owner {
            return Ok(());
        }
        // Our own first: only root can become somebody else.
        self.0 = None;
        if let Some(owner) = owner {
            let taken = Borrowed::take(owner.uid, owner.gid, &[]);
            let taken = taken.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::PERM));
            self.0 = Some((owner, taken?));
        }
        Ok(())
    }
}
