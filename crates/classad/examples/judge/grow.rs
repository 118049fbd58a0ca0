//! Expressions and ads made by chance: mostly good ones, with wrong kinds and counts among them.

use crate::dice::Dice;
use shipway_classad::function_names;

const LITERALS: &[&str] = &[
    "0",
    "1",
    "2",
    "-1",
    "7",
    "63",
    "64",
    "9223372036854775807",
    "-9223372036854775808",
    "100000",
    "9223372036854775808",
    "1.5",
    "0.0",
    "-0.0",
    "-2.5",
    "1e300",
    "1E-5",
    "0.1",
    "123456789.125",
    "true",
    "false",
    "undefined",
    "error",
    "\"\"",
    "\"a\"",
    "\"A\"",
    "\"abc\"",
    "\"1.5\"",
    "\"12\"",
    "\"a,b, c\"",
    "\"x\\ny\\\"z\\\\\"",
    "\"\\101\\377\"",
    "\"a b\"",
    "\"é\"",
    "\"true\"",
    "\" 3\"",
    "{}",
    "{1,2,3}",
    "{1,2.5,true}",
    "{\"a\",\"B\"}",
    "{1,undefined}",
    "{error}",
    "{{1},[a=2]}",
    "[]",
    "[a=1]",
    "[a=1;b=a+1]",
    "absTime(\"2020-01-01T00:00:00Z\")",
    "absTime(0,3600)",
    "relTime(61)",
    "relTime(\"1+02:03:04\")",
    "relTime(-1.5)",
    "absTime(\"1999-12-31\")",
    "real(\"NaN\")",
    "real(\"INF\")",
    "real(\"-INF\")",
];
const NAMES: &[&str] = &[
    "i",
    "r",
    "s",
    "t",
    "u",
    "e",
    "l",
    "texts",
    "numbers",
    "ads",
    "n",
    "n.inner",
    "n.outer",
    "n.deep.x",
    "n.deep.y",
    "sum_of",
    "loop",
    "ping",
    "sl",
    "v",
    "when",
    "long",
    "missing",
    "I",
    "TARGET.i",
    "target.only",
    "TARGET.back",
    "TARGET.own",
    "TARGET.missing",
    "MY.i",
    "only",
    "Memory",
    "TARGET.tl",
    "TARGET.tn.i",
    "n.i",
    "n.s",
    "ads.a",
    "l.a",
    "self.i",
    "n.missing",
    "'odd name'",
    "TARGET.tn.x",
    "MY.missing",
];
const OPERATORS: &[&str] = &[
    "+", "-", "*", "/", "%", "<", "<=", ">", ">=", "==", "!=", "=?=", "=!=", "is", "isnt", "&&",
    "||", "&", "|", "^", "<<", ">>", ">>>", "&&", "||", "==", "<", ">=",
];
const PATTERNS: &[&str] = &[
    "\"a\"",
    "\"^H.*o$\"",
    "\"[a-c]+\"",
    "\"(.)(.)\"",
    "\"(\"",
    "\"L\"",
    "\"\\\\d+\"",
    "\"x|y\"",
    "\"b\"",
    "\"l+\"",
    "\"[]a]\"",
    "\"a{2}\"",
    "\"[[:alpha:]]+\"",
    "\"\\\\.\"",
];
/// Those that ask for the time, chance or the host.
const OF_THE_WORLD: &[&str] = &["time", "currentTime", "dayTime", "random", "userHome"];

pub(crate) fn expression(dice: &mut Dice, depth: usize) -> String {
    if depth == 0 {
        return leaf(dice);
    }
    let inner = |dice: &mut Dice| {
        let depth = depth - 1 - dice.below(2).min(depth - 1);
        expression(dice, depth)
    };
    match dice.below(20) {
        0..=6 => {
            let (left, op, right) = (inner(dice), dice.one_of(OPERATORS), inner(dice));
            format!("{left} {op} {right}")
        }
        7 => format!("({})", inner(dice)),
        8 => format!("{}{}", dice.one_of(&["-", "+", "!", "~", "- ", "! ", "--"]), inner(dice)),
        9 => format!("{} ? {} : {}", inner(dice), inner(dice), inner(dice)),
        10 => format!("{} ?: {}", inner(dice), inner(dice)),
        11 => format!("{}[{}]", inner(dice), inner(dice)),
        12 => {
            let of = inner(dice);
            if makes_list(&of) {
                return of;
            }
            format!("{of}.{}", dice.one_of(&["a", "i", "b", "inner", "missing"]))
        }
        13 => format!("{{ {}, {} }}", inner(dice), inner(dice)),
        14 => format!(
            "[ x = {}; y = {} ].{}",
            inner(dice),
            inner(dice),
            dice.one_of(&["x", "y", "z"])
        ),
        15..=18 => call(dice, depth - 1),
        _ => leaf(dice),
    }
}

/// HTCondor's engine crashes on a selection from a list that one of these made, and when ads are
/// looked for in one.
fn makes_list(text: &str) -> bool {
    ["split", "argsToList", "evalInEachContext"].iter().any(|maker| text.contains(maker))
}

fn leaf(dice: &mut Dice) -> String {
    if dice.rarely(2) { dice.one_of(LITERALS) } else { dice.one_of(NAMES) }.to_owned()
}

/// A call with as many arguments as chance has it, mostly of the kinds it is for.
pub(crate) fn call(dice: &mut Dice, depth: usize) -> String {
    let names: Vec<&str> = function_names().filter(|name| !OF_THE_WORLD.contains(name)).collect();
    let name = names[dice.below(names.len())];
    let usual = usual_arguments(dice, name);
    let args = match usual {
        Some(args) if !dice.rarely(4) => args,
        _ => (0..dice.below(5)).map(|_| expression(dice, depth)).collect(),
    };
    let looks_into_list = ["evalInEachContext", "countMatches"].contains(&name);
    if looks_into_list && args.iter().any(|arg| makes_list(arg)) {
        return format!("{name}()");
    }
    // Without arguments these two ask for the time.
    if args.is_empty() && ["absTime", "formatTime"].contains(&name) {
        return format!("{name}(0)");
    }
    format!("{name}({})", args.join(","))
}

/// Arguments of the kinds that a function is for; `None` where any will do. An empty one ends them.
fn usual_arguments(dice: &mut Dice, name: &str) -> Option<Vec<String>> {
    let (_, positions) = USUAL.iter().find(|(names, _)| names.contains(&name))?;
    let args = positions.iter().map(|options| dice.one_of(options).to_owned());
    Some(args.take_while(|arg| !arg.is_empty()).collect())
}

const TEXTS: &[&str] =
    &["s", "sl", "\"Hello\"", "\"abcabc\"", "\"a,b,,c d\"", "\"\"", "TARGET.only", "v"];
const LISTS: &[&str] = &["l", "texts", "numbers", "{1,2.5}", "{}", "TARGET.tl", "{true,2}"];
const NUMBERS: &[&str] = &["i", "r", "0", "3", "-2", "2.5", "-0.5", "1e10", "-7"];
const NUMBERS_OR_LISTS: &[&str] = &["i", "r", "0", "3", "2.5", "-7", "numbers", "{2,8}", "{}", "l"];
const SEPARATORS: &[&str] = &["", "", "\",\"", "\";\"", "\"b\""];
const OPTIONS: &[&str] = &["", "", "\"i\"", "\"m\"", "\"\"", "\"ix\""];
const COMPARISONS: &[&str] = &["\"<\"", "\"<=\"", "\"==\"", "\"!=\"", "\">\"", "\"is\"", "\"+\""];
const ANYTHING: &[&str] = &["i", "1", "2.5", "\"a\"", "\"Y\"", "u", "true", "e", "s"];
const VERSIONS: &[&str] =
    &["v", "\"1.9\"", "\"1.010\"", "\"1.10.1\"", "\"2a\"", "\"1.10\"", "\"\"", "1.5"];
const SUMS: &[&str] =
    &["\"1,2,3\"", "\"1.5, -2\"", "\"-3 -1\"", "\"x\"", "\"\"", "sl", "\"1;2\"", "\" 7 \""];
const TIMES: &[&str] = &["when", "long", "absTime(951782400)", "relTime(-90061)", "i", "86399.5"];
const FORMATS: &[&str] =
    &["\"%Y-%m-%d %H:%M:%S\"", "\"%c %j %U %W %V %G\"", "\"%a %b %e %I %p %%\"", ""];
const DATES: &[&str] = &["when", "0", "86399.5", "[Year=2020;Month=2;Day=3]", "i", "long"];
const WITH: &[&str] = &["\"-\"", "\"\\\\0x\"", "\"<\\\\1>\"", "\"\\\\2\"", "\"\""];
const ARGUMENTS: &[&str] = &["\"a 'b c' d\"", "\"'it''s'\"", "\"a 'b\"", "s", "\"\""];
const WORDS: &[&str] = &["texts", "{\"a b\",\"c'd\",\"\"}", "l", "{}"];
const OLD_ENVIRONMENTS: &[&str] =
    &["\"A=1;B=2 3\"", "\"|A=1|B=2\"", "\"A\"", "\"\"", "u", "\"=1\""];
const ENVIRONMENTS: &[&str] = &["\"A=1 B='x y'\"", "\"B=3\"", "u", "s", "\"C='\"", "1", "\"D=''\""];
const TESTS: &[&str] = &["a", "a > 1", "i", "missing", "a + i", "sum_of", "only"];
const ADS: &[&str] = &["ads", "{n}", "u", "l", "{}"];
const ATTRIBUTES: &[&str] = &["sum_of", "Requirements", "missing", "l", "loop", "ping"];
const SOURCES: &[&str] =
    &["\"i + 1\"", "\"1 +\"", "s", "sl", "\"n.inner\"", "i", "\"eval(\\\"r\\\")\"", "ads"];

type Positions = &'static [&'static [&'static str]];
const USUAL: &[(&[&str], Positions)] = &[
    (&["regexp"], &[PATTERNS, TEXTS, OPTIONS]),
    (&["regexpMember"], &[PATTERNS, LISTS, OPTIONS]),
    (&["stringList_regexpMember"], &[PATTERNS, TEXTS, SEPARATORS, OPTIONS]),
    (&["regexps", "replace", "replaceAll"], &[PATTERNS, TEXTS, WITH, OPTIONS]),
    (&["substr"], &[TEXTS, NUMBERS, NUMBERS]),
    (&["strcat", "join"], &[ANYTHING, ANYTHING, SEPARATORS, ANYTHING]),
    (&["sum", "avg", "min", "max"], &[LISTS]),
    (&["member", "identicalMember"], &[ANYTHING, LISTS]),
    (&["anyCompare", "allCompare"], &[COMPARISONS, LISTS, ANYTHING]),
    (&["pow", "quantize"], &[NUMBERS, NUMBERS_OR_LISTS]),
    (&["split"], &[TEXTS, SEPARATORS]),
    (&["argsToList"], &[ARGUMENTS, &["", "1", "2"]]),
    (&["listToArgs"], &[WORDS, &["", "1", "2"]]),
    (&["envV1ToV2"], &[OLD_ENVIRONMENTS]),
    (&["mergeEnvironment"], &[ENVIRONMENTS, ENVIRONMENTS]),
    (&["formatTime"], &[DATES, FORMATS]),
    (&["getYear", "getMonth", "getDayOfYear", "getDayOfMonth", "getDayOfWeek"], &[TIMES]),
    (&["getDays", "getHours", "getMinutes", "getSeconds", "splitTime"], &[TIMES]),
    (&["versioncmp", "versionEQ", "versionGE", "versionGT"], &[VERSIONS, VERSIONS]),
    (&["versionLE", "versionLT"], &[VERSIONS, VERSIONS]),
    (&["version_in_range"], &[VERSIONS, VERSIONS, VERSIONS]),
    (&["evalInEachContext", "countMatches"], &[TESTS, ADS]),
    (&["unparse", "unresolved"], &[ATTRIBUTES]),
    (&["eval"], &[SOURCES]),
    (&["stringListSize", "stringListSum", "stringListAvg"], &[SUMS, SEPARATORS]),
    (&["stringListMin", "stringListMax"], &[SUMS, SEPARATORS]),
    (&["stringListMember", "stringListIMember"], &[TEXTS, TEXTS, SEPARATORS]),
    (&["stringListSubsetMatch", "stringListISubsetMatch"], &[TEXTS, TEXTS, SEPARATORS]),
    (&["stringListsIntersect"], &[TEXTS, TEXTS, SEPARATORS]),
];

pub(crate) fn ad(dice: &mut Dice, depth: usize) -> String {
    let names = ["a", "B", "Cc", "'odd name'", "Requirements", "x1", "_y", "A", "LongerName", "zz"];
    let attributes: Vec<String> = (0..dice.below(6))
        .map(|_| {
            let name = dice.one_of(&names);
            let nested = depth > 0 && dice.rarely(4);
            let value = if nested { ad(dice, depth - 1) } else { expression(dice, depth) };
            format!("{name} = {value}")
        })
        .collect();
    format!("[ {} ]", attributes.join("; "))
}

/// An ad for a match: its requirements look at itself and at the other.
pub(crate) fn requirements_ad(dice: &mut Dice) -> String {
    let terms = [
        "TARGET.a >= 1",
        "MY.a < 5",
        "b == \"x\"",
        "TARGET.b =?= MY.b",
        "a > 2",
        "TARGET.c",
        "TARGET.n.z is 1",
        "only1",
        "TARGET.only2 > 0 || a == 1",
        "true",
        "undefined",
        "1",
        "0.0",
        "regexp(\"x\", TARGET.b)",
        "stringListMember(MY.b, \"x,y\")",
        "TARGET.Requirements isnt error",
    ];
    let count = 1 + dice.below(3);
    let requirements: Vec<&str> = (0..count).map(|_| dice.one_of(&terms)).collect();
    let (a, b) = (dice.below(6), dice.one_of(&["\"x\"", "\"X\"", "\"y\"", "undefined", "3"]));
    let (c, more) = (
        dice.one_of(&["true", "false", "TARGET.a > 1", "a == TARGET.a"]),
        dice.one_of(&["only1 = true", "only2 = a", "n = [z = 1]"]),
    );
    let requirements = requirements.join(" && ");
    if dice.rarely(20) {
        return format!("[ a = {a}; b = {b} ]");
    }
    format!("[ a = {a}; b = {b}; c = {c}; {more}; Requirements = {requirements} ]")
}

/// Pieces of the language in no order: mostly not to be read.
pub(crate) fn soup(dice: &mut Dice) -> String {
    let pieces = [
        "1",
        "a",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        "+",
        "-",
        "!",
        "?",
        ":",
        ";",
        ",",
        "=",
        "==",
        "=?=",
        "\"x\"",
        "'y'",
        ".",
        ".5",
        "1.5",
        "1e5",
        "is",
        "f(",
        "&&",
        "//c\n",
        "/*c*/",
        " ",
        "-1",
        "<<",
        "true",
        "\"",
        "\\",
        "0x1",
        "010",
        "-0x1",
        "=!=",
        "@",
        "b =",
        "?:",
        "1.",
        "absTime(\"2020\")",
        "relTime(\"x\")",
        "error",
    ];
    (0..=dice.below(7))
        .map(|_| dice.one_of(&pieces))
        .collect::<Vec<_>>()
        .join(dice.one_of(&[" ", ""]))
}
