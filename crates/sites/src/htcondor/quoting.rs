//! How a text stands in the languages that a submission passes through: ClassAd strings, the
//! submit language with its macros, and the shell. Each either keeps the text or refuses it.

/// A string of ClassAds: what it means is exactly `text`. `None`: no line can hold it.
pub(super) fn string(text: &str) -> Option<String> {
    if text.chars().any(char::is_control) {
        return None;
    }
    Some(format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")))
}

/// The same in a submit description, where `$(…)` would be taken for a macro.
pub(super) fn submit_string(text: &str) -> Option<String> {
    Some(string(text)?.replace('$', "$(DOLLAR)"))
}

/// One word of a shell.
pub(super) fn shell_word(text: &str) -> Option<String> {
    if text.contains('\0') {
        return None;
    }
    Some(format!("'{}'", text.replace('\'', r"'\''")))
}

/// Writes `text` to the file `name` of the current folder. By `cat`, which every shell has as a
/// program: what it is fed is in no list of processes.
pub(super) fn here_document(name: &str, text: &str) -> Option<String> {
    if text.contains('\0') {
        return None;
    }
    let mut end = "END".to_string();
    while text.lines().any(|line| line == end) {
        end.push('_');
    }
    let newline = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    Some(format!("cat > {} <<'{end}'\n{text}{newline}{end}\n", shell_word(name)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    #[test]
    fn texts_cannot_leave_their_quotes() {
        let hostile = r#"a" || true || "\" $(Process)"#;
        assert_eq!(string(hostile).expect("one line"), r#""a\" || true || \"\\\" $(Process)""#);
        let quoted = submit_string(hostile).expect("one line");
        assert!(quoted.ends_with(r#"\\\" $(DOLLAR)(Process)""#), "{quoted}");
        assert_eq!(submit_string("a\nqueue 5"), None);
        assert_eq!(shell_word("a'; rm -rf '"), Some(r"'a'\''; rm -rf '\'''".to_string()));
        assert_eq!((shell_word("\0"), here_document("x", "\0")), (None, None));
    }

    #[test]
    fn a_shell_makes_the_file_as_it_was() {
        let dir = tempfile::tempdir().expect("a folder");
        let texts = ["END\n$(id) `id` \\ 'x'\nEND_\n", "no newline", "", "END", "\n\n"];
        for text in texts {
            let script = here_document("it's", text).expect("no zero byte");
            let mut shell = Command::new("sh");
            shell.arg("-s").current_dir(dir.path()).stdin(Stdio::piped());
            let mut shell = shell.spawn().expect("a shell");
            let mut input = shell.stdin.take().expect("piped");
            input.write_all(script.as_bytes()).expect("taken");
            drop(input);
            assert!(shell.wait().expect("ended").success(), "{script}");
            let made = std::fs::read_to_string(dir.path().join("it's")).expect("made");
            assert_eq!(made.trim_end_matches('\n'), text.trim_end_matches('\n'));
        }
    }
}
