//! What is wrong with an expression that nodes are matched by, said before any node is asked: it
//! cannot be read, calls what does not exist, or can never hold.

use crate::error::SHOWN;
use crate::eval::{Context, Evaluator, Sides};
use crate::expr::{Call, Expr};
use crate::functions::{bad_pattern, function_names};
use crate::limits::MAX_PATTERNS_BYTES;
use crate::nearest::nearest_name;
use crate::references::{calls, references, worldly};
use crate::unparse::{readable, readable_value};
use crate::value::Value;
use std::sync::Arc;

/// Why a text is no expression, on one line, with the piece that cannot be read; `None` when it is.
pub fn complaint(source: &str) -> Option<String> {
    read(source).err()
}

/// The same for `requirements`. They are asked once for all nodes that are alike, so that they
/// cannot ask for the time or for chance; and some node has to be able to meet them.
pub fn requirements_complaint(source: &str) -> Option<String> {
    let checked = read(source).and_then(|expr| {
        let wrong = for_nodes(&expr).or_else(|| never_holds(&expr));
        wrong.map_or(Ok(()), Err)
    });
    checked.err()
}

/// The same for `rank`, which has to be a number.
pub fn rank_complaint(source: &str) -> Option<String> {
    let checked = read(source).and_then(|expr| {
        let value = || with_evaluator(|on| constant(on, &expr)).filter(|value| !may_be_rank(value));
        let no_number = || value().map(|value| format!("it is {}, and no number", told(&value)));
        for_nodes(&expr).or_else(no_number).map_or(Ok(()), Err)
    });
    checked.err()
}

/// Whether a value says how much a node is liked. Undefined is as good as 0.
pub fn may_be_rank(value: &Value) -> bool {
    value.is_undefined() || value.as_condition().is_some()
}

fn read(source: &str) -> Result<Expr, String> {
    crate::parse_expression(source).map_err(|error| {
        let at = (0..=error.at.min(source.len())).rev().find(|at| source.is_char_boundary(*at));
        let rest = short(source.get(at.unwrap_or(0)..).unwrap_or_default());
        if rest.is_empty() { error.to_string() } else { format!("{error}, at: {rest}") }
    })
}

/// The beginning of a text, on one line.
fn short(text: &str) -> String {
    let start = text.chars().take(SHOWN / 2);
    let plain: String = start.map(|c| if c.is_control() { ' ' } else { c }).collect();
    plain.trim().to_owned()
}

fn for_nodes(expr: &Expr) -> Option<String> {
    let worldly = worldly(expr);
    let worldly = worldly
        .map(|what| format!("{what} has no meaning here: nodes are matched by what they are"));
    worldly.or_else(|| mistake(expr))
}

/// A call that can give nothing but an error: of no function, or with a pattern that is none.
pub fn mistake(expr: &Expr) -> Option<String> {
    let (mut found, mut room) = (None, MAX_PATTERNS_BYTES);
    calls(expr, &mut |call| {
        if found.is_none() {
            found = no_function(call).or_else(|| bad_pattern(call, &mut room));
        }
    });
    found
}

fn no_function(call: &Call) -> Option<String> {
    if call.function.is_some() {
        return None;
    }
    let name = call.name.to_text();
    let nearest = nearest_name(&name, function_names());
    let hint = nearest.map(|nearest| format!(" (did you mean {nearest}?)")).unwrap_or_default();
    Some(format!("there is no function {}(){hint}", short(&name)))
}

/// A term that looks at nothing and does not hold: whatever the nodes are, none will do.
fn never_holds(expr: &Expr) -> Option<String> {
    with_evaluator(|on| first_never_true(on, expr))
}

fn first_never_true(on: &mut Evaluator<'_>, expr: &Expr) -> Option<String> {
    let mut found = None;
    crate::terms::split(expr, &mut |term| {
        let value = constant(on, term).filter(|value| value.as_condition() != Some(true));
        if let Some(value) = value.filter(|_| found.is_none()) {
            let text = readable(term.bare());
            let (text, told) = (short(&text), told(&value));
            let text = if text == told { "it" } else { &text };
            found = Some(format!("{text} is {told} for every node, so that none will do"));
        }
    });
    found
}

/// One evaluation for all terms, so that many of them may not cost more than one.
fn with_evaluator<T>(ask: impl FnOnce(&mut Evaluator<'_>) -> T) -> T {
    let (sides, context) = (Sides::alone(Arc::default()), Context::default());
    ask(&mut Evaluator::new(&sides, &context))
}

/// What an expression gives that looks at no ad.
fn constant(on: &mut Evaluator<'_>, expr: &Expr) -> Option<Value> {
    let mut looks = false;
    references(expr, &mut |_| looks = true);
    // What it reads as an expression may name anything.
    calls(expr, &mut |call| looks |= call.name.is("eval"));
    if looks { None } else { on.constant(expr) }
}

fn told(value: &Value) -> String {
    match value {
        Value::Undefined => "undefined".into(),
        Value::Error => "an error".into(),
        value if value.as_condition() == Some(false) => "false".into(),
        Value::String(_) => format!("the text {}", short(&readable_value(value))),
        other => format!("the {} {}", other.kind(), short(&readable_value(other))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about_requirements(source: &str) -> String {
        requirements_complaint(source).unwrap_or_default()
    }

    #[test]
    fn a_function_that_does_not_exist_is_named_with_the_nearest() {
        let said = about_requirements("Memory > 1 && regexpp(\"a\", Machine)");
        assert_eq!(said, "there is no function regexpp() (did you mean regexp?)");
        assert_eq!(
            about_requirements("size(frobnicate(1)) > 1"),
            "there is no function frobnicate()"
        );
        assert!(rank_complaint("sise(Arch)").is_some_and(|said| said.contains("size")));
        assert_eq!(about_requirements("SIZE(Arch) > 1"), "");
    }

    #[test]
    fn a_pattern_that_cannot_be_used_is_named_with_the_reason() {
        let said = about_requirements("regexp(\"gpu(?=-7)\", Machine)");
        assert!(said.starts_with("the pattern gpu(?=-7) cannot be used: look-around"), "{said}");
        let said = about_requirements("regexp(\"(a)\\\\1\", Machine)");
        assert!(said.contains("backreferences are not supported"), "{said}");
        let said = about_requirements("stringList_regexpMember(\"(a\", List)");
        assert!(said.contains("unclosed group"), "{said}");
        let said = about_requirements("regexp(\"(a{1000}){1000}{1000}\", Machine)");
        assert!(said.contains("too large"), "{said}");
        assert_eq!(about_requirements("regexp(\"^a|[]x]\", Machine, \"i\")"), "");
        assert_eq!(about_requirements("regexp(strcat(\"(\", Arch), Machine)"), "");
    }

    #[test]
    fn what_can_never_hold_is_refused_with_the_reason() {
        for (source, told) in [
            ("1/0", "1 / 0 is an error for every node, so that none will do"),
            ("\"yes\"", "\"yes\" is the text \"yes\" for every node, so that none will do"),
            ("false", "it is false for every node, so that none will do"),
            ("0", "0 is false for every node, so that none will do"),
            ("undefined", "it is undefined for every node, so that none will do"),
            (
                "Memory > 1 && (Cpus > 1 && 2 < 1)",
                "2 < 1 is false for every node, so that none will do",
            ),
            ("{1}", "{ 1 } is the list { 1 } for every node, so that none will do"),
        ] {
            assert_eq!(about_requirements(source), told, "{source}");
        }
        for fine in ["true", "1", "Memory > 1", "Memory > 1 || false", "eval(\"Memory\")", "MY.x"] {
            assert_eq!(about_requirements(fine), "", "{fine}");
        }
    }

    #[test]
    fn a_rank_is_a_number() {
        assert_eq!(
            rank_complaint("\"fast\"").as_deref(),
            Some("it is the text \"fast\", and no number")
        );
        assert_eq!(rank_complaint("1/0").as_deref(), Some("it is an error, and no number"));
        for fine in ["0", "false", "undefined", "Memory", "2.5"] {
            assert_eq!(rank_complaint(fine), None, "{fine}");
        }
        assert!(rank_complaint("random()").is_some_and(|said| said.contains("random()")));
    }
}
