//! What a container needs to use the GPUs it was given, and only those.
//!
//! Pure but for reading: from a node's tree (the real one, or a made one in tests) and the devices
//! that were assigned, to nodes, binds and variables. Nothing is run: hooks that a CDI file names
//! are what containers were left by before.

mod amd;
mod cdi;
mod ld_cache;
mod nvidia;

use crate::plan::{Bind, Container, Root};
use std::io;
use std::path::{Path, PathBuf};

/// Where a driver's libraries and programs are shown inside.
pub const LIBRARY_DIRECTORY: &str = "/.shipway/lib";
pub const PROGRAM_DIRECTORY: &str = "/.shipway/bin";

/// One device of this node that a task was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Assigned {
    /// The number is that of the node in `/dev`.
    Nvidia { minor: u32, uuid: String },
    /// A slice: the GPU it is part of, and its two instances.
    NvidiaSlice { minor: u32, gpu_instance: u32, compute_instance: u32, uuid: String },
    /// The number is that of `/dev/dri/renderD…`.
    Amd { render: u32 },
}

/// What to add to a container.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Access {
    pub devices: Vec<PathBuf>,
    pub binds: Vec<Bind>,
    pub env: Vec<(String, String)>,
}

#[derive(Debug, thiserror::Error)]
pub enum GpuError {
    #[error("cannot use the GPU: {} does not exist", path.display())]
    NoNode { path: PathBuf },
    #[error("cannot use the slice: {} has no line `{line}`", path.display())]
    NoSlice { path: PathBuf, line: String },
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot find the driver's libraries: {} is not a cache of the loader", path.display())]
    Cache { path: PathBuf },
    #[error("cannot find the driver's library {name} in {}", path.display())]
    NoLibrary { name: &'static str, path: PathBuf },
}

impl GpuError {
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NoNode { path } if path.ends_with("nvidia-uvm") => {
                Some("`nvidia-modprobe -u -c 0` as root makes it")
            }
            Self::NoNode { .. } => Some("is the driver loaded? `nvidia-smi` on the node tells"),
            _ => None,
        }
    }
}

/// Which access these devices need. `node` is the root of the node's own tree.
pub fn access(node: &Path, assigned: &[Assigned]) -> Result<Access, GpuError> {
    let mut access = Access::default();
    let is_nvidia = |device: &&Assigned| !matches!(device, Assigned::Amd { .. });
    let nvidia: Vec<&Assigned> = assigned.iter().filter(is_nvidia).collect();
    if !nvidia.is_empty() {
        match cdi::find(node, &nvidia) {
            Some(described) => access = described,
            None => nvidia::nodes(node, &nvidia, &mut access)?,
        }
        nvidia::libraries(node, &mut access)?;
    }
    amd::nodes(node, assigned, &mut access)?;
    access.devices.dedup();
    Ok(access)
}

impl Access {
    /// On the node's own tree libraries and programs are there already.
    pub fn add_to(self, container: &mut Container) {
        container.devices.extend(self.devices);
        container.env.extend(self.env);
        if container.root == Root::Host || self.binds.is_empty() {
            return;
        }
        container.binds.extend(self.binds);
        // Behind what the image has itself: it may bring a newer, compatible driver library.
        append(container, "LD_LIBRARY_PATH", LIBRARY_DIRECTORY, "");
        append(container, "PATH", PROGRAM_DIRECTORY, "/usr/local/bin:/usr/bin:/bin");
    }
}

fn append(container: &mut Container, name: &str, entry: &str, default: &str) {
    let found = container.env.iter_mut().rev().find(|(variable, _)| variable == name);
    let before = found.as_ref().map_or(default, |(_, value)| value);
    let value = if before.is_empty() { entry.to_owned() } else { format!("{before}:{entry}") };
    match found {
        Some((_, old)) => *old = value,
        None => container.env.push((name.to_owned(), value)),
    }
}

/// A path of the node, in whichever tree stands for it.
fn at(node: &Path, path: impl AsRef<Path>) -> PathBuf {
    let path = path.as_ref();
    node.join(path.strip_prefix("/").unwrap_or(path))
}

/// A device node that must be there.
fn require(node: &Path, path: &Path) -> Result<PathBuf, GpuError> {
    if at(node, path).exists() {
        Ok(path.to_owned())
    } else {
        Err(GpuError::NoNode { path: path.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_appended_to() {
        let mut container = Container::new(Root::Tree("/x".into()), vec!["true".into()]);
        container.env.push(("LD_LIBRARY_PATH".into(), "/opt/lib".into()));
        let binds = vec![Bind::read_only("/a", "/.shipway/lib/a")];
        Access { binds, ..Access::default() }.add_to(&mut container);
        let value = |name: &str| container.env.iter().find(|(it, _)| it == name).unwrap().1.clone();
        assert_eq!(value("LD_LIBRARY_PATH"), "/opt/lib:/.shipway/lib");
        assert_eq!(value("PATH"), "/usr/local/bin:/usr/bin:/bin:/.shipway/bin");
    }

    #[test]
    fn the_nodes_own_tree_has_its_libraries() {
        let mut container = Container::new(Root::Host, vec!["true".into()]);
        let binds = vec![Bind::read_only("/a", "/.shipway/lib/a")];
        let devices = vec!["/dev/nvidia0".into()];
        Access { binds, devices, env: Vec::new() }.add_to(&mut container);
        assert_eq!((container.binds.len(), container.devices.len()), (0, 1));
        assert!(container.env.is_empty());
    }
}
