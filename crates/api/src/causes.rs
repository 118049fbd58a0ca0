//! An error with all its causes in one line, for the log and for `/readyz`.

pub fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut last = text.clone();
    let mut source = error.source();
    while let Some(cause) = source {
        let said = cause.to_string();
        // SQLite's errors say the same once more with a number before it.
        if !said.contains(&last) {
            text = format!("{text}: {said}");
            last = said;
        }
        source = cause.source();
    }
    text
}
