//! Is our own way usable on this node? The only proof is a container that ran.

use super::Native;
use crate::plan::{Container, Root};
use crate::report::Ending;
use crate::runtime::{Finding, Runtime};
use std::fs::read_to_string;
use std::path::Path;
use std::process::Stdio;

/// Switches by which nodes refuse user namespaces to ordinary users: file, the value that
/// refuses, and the line that allows.
const SWITCHES: [(&str, &str, &str); 3] = [
    ("user/max_user_namespaces", "0", "sysctl user.max_user_namespaces=16384"),
    ("kernel/unprivileged_userns_clone", "0", "sysctl kernel.unprivileged_userns_clone=1"),
    (
        "kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "sysctl kernel.apparmor_restrict_unprivileged_userns=0, or a profile for shipway",
    ),
];

const WHAT: &str = "native containers";

pub(super) fn check(native: &Native) -> Vec<Finding> {
    let wanted = "a container on the node's own tree runs /bin/true";
    let found = match try_one(native) {
        Ok(()) => return vec![Finding::good(WHAT, "a container started")],
        Err(found) => found,
    };
    vec![Finding::bad(WHAT, found, wanted, fix(Path::new("/proc/sys")))]
}

fn try_one(native: &Native) -> Result<(), String> {
    let mut container = Container::new(Root::Host, vec!["true".into()]);
    if rustix::process::geteuid().is_root() {
        // Any account that is not root shows it.
        let nobody = 65534;
        container.user = Some(crate::plan::User { uid: nobody, gid: nobody, groups: Vec::new() });
    }
    let launch = native.launch(&container, None).map_err(|error| error.to_string())?;
    let (mut command, after) = launch.into_command();
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let status = command.status().map_err(|error| error.to_string())?;
    match after.ending(status) {
        Ending::Exit(0) => Ok(()),
        Ending::NotStarted(told) => Err(told.message),
        other => Err(format!("it ended with {other:?}")),
    }
}

fn fix(sysctl: &Path) -> String {
    let refusing = SWITCHES.iter().find(|(file, refuses, _)| {
        read_to_string(sysctl.join(file)).is_ok_and(|value| value.trim() == *refuses)
    });
    match refusing {
        Some((_, _, allows)) => format!("as root: {allows}"),
        None => "a kernel from 5.12 on with user namespaces; in a chroot the kernel refuses them; \
                 or another runtime: crun, apptainer"
            .into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_switch_that_refuses_is_named() {
        let sysctl = tempfile::tempdir().unwrap();
        assert!(fix(sysctl.path()).contains("5.12"));
        std::fs::create_dir(sysctl.path().join("kernel")).unwrap();
        std::fs::write(sysctl.path().join("kernel/unprivileged_userns_clone"), "0\n").unwrap();
        assert!(fix(sysctl.path()).contains("unprivileged_userns_clone=1"));
    }
}
