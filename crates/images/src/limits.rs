//! What an image may cost at most, and the meters that are read while its bytes stream in.
//!
//! Every number an image states about itself may be a lie, so nothing is counted from statements:
//! only from what came.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Manifests and configurations: what registries themselves take at most.
pub const DOCUMENT_LIMIT: u64 = 4 << 20;
/// Runtimes stack 127 layers at most; some builders make a few more.
pub const LAYER_LIMIT: usize = 512;
/// The kernel's limit for a path.
pub const PATH_LIMIT: usize = 4096;
/// The kernel's limit for a name.
pub const NAME_LIMIT: usize = 255;
/// Deeper trees break the tools that walk them.
pub const DEPTH_LIMIT: usize = 256;
/// The kernel's limit for the value of one attribute.
pub const XATTR_LIMIT: usize = 64 << 10;
/// The largest window a zstd stream may ask for, as a power of two: 128 MiB.
pub const ZSTD_WINDOW_LOG: u32 = 27;

/// Limits a site may move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Members of all layers together. Each costs some memory and an inode.
    pub entries: u64,
    /// Bytes of their names, links and attributes together: they are in memory until the image is
    /// put together.
    pub names: u64,
    /// Bytes of all layers, unpacked, holes included.
    pub bytes: u64,
    /// Unpacked to packed. Text packs ten to one; a bomb a thousand to one.
    pub ratio: u64,
    /// The ratio says nothing about the first bytes of a layer: zeros pack well.
    pub ratio_after: u64,
    /// For `unsquashfs`, which reads the file system of a SIF file.
    pub tool: ToolLimits,
}

/// What another program may take over one image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToolLimits {
    /// Bytes of address space.
    pub memory: u64,
    pub within: Duration,
}

impl Default for ToolLimits {
    fn default() -> Self {
        ToolLimits {
            // Tables of two million files, and its queues many times over.
            memory: 4 << 30,
            // The largest image that is taken comes out in this time on a slow disk.
            within: Duration::from_mins(30),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            entries: 1_000_000,
            names: 128 << 20,
            bytes: 64 << 30,
            ratio: 200,
            ratio_after: 100 << 20,
            tool: ToolLimits::default(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OverLimit {
    #[error("the image has more than {0} files")]
    Entries(u64),
    #[error("names and attributes of the image's files take more than {0} bytes")]
    Names(u64),
    #[error("the image is larger than {0} bytes unpacked")]
    Bytes(u64),
    #[error("a layer unpacks to more than {0} times its size")]
    Ratio(u64),
    #[error("unpacking the image takes more than {0} seconds")]
    Time(u64),
}

/// One image's use of its limits, counted by all its layers together.
#[derive(Debug)]
pub struct ImageMeter {
    limits: Limits,
    entries: AtomicU64,
    names: AtomicU64,
    bytes: AtomicU64,
}

impl ImageMeter {
    pub fn new(limits: Limits) -> Arc<Self> {
        let [entries, names, bytes] = Default::default();
        Arc::new(ImageMeter { limits, entries, names, bytes })
    }
}

/// One layer's part of it, and its ratio.
#[derive(Debug, Clone)]
pub struct Meter {
    image: Arc<ImageMeter>,
    /// Packed bytes read so far; counted by the stage that reads them.
    packed: Arc<AtomicU64>,
    /// Unpacked bytes, and holes that are in files and not in the archive.
    unpacked: Arc<AtomicU64>,
}

impl Meter {
    pub fn new(image: Arc<ImageMeter>, packed: Arc<AtomicU64>) -> Self {
        Meter { image, packed, unpacked: Arc::default() }
    }

    /// One more member, of which so many bytes of names and attributes are kept.
    pub fn entry(&self, names: u64) -> Result<(), OverLimit> {
        let Limits { entries: most, names: most_names, .. } = self.image.limits;
        if self.image.entries.fetch_add(1, Ordering::Relaxed) >= most {
            return Err(OverLimit::Entries(most));
        }
        let before = self.image.names.fetch_add(names, Ordering::Relaxed);
        if before.saturating_add(names) > most_names {
            return Err(OverLimit::Names(most_names));
        }
        Ok(())
    }

    pub fn bytes(&self, count: u64) -> Result<(), OverLimit> {
        let Limits { bytes, ratio, ratio_after, .. } = self.image.limits;
        let before = self.image.bytes.fetch_add(count, Ordering::Relaxed);
        if before.checked_add(count).is_none_or(|after| after > bytes) {
            return Err(OverLimit::Bytes(bytes));
        }
        let unpacked = self.unpacked.fetch_add(count, Ordering::Relaxed) + count;
        let allowed = self.packed.load(Ordering::Relaxed).saturating_mul(ratio);
        if unpacked > ratio_after && unpacked > allowed {
            return Err(OverLimit::Ratio(ratio));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_hold_over_layers_and_the_ratio_within_one() {
        let tool = ToolLimits::default();
        let limits =
            Limits { entries: 3, names: 10, bytes: 1000, ratio: 10, ratio_after: 100, tool };
        let image = ImageMeter::new(limits);
        let packed = Arc::new(AtomicU64::new(20));
        let (a, b) = (
            Meter::new(Arc::clone(&image), Arc::clone(&packed)),
            Meter::new(image, Arc::new(AtomicU64::new(1000))),
        );
        assert_eq!((a.entry(4), b.entry(6)), (Ok(()), Ok(())));
        assert_eq!(a.entry(1), Err(OverLimit::Names(10)));
        assert_eq!(b.entry(0), Err(OverLimit::Entries(3)));
        assert_eq!(a.bytes(200), Ok(()));
        assert_eq!(a.bytes(1), Err(OverLimit::Ratio(10)));
        assert_eq!(b.bytes(700), Ok(()));
        assert_eq!(b.bytes(100), Err(OverLimit::Bytes(1000)));
        assert_eq!(b.bytes(u64::MAX), Err(OverLimit::Bytes(1000)));
    }
}
