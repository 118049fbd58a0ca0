//! Documents of a registry or a layout: an index, a manifest, a configuration.

#![no_main]

use libfuzzer_sys::fuzz_target;
use shipway_images::sources::manifest::{self, Parsed};
use shipway_model::Digest;

fuzz_target!(|bytes: &[u8]| {
    match manifest::parse(bytes, None) {
        Ok(Parsed::Index(all)) => {
            let _ = manifest::choose(&all, "linux/amd64");
        }
        Ok(Parsed::Manifest { layers, .. }) => {
            let _ = manifest::plan(Digest([0; 32]), bytes, Some(&layers), "linux/amd64");
        }
        Err(_) => {
            let _ = manifest::plan(Digest([0; 32]), bytes, None, "linux/amd64");
        }
    }
});
