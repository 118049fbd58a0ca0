//! The two ways of HTCondor to write arguments and variables in one line: the old one splits at
//! blanks (or `;`) and takes everything else as it is; the new one stands in double quotes, and
//! single quotes in it keep blanks together.

use super::lines::is_space;

/// Why a line of arguments or variables cannot be split.
pub(super) type Why = String;

/// Whether it is written the new way.
fn is_new(text: &str) -> bool {
    text.trim_start_matches(is_space).starts_with('"')
}

/// The words of `arguments`, in either way.
pub(super) fn arguments(text: &str) -> Result<Vec<String>, Why> {
    if is_new(text) { split(&inside(text)?) } else { old_arguments(text) }
}

/// The words of `arguments2`: the new way only.
pub(super) fn new_arguments(text: &str) -> Result<Vec<String>, Why> {
    split(&inside(text)?)
}

fn old_arguments(text: &str) -> Result<Vec<String>, Why> {
    let mut raw = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('"') {
        let Some(before) = before.strip_suffix('\\') else {
            return Err(format!("a double quote is not escaped (\\\"): \"{after}"));
        };
        raw.push_str(before);
        raw.push('"');
        rest = after;
    }
    raw.push_str(rest);
    Ok(raw.split(is_blank).filter(|word| !word.is_empty()).map(str::to_string).collect())
}

/// Variables in either way, in the order they are written.
pub(super) fn variables(text: &str) -> Result<Vec<(String, String)>, Why> {
    if is_new(text) {
        return new_variables(text);
    }
    let entries = text.split([';', '\n']).map(|entry| entry.trim_start_matches(is_blank));
    entries.filter(|entry| !entry.is_empty()).map(pair).collect()
}

pub(super) fn new_variables(text: &str) -> Result<Vec<(String, String)>, Why> {
    split(&inside(text)?)?.iter().map(|word| pair(word)).collect()
}

fn pair(entry: &str) -> Result<(String, String), Why> {
    match entry.split_once('=') {
        Some(("", _)) => Err(format!("there is no name in `{entry}`")),
        Some((name, value)) => Ok((name.into(), value.into())),
        None => Err(format!("`=` is missing after `{entry}`")),
    }
}

/// What stands in the double quotes; two of them in a row are one.
fn inside(text: &str) -> Result<String, Why> {
    let text = text.trim_matches(is_space);
    let mut rest = text.strip_prefix('"').ok_or("it must stand in double quotes")?;
    let mut out = String::with_capacity(rest.len());
    loop {
        let parted = rest.split_once('"');
        let (text, after) = parted.ok_or("the double quote at the beginning is not closed")?;
        out.push_str(text);
        rest = after;
        match rest.strip_prefix('"') {
            Some(after) => {
                out.push('"');
                rest = after;
            }
            None if rest.is_empty() => return Ok(out),
            None => {
                return Err(format!("text after the closing double quote (write \"\"): {rest}"));
            }
        }
    }
}

/// At blanks; single quotes keep them, and two of those in a row inside are one.
#[expect(clippy::string_slice, reason = "the place is that of a whole character")]
fn split(text: &str) -> Result<Vec<String>, Why> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut letters = text.char_indices().peekable();
    while let Some((at, c)) = letters.next() {
        if is_blank(c) {
            words.extend(word.take());
        } else if c == '\'' {
            let word = word.get_or_insert_default();
            loop {
                match letters.next() {
                    None => return Err(format!("a quote is not closed: {}", &text[at..])),
                    Some((_, '\'')) if letters.next_if(|(_, c)| *c == '\'').is_some() => {
                        word.push('\'');
                    }
                    Some((_, '\'')) => break,
                    Some((_, c)) => word.push(c),
                }
            }
        } else {
            word.get_or_insert_default().push(c);
        }
    }
    words.extend(word);
    Ok(words)
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r')
}

/// Without the quotes around the whole, as HTCondor takes them off lists of files and names.
pub(super) fn without_quotes(text: &str) -> &str {
    let text = text.trim_matches(is_space);
    text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_in_both_ways() {
        for (text, expected) in [
            ("one  two", vec!["one", "two"]),
            ("a 'b c' \\\"d\\\"", vec!["a", "'b", "c'", "\"d\""]),
            (r#""one two""#, vec!["one", "two"]),
            (r#""a 'b c' ''"#.trim_end_matches('x'), vec![]),
            (
                r#""a 'b c' '' d''e 'it''s' ""q"" x""#,
                vec!["a", "b c", "", "de", "it's", "\"q\"", "x"],
            ),
            ("", vec![]),
            (r#""""#, vec![]),
        ] {
            match arguments(text) {
                Ok(words) => assert_eq!(words, expected, "{text}"),
                Err(why) => assert!(expected.is_empty() && why.contains("not closed"), "{why}"),
            }
        }
        for bad in ["a \"b", "\"a", "\"a\" b", "\"'a\""] {
            assert!(arguments(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn variables_in_both_ways() {
        let pairs = |text| -> Vec<String> {
            let pairs = variables(text).expect(text).into_iter();
            pairs.map(|(name, value)| format!("{name}|{value}")).collect()
        };
        assert_eq!(pairs("A=1;B=two words; C=\"q\""), ["A|1", "B|two words", "C|\"q\""]);
        assert_eq!(
            pairs("\"A=1 B='two words' C=\"\"q\"\" D=\""),
            ["A|1", "B|two words", "C|\"q\"", "D|"]
        );
        assert!(variables("A").is_err() && variables("=1").is_err());
    }
}
