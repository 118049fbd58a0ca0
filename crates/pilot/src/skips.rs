//! Tests that this machine cannot run say so. On the build machine that is an error, since a test
//! that nobody runs would look like one that passed.

pub(crate) fn cannot(what: &str) {
    assert!(std::env::var_os("CI").is_none(), "this must run in CI: {what}");
    println!("skipped: {what}");
}

/// Whether files can be given to other accounts.
pub(crate) fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        cannot("only root can give files to others");
    }
    is_root
}
