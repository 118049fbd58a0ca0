//! Prometheus' text exposition format, version 0.0.4: the few rules of it that are used here.
//!
//! By hand, because it is a dozen lines and the numbers are integers and fixed-point decimals.

use std::fmt::{Display, Write as _};

/// What the answer is labelled as.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// A page being written, one family after the other.
#[derive(Debug, Default)]
pub(super) struct Text {
    page: String,
    family: &'static str,
}

/// Names and values of labels; all of them are ours, so none needs escaping.
pub(super) type Labels<'a> = [(&'static str, &'a str)];

impl Text {
    pub(super) fn family(&mut self, name: &'static str, kind: Kind, help: &str) {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        self.family = name;
        let _ = write!(self.page, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    pub(super) fn sample(&mut self, labels: &Labels<'_>, value: impl Display) {
        self.part("", labels, value);
    }

    /// A family of one sample without labels.
    pub(super) fn single(
        &mut self,
        name: &'static str,
        kind: Kind,
        help: &str,
        value: impl Display,
    ) {
        self.family(name, kind, help);
        self.sample(&[], value);
    }

    /// A sample whose name has more to it than the family's (`_bucket`, `_sum`, `_count`).
    pub(super) fn part(&mut self, suffix: &str, labels: &Labels<'_>, value: impl Display) {
        self.page.push_str(self.family);
        self.page.push_str(suffix);
        for (at, (name, value)) in labels.iter().enumerate() {
            debug_assert!(!value.contains(['"', '\\', '\n']), "labels are ours");
            let opening = if at == 0 { '{' } else { ',' };
            let _ = write!(self.page, "{opening}{name}=\"{value}\"");
        }
        if !labels.is_empty() {
            self.page.push('}');
        }
        let _ = writeln!(self.page, " {value}");
    }

    pub(super) fn finish(self) -> String {
        self.page
    }
}

/// A fixed-point number without trailing zeros: 1500 with 3 places is `1.5`.
pub(super) fn decimal(value: u64, places: u32) -> String {
    let scale = 10u64.pow(places);
    let (whole, rest) = (value / scale, value % scale);
    if rest == 0 {
        return whole.to_string();
    }
    let width = places as usize;
    format!("{whole}.{rest:0width$}").trim_end_matches('0').to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_exact() {
        for (value, places, shown) in
            [(0, 3, "0"), (1_500, 3, "1.5"), (7, 6, "0.000007"), (10, 0, "10"), (100, 2, "1")]
        {
            assert_eq!(decimal(value, places), shown);
        }
    }
}
