//! NVIDIA without CDI: nodes by their numbers, slices by their capabilities, libraries by the
//! cache of the loader.

use super::ld_cache::{self, CACHE_LIMIT};
use super::{Access, Assigned, GpuError, LIBRARY_DIRECTORY, PROGRAM_DIRECTORY, at, require};
use crate::plan::Bind;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Nodes that belong to the driver, not to a GPU. The first two every program needs.
const CONTROL: &str = "/dev/nvidiactl";
const MEMORY: &str = "/dev/nvidia-uvm";
const TOOLS: &str = "/dev/nvidia-uvm-tools";

/// Which numbers the capabilities of slices have.
const SLICES: &str = "/proc/driver/nvidia-caps/mig-minors";
const TEXT_LIMIT: u64 = 1 << 20;

const CACHE: &str = "/etc/ld.so.cache";

/// What programs load of the driver, without `.so` and version. Computing, video and ray tracing;
/// no windows and no display.
const LIBRARIES: [&str; 19] = [
    "libcuda",
    "libcudadebugger",
    "libnvcuvid",
    "libnvidia-allocator",
    "libnvidia-cfg",
    "libnvidia-compiler",
    "libnvidia-encode",
    "libnvidia-fatbinaryloader",
    "libnvidia-gpucomp",
    "libnvidia-ml",
    "libnvidia-nvvm",
    "libnvidia-opencl",
    "libnvidia-opticalflow",
    "libnvidia-pkcs11",
    "libnvidia-pkcs11-openssl3",
    "libnvidia-ptxjitcompiler",
    "libnvidia-rtcore",
    "libnvidia-sandboxutils",
    "libnvoptix",
];

/// Without this one nothing works.
const ESSENTIAL: &str = "libcuda";

const PROGRAMS: [&str; 2] = ["nvidia-smi", "nvidia-debugdump"];

pub(super) fn nodes(
    node: &Path,
    assigned: &[&Assigned],
    access: &mut Access,
) -> Result<(), GpuError> {
    for path in [CONTROL, MEMORY] {
        access.devices.push(require(node, Path::new(path))?);
    }
    access.devices.extend(require(node, Path::new(TOOLS)));
    for device in assigned {
        match device {
            Assigned::Nvidia { minor, .. } => add(node, &gpu(*minor), access)?,
            Assigned::NvidiaSlice { minor, gpu_instance, compute_instance, .. } => {
                add(node, &gpu(*minor), access)?;
                let instance = format!("gpu{minor}/gi{gpu_instance}");
                for line in [
                    format!("{instance}/access"),
                    format!("{instance}/ci{compute_instance}/access"),
                ] {
                    add(node, &capability(node, line)?, access)?;
                }
            }
            Assigned::Amd { .. } => {}
        }
    }
    Ok(())
}

fn gpu(minor: u32) -> PathBuf {
    format!("/dev/nvidia{minor}").into()
}

/// Two slices of one GPU share its node.
fn add(node: &Path, path: &Path, access: &mut Access) -> Result<(), GpuError> {
    let path = require(node, path)?;
    if !access.devices.contains(&path) {
        access.devices.push(path);
    }
    Ok(())
}

/// The node of a capability, from lines like `gpu0/gi1/access 12`.
fn capability(node: &Path, line: String) -> Result<PathBuf, GpuError> {
    let path = PathBuf::from(SLICES);
    let text = read(node, &path, TEXT_LIMIT)?;
    let text = String::from_utf8_lossy(&text);
    let number = text.lines().find_map(|found| {
        let (name, number) = found.split_once(' ')?;
        (name == line).then(|| number.trim().parse::<u32>().ok())?
    });
    let number = number.ok_or(GpuError::NoSlice { path, line })?;
    Ok(format!("/dev/nvidia-caps/nvidia-cap{number}").into())
}

/// The driver's libraries, under the names by which programs load them, and its programs.
pub(super) fn libraries(node: &Path, access: &mut Access) -> Result<(), GpuError> {
    let path = PathBuf::from(CACHE);
    let bytes = read(node, &path, CACHE_LIMIT)?;
    let libraries = ld_cache::parse(&bytes).ok_or(GpuError::Cache { path: path.clone() })?;
    for (name, source) in libraries {
        let target = Path::new(LIBRARY_DIRECTORY).join(name);
        // The first of a name is the one the loader takes.
        let is_new = access.binds.iter().all(|bind| bind.target != target);
        if is_wanted(name) && is_new && at(node, source).exists() {
            access.binds.push(Bind::read_only(source, target));
        }
    }
    let is_essential = |bind: &Bind| stem(&bind.target) == Some(ESSENTIAL);
    if !access.binds.iter().any(is_essential) {
        return Err(GpuError::NoLibrary { name: ESSENTIAL, path });
    }
    for name in PROGRAMS {
        let source = Path::new("/usr/bin").join(name);
        if at(node, &source).exists() {
            access.binds.push(Bind::read_only(source, Path::new(PROGRAM_DIRECTORY).join(name)));
        }
    }
    Ok(())
}

pub(super) fn is_wanted(name: &str) -> bool {
    let is_name = !name.contains('/');
    is_name && stem(Path::new(name)).is_some_and(|stem| LIBRARIES.contains(&stem))
}

fn stem(path: &Path) -> Option<&str> {
    path.file_name()?.to_str()?.split_once(".so").map(|(stem, _)| stem)
}

fn read(node: &Path, path: &Path, limit: u64) -> Result<Vec<u8>, GpuError> {
    let failed = |source| GpuError::Read { path: path.to_owned(), source };
    let mut bytes = Vec::new();
    let file = File::open(at(node, path)).map_err(failed)?;
    file.take(limit).read_to_end(&mut bytes).map_err(failed)?;
    Ok(bytes)
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::access;
    use super::super::ld_cache::tests::cache;
    use super::*;
    use std::fs;

    /// A node with three GPUs, the first of them in slices.
    pub(in crate::gpu) fn node() -> tempfile::TempDir {
        let node = tempfile::tempdir().unwrap();
        let put = |path: &str, content: &[u8]| {
            let path = at(node.path(), path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        };
        for name in ["nvidiactl", "nvidia-uvm", "nvidia0", "nvidia1", "nvidia2"] {
            put(&format!("/dev/{name}"), b"");
        }
        for number in [1, 2, 12, 13, 21, 22] {
            put(&format!("/dev/nvidia-caps/nvidia-cap{number}"), b"");
        }
        put(
            SLICES,
            b"config 1\nmonitor 2\ngpu0/gi1/access 12\ngpu0/gi1/ci0/access 13\n\
              gpu0/gi2/access 21\ngpu0/gi2/ci0/access 22\n",
        );
        put("/usr/lib/libcuda.so.550", b"");
        put("/usr/lib/libcuda32.so", b"");
        put("/usr/bin/nvidia-smi", b"");
        let libraries = [
            ("libcuda.so.1", "/usr/lib/libcuda.so.550"),
            ("libcuda.so.1", "/usr/lib/libcuda32.so"),
            ("libcudart.so.12", "/usr/lib/libcuda.so.550"),
            ("libnvidia-ml.so.1", "/usr/lib/missing"),
            ("../../etc/libcuda.so", "/usr/lib/libcuda.so.550"),
        ];
        put(CACHE, &cache(&libraries));
        node
    }

    fn gpu_number(minor: u32) -> Assigned {
        Assigned::Nvidia { minor, uuid: format!("GPU-{minor}") }
    }

    fn shown(paths: &[PathBuf]) -> Vec<&str> {
        paths.iter().map(|path| path.to_str().unwrap()).collect()
    }

    #[test]
    fn only_the_assigned_gpus() {
        let node = node();
        let access = access(node.path(), &[gpu_number(1), gpu_number(2)]).unwrap();
        let expected = ["/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia1", "/dev/nvidia2"];
        assert_eq!(shown(&access.devices), expected);
        let error = super::super::access(node.path(), &[gpu_number(7)]).unwrap_err();
        assert!(error.to_string().contains("/dev/nvidia7"), "{error}");
    }

    #[test]
    fn a_slice_has_its_own_capabilities_and_no_others() {
        let node = node();
        let slice = |gpu_instance| Assigned::NvidiaSlice {
            minor: 0,
            gpu_instance,
            compute_instance: 0,
            uuid: "MIG-x".into(),
        };
        let access = access(node.path(), &[slice(2)]).unwrap();
        let expected = [
            "/dev/nvidiactl",
            "/dev/nvidia-uvm",
            "/dev/nvidia0",
            "/dev/nvidia-caps/nvidia-cap21",
            "/dev/nvidia-caps/nvidia-cap22",
        ];
        assert_eq!(shown(&access.devices), expected);
        let error = super::super::access(node.path(), &[slice(9)]).unwrap_err();
        assert!(error.to_string().contains("gpu0/gi9/access"), "{error}");
    }

    #[test]
    fn libraries_are_those_of_the_loader() {
        let node = node();
        let access = access(node.path(), &[gpu_number(0)]).unwrap();
        let expected = [
            Bind::read_only("/usr/lib/libcuda.so.550", "/.shipway/lib/libcuda.so.1"),
            Bind::read_only("/usr/bin/nvidia-smi", "/.shipway/bin/nvidia-smi"),
        ];
        assert_eq!(access.binds, expected);
    }

    #[test]
    fn a_node_without_the_driver_says_so() {
        let node = node();
        fs::write(at(node.path(), CACHE), cache(&[])).unwrap();
        let error = access(node.path(), &[gpu_number(0)]).unwrap_err();
        assert!(matches!(error, GpuError::NoLibrary { .. }), "{error}");
        fs::write(at(node.path(), CACHE), "something else").unwrap();
        let error = access(node.path(), &[gpu_number(0)]).unwrap_err();
        assert!(matches!(error, GpuError::Cache { .. }), "{error}");
        fs::remove_file(at(node.path(), "/dev/nvidia-uvm")).unwrap();
        let error = access(node.path(), &[gpu_number(0)]).unwrap_err();
        assert!(error.hint().unwrap().contains("nvidia-modprobe"), "{error}");
    }
}
