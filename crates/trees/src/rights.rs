//! Acting with somebody else's rights and no more, on one thread, for root.
//!
//! Only the thread that asks is changed, and only for as long as it holds what it has borrowed.

use rustix::process::{Gid, Uid, getegid, getgroups};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use std::io;

/// This thread has somebody else's rights; its own are given back when this is dropped.
#[derive(Debug)]
pub struct Borrowed {
    groups: Vec<Gid>,
    gid: Gid,
}

impl Borrowed {
    /// For root only. Where it fails, this thread has its own rights still.
    pub fn take(uid: u32, gid: u32, groups: &[u32]) -> io::Result<Self> {
        let own = Borrowed { groups: getgroups()?, gid: getegid() };
        let groups: Vec<Gid> = groups.iter().copied().map(Gid::from_raw).collect();
        let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
        set_thread_groups(&groups)?;
        // Real and saved ids stay: nobody else can then send this process signals or look into
        // it, and it can come back.
        set_thread_res_gid(own.gid, gid, own.gid)?;
        set_thread_res_uid(Uid::ROOT, uid, Uid::ROOT)?;
        Ok(own)
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        let root = set_thread_res_uid(Uid::ROOT, Uid::ROOT, Uid::ROOT);
        let back = root
            .and_then(|()| set_thread_res_gid(self.gid, self.gid, self.gid))
            .and_then(|()| set_thread_groups(&self.groups));
        // A thread that stays somebody else would do the rest of its work as that account.
        if back.is_err() {
            std::process::abort();
        }
    }
}
