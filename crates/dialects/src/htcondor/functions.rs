//! What each macro function gives: `$INT()`, `$CHOICE()`, `$SUBSTR()` and the rest.

use super::error::Wrong;
use super::evaluate;
use super::expand::Scope;
use super::file_parts;
use super::number_format::{Format, Kind};
use super::scan::{Found, Function};

/// What is put in the place of a macro.
pub(super) fn value(scope: &Scope<'_>, found: &Found<'_>) -> Result<String, Wrong> {
    match found.function {
        Function::Value => {
            let value = scope.look_up(found.name);
            if value.is_none() && found.default.is_none() {
                scope.note_unknown(found.name);
            }
            let value = value.filter(|value| !value.is_empty());
            Ok(value.map_or_else(|| found.default.unwrap_or_default().into(), |v| v.to_string()))
        }
        Function::Env => {
            let value = scope.outside.variable(found.name).filter(|value| !value.is_empty());
            let missing = || found.default.unwrap_or("UNDEFINED").to_string();
            Ok(value.unwrap_or_else(missing))
        }
        Function::RandomChoice => random_choice(scope, found.name),
        Function::RandomInteger => random_integer(scope, found.name),
        Function::Choice => choice(scope, found.name),
        Function::Substr => substr(scope, found.name),
        Function::Int => int(scope, found.name),
        Function::Real => real(scope, found.name),
        Function::Text => text(scope, found.name),
        Function::Eval => eval(scope, found.name),
        Function::Basename => file(scope, found.name, "nx"),
        Function::Dirname => file(scope, found.name, "p"),
        Function::File => file(scope, found.name, found.letters.get(1..).unwrap_or_default()),
    }
}

fn wrong(function: &'static str, arguments: &str, what: impl Into<String>) -> Wrong {
    Wrong::Function { function, arguments: arguments.into(), what: what.into() }
}

fn item(list: &str, at: usize) -> Option<&str> {
    list.split(',').nth(at).map(str::trim)
}

fn random_choice(scope: &Scope<'_>, arguments: &str) -> Result<String, Wrong> {
    if arguments.is_empty() {
        return Err(wrong("RANDOM_CHOICE", arguments, "there is nothing to choose from"));
    }
    // A single word may be the name of a list.
    let list = if arguments.contains(',') { arguments.into() } else { scope.named(arguments)? };
    let count = list.split(',').count() as u64;
    let at = usize::try_from(scope.chance.draw() % count).unwrap_or(0);
    Ok(item(&list, at).unwrap_or_default().to_string())
}

fn random_integer(scope: &Scope<'_>, arguments: &str) -> Result<String, Wrong> {
    let number = |at: usize, name: &str| {
        let word = item(arguments, at).unwrap_or(if at == 2 { "1" } else { "" });
        let bad = || wrong("RANDOM_INTEGER", arguments, format!("{name} is not a whole number"));
        word.parse::<i64>().map_err(|_| bad())
    };
    let (least, most) = (number(0, "the least")?, number(1, "the most")?);
    let step = number(2, "the step")?;
    if step < 1 || least > most {
        let what = "the step must be 1 or more, and the most not below the least";
        return Err(wrong("RANDOM_INTEGER", arguments, what));
    }
    let choices = (i128::from(most) - i128::from(least)) / i128::from(step) + 1;
    let chosen = i128::from(scope.chance.draw()) % choices;
    Ok((i128::from(least) + chosen * i128::from(step)).to_string())
}

/// `$CHOICE(index,list_name)` or `$CHOICE(index,item,item…)`.
fn choice(scope: &Scope<'_>, arguments: &str) -> Result<String, Wrong> {
    let (index, items) = arguments
        .split_once(',')
        .ok_or_else(|| wrong("CHOICE", arguments, "there is nothing to choose from"))?;
    let at = scope.named(index.trim())?;
    let chosen = evaluate::whole(&at).and_then(|at| usize::try_from(at).ok());
    let bad = || wrong("CHOICE", arguments, format!("`{at}` is not a position"));
    let chosen = chosen.ok_or_else(bad)?;
    let list = if items.contains(',') {
        items.to_string()
    } else {
        let none = || wrong("CHOICE", arguments, format!("there is no list `{}`", items.trim()));
        scope.look_up(items.trim()).ok_or_else(none)?;
        scope.named(items.trim())?
    };
    let beyond = || wrong("CHOICE", arguments, format!("the list has no position {chosen}"));
    item(&list, chosen).map(str::to_string).ok_or_else(beyond)
}

/// `$SUBSTR(name,start)` or `$SUBSTR(name,start,length)`; both count from the end when negative.
fn substr(scope: &Scope<'_>, arguments: &str) -> Result<String, Wrong> {
    let text = scope.named(item(arguments, 0).unwrap_or_default())?;
    if text.is_empty() {
        return Ok(text);
    }
    let number = |at: usize, what: &str| match item(arguments, at) {
        None => Ok(None),
        Some(word) => {
            let word = scope.named(word)?;
            let bad = || wrong("SUBSTR", arguments, format!("`{word}` is not a {what}"));
            evaluate::whole(&word).map(Some).ok_or_else(bad)
        }
    };
    let missing = || wrong("SUBSTR", arguments, "there is no start");
    let start = number(1, "start")?.ok_or_else(missing)?;
    let size = i64::try_from(text.len()).unwrap_or(i64::MAX);
    let from_end = |at: i64, size: i64| if at < 0 { at.saturating_add(size) } else { at };
    let start = from_end(start, size).clamp(0, size);
    let length = number(2, "length")?.map_or(size - start, |length| from_end(length, size - start));
    let end = start + length.clamp(0, size - start);
    let at = |byte: i64| usize::try_from(byte).unwrap_or(0);
    let middle = || wrong("SUBSTR", arguments, "that would cut a letter in two");
    text.get(at(start)..at(end)).map(str::to_string).ok_or_else(middle)
}

fn format(function: &'static str, arguments: &str, kind: Kind) -> Result<Option<Format>, Wrong> {
    let Some((_, text)) = arguments.split_once(',') else { return Ok(None) };
    let bad = || wrong(function, arguments, format!("`{text}` is not a format for it"));
    Format::parse(text, kind).map(Some).ok_or_else(bad)
}

fn int(scope: &Scope<'_>, arguments: &str) -> Result<String, Wrong> {
    let format = format("INT", arguments, Kind::Whole)?;
    let text = scope.named(item(arguments, 0).unwrap_or_default())?;
    let bad = || wrong("INT", arguments, format!("`{}` is not a whole number", shown(&text)));
    let number = evaluate::whole(&text).ok_or_else(bad)?;
    Ok(format.map_or_else(|| number.to_string(), |format| format.whole(number)))
}

#[expect(clippy::expect_used, reason = "the format is written here")]
fn real(scope: &Scope<'_>, arguments: &str) -> Result<String, Wrong> {
    let format = format("REAL", arguments, Kind::Real)?;
    let text = scope.named(item(arguments, 0).unwrap_or_default())?;
    let bad = || wrong("REAL", arguments, format!("`{}` is not a number", shown(&text)));
    let number = evaluate::real(&text).ok_or_else(bad)?;
    let general = || Format::parse("%.16G", Kind::Real).expect("a format of ours");
    let given = format.is_some();
    let mut out = format.unwrap_or_else(general).real(number);
    if given && !out.contains('.') {
        out.push_str(".0");
    }
    Ok(out)
}

fn text(scope: &Scope<'_>, arguments: &str) -> Result<String, Wrong> {
    let format = format("STRING", arguments, Kind::Text)?;
    let text = scope.named(item(arguments, 0).unwrap_or_default())?;
    let text = evaluate::text(&text).unwrap_or(text);
    Ok(format.map_or_else(|| text.clone(), |format| format.text(&text)))
}

fn eval(scope: &Scope<'_>, arguments: &str) -> Result<String, Wrong> {
    let text = scope.named(arguments)?;
    let text = scope.expand("$EVAL", &text)?;
    Ok(evaluate::shown(&text).unwrap_or_default())
}

fn file(scope: &Scope<'_>, name: &str, letters: &str) -> Result<String, Wrong> {
    let Some(value) = scope.look_up(name) else {
        scope.note_unknown(name);
        return Ok(String::new());
    };
    let value = scope.expand(name, &value)?;
    Ok(file_parts::pick(&value, letters, &scope.setting.directory))
}

/// A placeholder of ours is not for people.
fn shown(text: &str) -> String {
    text.replace(super::CLUSTER, "$(Cluster), known only after submission,")
}
