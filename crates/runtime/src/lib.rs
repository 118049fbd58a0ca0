//! Runs a task's command in a container: unprivileged, in milliseconds, with only its own devices.
//!
//! ```text
//! plan       what a container is, as data         runtime   what to start for it; checks; its end
//! report     the letter between caller and helper  native    our own way of doing it
//! gpu        which nodes and libraries devices need  crun, apptainer  the others
//! cgroup     limits where a node delegates them     binds     what a site lets people bind
//! subids     ids by which people are kept apart without root
//! rights     acting for an account with its rights    mount_table  the kernel's
//! ```
//!
//! How a pilot uses it:
//!
//! 1. Once: `Native::new(Helper::this_program([…, native::COMMAND]))`. The program's `main` calls
//!    [`native::main`] first thing when its first argument is [`native::COMMAND`].
//! 2. For a task: fill a [`Container`] in, and ask [`Runtime::launch`]. The [`Launch`] that comes
//!    back names program, arguments, environment and standard input of one process. It is started
//!    like any other: `posix_spawn`, a group of its own, a pidfd. Variables by which the pilot
//!    finds its processes again go into the environment of both, container and launch.
//! 3. A signal to the group reaches the task. KILL to the process, or to the group, ends
//!    everything inside.
//! 4. When the process is dead, [`After::ending`] says how the task ended, or why there was none:
//!    a program that does not exist is told apart from one that exits with 127.
//!
//! Nothing here decides what runs, waits for anything, or keeps anything.
//!
//! [`Launch`]: runtime::Launch
//! [`After::ending`]: runtime::After::ending

pub mod again;
pub mod apptainer;
pub mod binds;
pub(crate) mod bundle;
pub mod cgroup;
pub mod crowd;
pub mod crun;
pub(crate) mod foreign;
pub mod gpu;
pub mod meter;
pub mod mount_table;
pub mod native;
pub mod plan;
pub mod reach;
pub mod report;
pub mod rights;
pub mod runtime;
pub mod share;
pub mod subids;
pub(crate) mod variables;

pub use plan::Container;
pub use runtime::{Runtime, is_program};
