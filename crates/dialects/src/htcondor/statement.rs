//! What kind of statement a logical line is. Nothing is replaced or looked up here.

use super::lines::is_space;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Statement<'a> {
    /// `NAME = VALUE`
    Set {
        name: &'a str,
        value: &'a str,
    },
    /// `NAME +SEPARATOR= VALUE`
    Append {
        name: &'a str,
        separator: &'a str,
        value: &'a str,
    },
    /// `NAME @=TAG`
    Here {
        name: &'a str,
        tag: &'a str,
    },
    /// `+NAME = VALUE`, `-NAME = …`
    Attribute {
        name: &'a str,
        value: &'a str,
    },
    Include {
        options: &'a str,
        name: &'a str,
    },
    Use {
        what: &'a str,
    },
    /// `error : TEXT` and `warning : TEXT`
    Say {
        fatal: bool,
        text: &'a str,
    },
    /// A `queue` statement, or none that is known.
    Other,
}

/// What may stand between `+` and `=`.
const SEPARATORS: &[char] = &[',', ';', '|', '&', '*'];

#[expect(clippy::string_slice, reason = "the places are found, or behind spaces")]
pub(super) fn read(line: &str) -> Statement<'_> {
    let Some(end) = line.find(|c| is_space(c) || c == '=' || c == ':') else {
        return Statement::Other;
    };
    let (name, rest) = line.split_at(end);
    let direct = rest.starts_with(['=', ':']);
    let at = if direct { Some(0) } else { rest.find(['=', ':', '@', '+']) };
    let Some(at) = at else { return Statement::Other };
    let between = rest[..at].trim_matches(is_space);
    let operator = &rest[at..];
    if let Some(text) = operator.strip_prefix(':') {
        return with_colon(name, between, text.trim_start_matches(is_space));
    }
    if !between.is_empty() || name.eq_ignore_ascii_case("queue") {
        return Statement::Other;
    }
    let value = |text: &'_ str| text.len() - text.trim_start_matches(is_space).len();
    if let Some(text) = operator.strip_prefix('=') {
        let value = &text[value(text)..];
        return match name.strip_prefix('+') {
            Some(name) => Statement::Attribute { name, value },
            None => match name.strip_prefix('-') {
                Some(name) => Statement::Attribute { name, value: "" },
                None => Statement::Set { name, value },
            },
        };
    }
    if let Some(tag) = operator.strip_prefix("@=") {
        return Statement::Here { name, tag: tag.trim_matches(is_space) };
    }
    let separator = operator.strip_prefix('+').map(|text| {
        let length = text.chars().take_while(|c| SEPARATORS.contains(c)).count();
        text.split_at(length)
    });
    match separator.map(|(separator, rest)| (separator, rest.strip_prefix('='))) {
        Some((separator, Some(text))) => {
            Statement::Append { name, separator, value: &text[value(text)..] }
        }
        _ => Statement::Other,
    }
}

fn with_colon<'a>(name: &str, between: &'a str, text: &'a str) -> Statement<'a> {
    let name = name.strip_prefix('@').unwrap_or(name);
    match name.to_ascii_lowercase().as_str() {
        "include" => Statement::Include { options: between, name: text },
        "use" => Statement::Use { what: between },
        "error" => Statement::Say { fatal: true, text },
        "warning" => Statement::Say { fatal: false, text },
        _ => Statement::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_lines() {
        use Statement::{Append, Attribute, Here, Include, Other, Say, Set, Use};
        for (line, expected) in [
            ("a=b = c", Set { name: "a", value: "b = c" }),
            ("a = b", Set { name: "a", value: "b" }),
            ("a =", Set { name: "a", value: "" }),
            ("+A = \"x\"", Attribute { name: "A", value: "\"x\"" }),
            ("-A = x", Attribute { name: "A", value: "" }),
            ("a @=end", Here { name: "a", tag: "end" }),
            ("a += b", Append { name: "a", separator: "", value: "b" }),
            ("a +,= b", Append { name: "a", separator: ",", value: "b" }),
            ("include : f.sub", Include { options: "", name: "f.sub" }),
            ("@include ifexist : f", Include { options: "ifexist", name: "f" }),
            ("use template : x", Use { what: "template" }),
            ("error : no", Say { fatal: true, text: "no" }),
            ("queue", Other),
            ("queue 3", Other),
            ("queue x in (a=b)", Other),
            ("queue = 3", Other),
            ("nonsense here", Other),
            ("a b = c", Other),
        ] {
            assert_eq!(read(line), expected, "{line}");
        }
    }
}
