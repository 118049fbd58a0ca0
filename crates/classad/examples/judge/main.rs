//! Expressions and ads by the thousand with what this crate makes of them, one a line, for
//! `judge.py` to compare with HTCondor's own engine.
//!
//! `cargo run --release -p shipway-classad --example judge -- COUNT SEED | python judge.py`

#![expect(clippy::print_stdout, reason = "standard output is what it is for")]

mod dice;
mod grow;

use dice::Dice;
use shipway_classad::{
    Ad, Context, Sides, evaluate, match_ads, matches, parse_ad, parse_expression, unparse,
    unparse_ad, unparse_old_ad, unparse_value,
};
use std::sync::Arc;

/// The ad that expressions stand in, and the one on the other side.
const MY: &str = r#"[ i = 7; r = 2.5; s = "Hello"; t = true; u = undefined; e = error;
    l = { 1, 2.5, "a", i }; texts = { "x", "Y", "zz" }; numbers = { 3, 1, 2 };
    ads = { [ a = 1; b = 2 ], [ a = 3 ], [ b = a ] };
    n = [ i = 8; inner = i + 1; outer = s; deep = [ x = parent.i; y = r ] ];
    sum_of = i + r; loop = loop + 1; ping = pong; pong = ping; Requirements = TARGET.i > 3;
    sl = "a, b,c"; v = "1.10"; when = absTime("2024-02-29T12:34:56+02:00");
    long = relTime(90061) ]"#;
const TARGET: &str = r#"[ i = 4; only = "there"; back = TARGET.i; own = MY.i; s = "Other";
    Memory = 2048; tl = { i, only }; tn = [ i = 5; x = only ]; Requirements = true ]"#;

fn hex(text: impl AsRef<[u8]>) -> String {
    let digit = |half: u8| char::from_digit(u32::from(half), 16).expect("half a byte");
    text.as_ref().iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

fn main() {
    let mut args = std::env::args().skip(1);
    let count: u32 = args.next().and_then(|count| count.parse().ok()).unwrap_or(10_000);
    let seed: u64 = args.next().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let mut dice = Dice::new(seed);
    println!("my\t{}\ntarget\t{}", hex(MY), hex(TARGET));
    let my = Arc::new(parse_ad(MY).expect("good"));
    let target = Arc::new(parse_ad(TARGET).expect("good"));
    for nth in 0..count {
        match nth % 20 {
            0 => ad(&grow::ad(&mut dice, 3)),
            1 => pair(&grow::requirements_ad(&mut dice), &grow::requirements_ad(&mut dice)),
            2 => expression(&grow::soup(&mut dice), &my, None),
            3 => expression(&grow::call(&mut dice, 2), &my, Some(&target)),
            nth if nth % 2 == 0 => expression(&grow::expression(&mut dice, 4), &my, Some(&target)),
            _ => expression(&grow::expression(&mut dice, 3), &my, None),
        }
    }
}

fn expression(source: &str, my: &Arc<Ad>, target: Option<&Arc<Ad>>) {
    let kind = if target.is_some() { "both" } else { "one" };
    let Ok(expr) = parse_expression(source) else {
        return println!("{kind}\t{}\t-\t-", hex(source));
    };
    let sides = match target {
        Some(target) => Sides::new(Arc::clone(my), Arc::clone(target)),
        None => Sides::alone(Arc::clone(my)),
    };
    let value = evaluate(&expr, &sides, &Context::default()).value;
    println!("{kind}\t{}\t{}\t{}", hex(source), hex(unparse(&expr)), hex(unparse_value(&value)));
}

fn ad(source: &str) {
    let Ok(ad) = parse_ad(source) else { return println!("ad\t{}\t-\t-", hex(source)) };
    println!("ad\t{}\t{}\t{}", hex(source), hex(unparse_ad(&ad)), hex(unparse_old_ad(&ad)));
}

fn pair(left: &str, right: &str) {
    let (Ok(left_ad), Ok(right_ad)) = (parse_ad(left), parse_ad(right)) else { return };
    let sides = Sides::new(Arc::new(left_ad), Arc::new(right_ad));
    let context = Context::default();
    let (one, both) = (matches(&sides, &context), match_ads(&sides, &context));
    println!("match\t{}\t{}\t{one}\t{both}", hex(left), hex(right));
}
