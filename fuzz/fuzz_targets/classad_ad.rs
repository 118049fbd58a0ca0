//! An ad from a file: it is refused, or prints as what reads back as the same; all its attributes
//! are evaluated, and it is matched with itself.

#![no_main]

use libfuzzer_sys::fuzz_target;
use shipway_classad::{
    Context, Sides, circle, evaluate_attribute, match_ads, parse_ad_bytes, parse_old_ad, unparse_ad,
};
use std::sync::Arc;

fuzz_target!(|source: &[u8]| {
    let Ok(ad) = parse_ad_bytes(source).or_else(|_| parse_old_ad(source)) else { return };
    let text = unparse_ad(&ad);
    let again = parse_ad_bytes(text.as_bytes()).expect("what is printed reads back");
    // A minus before a number is printed as it stands, and read as a part of the number.
    assert!(unparse_ad(&again) == text || text.contains('-'), "{text}");
    let ad = Arc::new(ad);
    let sides = Sides::new(Arc::clone(&ad), Arc::clone(&ad));
    let context = Context { now: 1_000_000_000, zone: 0, seed: None };
    for (name, _) in ad.iter().take(20) {
        evaluate_attribute(name, &sides, &context);
    }
    match_ads(&sides, &context);
    circle(&ad);
});
