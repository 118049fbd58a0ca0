//! The header and the table of an Apptainer image.

#![no_main]

use libfuzzer_sys::fuzz_target;
use shipway_images::sif;

fuzz_target!(|bytes: &[u8]| {
    let length = bytes.len() as u64;
    let Some(header) = bytes.first_chunk() else { return };
    let Ok(table) = sif::header(header, length) else { return };
    let start = usize::try_from(table.offset).expect("inside the file");
    let end = start + usize::try_from(table.bytes()).expect("inside the file");
    if let Ok(primary) = sif::primary(&bytes[start..end], length) {
        assert!(primary.offset <= length, "outside the file");
    }
});
