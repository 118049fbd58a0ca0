//! How far a pull has come, for whoever shows it.

/// What is being done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Asking what the image is made of.
    Resolving,
    /// Another process fetches the same; it is waited for.
    Waiting,
    /// Layers come in and are unpacked: how many, and their bytes where the source says.
    Fetching { layers: usize, reused: usize, bytes: Option<u64> },
    /// The tree is made.
    Building,
    /// Everything goes to disk and becomes visible.
    Publishing,
}

/// Told from several threads at once.
pub trait Progress: Sync {
    fn phase(&self, phase: Phase);
    /// Packed bytes of a layer that have come in.
    fn bytes(&self, layer: usize, count: u64);
    fn layer_done(&self, layer: usize);
    /// Asked now and then: whether anybody still waits for the image. If not, the pull ends.
    fn is_wanted(&self) -> bool {
        true
    }
}

/// For those who do not look.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Progress for Silent {
    fn phase(&self, _: Phase) {}
    fn bytes(&self, _: usize, _: u64) {}
    fn layer_done(&self, _: usize) {}
}
