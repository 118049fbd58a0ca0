//! Amounts as integers with a unit in the type: bytes, cores, GPU shares, spans and points of time.
//!
//! No floats: what the scheduler adds up must add up exactly. People write `16GB`, `0.5`, `1h30m`;
//! the same texts come back out.

use crate::reading::text_or_number;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// A text that is not an amount of the unit asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {wanted}")]
pub struct BadAmount {
    pub text: String,
    pub wanted: &'static str,
}

impl BadAmount {
    fn new(text: &str, wanted: &'static str) -> Self {
        BadAmount { text: text.chars().take(80).collect(), wanted }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(transparent)]
pub struct Bytes(pub u64);

/// Thousandths of a core.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Cores {
    pub milli: u64,
}

/// An amount of money in thousandths, of whatever currency all sites are in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Price {
    pub milli: u64,
}

/// Ten-thousandths of one GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(transparent)]
pub struct GpuShare(pub u32);

/// A span of time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Millis(pub u64);

/// A point in time: milliseconds since 1970, UTC. Always told, never looked up in the pure crates.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(transparent)]
pub struct Timestamp(pub u64);

impl Timestamp {
    #[must_use]
    pub fn plus(self, span: Millis) -> Timestamp {
        Timestamp(self.0.saturating_add(span.0))
    }
    pub fn since(self, earlier: Timestamp) -> Millis {
        Millis(self.0.saturating_sub(earlier.0))
    }
}

impl GpuShare {
    pub const WHOLE: GpuShare = GpuShare(10_000);
}

/// Splits `16.5GB` into (165, 1 decimal, "GB").
fn split_decimal(text: &str) -> Option<(u64, u32, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
        return None;
    }
    let digits: u64 = format!("{whole}{fraction}").parse().ok()?;
    Some((digits, u32::try_from(fraction.len()).ok()?, unit.trim()))
}

/// `digits` × `scale` / 10^`decimals`, exactly or not at all.
fn scaled(digits: u64, decimals: u32, scale: u64) -> Option<u64> {
    let product = u128::from(digits).checked_mul(u128::from(scale))?;
    let divisor = 10u128.checked_pow(decimals)?;
    (product % divisor == 0).then(|| u64::try_from(product / divisor).ok())?
}

const BYTE_UNITS: &[(&str, u64)] = &[
    ("", 1),
    ("B", 1),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("K", 1 << 10),
    ("M", 1 << 20),
    ("G", 1 << 30),
    ("T", 1 << 40),
    ("KIB", 1 << 10),
    ("MIB", 1 << 20),
    ("GIB", 1 << 30),
    ("TIB", 1 << 40),
];

impl FromStr for Bytes {
    type Err = BadAmount;
    fn from_str(text: &str) -> Result<Self, BadAmount> {
        let bad = || BadAmount::new(text, "a size (write 500MB, 16GB or 16GiB)");
        let (digits, decimals, unit) = split_decimal(text.trim()).ok_or_else(bad)?;
        let unit = unit.to_ascii_uppercase();
        let (_, scale) = BYTE_UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(bad)?;
        scaled(digits, decimals, *scale).map(Bytes).ok_or_else(bad)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: &[(&str, u64)] =
            &[("TB", 1_000_000_000_000), ("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1_000)];
        for (unit, scale) in SHOWN {
            if self.0 >= *scale {
                return write_tenths(f, self.0, *scale, unit);
            }
        }
        write!(f, "{}B", self.0)
    }
}

/// One decimal place, without a float.
fn write_tenths(f: &mut fmt::Formatter<'_>, value: u64, scale: u64, unit: &str) -> fmt::Result {
    let tenths = u128::from(value) * 10 / u128::from(scale);
    let (whole, tenth) = (tenths / 10, tenths % 10);
    if tenth == 0 { write!(f, "{whole}{unit}") } else { write!(f, "{whole}.{tenth}{unit}") }
}

impl Cores {
    pub const fn whole(cores: u64) -> Cores {
        Cores { milli: cores * 1_000 }
    }
}

impl FromStr for Cores {
    type Err = BadAmount;
    fn from_str(text: &str) -> Result<Self, BadAmount> {
        let bad = || BadAmount::new(text, "a number of cores (write 4 or 0.5)");
        let (digits, decimals, unit) = split_decimal(text.trim()).ok_or_else(bad)?;
        let milli = scaled(digits, decimals, 1_000).filter(|_| unit.is_empty()).ok_or_else(bad)?;
        Ok(Cores { milli })
    }
}

impl Price {
    /// `skip_serializing_if` asks for a reference.
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature serde asks for")]
    pub fn is_nothing(&self) -> bool {
        self.milli == 0
    }
}

impl FromStr for Price {
    type Err = BadAmount;
    fn from_str(text: &str) -> Result<Self, BadAmount> {
        let bad = || BadAmount::new(text, "a price (write 2 or 0.35)");
        let (digits, decimals, unit) = split_decimal(text.trim()).ok_or_else(bad)?;
        let milli = scaled(digits, decimals, 1_000).filter(|_| unit.is_empty()).ok_or_else(bad)?;
        Ok(Price { milli })
    }
}

impl fmt::Display for Price {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_decimal(f, self.milli, 3)
    }
}

impl fmt::Display for Cores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_decimal(f, self.milli, 3)
    }
}

impl FromStr for GpuShare {
    type Err = BadAmount;
    fn from_str(text: &str) -> Result<Self, BadAmount> {
        let bad = || BadAmount::new(text, "a share of a GPU (write 0.25)");
        let (digits, decimals, unit) = split_decimal(text.trim()).ok_or_else(bad)?;
        let share = scaled(digits, decimals, 10_000).filter(|_| unit.is_empty());
        let share = share.filter(|s| (1..=10_000).contains(s)).ok_or_else(bad)?;
        u32::try_from(share).map(GpuShare).map_err(|_| bad())
    }
}

impl fmt::Display for GpuShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_decimal(f, u64::from(self.0), 4)
    }
}

/// A fixed-point number without trailing zeros: 1500 with 3 places is `1.5`.
fn write_decimal(f: &mut fmt::Formatter<'_>, value: u64, places: u32) -> fmt::Result {
    let scale = 10u64.pow(places);
    let (whole, rest) = (value / scale, value % scale);
    if rest == 0 {
        return write!(f, "{whole}");
    }
    let width = places as usize;
    let digits = format!("{rest:0width$}");
    write!(f, "{whole}.{}", digits.trim_end_matches('0'))
}

const SPAN_UNITS: &[(&str, u64)] = &[
    ("ms", 1),
    ("s", 1_000),
    ("m", 60_000),
    ("min", 60_000),
    ("h", 3_600_000),
    ("d", 86_400_000),
    ("w", 604_800_000),
];

impl FromStr for Millis {
    type Err = BadAmount;
    fn from_str(text: &str) -> Result<Self, BadAmount> {
        let bad = || BadAmount::new(text, "a time span (write 90s, 1h30m, 2d or HH:MM:SS)");
        let text = text.trim();
        if text.contains(':') {
            return clock_span(text).map(Millis).ok_or_else(bad);
        }
        let mut rest = text;
        let mut total = 0u64;
        while !rest.is_empty() {
            let (digits, decimals, tail) = split_decimal(rest).ok_or_else(bad)?;
            let end = tail.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(tail.len());
            let (unit, next) = tail.split_at(end);
            // A bare number is seconds, as in most batch systems' files.
            let scale = if unit.is_empty() && rest == text { Some(1_000) } else { span_unit(unit) };
            let part = scaled(digits, decimals, scale.ok_or_else(bad)?).ok_or_else(bad)?;
            total = total.checked_add(part).ok_or_else(bad)?;
            rest = next;
        }
        if text.is_empty() { Err(bad()) } else { Ok(Millis(total)) }
    }
}

fn span_unit(unit: &str) -> Option<u64> {
    SPAN_UNITS.iter().find(|(name, _)| *name == unit).map(|(_, scale)| *scale)
}

/// `HH:MM:SS` or `MM:SS`.
fn clock_span(text: &str) -> Option<u64> {
    let parts: Vec<u64> = text.split(':').map(|p| p.parse().ok()).collect::<Option<_>>()?;
    let seconds = match parts.as_slice() {
        [m, s] => m.checked_mul(60)?.checked_add(*s)?,
        [h, m, s] => h.checked_mul(3_600)?.checked_add(m.checked_mul(60)?)?.checked_add(*s)?,
        _ => return None,
    };
    seconds.checked_mul(1_000)
}

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 < 1_000 {
            return write!(f, "{}ms", self.0);
        }
        let mut rest = self.0;
        for (unit, scale) in [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)] {
            if rest >= scale {
                write!(f, "{}{unit}", rest / scale)?;
                rest %= scale;
            }
        }
        if rest > 0 { write!(f, "{rest}ms") } else { Ok(()) }
    }
}

macro_rules! read_as_written {
    ($($kind:ident: $wanted:literal)*) => {$(
        impl<'de> Deserialize<'de> for $kind {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                text_or_number($wanted, from)
            }
        }
    )*};
}
read_as_written!(
    Bytes: "a size" Cores: "a number of cores" Millis: "a time span" Price: "a price"
);

impl Serialize for Cores {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        thousandths(self.milli, to)
    }
}

impl Serialize for Price {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        thousandths(self.milli, to)
    }
}

/// As a plain number.
fn thousandths<S: Serializer>(milli: u64, to: S) -> Result<S::Ok, S::Error> {
    if milli.is_multiple_of(1_000) {
        return to.serialize_u64(milli / 1_000);
    }
    #[allow(clippy::cast_precision_loss, reason = "thousandths below 2^52 come back exactly")]
    to.serialize_f64(milli as f64 / 1_000.0)
}

impl Serialize for Millis {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        for (text, bytes) in [
            ("0", 0),
            ("500MB", 500_000_000),
            ("16GB", 16_000_000_000),
            ("1.5GB", 1_500_000_000),
            ("16GiB", 16 << 30),
            ("4G", 4 << 30),
            ("12", 12),
            ("1 kB", 1_000),
        ] {
            assert_eq!(text.parse(), Ok(Bytes(bytes)), "{text}");
        }
        for bad in ["", "GB", "1.2.3GB", "-1", "16 potatoes", "0.0001kB", "99999999999TB", "1e9"] {
            assert!(bad.parse::<Bytes>().is_err(), "{bad}");
        }
    }

    #[test]
    fn spans_are_read_as_people_write_them() {
        for (text, millis) in [
            ("90", 90_000),
            ("90s", 90_000),
            ("1h30m", 5_400_000),
            ("500ms", 500),
            ("2d", 172_800_000),
            ("01:30:00", 5_400_000),
            ("1.5h", 5_400_000),
        ] {
            assert_eq!(text.parse(), Ok(Millis(millis)), "{text}");
        }
        for bad in ["", "h", "1h30", "1x", "1:2:3:4", "-5s", "999999999999999w"] {
            assert!(bad.parse::<Millis>().is_err(), "{bad}");
        }
    }

    #[test]
    fn cores_and_shares_are_exact() {
        assert_eq!("0.5".parse(), Ok(Cores { milli: 500 }));
        assert!("0.0001".parse::<Cores>().is_err());
        assert_eq!("0.25".parse(), Ok(GpuShare(2_500)));
        assert!("1.5".parse::<GpuShare>().is_err());
        assert!("0".parse::<GpuShare>().is_err());
        assert_eq!(Cores { milli: 1_500 }.to_string(), "1.5");
        assert_eq!("0.35".parse(), Ok(Price { milli: 350 }));
        assert_eq!(serde_json::from_str::<Price>("2.5").expect("read"), Price { milli: 2_500 });
        assert_eq!(GpuShare(2_500).to_string(), "0.25");
    }

    proptest! {
        #[test]
        fn what_is_printed_reads_back(milli in 0u64..1 << 40) {
            prop_assert_eq!(Millis(milli).to_string().parse(), Ok(Millis(milli)));
            let cores = Cores { milli };
            prop_assert_eq!(cores.to_string().parse(), Ok(cores));
            let json = serde_json::to_string(&cores).expect("json");
            prop_assert_eq!(serde_json::from_str::<Cores>(&json).expect("back"), cores);
        }
    }
}
