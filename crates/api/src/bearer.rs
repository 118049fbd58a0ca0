//! How a token is shown in the header of a request.

const SCHEME: &str = "Bearer ";

pub fn header(token: &str) -> String {
    format!("{SCHEME}{token}")
}

/// The token that a header shows, if it shows one.
pub fn token(header: &str) -> Option<&str> {
    header.strip_prefix(SCHEME)
}
