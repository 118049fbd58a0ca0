//! What people and job files write as an image: it prints back as what it was read as.

#![no_main]

use libfuzzer_sys::fuzz_target;
use shipway_model::ImageRef;

fuzz_target!(|text: &str| {
    if let Ok(reference) = text.parse::<ImageRef>() {
        assert_eq!(reference.to_string().parse().as_ref(), Ok(&reference));
    }
});
