//! Parts of a file's name: `$Fp()`, `$Fn()`, `$Fx()` and what else may follow `$F`.

#[expect(clippy::string_slice, reason = "cut at a slash, a dot or an end")]
pub(super) fn pick(value: &str, letters: &str, directory: &str) -> String {
    let letters = letters.to_ascii_lowercase();
    let has = |letter: char| letters.contains(letter);
    let mut text = unquoted(value).to_string();
    if has('f') && !text.starts_with('/') {
        text = format!("{}/{text}", directory.trim_end_matches('/'));
    }
    let slashes: &[char] = &['/', '\\'];
    // Of the two the last one written counts.
    if let Some(last) = letters.chars().rfind(|letter| "wu".contains(*letter)) {
        text = text.replace(slashes, if last == 'w' { "\\" } else { "/" });
    }
    let name_at = text.rfind('/').or_else(|| text.rfind('\\')).map_or(0, |at| at + 1);
    let extension_at = text[name_at..].rfind('.').map_or(text.len(), |at| name_at + at);
    let kept = kept(&letters, &text, name_at, extension_at);
    if has('q') {
        let quote = if has('a') { '\'' } else { '"' };
        return format!("{quote}{kept}{quote}");
    }
    kept.to_string()
}

/// `n` and `x` keep the name and what is behind its last dot, `p` the whole path, each `d` one
/// folder, `b` leaves out the slash at the end and the dot.
#[expect(clippy::string_slice, reason = "cut at a slash, a dot or an end")]
fn kept<'a>(letters: &str, text: &'a str, name_at: usize, extension_at: usize) -> &'a str {
    let has = |letter: char| letters.contains(letter);
    let (extension, name, bare) = (has('x'), has('n'), has('b'));
    let (mut path, mut parents) = (has('p'), letters.matches('d').count());
    if name_at == 0 && (name || extension) {
        (path, parents) = (false, 0);
    }
    let without_slash = if bare { name_at.saturating_sub(1) } else { name_at };
    if parents > 0 {
        if name_at == 0 {
            return "";
        }
        let from = parent_at(text, name_at, parents);
        return match (name, extension) {
            (true, false) => &text[from..extension_at],
            (false, false) => &text[from..without_slash.max(from)],
            _ => &text[from..],
        };
    }
    match (path, name, extension) {
        (false, false, true) => {
            let dot = usize::from(bare && extension_at < text.len());
            &text[extension_at + dot..]
        }
        (false, true, true) => &text[name_at..],
        (false, true, false) => &text[name_at..extension_at],
        (true, false, false) => &text[..without_slash],
        (true, true, false) => &text[..extension_at],
        _ => text,
    }
}

/// Where the folder begins that is `count` folders above the name.
#[expect(clippy::string_slice, reason = "cut at a slash, a dot or an end")]
fn parent_at(text: &str, name_at: usize, count: usize) -> usize {
    let mut at = name_at;
    for _ in 0..count {
        if at == 0 {
            break;
        }
        at = text[..at - 1].rfind(['/', '\\']).map_or(0, |slash| slash + 1);
    }
    at
}

fn unquoted(text: &str) -> &str {
    let quote = |mark| text.strip_prefix(mark).and_then(|rest: &str| rest.strip_suffix(mark));
    quote('"').or_else(|| quote('\'')).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_name() {
        let value = "/data/in/file.tar.gz";
        for (letters, expected) in [
            ("", value),
            ("p", "/data/in/"),
            ("n", "file.tar"),
            ("x", ".gz"),
            ("nx", "file.tar.gz"),
            ("d", "in/"),
            ("dd", "data/in/"),
            ("db", "in"),
            ("pb", "/data/in"),
            ("xb", "gz"),
            ("q", "\"/data/in/file.tar.gz\""),
            ("qa", "'/data/in/file.tar.gz'"),
            ("pq", "\"/data/in/\""),
            ("pn", "/data/in/file.tar"),
            ("dn", "in/file.tar"),
            ("w", "\\data\\in\\file.tar.gz"),
        ] {
            assert_eq!(pick(value, letters, "/home"), expected, "{letters}");
        }
        assert_eq!(pick("x.y", "p", "/home"), "");
        assert_eq!(pick("x.y", "pn", "/home"), "x");
        assert_eq!(pick("x.y", "f", "/home"), "/home/x.y");
        assert_eq!(pick("\"a b.c\"", "n", "/"), "a b");
    }
}
