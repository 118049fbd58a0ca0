//! A GPU request in one word, as it is typed and shown: `A100:40GB..:2`. What it means is in
//! `gpu.rs`, with the long form of named keys.

use super::GpuRequest;
use crate::limits::MAX_GPU_MODELS;
use crate::units::{BadAmount, Bytes, GpuShare};
use std::fmt;
use std::str::FromStr;

impl FromStr for GpuRequest {
    type Err = BadAmount;
    /// `2`, `A100`, `A100,H100:40GB..:2`, `1g.10gb`, `0.25`: parts told apart by their form.
    fn from_str(text: &str) -> Result<Self, BadAmount> {
        let bad = |wanted| BadAmount { text: text.chars().take(80).collect(), wanted };
        let mut request = GpuRequest::default();
        let mut said = Vec::new();
        for part in text.trim().split(':').map(str::trim) {
            let part = read_part(&mut request, part).ok_or_else(|| bad(FORM))?;
            if said.contains(&part) {
                return Err(bad(part.once()));
            }
            said.push(part);
        }
        if request.count == 0 { Err(bad(FORM)) } else { Ok(request) }
    }
}

const FORM: &str = "a GPU request (write 2, A100:40GB..:2, 1g.10gb or 0.25)";

/// What one part of a request says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Count,
    Memory,
    Share,
    Slice,
    Models,
}

impl Part {
    /// What to write instead of two of them.
    fn once(self) -> &'static str {
        match self {
            Part::Count => "a GPU request: it has two counts (write one: A100:2)",
            Part::Memory => "a GPU request: it has two sizes (write one range: A100:40GB..80GB)",
            Part::Share => "a GPU request: it has two shares (write one: A100:0.25)",
            Part::Slice => "a GPU request: it has two slices (write one: 1g.10gb:2)",
            Part::Models => "a GPU request: several models stand with commas (A100,H100:2)",
        }
    }
}

fn read_part(request: &mut GpuRequest, part: &str) -> Option<Part> {
    let said = if let Ok(count) = part.parse::<u32>() {
        request.count = count;
        Part::Count
    } else if part.chars().all(|c| c.is_ascii_digit()) {
        return None; // More devices than there can be, and no unit that would make it a size.
    } else if part.contains("..") || part.parse::<Bytes>().is_ok() && !part.contains('.') {
        request.memory = part.parse().ok()?;
        Part::Memory
    } else if part.starts_with("0.") {
        request.share = part.parse().ok()?;
        Part::Share
    } else if is_slice(part) {
        request.slice = Some(part.to_ascii_lowercase());
        Part::Slice
    } else if part.chars().any(|c| c.is_ascii_alphabetic()) && !part.starts_with('-') {
        // What multiplies is a count, and no driver has it in a name.
        if part.split(',').count() > MAX_GPU_MODELS || part.contains('*') {
            return None;
        }
        request.models = part.split(',').map(|model| model.trim().to_string()).collect();
        Part::Models
    } else {
        return None;
    };
    Some(said)
}

/// MIG profile names: `1g.10gb`, `2g.20gb+me`, `1c.3g.40gb`.
pub(crate) fn is_slice(part: &str) -> bool {
    let lower = part.to_ascii_lowercase();
    let digits_then = |text: &str, end: char| {
        text.strip_suffix(end)
            .is_some_and(|d| !d.is_empty() && d.bytes().all(|b| b.is_ascii_digit()))
    };
    lower.contains("gb") && lower.split('.').any(|piece| digits_then(piece, 'g'))
}

impl fmt::Display for GpuRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts: Vec<String> = Vec::new();
        if !self.models.is_empty() {
            parts.push(self.models.join(","));
        }
        if let Some(slice) = &self.slice {
            parts.push(slice.clone());
        }
        if !self.memory.is_any() {
            parts.push(self.memory.to_string());
        }
        if self.share == GpuShare::WHOLE {
            parts.push(self.count.to_string());
        } else {
            parts.push(self.share.to_string());
        }
        f.write_str(&parts.join(":"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_short_form_is_told_apart_by_shape() {
        assert_eq!(read("2"), GpuRequest::devices(2));
        let both = read("A100,H100:40GB..:2");
        assert_eq!(both.models, ["A100", "H100"]);
        assert_eq!(both.memory.from, Some(Bytes(40_000_000_000)));
        assert_eq!(both.count, 2);
        assert_eq!(read("1g.10gb").slice.as_deref(), Some("1g.10gb"));
        assert_eq!(read("0.25").share, GpuShare(2_500));
        assert_eq!(read("80GB").memory.from, Some(Bytes(80_000_000_000)));
        for bad in ["", "0", "A100:", "..:..x", "-1", "1.5", "A100*2", "2*A100"] {
            assert!(bad.parse::<GpuRequest>().is_err(), "{bad}");
        }
        for (twice, form) in [
            ("A100:B100", "(A100,H100:2)"),
            ("A100:2:3", "(write one: A100:2)"),
            ("A100:40GB:80GB", "A100:40GB..80GB"),
            ("0.5:0.5", "A100:0.25"),
            ("1g.10gb:2g.20gb", "1g.10gb:2"),
        ] {
            let said = twice.parse::<GpuRequest>().expect_err(twice).to_string();
            assert!(said.contains(form), "{twice}: {said}");
        }
    }

    fn read(text: &str) -> GpuRequest {
        text.parse().expect(text)
    }
}
