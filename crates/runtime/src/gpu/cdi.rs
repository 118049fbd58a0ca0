//! CDI: files in which a vendor's tool describes its devices for containers.
//!
//! Read are nodes, variables and mounts. Hooks are not run: they are programs of the node that
//! work on a tree somebody else made. Libraries are therefore shown where our own discovery puts
//! them, and found by the loader's cache besides. A file that cannot be read or understood is
//! left out, as if it were not there: our own discovery then does its work.

use super::{Access, Assigned, LIBRARY_DIRECTORY, PROGRAM_DIRECTORY, at, nvidia};
use crate::plan::Bind;
use serde::Deserialize;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

/// In the order of the specification: what the second says counts more.
const DIRECTORIES: [&str; 2] = ["/var/run/cdi", "/etc/cdi"];
const KIND: &str = "nvidia.com/gpu";
/// Longest file, and most files, that are read: there is one a vendor.
const FILE_LIMIT: u64 = 4 << 20;
const FILES_LIMIT: usize = 64;

#[derive(Debug, Deserialize)]
struct Spec {
    kind: String,
    #[serde(default)]
    devices: Vec<Device>,
    #[serde(default, rename = "containerEdits")]
    edits: Edits,
}

#[derive(Debug, Deserialize)]
struct Device {
    name: String,
    #[serde(default, rename = "containerEdits")]
    edits: Edits,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Edits {
    env: Vec<String>,
    device_nodes: Vec<Node>,
    mounts: Vec<Mount>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Node {
    path: PathBuf,
    host_path: Option<PathBuf>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Mount {
    host_path: PathBuf,
    container_path: PathBuf,
}

/// What a file says about these devices; `None` unless it knows all of them.
pub(super) fn find(node: &Path, assigned: &[&Assigned]) -> Option<Access> {
    for spec in specs(node) {
        let known: Option<Vec<&Device>> =
            assigned.iter().map(|device| device_of(&spec, device)).collect();
        if let Some(devices) = known {
            let mut access = Access::default();
            let edits = devices.iter().map(|device| &device.edits).chain([&spec.edits]);
            edits.for_each(|edits| add(node, edits, &mut access));
            return Some(access);
        }
    }
    None
}

fn specs(node: &Path) -> Vec<Spec> {
    let mut paths: Vec<PathBuf> = Vec::new();
    for directory in DIRECTORIES {
        let entries = fs::read_dir(at(node, directory)).into_iter().flatten();
        let mut found: Vec<PathBuf> =
            entries.filter_map(Result::ok).map(|entry| entry.path()).collect();
        found.sort();
        paths.extend(found);
    }
    paths.truncate(FILES_LIMIT);
    paths.iter().filter_map(|path| read(path)).filter(|spec| spec.kind == KIND).collect()
}

fn read(path: &Path) -> Option<Spec> {
    let mut text = String::new();
    File::open(path).ok()?.take(FILE_LIMIT).read_to_string(&mut text).ok()?;
    match path.extension()?.to_str()? {
        "json" => serde_json::from_str(&text).ok(),
        "yaml" | "yml" => serde_saphyr::from_str(&text).ok(),
        _ => None,
    }
}

/// By UUID only: numbers in such files count GPUs, and ours are those of nodes.
fn device_of<'a>(spec: &'a Spec, device: &Assigned) -> Option<&'a Device> {
    let (Assigned::Nvidia { uuid, .. } | Assigned::NvidiaSlice { uuid, .. }) = device else {
        return None;
    };
    spec.devices.iter().find(|known| known.name == *uuid)
}

fn add(node: &Path, edits: &Edits, access: &mut Access) {
    for device in &edits.device_nodes {
        let path = &device.path;
        // One that the node has under another name would need a node of our own making.
        let same = device.host_path.as_ref().is_none_or(|host| host == path);
        let is_new = !access.devices.contains(path);
        if same && is_new && path.starts_with("/dev") && at(node, path).exists() {
            access.devices.push(path.clone());
        }
    }
    access.env.extend(edits.env.iter().filter_map(|variable| {
        let (name, value) = variable.split_once('=')?;
        Some((name.to_owned(), value.to_owned()))
    }));
    for mount in &edits.mounts {
        if let Some(target) = target(mount).filter(|_| at(node, &mount.host_path).exists()) {
            access.binds.push(Bind::read_only(&mount.host_path, target));
        }
    }
}

/// Libraries and programs go to our own directories; what else programs ask for (firmware,
/// sockets) stays where they look for it.
fn target(mount: &Mount) -> Option<PathBuf> {
    let name = mount.container_path.file_name()?.to_str()?;
    if nvidia::is_wanted(name) {
        return Some(Path::new(LIBRARY_DIRECTORY).join(name));
    }
    if name.contains(".so") {
        return None;
    }
    let is_program = mount.container_path.starts_with("/usr/bin");
    let kept = || mount.container_path.clone();
    Some(if is_program { Path::new(PROGRAM_DIRECTORY).join(name) } else { kept() })
}

#[cfg(test)]
mod tests {
    use super::super::{access, nvidia::tests::node};
    use super::*;

    const SPEC: &str = "
cdiVersion: 0.5.0
kind: nvidia.com/gpu
devices:
- name: GPU-1
  containerEdits:
    deviceNodes:
    - path: /dev/nvidia1
- name: all
  containerEdits:
    deviceNodes:
    - path: /dev/nvidia0
    - path: /dev/nvidia1
containerEdits:
  env:
  - NVIDIA_CTK_LIBCUDA_DIR=/usr/lib
  deviceNodes:
  - path: /dev/nvidiactl
  - path: /dev/nvidia-modeset
  hooks:
  - hookName: createContainer
    path: /usr/bin/nvidia-cdi-hook
    args: [nvidia-cdi-hook, update-ldcache]
  mounts:
  - hostPath: /usr/lib/libcuda.so.550
    containerPath: /usr/lib/libcuda.so.550
    options: [ro, nosuid]
  - hostPath: /usr/bin/nvidia-smi
    containerPath: /usr/bin/nvidia-smi
";

    fn with_spec(spec: &str) -> tempfile::TempDir {
        let node = node();
        fs::create_dir_all(node.path().join("etc/cdi")).unwrap();
        fs::write(node.path().join("etc/cdi/nvidia.yaml"), spec).unwrap();
        node
    }

    fn gpu(minor: u32) -> Assigned {
        Assigned::Nvidia { minor, uuid: format!("GPU-{minor}") }
    }

    #[test]
    fn a_described_device_is_used_as_described() {
        let access = access(with_spec(SPEC).path(), &[gpu(1)]).unwrap();
        assert_eq!(access.devices, ["/dev/nvidia1", "/dev/nvidiactl"].map(PathBuf::from));
        assert_eq!(access.env, [("NVIDIA_CTK_LIBCUDA_DIR".into(), "/usr/lib".into())]);
        let targets: Vec<&Path> = access.binds.iter().map(|bind| bind.target.as_path()).collect();
        assert!(targets.contains(&Path::new("/.shipway/lib/libcuda.so.550")), "{targets:?}");
        assert!(targets.contains(&Path::new("/.shipway/lib/libcuda.so.1")), "{targets:?}");
        assert!(targets.iter().all(|target| target.starts_with("/.shipway")), "{targets:?}");
    }

    #[test]
    fn what_is_not_described_is_found_by_ourselves() {
        for spec in [SPEC, "kind: [", "kind: other.com/gpu\ndevices: [{name: GPU-2}]\n"] {
            let access = access(with_spec(spec).path(), &[gpu(2)]).unwrap();
            assert!(access.devices.contains(&"/dev/nvidia2".into()), "{access:?}");
            assert!(!access.devices.contains(&"/dev/nvidia1".into()), "{access:?}");
        }
    }
}
