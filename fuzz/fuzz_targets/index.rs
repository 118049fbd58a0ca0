//! The index of a layer as the store keeps it: a damaged file is told, never believed.

#![no_main]

use libfuzzer_sys::fuzz_target;
use shipway_images::layer::index::LayerIndex;

fuzz_target!(|bytes: &[u8]| {
    if let Some(index) = LayerIndex::decode(bytes) {
        let _ = index.encode();
    }
});
