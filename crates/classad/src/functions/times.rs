//! Functions over times. What time it is, and where, the context says.

use super::strftime::strftime;
use crate::ad::Ad;
use crate::convert::{real, small, to_integer, wrapped};
use crate::eval::{Evaluator, Scope};
use crate::expr::Call;
use crate::name::Name;
use crate::times::{Date, interval_text};
use crate::value::Value;
use std::sync::Arc;

impl Evaluator<'_> {
    fn now(&self) -> Value {
        Value::AbsTime { seconds: self.context.now, offset: self.context.zone }
    }

    fn local(&self, seconds: i64) -> Date {
        Date::of(seconds.saturating_add(i64::from(self.context.zone)))
    }
}

/// A function without arguments.
fn none(call: &Call, value: impl FnOnce() -> Value) -> Value {
    if call.args.is_empty() { value() } else { Value::Error }
}

pub(super) fn time(on: &mut Evaluator<'_>, call: &Call, _: &Scope) -> Value {
    none(call, || Value::Integer(on.context.now))
}

pub(super) fn current_time(on: &mut Evaluator<'_>, call: &Call, _: &Scope) -> Value {
    none(call, || on.now())
}

pub(super) fn zone_offset(on: &mut Evaluator<'_>, call: &Call, _: &Scope) -> Value {
    none(call, || Value::RelTime(f64::from(on.context.zone)))
}

pub(super) fn day_time(on: &mut Evaluator<'_>, call: &Call, _: &Scope) -> Value {
    let date = on.local(on.context.now);
    none(call, || Value::RelTime(real(date.hour * 3_600 + date.minute * 60 + date.second)))
}

/// A part of a time: of one by the calendar, or of a length of time.
fn field(
    on: &mut Evaluator<'_>,
    call: &Call,
    scope: &Scope,
    of_date: Option<fn(Date) -> i64>,
    of_length: Option<fn(i64) -> i64>,
) -> Value {
    let Some([value]) = on.exactly(call, scope) else { return Value::Error };
    let part = match value {
        Value::AbsTime { seconds, .. } => of_date.map(|part| part(on.local(seconds))),
        Value::RelTime(seconds) => of_length.map(|part| part(i64::from(small(seconds)))),
        _ => None,
    };
    part.map_or(Value::Error, Value::Integer)
}

pub(super) fn year(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Value {
    field(on, call, scope, Some(|date| date.year), None)
}
pub(super) fn month(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Value {
    field(on, call, scope, Some(|date| date.month), None)
}
pub(super) fn day_of_year(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Value {
    field(on, call, scope, Some(|date| date.day_of_year()), None)
}
pub(super) fn day_of_month(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Value {
    field(on, call, scope, Some(|date| date.day), None)
}
pub(super) fn day_of_week(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Value {
    field(on, call, scope, Some(|date| date.weekday()), None)
}
pub(super) fn days(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Value {
    field(on, call, scope, None, Some(|length| length / 86_400))
}
pub(super) fn hours(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Value {
    field(on, call, scope, Some(|date| date.hour), Some(|length| length % 86_400 / 3_600))
}
pub(super) fn minutes(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Value {
    field(on, call, scope, Some(|date| date.minute), Some(|length| length % 3_600 / 60))
}
pub(super) fn seconds(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Value {
    field(on, call, scope, Some(|date| date.second), Some(|length| length % 60))
}

pub(super) fn interval(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Value {
    let Some([value]) = on.exactly(call, scope) else { return Value::Error };
    to_integer(&value).map_or(Value::Error, |seconds| Value::from(interval_text(seconds)))
}

pub(super) fn abs_time(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Value {
    if call.args.is_empty() {
        return on.now();
    }
    let Some(args) = on.between(call, scope, 1, 2) else { return Value::Error };
    let offset = match args.get(1) {
        None => on.context.zone,
        Some(Value::Integer(offset)) => wrapped(*offset),
        Some(Value::Real(offset) | Value::RelTime(offset)) => small(*offset),
        Some(_) => return Value::Error,
    };
    let given = args.first();
    let seconds = match given {
        Some(Value::Undefined) => return Value::Undefined,
        Some(Value::Integer(seconds)) => i64::from(wrapped(*seconds)),
        Some(Value::Real(seconds) | Value::RelTime(seconds)) => i64::from(small(*seconds)),
        Some(same @ (Value::AbsTime { .. } | Value::String(_))) => return same.clone(),
        _ => return Value::Error,
    };
    // HTCondor's engine takes this offset for a failure.
    if offset == -1 && matches!(given, Some(Value::Integer(_))) {
        return Value::Error;
    }
    Value::AbsTime { seconds, offset }
}

pub(super) fn rel_time(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Value {
    let Some(args) = on.between(call, scope, 1, 2) else { return Value::Error };
    match args.as_slice() {
        [Value::Undefined] => Value::Undefined,
        [Value::Integer(seconds)] => Value::RelTime(f64::from(wrapped(*seconds))),
        [Value::Real(seconds) | Value::RelTime(seconds)] => Value::RelTime(*seconds),
        [Value::AbsTime { seconds, .. }] => Value::RelTime(real(*seconds)),
        // A text that was not read as a time when the expression was read.
        [Value::String(_)] => Value::RelTime(0.0),
        _ => Value::Error,
    }
}

/// The parts of a time as an ad.
fn split(on: &Evaluator<'_>, value: &Value) -> Option<Ad> {
    let mut ad = Ad::new();
    let (seconds, offset) = match value {
        Value::Integer(seconds) => (*seconds, on.context.zone),
        Value::Real(seconds) => (i64::from(small(*seconds)), on.context.zone),
        Value::AbsTime { seconds, offset } => (*seconds, *offset),
        Value::RelTime(seconds) => {
            split_length(&mut ad, *seconds);
            return Some(ad);
        }
        _ => return None,
    };
    let date = Date::of(seconds.saturating_add(i64::from(offset)));
    ad.set("Type", "AbsoluteTime");
    ad.set("Year", date.year);
    ad.set("Month", date.month);
    ad.set("Day", date.day);
    ad.set("Hours", date.hour);
    ad.set("Minutes", date.minute);
    ad.set("Seconds", date.second);
    ad.set("Offset", i64::from(offset));
    Some(ad)
}

/// A length below 0 has its sign at the largest part that is not 0.
fn split_length(ad: &mut Ad, seconds: f64) {
    let is_negative = seconds < 0.0;
    let seconds = seconds.abs();
    let count = i64::from(small(seconds));
    let (mut days, mut hours) = (count / 86_400, count % 86_400 / 3_600);
    let mut minutes = count % 3_600 / 60;
    let mut rest = real(count % 60) + (seconds - seconds.floor());
    if is_negative {
        match (days, hours, minutes) {
            (1.., ..) => days = -days,
            (_, 1.., _) => hours = -hours,
            (_, _, 1..) => minutes = -minutes,
            _ => rest = -rest,
        }
    }
    ad.set("Type", "RelativeTime");
    ad.set("Days", days);
    ad.set("Hours", hours);
    ad.set("Minutes", minutes);
    ad.set("Seconds", rest);
}

pub(super) fn split_time(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Value {
    match on.exactly(call, scope) {
        Some([Value::Undefined]) => Value::Undefined,
        Some([value]) => {
            let ad = split(on, &value);
            ad.map_or(Value::Error, |ad| Value::Ad(Scope::inside(Arc::new(ad), None)))
        }
        None => Value::Error,
    }
}

pub(super) fn format_time(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Value {
    let Some(args) = on.between(call, scope, 0, 2) else { return Value::Error };
    let date = match args.first() {
        None => on.local(on.context.now),
        Some(Value::RelTime(_)) => return Value::Error,
        Some(Value::Ad(inner)) => date_of(on, inner),
        Some(value) => match split(on, value) {
            Some(ad) => date_of(on, &Scope::top(Arc::new(ad))),
            None => return Value::Error,
        },
    };
    match args.get(1) {
        None => on.made(strftime(b"%c", &date)),
        Some(Value::String(format)) => on.made(strftime(format, &date)),
        Some(_) => Value::Error,
    }
}

/// What is not in the ad is the least there is, as in C: January 0, 1900.
fn date_of(on: &mut Evaluator<'_>, scope: &Scope) -> Date {
    let mut part = |name: &str, default: i64| match scope
        .ad()
        .get(&Name::from(name))
        .map(|expr| on.eval(expr, scope))
    {
        Some(Value::Integer(number)) => i64::from(wrapped(number)),
        Some(Value::Real(number)) => i64::from(small(number)),
        Some(Value::Boolean(is)) => i64::from(is),
        _ => default,
    };
    Date {
        year: part("Year", 1_900),
        month: part("Month", 1),
        day: part("Day", 0),
        hour: part("Hours", 0),
        minute: part("Minutes", 0),
        second: part("Seconds", 0),
    }
}
