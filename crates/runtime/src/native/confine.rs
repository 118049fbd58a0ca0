//! Takes from this process, and so from the task it starts, everything it does not need.

use super::error::{Doing, SetupError};
use super::seccomp;
use super::sys::leave_sockets_without_files;
use rustix::io::Errno;
use rustix::thread::{
    CapabilitySet, CapabilitySets, remove_capability_from_bounding_set, set_capabilities,
};

/// One more than the highest number a capability can have in the kernel's sets.
const CAPABILITIES: u32 = 64;

/// What is given up here no program that is started gets back. Only 0 can do it.
pub(super) fn empty_bounding_set() -> Result<(), SetupError> {
    for number in 0..CAPABILITIES {
        match remove_capability_from_bounding_set(CapabilitySet::from_bits_retain(1 << number)) {
            Ok(()) => {}
            // Beyond the last one this kernel has.
            Err(Errno::INVAL) => break,
            Err(errno) => return Err(errno).doing("give up", "a capability"),
        }
    }
    Ok(())
}

/// All the rest, once the bounding set is empty.
pub(super) fn confine() -> Result<(), SetupError> {
    let none = CapabilitySet::empty();
    let none = CapabilitySets { effective: none, permitted: none, inheritable: none };
    set_capabilities(None, none).doing("give up", "all capabilities")?;
    // Also sets `no_new_privs`: without it the kernel takes no filter from an ordinary user.
    seccompiler::apply_filter(&seccomp::program()).map_err(|error| SetupError::Act {
        act: "install the filter on system calls",
        source: std::io::Error::other(error),
    })
}

/// A guest has the user of the server, to whom services answer by their name alone, files or not:
/// an X server, an old session bus. Once `no_new_privs` is set; where the kernel can.
pub(super) fn leave_others_sockets() -> Result<(), SetupError> {
    leave_sockets_without_files().map(drop).doing("leave", "sockets without files")
}
