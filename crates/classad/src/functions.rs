//! The built-in functions, by name. What they do is in the files beside this one, by subject.

mod args;
mod contexts;
mod kinds;
mod lists;
#[cfg(test)]
mod metering;
mod numbers;
mod patterns;
mod regexps;
mod strftime;
mod string_lists;
mod strings;
mod times;
mod versions;

pub use patterns::prepare;
pub(crate) use patterns::{Pattern, Patterns, bad_pattern};

use crate::eval::{Evaluator, Scope};
use crate::expr::{Call, Expr};
use crate::name::{Key, Name};
use crate::value::{List, Value};
use std::sync::{Arc, LazyLock};

type Builtin = fn(&mut Evaluator<'_>, &Call, &Scope) -> Value;

/// A built-in function, as its place in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Function(u8);

const TABLE: [(&str, Builtin); 94] = [
    ("absTime", times::abs_time),
    ("allCompare", lists::all_compare),
    ("anyCompare", lists::any_compare),
    ("argsToList", args::args_to_list),
    ("avg", lists::avg),
    ("bool", kinds::to_bool),
    ("ceil", numbers::ceil),
    ("ceiling", numbers::ceil),
    ("countMatches", contexts::count_matches),
    ("currentTime", times::current_time),
    ("dayTime", times::day_time),
    ("debug", kinds::debug),
    ("envV1ToV2", args::env_v1_to_v2),
    ("eval", contexts::eval),
    ("evalInEachContext", contexts::eval_in_each),
    ("floor", numbers::floor),
    ("formatTime", times::format_time),
    ("getDayOfMonth", times::day_of_month),
    ("getDayOfWeek", times::day_of_week),
    ("getDayOfYear", times::day_of_year),
    ("getDays", times::days),
    ("getHours", times::hours),
    ("getMinutes", times::minutes),
    ("getMonth", times::month),
    ("getSeconds", times::seconds),
    ("getYear", times::year),
    ("identicalMember", lists::identical_member),
    ("ifThenElse", contexts::if_then_else),
    ("int", kinds::to_int),
    ("interval", times::interval),
    ("isAbsTime", kinds::is_abs_time),
    ("isBoolean", kinds::is_boolean),
    ("isClassAd", kinds::is_class_ad),
    ("isError", kinds::is_error),
    ("isInteger", kinds::is_integer),
    ("isList", kinds::is_list),
    ("isReal", kinds::is_real),
    ("isRelTime", kinds::is_rel_time),
    ("isString", kinds::is_string),
    ("isUndefined", kinds::is_undefined),
    ("join", strings::join),
    ("listToArgs", args::list_to_args),
    ("max", lists::max),
    ("member", lists::member),
    ("mergeEnvironment", args::merge_environment),
    ("min", lists::min),
    ("pow", numbers::pow),
    ("quantize", numbers::quantize),
    ("random", numbers::random),
    ("real", kinds::to_real),
    ("regexp", regexps::regexp),
    ("regexpMember", regexps::regexp_member),
    ("regexps", regexps::regexps),
    ("relTime", times::rel_time),
    ("replace", regexps::replace),
    ("replaceAll", regexps::replace_all),
    ("round", numbers::round),
    ("size", lists::size),
    ("split", strings::split),
    ("splitSlotName", strings::split_slot_name),
    ("splitTime", times::split_time),
    ("splitUserName", strings::split_user_name),
    ("strcat", strings::strcat),
    ("strcmp", strings::strcmp),
    ("stricmp", strings::stricmp),
    ("string", kinds::to_string),
    ("stringList_regexpMember", string_lists::regexp_member),
    ("stringListAvg", string_lists::avg),
    ("stringListIMember", string_lists::member_without_case),
    ("stringListISubsetMatch", string_lists::subset_without_case),
    ("stringListMax", string_lists::max),
    ("stringListMember", string_lists::member),
    ("stringListMin", string_lists::min),
    ("stringListsIntersect", string_lists::intersect),
    ("stringListSize", string_lists::size),
    ("stringListSubsetMatch", string_lists::subset),
    ("stringListSum", string_lists::sum),
    ("substr", strings::substr),
    ("sum", lists::sum),
    ("time", times::time),
    ("timeZoneOffset", times::zone_offset),
    ("toLower", strings::to_lower),
    ("toUpper", strings::to_upper),
    ("unparse", contexts::unparse),
    ("unresolved", contexts::unresolved),
    ("userHome", kinds::user_home),
    ("userMap", kinds::user_map),
    ("version_in_range", versions::in_range),
    ("versioncmp", versions::compare),
    ("versionEQ", versions::equal),
    ("versionGE", versions::at_least),
    ("versionGT", versions::above),
    ("versionLE", versions::at_most),
    ("versionLT", versions::below),
];

struct Known {
    key: Key,
    name: Name,
    function: Function,
}

/// In the order of their names, as names are compared: by numbers.
static BY_NAME: LazyLock<Vec<Known>> = LazyLock::new(|| {
    let known = (0_u8..).zip(TABLE).map(|(at, (name, _))| {
        let name = Name::from(name);
        Known { key: name.key(), name, function: Function(at) }
    });
    let mut known: Vec<Known> = known.collect();
    known.sort_by(|a, b| a.name.cmp(&b.name));
    known
});

/// The names of all built-in functions.
pub fn function_names() -> impl Iterator<Item = &'static str> {
    TABLE.iter().map(|(name, _)| *name)
}

impl Function {
    pub(crate) fn named(name: &Name) -> Option<Function> {
        let key = name.key();
        let order = |known: &Known| known.key.cmp(&key).then_with(|| known.name.cmp_tails(name));
        let found = BY_NAME.binary_search_by(order).ok()?;
        BY_NAME.get(found).map(|known| known.function)
    }

    pub(crate) fn call(self, on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Value {
        let builtin = TABLE.get(usize::from(self.0));
        builtin.map_or(Value::Error, |(_, builtin)| builtin(on, call, scope))
    }
}

impl Evaluator<'_> {
    /// The values of exactly so many arguments.
    pub(crate) fn exactly<const N: usize>(
        &mut self,
        call: &Call,
        scope: &Scope,
    ) -> Option<[Value; N]> {
        let args: &[Expr; N] = call.args.as_slice().try_into().ok()?;
        Some(args.each_ref().map(|arg| self.arg(arg, scope)))
    }

    /// The value of an argument. Whoever asks for it may look at all of it, and pays for that here.
    pub(crate) fn arg(&mut self, arg: &Expr, scope: &Scope) -> Value {
        let value = self.eval(arg, scope);
        self.take_in(&value);
        value
    }

    /// The values of between so and so many arguments.
    pub(crate) fn between(
        &mut self,
        call: &Call,
        scope: &Scope,
        least: usize,
        most: usize,
    ) -> Option<Vec<Value>> {
        let fits = (least..=most).contains(&call.args.len());
        fits.then(|| call.args.iter().map(|arg| self.arg(arg, scope)).collect())
    }

    /// The values of a list's items. They are evaluated where the call stands, as HTCondor does.
    pub(crate) fn items(&mut self, list: &Arc<List>, scope: &Scope) -> Vec<Value> {
        list.items.iter().map(|item| self.arg(item, scope)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_found_without_case() {
        for name in function_names() {
            let found = Function::named(&Name::new(name.to_ascii_uppercase())).expect(name);
            assert_eq!(Some(found), Function::named(&name.into()), "{name}");
        }
        assert_eq!(Function::named(&"nosuch".into()), None);
    }
}
