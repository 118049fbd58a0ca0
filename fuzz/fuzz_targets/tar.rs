//! An archive of a layer: members, their paths, their maps of holes. Nothing is written.

#![no_main]

use libfuzzer_sys::fuzz_target;
use shipway_images::path;
use shipway_images::tar::TarReader;

fuzz_target!(|bytes: &[u8]| {
    let mut tar = TarReader::new(bytes);
    while let Ok(Some(member)) = tar.next_member() {
        if let Ok(normal) = path::normal(&member.path) {
            assert!(!normal.starts_with(b"/"), "absolute");
            assert!(!normal.split(|byte| *byte == b'/').any(|part| part == b".."), "upwards");
        }
        assert!(member.sparse.map_or(0, |map| map.holes()) <= member.size);
    }
});
