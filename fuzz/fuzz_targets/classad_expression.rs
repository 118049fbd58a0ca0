//! An expression that somebody submits: it is refused or evaluated, in bounded time and memory, and
//! what is printed reads back as what prints the same.

#![no_main]

use libfuzzer_sys::fuzz_target;
use shipway_classad::{
    Context, Sides, evaluate, limits, parse_ad, parse_expression_bytes, pretty, rank_complaint,
    readable, requirements_complaint, terms, unparse,
};
use std::sync::Arc;

const MY: &str = r#"[ i = 7; r = 2.5; s = "Hello"; l = { 1, "a", i }; n = [ i = 8; x = parent.i ];
    a = b; b = a; Requirements = TARGET.i > MY.r ]"#;
const TARGET: &str = r#"[ i = 4; s = "Other"; back = TARGET.i; Requirements = true ]"#;

fuzz_target!(|source: &[u8]| {
    let Ok(expr) = parse_expression_bytes(source) else { return };
    let text = unparse(&expr);
    for printed in [&text, &pretty(&expr), &readable(&expr)] {
        let again = parse_expression_bytes(printed.as_bytes()).expect("what is printed reads back");
        // A minus before a number is printed as it stands, and read as a part of the number.
        assert!(unparse(&again) == text || text.contains('-'), "{text}");
    }
    let ad = |text: &str| Arc::new(parse_ad(text).expect("good"));
    let sides = Sides::new(ad(MY), ad(TARGET));
    let context = Context { now: 1_000_000_000, zone: 3_600, seed: Some(1) };
    evaluate(&expr, &sides, &context);
    terms(&expr, &sides, &context, limits::MAX_STEPS);
    if let Ok(source) = std::str::from_utf8(source) {
        requirements_complaint(source);
        rank_complaint(source);
    }
});
