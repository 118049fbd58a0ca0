//! Two ads against each other: each one's `Requirements` has to hold for the other.

use crate::eval::{Context, Sides, evaluate, evaluate_attribute, evaluate_within};
use crate::expr::Expr;
use crate::name::Name;
use crate::value::Value;

/// True, or a number that is not 0. Undefined and error are not.
pub fn is_true(value: &Value) -> bool {
    value.as_condition() == Some(true)
}

/// Whether `MY.Requirements` holds; an ad without any takes nobody, as in HTCondor.
pub fn matches(sides: &Sides, context: &Context) -> bool {
    is_true(&evaluate_attribute(&Name::from("Requirements"), sides, context).value)
}

/// Whether both `Requirements` hold.
pub fn match_ads(sides: &Sides, context: &Context) -> bool {
    matches(sides, context) && matches(&sides.turned(), context)
}

/// How much `MY` likes the other: the number that `rank` gives; what is none counts as 0.
pub fn rank(rank: &Expr, sides: &Sides, context: &Context) -> f64 {
    rank_of(&evaluate(rank, sides, context).value)
}

fn rank_of(value: &Value) -> f64 {
    match *value {
        Value::Boolean(is) => f64::from(u8::from(is)),
        Value::Integer(number) => crate::convert::real(number),
        Value::Real(number) if !number.is_nan() => number,
        _ => 0.0,
    }
}

/// The same as a whole number, within so many steps, and how many were taken; what is beyond the
/// largest counts as the largest.
#[expect(clippy::cast_possible_truncation, reason = "a cast to a whole number stops at its limits")]
pub fn rank_in_thousandths(
    expr: &Expr,
    sides: &Sides,
    context: &Context,
    most_steps: u64,
) -> (i64, u64) {
    let done = evaluate_within(expr, sides, context, most_steps);
    ((rank_of(&done.value) * 1_000.0) as i64, done.steps)
}
