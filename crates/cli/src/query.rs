//! The `?name=value&…` of a request, with what must not stand in a URL encoded.

use std::fmt::Write;

#[derive(Debug, Default)]
pub struct Query(String);

impl Query {
    pub fn new() -> Self {
        Self::default()
    }

    #[must_use]
    #[allow(clippy::needless_pass_by_value, reason = "numbers and borrowed texts read best bare")]
    pub fn with(mut self, name: &str, value: impl ToString) -> Self {
        self.0.push(if self.0.is_empty() { '?' } else { '&' });
        self.0.push_str(name);
        self.0.push('=');
        for byte in value.to_string().bytes() {
            if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
                self.0.push(char::from(byte));
            } else {
                write!(self.0, "%{byte:02X}").expect("a string takes all text");
            }
        }
        self
    }

    #[must_use]
    pub fn maybe(self, name: &str, value: Option<impl ToString>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    /// The path with the query behind it.
    pub fn on(&self, path: &str) -> String {
        format!("{path}{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_write_cannot_leave_its_place() {
        let query = Query::new().with("name", "a&b=c d/é").maybe("x", None::<u32>).with("n", 3);
        assert_eq!(query.on("/p"), "/p?name=a%26b%3Dc%20d%2F%C3%A9&n=3");
        assert_eq!(Query::new().on("/p"), "/p");
    }
}
