//! How often something took how long, or was how large: a count for each bucket, and the sum.

use super::text::{Labels, Text, decimal};
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Debug)]
pub(super) struct Histogram {
    /// Upper ends of the buckets, inclusive and ascending; one more bucket takes the rest.
    bounds: &'static [u64],
    /// Decimal places between what is observed and the base unit: 6 for microseconds.
    places: u32,
    counts: Box<[AtomicU64]>,
    sum: AtomicU64,
}

impl Histogram {
    pub(super) fn new(bounds: &'static [u64], places: u32) -> Self {
        let counts = (0..=bounds.len()).map(|_| AtomicU64::default()).collect();
        Histogram { bounds, places, counts, sum: AtomicU64::default() }
    }

    pub(super) fn observe(&self, value: u64) {
        let at = self.bounds.partition_point(|bound| *bound < value);
        if let Some(count) = self.counts.get(at) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        self.sum.fetch_add(value, Ordering::Relaxed);
    }

    /// Buckets are shown as sums of all up to their end, as the format wants them.
    pub(super) fn write(&self, text: &mut Text, labels: &Labels<'_>) {
        let ends = self.bounds.iter().map(|bound| decimal(*bound, self.places));
        let mut total = 0;
        for (end, count) in ends.chain(["+Inf".to_string()]).zip(&self.counts) {
            total += count.load(Ordering::Relaxed);
            let with_end: Vec<_> = labels.iter().copied().chain([("le", end.as_str())]).collect();
            text.part("_bucket", &with_end, total);
        }
        text.part("_sum", labels, decimal(self.sum.load(Ordering::Relaxed), self.places));
        text.part("_count", labels, total);
    }
}
