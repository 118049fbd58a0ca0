//! Functions over numbers.

use crate::convert::{real, to_real, whole, wrapped};
use crate::eval::{Evaluator, Scope};
use crate::expr::Call;
use crate::value::Value;

fn rounded(on: &mut Evaluator<'_>, call: &Call, scope: &Scope, round: fn(f64) -> f64) -> Value {
    let Some([value]) = on.exactly(call, scope) else { return Value::Error };
    match value {
        number @ Value::Integer(_) => number,
        other => {
            to_real(&other).map_or(Value::Error, |number| Value::Integer(whole(round(number))))
        }
    }
}

pub(super) fn floor(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Value {
    rounded(on, call, scope, f64::floor)
}
pub(super) fn ceil(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Value {
    rounded(on, call, scope, f64::ceil)
}
pub(super) fn round(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Value {
    rounded(on, call, scope, f64::round_ties_even)
}

pub(super) fn pow(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Value {
    let Some([base, exponent]) = on.exactly(call, scope) else { return Value::Error };
    if let (Value::Integer(base), Value::Integer(exponent @ 0..)) = (&base, &exponent) {
        return Value::Integer(whole(real(*base).powf(real(*exponent)) + 0.5));
    }
    match (to_real(&base), to_real(&exponent)) {
        (Ok(base), Ok(exponent)) => Value::Real(base.powf(exponent)),
        _ => Value::Error,
    }
}

/// The next multiple of the second, or the first of a list that is large enough.
pub(super) fn quantize(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Value {
    let Some([value, step]) = on.exactly(call, scope) else { return Value::Error };
    let Ok(wanted) = to_real(&value) else { return Value::Error };
    let mut step = step;
    if let Value::List(list) = &step {
        let mut last = Value::Real(0.0);
        for item in on.items(&list.clone(), scope) {
            match to_real(&item) {
                Ok(size) if size >= wanted => return item,
                Ok(_) => last = item,
                Err(_) => return Value::Error,
            }
        }
        step = last;
    }
    let Ok(size) = to_real(&step) else { return Value::Error };
    match (&step, &value) {
        (Value::Integer(0), _) => value,
        (Value::Integer(step), Value::Integer(value)) => {
            let up = value.wrapping_add(*step).wrapping_sub(1);
            Value::Integer(up.wrapping_div(*step).wrapping_mul(*step))
        }
        (Value::Integer(step), _) => {
            let step = real(*step);
            Value::Real((wanted / step).ceil() * step)
        }
        // So small that it is taken for none.
        _ if size.abs() <= 1e-8 => value,
        _ => Value::Real((wanted / size).ceil() * size),
    }
}

/// A random number below its argument, counted on from the seed; without one it is an error.
pub(super) fn random(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Value {
    let Some(args) = on.between(call, scope, 0, 1) else { return Value::Error };
    if on.context.seed.is_none() {
        return Value::Error;
    }
    // SplitMix64: a few operations, and every seed gives a row of its own.
    on.random = on.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = on.random;
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^= mixed >> 31;
    match args.first().unwrap_or(&Value::Real(1.0)) {
        Value::Integer(below) => match u64::try_from(wrapped(*below)) {
            Ok(below @ 1..) => Value::Integer(i64::try_from(mixed % below).unwrap_or(0)),
            _ => Value::Error,
        },
        Value::Real(below) if *below > 0.0 => {
            let part = i64::try_from(mixed >> 11).unwrap_or(0);
            Value::Real(below * real(part) / real(1 << 53))
        }
        _ => Value::Error,
    }
}
