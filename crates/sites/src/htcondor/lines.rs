//! Lines of a site's file that go into every submission. They may say what a job needs; they may
//! not end the description, start another, or change what we promise of a job.

/// A line is a statement, not a program.
const MAX_LINE: usize = 2_000;

/// What a submission stands on: found again by its name, run once, ended in time, its files known.
const OURS: [&str; 24] = [
    "executable",
    "arguments",
    "args",
    "transfer_executable",
    "transfer_input_files",
    "transfer_output_files",
    "transferinput",
    "transferoutput",
    "should_transfer_files",
    "when_to_transfer_output",
    "output",
    "error",
    "jobbatchname",
    "batch_name",
    "shipwayallocation",
    "periodic_remove",
    "periodicremove",
    "periodicremovereason",
    "on_exit_remove",
    "onexitremove",
    "leave_in_queue",
    "leavejobinqueue",
    "max_retries",
    "kill_sig",
];

/// The site's own requirements, and the other lines.
pub(super) fn requirements(lines: &[String]) -> Result<(Option<&str>, Vec<&str>), String> {
    let mut wanted = None;
    let mut rest = Vec::new();
    for line in lines {
        let line = checked(line)?;
        let Some((name, value)) = line.split_once('=') else { continue };
        if name.trim().eq_ignore_ascii_case("requirements") {
            if !is_one_expression(value) {
                return Err(format!("`{line}` has a bracket without its other half"));
            }
            wanted = Some(value.trim());
        } else {
            rest.push(line);
        }
    }
    Ok((wanted, rest))
}

/// The line, if it is one statement `name = value` about something that is not ours.
pub(super) fn checked(line: &str) -> Result<&str, String> {
    let line = line.trim();
    let shown: String = line.chars().take(80).collect();
    let refuse = |why: &str| Err(format!("`{shown}` cannot be in a submission: {why}"));
    if line.len() > MAX_LINE || line.chars().any(char::is_control) {
        return refuse("a line is text of at most 2000 characters");
    }
    if line.ends_with('\\') {
        return refuse("the line after it would be part of it");
    }
    let Some((name, _)) = line.split_once('=') else {
        return refuse("write `name = value`");
    };
    let name = name.trim().to_ascii_lowercase();
    let attribute = name.strip_prefix('+').or_else(|| name.strip_prefix("my."));
    let bare = attribute.unwrap_or(&name);
    let good = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'.';
    if bare.is_empty() || !bare.bytes().all(good) {
        return refuse("write `name = value`");
    }
    // With anything behind it, `queue` hands in what stands before it.
    if attribute.is_none() && bare == "queue" {
        return refuse("how many are handed in is not its to say");
    }
    if OURS.contains(&bare) {
        return refuse("Shipway sets it itself");
    }
    Ok(line)
}

/// Whether brackets and quotes are all closed, so that `&&` behind it means what it says.
fn is_one_expression(text: &str) -> bool {
    let mut depth = 0_u32;
    let mut quote = None;
    let mut escaped = false;
    for c in text.chars() {
        match (quote, c) {
            _ if escaped => escaped = false,
            (Some(_), '\\') => escaped = true,
            (Some(open), c) if c == open => quote = None,
            (None, '"' | '\'') => quote = Some(c),
            (None, '(') => depth += 1,
            (None, ')') => match depth.checked_sub(1) {
                Some(less) => depth = less,
                None => return false,
            },
            _ => {}
        }
    }
    depth == 0 && quote.is_none() && !text.trim().is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_statements_about_what_is_not_ours_pass() {
        for good in ["+WantIt = true", "accounting_group = a.b", "My.X = \"q\"", "+queue = \"x\""] {
            assert_eq!(checked(good), Ok(good));
        }
        for bad in [
            "queue",
            "queue 5",
            "QUEUE = 5",
            "a = b\nqueue",
            "a = b \\",
            "include : x",
            "include command : rm =",
            "executable = /bin/sh",
            "+ShipwayAllocation = \"other\"",
            "MY.PeriodicRemove = false",
            "Leave_In_Queue = true",
            "a @=end",
            "= 5",
            "",
        ] {
            assert!(checked(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn requirements_stay_one_expression() {
        let found = |line: &str| requirements(&[line.into()]).map(|(wanted, _)| wanted.is_some());
        assert_eq!(found("Requirements = (A == \")\") && B"), Ok(true));
        assert_eq!(found("requirement = A"), Ok(false));
        for bad in ["requirements = A) || (B", "requirements = (A", "requirements = \"a"] {
            assert!(found(bad).is_err(), "{bad}");
        }
        assert!(found("requirements =").is_err());
    }
}
