//! The length of functions, read from the text.
//!
//! Not a parser: it trusts rustfmt, which puts a function's closing brace in the column where
//! the function's first line began. Comments and blank lines count; they have to be read too.

use super::Problem;

/// What fits on a screen.
const FUNCTION_LINES: usize = 70;

/// Words that may stand before `fn`.
const QUALIFIERS: [&str; 4] = ["const", "async", "unsafe", "default"];

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Function {
    pub(super) name: String,
    /// Where it begins, counted from 1.
    pub(super) line: usize,
    /// From the line with `fn` to the closing brace.
    pub(super) lines: usize,
}

pub(super) fn find(content: &str) -> Vec<Function> {
    let lines: Vec<&str> = content.lines().collect();
    let mut functions = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let Some(name) = declared(line) else { continue };
        // Attributes and documentation stand above and do not count.
        if let Some(length) = body_length(&lines[index..]) {
            functions.push(Function { name: name.to_owned(), line: index + 1, lines: length });
        }
    }
    functions
}

pub(super) fn check(file: &str, functions: &[Function]) -> Vec<Problem> {
    let long = functions.iter().filter(|function| function.lines > FUNCTION_LINES);
    long.map(|Function { name, line, lines }| {
        let instead = format!("`{name}` has {lines} lines, at most {FUNCTION_LINES}; split it");
        Problem::new(file, *line, "long function", instead)
    })
    .collect()
}

/// The name of the function that begins on this line.
fn declared(line: &str) -> Option<&str> {
    let mut rest = line.trim_start();
    if let Some(after) = rest.strip_prefix("pub") {
        rest = match after.strip_prefix('(') {
            Some(scope) => scope.split_once(')')?.1,
            None => after,
        };
        rest = rest.strip_prefix(' ')?;
    }
    while let Some((word, after)) = rest.split_once(' ') {
        if word == "fn" {
            let end = after.find(|c: char| !c.is_alphanumeric() && c != '_')?;
            return Some(&after[..end]);
        }
        // `extern "C"` brings a word in quotes along.
        if !QUALIFIERS.contains(&word) && word != "extern" && !word.starts_with('"') {
            return None;
        }
        rest = after;
    }
    None
}

/// Lines from the first one to the end of the body; none for a declaration without a body.
fn body_length(lines: &[&str]) -> Option<usize> {
    let first = lines.first()?;
    let indent = &first[..first.len() - first.trim_start().len()];
    let opens = lines.iter().position(|line| line.ends_with(['{', '}', ';']))?;
    if lines[opens].ends_with(';') {
        return None;
    }
    if lines[opens].ends_with('}') {
        return Some(opens + 1);
    }
    let closing = |line: &&str| line.strip_prefix(indent) == Some("}");
    let body = lines[opens..].iter().position(closing)?;
    Some(opens + body + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(content: &str) -> Vec<(String, usize, usize)> {
        find(content).into_iter().map(|f| (f.name, f.line, f.lines)).collect()
    }

    fn of(name: &str, line: usize, lines: usize) -> (String, usize, usize) {
        (name.to_owned(), line, lines)
    }

    #[test]
    fn nested_blocks_do_not_end_a_function() {
        let content = "fn a() {\n    if x {\n    }\n}\n\nfn b() {}\n";
        assert_eq!(found(content), [of("a", 1, 4), of("b", 6, 1)]);
    }

    #[test]
    fn qualifiers_generics_and_long_signatures_are_seen_through() {
        let content = "impl X {\n    pub(crate) async fn a<T>(\n        x: T,\n    \
                       ) -> T {\n        x\n    }\n}\n";
        assert_eq!(found(content), [of("a", 2, 5)]);
        assert_eq!(found("pub const unsafe extern \"C\" fn f() {\n}\n"), [of("f", 1, 2)]);
    }

    #[test]
    fn declarations_and_talk_are_not_functions() {
        assert_eq!(found("trait X {\n    fn a(&self);\n}\n"), []);
        assert_eq!(found("// fn a() {\n// }\nlet f: fn(u8) = g;\n"), []);
    }

    #[test]
    fn seventy_lines_pass_and_seventy_one_do_not() {
        let of_length = |n: usize| format!("fn a() {{\n{}}}\n", "    x;\n".repeat(n - 2));
        assert_eq!(check("a.rs", &find(&of_length(70))), []);
        let problems = check("a.rs", &find(&of_length(71)));
        assert_eq!(problems.len(), 1);
        assert!(problems[0].instead.contains("71 lines"), "{}", problems[0]);
    }
}
