//! `if`, `elif`, `else` and `endif`, and the few conditions that HTCondor knows.

use super::error::Wrong;
use super::expand::Scope;
use super::limits::MAX_IFS;
use super::lines::is_space;

/// The version we answer to in `if version >= …`: the one the language is compared with.
const VERSION: [u32; 3] = [23, 9, 6];

/// One `if` that is open.
#[derive(Debug, Clone, Copy)]
struct Open {
    /// Lines are read now.
    active: bool,
    /// One of its branches was taken.
    taken: bool,
    in_else: bool,
}

#[derive(Debug, Default)]
pub(super) struct Ifs {
    open: Vec<Open>,
}

impl Ifs {
    pub(super) fn active(&self) -> bool {
        self.open.iter().all(|open| open.active)
    }

    pub(super) fn is_inside(&self) -> bool {
        !self.open.is_empty()
    }

    /// Whether the line belongs to an `if`; it is dealt with then.
    pub(super) fn take(&mut self, line: &str, scope: &Scope<'_>) -> Result<bool, Wrong> {
        let (word, rest) = line.split_once(is_space).unwrap_or((line, ""));
        match word.to_ascii_lowercase().as_str() {
            "if" => {
                let active = self.active() && holds(rest, scope)?;
                if self.open.len() == MAX_IFS {
                    return Err(Wrong::DeepIf);
                }
                self.open.push(Open { active, taken: active, in_else: false });
            }
            "elif" => {
                let outer = self.outer_active();
                let open = self.last("elif")?;
                let now = outer && !open.taken && holds(rest, scope)?;
                open.active = now;
                open.taken |= now;
            }
            "else" => {
                let open = self.last("else")?;
                open.in_else = true;
                open.active = !open.taken;
                open.taken = true;
            }
            "endif" => {
                self.open.pop().ok_or(Wrong::NoIf("endif"))?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn outer_active(&self) -> bool {
        self.open.iter().rev().skip(1).all(|open| open.active)
    }

    fn last(&mut self, word: &'static str) -> Result<&mut Open, Wrong> {
        let open = self.open.last_mut().ok_or(Wrong::NoIf(word))?;
        if open.in_else { Err(Wrong::AfterElse(word)) } else { Ok(open) }
    }
}

fn holds(text: &str, scope: &Scope<'_>) -> Result<bool, Wrong> {
    let replaced = text.contains('$');
    let value = scope.expand("if", text)?;
    let value = value.trim_matches(is_space);
    let (negated, value) = match value.strip_prefix('!') {
        Some(rest) => (true, rest.trim_start_matches(is_space)),
        None => (false, value),
    };
    // A macro without a value is false.
    let result = if replaced && value.is_empty() { false } else { test(value, scope)? };
    Ok(result != negated)
}

fn test(text: &str, scope: &Scope<'_>) -> Result<bool, Wrong> {
    if let Some(answer) = plain(text) {
        return Ok(answer);
    }
    let (word, rest) = match text.find(|c: char| !c.is_ascii_alphabetic()) {
        Some(at) => text.split_at(at),
        None => (text, ""),
    };
    if word.eq_ignore_ascii_case("version") {
        return version(text, rest.trim_matches(is_space));
    }
    let after = rest.trim_matches(is_space);
    if word.eq_ignore_ascii_case("defined") && (rest.is_empty() || rest.starts_with(is_space)) {
        return defined(text, after, scope);
    }
    let name = is_name(text);
    let why = if name { "it is neither a number nor a word of truth" } else { "too complicated" };
    Err(Wrong::Condition(text.into(), why))
}

/// A number, or a word of truth.
fn plain(text: &str) -> Option<bool> {
    let words = [("true", true), ("yes", true), ("t", true)];
    let words = words.into_iter().chain([("false", false), ("no", false), ("f", false)]);
    if let Some((_, truth)) = words.into_iter().find(|(word, _)| text.eq_ignore_ascii_case(word)) {
        return Some(truth);
    }
    let number = text.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    text.parse::<f64>().ok().filter(|_| number).map(|number| number != 0.0)
}

fn is_name(text: &str) -> bool {
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || b"_./".contains(&byte);
    !text.is_empty() && text.bytes().all(letter) && text.bytes().any(|b| !b.is_ascii_digit())
}

fn defined(text: &str, name: &str, scope: &Scope<'_>) -> Result<bool, Wrong> {
    if name.is_empty() {
        return Ok(false);
    }
    if is_name(name) {
        let value = scope.look_up(name);
        return Ok(value.map_or_else(|| plain(name).is_some(), |value| !value.is_empty()));
    }
    if plain(name).is_some() {
        return Ok(true);
    }
    let template = name.get(..4).is_some_and(|word| word.eq_ignore_ascii_case("use "));
    // There are no templates here.
    if template { Ok(false) } else { Err(Wrong::Condition(text.into(), "`defined` takes a name")) }
}

fn version(text: &str, comparison: &str) -> Result<bool, Wrong> {
    let digits = comparison.find(|c: char| c.is_ascii_digit() || c.eq_ignore_ascii_case(&'v'));
    let (sign, number) = comparison.split_at(digits.unwrap_or(comparison.len()));
    let bad = || Wrong::Condition(text.into(), "`version` is compared with x.y or x.y.z");
    let parts: Result<Vec<u32>, _> =
        number.trim_start_matches(['v', 'V']).split('.').map(str::parse).collect();
    let mut parts = parts.map_err(|_| bad())?;
    if parts.len() == 2 {
        parts.push(VERSION[2]);
    }
    if parts.len() != 3 || parts.first().is_none_or(|first| *first < 6) {
        return Err(bad());
    }
    let order = VERSION.as_slice().cmp(parts.as_slice());
    Ok(match sign.trim_matches(is_space) {
        ">=" => order.is_ge(),
        "<=" => order.is_le(),
        ">" => order.is_gt(),
        "<" => order.is_lt(),
        "=" | "==" => order.is_eq(),
        "!=" | "!" => order.is_ne(),
        _ => return Err(bad()),
    })
}
