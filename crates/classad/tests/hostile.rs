//! Texts that are made to hurt: each is refused or evaluated within the limits, on a small stack.

use shipway_classad::{
    Ad, Context, Exceeded, Sides, Value, evaluate, evaluate_attribute, limits, parse_ad,
    parse_ad_bytes, parse_expression, parse_expression_bytes, unparse,
};
use std::sync::Arc;

/// Threads of servers have two megabytes; this is half of it.
const STACK: usize = 1 << 20;

fn on_small_stack(work: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(STACK).spawn(work);
    thread.expect("a thread").join().expect("it does not fail");
}

fn eval(source: &str) -> shipway_classad::Evaluation {
    let expr = parse_expression(source).expect(source);
    evaluate(&expr, &Sides::alone(Arc::default()), &Context::default())
}

fn eval_in(ad: &str, name: &str) -> shipway_classad::Evaluation {
    let ad = Arc::new(parse_ad(ad).expect("good"));
    evaluate_attribute(&name.into(), &Sides::alone(ad), &Context::default())
}

#[test]
fn ten_megabytes_of_brackets_are_refused() {
    on_small_stack(|| {
        let pieces =
            ["(", "[a=", "{", "!", "-", "~", "a?", "a?:", "a[", "f(", "a.", "(1,", "[", "\"\\"];
        for piece in pieces {
            let text = piece.repeat((10 << 20) / piece.len());
            let error = parse_expression(&text).expect_err(piece);
            assert!(error.to_string().len() < 200, "{piece}: {error}");
        }
        let long = "x".repeat(limits::MAX_SOURCE_BYTES + 1);
        assert!(parse_expression(&long).expect_err("too long").to_string().contains("at most"));
    });
}

/// The most that is read: evaluated and printed without a deep stack.
#[test]
fn what_is_as_deep_as_may_be_works_on_a_small_stack() {
    on_small_stack(|| {
        let nested = |open: &str, close: &str, depth: usize| {
            format!("{}1{}", open.repeat(depth), close.repeat(depth))
        };
        // Operators of every level at each depth: the most frames for one bracket.
        let all = "1||1&&1|1^1&1==1<1<<1+1*(";
        for (open, close, depth) in
            [("(", ")", 165), ("!", "", 497), ("{", "}", 165), (all, ")", 165)]
        {
            let text = nested(open, close, depth);
            let expr = parse_expression(&text).expect(open);
            let printed = unparse(&expr);
            parse_expression(&printed).expect("what is printed reads back");
            let _ = evaluate(&expr, &Sides::alone(Arc::default()), &Context::default());
        }
        for (open, close, most) in [("(", ")", limits::MAX_BRACKETS), ("!", "", limits::MAX_SIGNS)]
        {
            let most = most as usize;
            assert!(parse_expression(&nested(open, close, most)).is_ok(), "{open}");
            let error = parse_expression(&nested(open, close, most + 1)).expect_err(open);
            assert!(error.to_string().contains(&format!("{most} ")), "{error}");
        }
    });
}

#[test]
fn long_chains_are_not_deep() {
    on_small_stack(|| {
        let sum = format!("1{}", " + 1".repeat(1_000_000));
        assert!(matches!(eval(&sum).exceeded, Some(Exceeded::Steps) | None));
        let sum = format!("1{}", " + 1".repeat(100_000));
        assert!(matches!(eval(&sum).value, Value::Integer(100_001)));
        let terms = format!("true{}", " && true".repeat(50_000));
        assert!(matches!(eval(&terms).value, Value::Boolean(true)));
    });
}

#[test]
fn attributes_that_refer_to_themselves_are_undefined() {
    for ad in ["[a = a]", "[a = b; b = a]", "[a = b + 1; b = c; c = a * 2]", "[a = self.a]"] {
        let found = eval_in(ad, "a");
        assert!(found.value.is_undefined() && found.exceeded.is_none(), "{ad}: {found:?}");
    }
    let text = "[a = eval(\"a\")]";
    assert!(eval_in(text, "a").value.is_undefined());
}

#[test]
fn doubling_is_stopped_by_the_limits() {
    // Each asks twice for the next.
    let twice: Vec<String> =
        (0..60).map(|at| format!("a{at} = a{} + a{}", at + 1, at + 1)).collect();
    let found = eval_in(&format!("[{}; a60 = 1 + 0]", twice.join("; ")), "a0");
    assert_eq!(found.exceeded, Some(Exceeded::Steps));
    let texts: Vec<String> =
        (0..40).map(|at| format!("a{at} = strcat(a{}, a{})", at + 1, at + 1)).collect();
    let found = eval_in(&format!("[{}; a40 = \"x\"]", texts.join("; ")), "a0");
    assert!(found.value.is_error() && found.exceeded.is_some(), "{found:?}");
    // A chain of attributes longer than any that people write.
    on_small_stack(|| {
        let chain: Vec<String> = (0..5_000).map(|at| format!("a{at} = a{}", at + 1)).collect();
        let found = eval_in(&format!("[{}; a5000 = 1]", chain.join("; ")), "a0");
        assert_eq!(found.exceeded, Some(Exceeded::Depth));
        let chain: Vec<String> = (0..50_000).map(|at| format!("a{at} = a{}", at + 1)).collect();
        let found = eval_in(&format!("[{}; u = unresolved(a0)]", chain.join("; ")), "u");
        assert_eq!(found.exceeded, Some(Exceeded::Depth));
        assert!(!eval_in("[n = [p = n.p]; u = unresolved(n)]", "u").value.is_error());
        // Expressions in texts in texts; each level doubles the backslashes, so few fit.
        let mut nested = "1".to_owned();
        for _ in 0..12 {
            nested = format!("eval({})", unparse(&shipway_classad::Expr::literal(nested.as_str())));
        }
        assert!(matches!(eval(&nested).value, Value::Integer(1)));
        assert!(eval_in("[a = eval(strcat(\"(\", \"a\", \")\"))]", "a").value.is_undefined());
        let found = eval_in("[a = \"eval(a)\"; b = eval(a)]", "b");
        assert_eq!(found.exceeded, Some(Exceeded::Depth), "{found:?}");
    });
}

#[test]
fn patterns_cannot_explode() {
    let text = "a".repeat(40);
    for pattern in ["(a+)+$", "(a|a)*b", "(.*)*x", "(a?){40}a{40}"] {
        let found = eval(&format!("regexp(\"{pattern}\", \"{text}b\")"));
        assert!(matches!(found.value, Value::Boolean(_)), "{pattern}: {found:?}");
    }
    // Those that cannot be matched in linear time, and those that are too large.
    for pattern in ["(a)\\\\1", "a(?=b)", "(?<!a)b", "(a{1000}){1000}{1000}"] {
        assert!(eval(&format!("regexp(\"{pattern}\", \"{text}\")")).value.is_error(), "{pattern}");
    }
    let found =
        eval("replaceall(\"a\", replaceall(\"a\", \"aaaaaaaa\", \"aaaaaaaa\"), \"aaaaaaaa\")");
    assert!(matches!(&found.value, Value::String(text) if text.len() == 512));
}

#[test]
fn bytes_that_are_no_text_are_taken_in_quotes_alone() {
    assert!(parse_expression_bytes(b"1 + \xff").is_err());
    assert!(parse_expression_bytes(b"a\0").is_err());
    assert!(parse_expression_bytes(b"\"a\0b\"").is_err());
    assert!(parse_expression_bytes(b"\"a\\\0b\"").is_err());
    assert!(parse_expression("\"\\0\"").is_err());
    let expr = parse_expression_bytes(b"\"\xff\\376\"").expect("in quotes");
    assert_eq!(unparse(&expr), "\"\\377\\376\"");
    assert!(parse_ad_bytes(b"[ '\xff' = 1 ]").is_ok());
}

#[test]
fn an_ad_of_many_attributes_is_read_quickly() {
    let attributes: Vec<String> = (0..50_000).map(|at| format!("a{at} = {at}")).collect();
    let ad: Ad = parse_ad(&format!("[{}]", attributes.join("; "))).expect("good");
    assert_eq!(ad.len(), 50_000);
    let same = format!("[{}]", "a = 1;".repeat(limits::MAX_ATTRIBUTES + 1));
    assert!(parse_ad(&same).expect_err("too many").to_string().contains("at most"));
}
