//! Whether an image's CUDA can run on the node's driver, judged before the task is started: what a
//! program says of it is an error deep in its own output.
//!
//! The rules are NVIDIA's. A driver runs everything made for its CUDA or an older one. From 11 on
//! also everything of the same first number. Beyond that an image may bring the newer half of the
//! driver itself (the `cuda-compat` package), which works on GPUs for data centres.

use super::images::ReadyImage;
use crate::probe::Probe;
use shipway_model::GpuVendor;
use shipway_model::gpu::Version;
use shipway_runtime::plan::Root;
use std::path::Path;

/// Since then versions with the same first number go together.
const COMPATIBLE_SINCE: u32 = 11;

/// What the node's driver can do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Driver {
    /// The newest CUDA it was made for.
    cuda: Version,
    version: Option<Version>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the image was made with CUDA {wanted}, and the node's driver{} supports CUDA {found}: take an \
     image made with CUDA {}, one that brings cuda-compat, or a node with a newer driver (gpu: \
     {{driver: …}})",
    named(.driver.as_ref()),
    limit(.found)
)]
pub(super) struct TooNew {
    wanted: Version,
    found: Version,
    driver: Option<Version>,
}

fn named(driver: Option<&Version>) -> String {
    driver.map(|version| format!(" {version}")).unwrap_or_default()
}

/// The newest that would do, in words.
fn limit(driver: &Version) -> String {
    match driver.parts() {
        [major, ..] if *major >= COMPATIBLE_SINCE => format!("{major} or older"),
        _ => format!("{driver} or older"),
    }
}

impl Driver {
    /// `None` on a node without NVIDIA's driver.
    pub(super) fn of(probe: &Probe) -> Option<Self> {
        let nvidia = probe.gpus.iter().find(|gpu| gpu.vendor == GpuVendor::Nvidia);
        let version = nvidia.and_then(|gpu| gpu.driver.clone());
        probe.cuda.clone().map(|cuda| Driver { cuda, version })
    }

    /// Refuses an image that this driver cannot run. What does not say its version is not judged,
    /// nor is the node's own tree.
    pub(super) fn runs(&self, image: &ReadyImage) -> Result<(), TooNew> {
        match (image.config.cuda(), &image.root) {
            (Some(cuda), Root::Tree(tree)) => check(cuda, self, || brings_compat(tree)),
            _ => Ok(()),
        }
    }
}

fn check(image: &str, driver: &Driver, brings_compat: impl FnOnce() -> bool) -> Result<(), TooNew> {
    let Some(wanted) = leading_version(image) else { return Ok(()) };
    if runs_on(&wanted, &driver.cuda) || brings_compat() {
        return Ok(());
    }
    Err(TooNew { wanted, found: driver.cuda.clone(), driver: driver.version.clone() })
}

fn runs_on(image: &Version, driver: &Version) -> bool {
    let part = |version: &Version, at: usize| version.parts().get(at).copied().unwrap_or(0);
    let (wanted, found) = (part(image, 0), part(driver, 0));
    wanted < found
        || wanted == found && (found >= COMPATIBLE_SINCE || part(image, 1) <= part(driver, 1))
}

/// `12.4.1` of `12.4.1`, `12.4` of `12.4-runtime`.
fn leading_version(text: &str) -> Option<Version> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    text[..end].trim_end_matches('.').parse().ok()
}

/// Whether a tree has a driver's library of its own, where `cuda-compat` puts it. The folder has
/// the version in its name; the usual link to it may lead out of the tree and is not followed.
fn brings_compat(tree: &Path) -> bool {
    let Ok(entries) = std::fs::read_dir(tree.join("usr/local")) else { return false };
    entries.flatten().any(|entry| {
        let is_cuda = entry.file_name().to_str().is_some_and(|name| name.starts_with("cuda"));
        let library = entry.path().join("compat/libcuda.so.1");
        is_cuda && !entry.path().is_symlink() && library.symlink_metadata().is_ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn driver(cuda: &str) -> Driver {
        Driver { cuda: cuda.parse().unwrap(), version: Some("570.1.2".parse().unwrap()) }
    }

    #[test]
    fn the_vendors_rules() {
        for (image, cuda, compat, expected) in [
            ("12.4.1", "12.8", false, true),
            ("12.8", "12.4", false, true),
            ("11.8.0", "12.4", false, true),
            ("13.0.1", "12.8", false, false),
            ("13.0.1", "12.8", true, true),
            ("12.0", "11.4", false, false),
            ("10.2", "10.1", false, false),
            ("10.1", "10.2", false, true),
            ("9.2", "10.1", false, true),
            ("13.0-devel", "12.8", false, false),
            ("nightly", "12.8", false, true),
            ("", "12.8", false, true),
        ] {
            let found = check(image, &driver(cuda), || compat).is_ok();
            assert_eq!(found, expected, "{image} on {cuda}, compat {compat}");
        }
    }

    #[test]
    fn the_refusal_says_wanted_found_and_what_helps() {
        let said = check("13.0.1", &driver("12.8"), || false).unwrap_err().to_string();
        for part in ["CUDA 13.0.1", "driver 570.1.2 supports CUDA 12.8", "12 or older", "compat"] {
            assert!(said.contains(part), "{said}");
        }
    }

    #[test]
    fn a_library_of_the_images_own_is_found() {
        let tree = tempfile::tempdir().unwrap();
        assert!(!brings_compat(tree.path()));
        let compat = tree.path().join("usr/local/cuda-13.0/compat");
        std::fs::create_dir_all(&compat).unwrap();
        assert!(!brings_compat(tree.path()));
        std::os::unix::fs::symlink("libcuda.so.580", compat.join("libcuda.so.1")).unwrap();
        assert!(brings_compat(tree.path()));
    }
}
