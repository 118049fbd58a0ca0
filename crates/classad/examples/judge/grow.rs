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
    let usual = usual_arguments(dice, name, depth);
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

fn usual_arguments(dice: &mut Dice, name: &str, depth: usize) -> Option<Vec<String>> {
    let lower = name.to_ascii_lowercase();
    let text = |dice: &mut Dice| {
        let texts =
            ["s", "sl", "\"Hello\"", "\"abcabc\"", "\"a,b,,c d\"", "\"\"", "TARGET.only", "v"];
        dice.one_of(&texts).to_owned()
    };
    let list = |dice: &mut Dice| {
        dice.one_of(&["l", "texts", "numbers", "{1,2.5}", "{}", "TARGET.tl", "{true,2}"]).to_owned()
    };
    let number = |dice: &mut Dice| {
        dice.one_of(&["i", "r", "0", "3", "-2", "2.5", "-0.5", "1e10", "-7"]).to_owned()
    };
    Some(match lower.as_str() {
        "regexp" | "regexpmember" | "stringlist_regexpmember" => {
            let of = if lower == "regexpmember" { list(dice) } else { text(dice) };
            let mut args = vec![dice.one_of(PATTERNS).to_owned(), of];
            if dice.rarely(3) {
                args.push(dice.one_of(&["\"i\"", "\",\"", "\"m\"", "\"\""]).to_owned());
            }
            args
        }
        "regexps" | "replace" | "replaceall" => {
            let with = dice.one_of(&["\"-\"", "\"\\\\0x\"", "\"<\\\\1>\"", "\"\\\\2\"", "\"\""]);
            vec![dice.one_of(PATTERNS).to_owned(), text(dice), with.to_owned()]
        }
        "substr" => vec![text(dice), number(dice), number(dice)],
        "strcat" | "join" => (0..dice.below(4)).map(|_| expression(dice, depth.min(1))).collect(),
        "sum" | "avg" | "min" | "max" => vec![list(dice)],
        "member" | "identicalmember" => vec![expression(dice, 0), list(dice)],
        "anycompare" | "allcompare" => {
            let op = format!("\"{}\"", dice.one_of(OPERATORS));
            vec![op, list(dice), expression(dice, 0)]
        }
        "pow" | "quantize" => {
            vec![number(dice), if dice.rarely(3) { list(dice) } else { number(dice) }]
        }
        "split" => vec![text(dice), text(dice)],
        "argstolist" => {
            vec![dice.one_of(&["\"a 'b c' d\"", "\"'it''s'\"", "\"a 'b\"", "s"]).to_owned()]
        }
        "listtoargs" => vec![dice.one_of(&["texts", "{\"a b\",\"c'd\",\"\"}", "l"]).to_owned()],
        "envv1tov2" => {
            vec![dice.one_of(&["\"A=1;B=2 3\"", "\"|A=1|B=2\"", "\"A\"", "\"\""]).to_owned()]
        }
        "mergeenvironment" => {
            vec![
                "\"A=1 B='x y'\"".into(),
                dice.one_of(&["\"B=3\"", "u", "s", "\"C='\"", "1"]).to_owned(),
            ]
        }
        "formattime" => {
            let when =
                dice.one_of(&["when", "0", "86399.5", "[Year=2020;Month=2;Day=3]", "i", "long"]);
            let form = dice.one_of(&[
                "\"%Y-%m-%d %H:%M:%S\"",
                "\"%c %j %U %W %V %G\"",
                "\"%a %b %e %I %p %%\"",
            ]);
            vec![when.to_owned(), form.to_owned()]
        }
        "getyear" | "getmonth" | "getdayofyear" | "getdayofmonth" | "getdayofweek" | "getdays"
        | "gethours" | "getminutes" | "getseconds" | "splittime" => {
            vec![
                dice.one_of(&["when", "long", "absTime(951782400)", "relTime(-90061)", "i"])
                    .to_owned(),
            ]
        }
        "versioncmp" | "versioneq" | "versionge" | "versiongt" | "versionle" | "versionlt" => {
            let versions =
                ["v", "\"1.9\"", "\"1.010\"", "\"1.10.1\"", "\"2a\"", "\"1.10\"", "\"\"", "1.5"];
            vec![dice.one_of(&versions).to_owned(), dice.one_of(&versions).to_owned()]
        }
        "version_in_range" => {
            vec!["v".into(), "\"1.2\"".into(), dice.one_of(&["\"1.9\"", "\"2\""]).to_owned()]
        }
        "evalineachcontext" | "countmatches" => {
            let what = dice.one_of(&["a", "a > 1", "i", "missing", "a + i", "sum_of", "only"]);
            vec![what.to_owned(), dice.one_of(&["ads", "{n}", "u", "l", "{}"]).to_owned()]
        }
        "unparse" | "unresolved" => {
            vec![dice.one_of(&["sum_of", "Requirements", "missing", "l", "loop"]).to_owned()]
        }
        "eval" => vec![
            dice.one_of(&[
                "\"i + 1\"",
                "\"1 +\"",
                "s",
                "sl",
                "\"n.inner\"",
                "i",
                "\"eval(\\\"r\\\")\"",
            ])
            .to_owned(),
        ],
        _ if lower.starts_with("stringlist") => {
            let mut args = vec![text(dice)];
            if ![
                "stringlistsize",
                "stringlistsum",
                "stringlistavg",
                "stringlistmin",
                "stringlistmax",
            ]
            .contains(&lower.as_str())
            {
                args.push(text(dice));
            } else if dice.rarely(2) {
                args[0] = dice
                    .one_of(&["\"1,2,3\"", "\"1.5, -2\"", "\"-3 -1\"", "\"x\"", "\"\""])
                    .to_owned();
            }
            if dice.rarely(3) {
                args.push(dice.one_of(&["\",\"", "\";\"", "\"b\""]).to_owned());
            }
            args
        }
        _ => return None,
    })
}

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
    (0..1 + dice.below(7))
        .map(|_| dice.one_of(&pieces))
        .collect::<Vec<_>>()
        .join(dice.one_of(&[" ", ""]))
}
