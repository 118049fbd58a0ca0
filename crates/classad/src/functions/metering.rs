//! That what functions do is paid for in steps: patterns by how often and how large they are really
//! built, texts and lists by what a function is given.

use super::function_names;
use super::patterns::builds;
use crate::eval::{Context, Evaluation, Evaluator, Sides};
use crate::limits::{MAX_PATTERN_BYTES, MAX_STEPS};
use crate::{Exceeded, Value, parse_ad, parse_expression};
use std::sync::Arc;

/// Evaluates within so many steps; how often an automaton was built meanwhile, and how many bytes
/// those may have had together.
fn counted(source: &str, most: u64) -> (Evaluation, u64, u64) {
    let expr = parse_expression(source).expect("good");
    let (sides, context) = (Sides::alone(Arc::default()), Context::default());
    let mut evaluator = Evaluator::within(&sides, &context, most);
    let before = builds();
    let my = evaluator.my().clone();
    let value = evaluator.eval(&expr, &my);
    let after = builds();
    (evaluator.ended(value), after.0 - before.0, after.1 - before.1)
}

/// Attributes each of which asks twice for the next, down to the last.
fn doubled(levels: usize, each: impl Fn(usize) -> String, last: &str) -> String {
    let attributes: Vec<String> =
        (0..levels).map(|at| format!("a{at} = {}", each(at + 1))).collect();
    format!("[{}; a{levels} = {last}].a0", attributes.join("; "))
}

#[test]
fn a_pattern_that_is_asked_for_again_is_not_built_again() {
    let both = |next: usize| format!("a{next} && a{next}");
    let source = doubled(12, both, "regexp(strcat(\"a{2}\", \"b*\"), \"xaab\")");
    let (found, built, _) = counted(&source, MAX_STEPS);
    assert!(matches!(found.value, Value::Boolean(true)), "{found:?}");
    assert_eq!(built, 1, "of 4096 times");
    // One that cannot be used is not tried again either.
    let source =
        doubled(12, |next| format!("a{next} ?: a{next}"), "regexp(strcat(\"(\", \"a\"), \"x\")");
    let (found, built, _) = counted(&source, MAX_STEPS);
    assert!(found.value.is_error() && built <= 1, "{found:?}: {built}");
}

/// Each pattern is another one, so that none is known.
#[test]
fn what_patterns_cost_is_within_the_steps() {
    for (pattern, most) in [
        ("a{{at}}", 50_000),
        ("(a{{40}}b{at}){{40}}", 50_000),
        ("[{at}", 50_000),
        ("(a{{1000}}b{at}){{1000}}", 50_000),
        ("x{at}|y{at}", MAX_STEPS),
    ] {
        let each = (0..6_000).map(|at| {
            let pattern =
                pattern.replace("{at}", &at.to_string()).replace("{{", "{").replace("}}", "}");
            format!("isError(regexp(strcat(\"\", \"{pattern}\"), \"x\"))")
        });
        let source = each.collect::<Vec<String>>().join(" is ");
        let (found, built, bytes) = counted(&source, most);
        // One pattern may go beyond; the next one is not begun.
        let one = u64::try_from(MAX_PATTERN_BYTES).expect("small") * 2;
        assert!(
            bytes / 32 <= found.steps + one / 32,
            "{pattern}: {bytes} in {} steps",
            found.steps
        );
        assert!(built <= found.steps / 100 + 5, "{pattern}: {built} in {} steps", found.steps);
        assert_eq!(found.exceeded, Some(Exceeded::Steps), "{pattern}: {built} were built");
    }
}

#[test]
fn matching_a_large_pattern_costs_more_than_a_small_one() {
    let text = "a".repeat(100_000);
    let steps = |pattern: &str| {
        let source = format!("regexp(strcat(\"\", \"{pattern}\"), \"{text}\")");
        counted(&source, MAX_STEPS).0.steps
    };
    let (small, large) = (steps("b"), steps("(a|b)*a(a|b){300}c"));
    assert!(small >= 25_000, "{small}");
    assert!(large >= 4 * small, "{large} after {small}");
    // Each match may look at all that is left.
    let source = format!("size(replaceAll(strcat(\"a\", \"|b.*c\"), \"{text}\", \"\"))");
    assert_eq!(counted(&source, MAX_STEPS).0.exceeded, Some(Exceeded::Steps));
}

/// Whatever a function does with it, a long text or a long list is paid for when it is given.
#[test]
fn every_function_pays_for_what_it_is_given() {
    const BYTES: usize = 1 << 18;
    const ITEMS: usize = 10_000;
    let text = format!("\"{}\"", "ab, ".repeat(BYTES / 4));
    let list = format!("{{{}}}", vec!["\"ab\""; ITEMS].join(","));
    // What does not evaluate all it is given, or only passes it on, or stops at the first mistake.
    // Times that are written as a text are read with the expression.
    let lazy = [
        "ifThenElse",
        "mergeEnvironment",
        "unparse",
        "unresolved",
        "evalInEachContext",
        "countMatches",
        "relTime",
        "absTime",
    ];
    let mut called = 0;
    for name in function_names().filter(|name| !lazy.contains(name)) {
        for (long, least) in [(&text, BYTES as u64 / 64), (&list, ITEMS as u64)] {
            for args in [
                "@",
                "@, \"a\"",
                "\"a\", @",
                "@, @",
                "\"a\", @, \"a\"",
                "@, \"a\", \"b\"",
                "\"is\", @, \"a\"",
                "\"a\", \"b\", @",
                "\"a\", @, \", \", \"i\"",
            ] {
                let source = format!("{name}({})", args.replace('@', long));
                let (found, ..) = counted(&source, MAX_STEPS);
                // With another number of arguments it looks at none of them.
                if found.steps > 1 || !found.value.is_error() {
                    assert!(found.steps >= least, "{name}({args}): {} steps", found.steps);
                    called += 1;
                }
            }
        }
    }
    assert!(called > 200, "{called}");
}

/// Texts that double, through every function and operator: there is an end to all of them, and it
/// is not far beyond the limit.
#[test]
fn no_function_goes_far_beyond_the_steps() {
    const MOST: u64 = 4_000;
    let ways = [
        "strcat(@, @)",
        "join(\",\", @, @)",
        "replaceAll(\"x\", strcat(@), \"xx\")",
        "string({strcat(@, @)})",
        "strcat(toUpper(@), toLower(@))",
        "join(\"x\", split(strcat(@, @)))",
        "mergeEnvironment(strcat(\"A=\", @), strcat(\"B=\", @, @))",
    ];
    for way in ways {
        let last = format!("\"{}\"", "x".repeat(600));
        let grown = doubled(14, |next| way.replace('@', &format!("a{next}")), &last);
        for name in function_names() {
            for args in ["@", "@, @", "\"a\", @, @"] {
                let source = format!("{name}({})", args.replace('@', &grown));
                let (found, ..) = counted(&source, MOST);
                // The last thing that was begun may be as long as all that was made.
                assert!(found.steps <= MOST * 100, "{name}({args}) of {way}: {}", found.steps);
            }
        }
    }
}

/// An expression that is looked at again and again is not copied for it.
#[test]
fn unresolved_looks_at_a_long_attribute_once() {
    let long = format!("b = x{}", " + x".repeat(20_000));
    let many = format!("c = b{}", " + b".repeat(20_000));
    let ad = parse_ad(&format!("[{long}; {many}; u = unresolved(c)]")).expect("good");
    let sides = Sides::alone(Arc::new(ad));
    let found = crate::evaluate_attribute(&"u".into(), &sides, &Context::default());
    assert!(matches!(&found.value, Value::String(text) if **text == *b"x"), "{found:?}");
    assert!((40_000..50_000).contains(&found.steps), "{}", found.steps);
}
