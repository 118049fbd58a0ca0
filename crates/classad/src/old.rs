//! Ads of one attribute a line, as `condor_status -long` and job ad files have them.

use crate::ad::Ad;
use crate::error::ParseError;
use crate::limits::{MAX_ATTRIBUTES, MAX_SOURCE_BYTES};
use crate::name::Name;
use crate::parser::parse_expression_bytes;

/// One ad, with blank lines around it; lines that begin with `#` say nothing. What comes after a
/// blank line is another ad: `condor_status -long` prints many so.
pub fn parse_old_ad(source: &[u8]) -> Result<Ad, ParseError> {
    if source.len() > MAX_SOURCE_BYTES {
        let what = format!("{} bytes; at most {MAX_SOURCE_BYTES}", source.len());
        return Err(ParseError::new(0, what));
    }
    let mut attributes = Vec::new();
    let (mut start, mut is_over) = (0, false);
    for line in source.split(|byte| *byte == b'\n') {
        let at = start;
        start += line.len() + 1;
        let text = line.trim_ascii();
        is_over |= text.is_empty() && !attributes.is_empty();
        if text.is_empty() || text.starts_with(b"#") {
            continue;
        }
        if is_over {
            return Err(ParseError::new(at, "a second ad begins here, after an empty line"));
        }
        if attributes.len() == MAX_ATTRIBUTES {
            let what = format!("an ad has at most {MAX_ATTRIBUTES} attributes");
            return Err(ParseError::new(at, what));
        }
        attributes.push(attribute(line, at)?);
    }
    Ok(attributes.into_iter().collect())
}

fn attribute(line: &[u8], at: usize) -> Result<(Name, crate::expr::Expr), ParseError> {
    let wanted = || ParseError::new(at, "wanted `NAME = EXPRESSION` on this line");
    let equals = line.iter().position(|byte| *byte == b'=').ok_or_else(wanted)?;
    let (name, text) = line.split_at_checked(equals).ok_or_else(wanted)?;
    let name = name.trim_ascii();
    let name = name.strip_prefix(b"'").and_then(|name| name.strip_suffix(b"'")).unwrap_or(name);
    let starts = name.first().is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'_');
    let is_plain = |byte: &u8| byte.is_ascii_graphic() || *byte == b' ';
    if !starts || !name.iter().all(is_plain) {
        return Err(wanted());
    }
    let text = text.strip_prefix(b"=").unwrap_or(text);
    let escaped = new_escapes(text);
    let expr = parse_expression_bytes(&escaped).map_err(|error| {
        let at = at + equals + 1 + error.at.min(text.len());
        ParseError { at, ..error }
    })?;
    Ok((Name::new(name), expr))
}

/// In these ads a backslash means itself, but before a quote that is not the last of its line.
fn new_escapes(text: &[u8]) -> Vec<u8> {
    let text = text.trim_ascii_end();
    let mut escaped = Vec::with_capacity(text.len());
    let (mut is_quoted, mut before) = (false, None);
    for (at, byte) in text.iter().enumerate() {
        match byte {
            b'"' => {
                let is_inner = is_quoted && before == Some(b'\\') && at + 1 < text.len();
                if !is_inner {
                    is_quoted = !is_quoted;
                }
                escaped.push(b'"');
            }
            b'\\' if is_quoted => {
                let before_inner = text.get(at + 1) == Some(&b'"') && at + 2 < text.len();
                escaped.extend_from_slice(if before_inner { b"\\" } else { b"\\\\" });
            }
            other => escaped.push(*other),
        }
        before = Some(*byte);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unparse_old_ad;

    #[test]
    fn an_ad_of_lines_reads_and_prints_the_same() {
        let text = "Cpus = 4\nName = \"slot1@\\\"x\\\" c:\\dir\"\n\
                    Requirements = TARGET.Memory >= 1.5 && A =?= undefined\n";
        let ad = parse_old_ad(text.as_bytes()).expect("good");
        assert_eq!(ad.len(), 3);
        assert_eq!(unparse_old_ad(&ad), text);
    }

    #[test]
    fn a_second_ad_is_refused() {
        let error = parse_old_ad(b"\n# one\nA = 1\n#\nB = 2\n \nA = 3\n").expect_err("two");
        assert_eq!((error.at, error.to_string().contains("a second ad")), (23, true), "{error}");
        assert!(parse_old_ad(b"\n\nA = 1\nB = 2\n\n# end\n\n").is_ok());
        let error = crate::parse_ad("[a = 1]\n[a = 2]").expect_err("two");
        assert!(error.to_string().contains("a second ad begins here"), "{error}");
    }

    #[test]
    fn errors_say_where() {
        let error = parse_old_ad(b"A = 1\nB = 1 +\n").expect_err("refused");
        assert_eq!(error.at, 13);
        assert!(parse_old_ad(b"no equals").is_err());
    }
}
