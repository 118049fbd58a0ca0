//! GPUs: the devices a node has, and what a task may ask of them.
//!
//! `A100:40GB..:2` and the long form with named keys mean the same request. Whether a node can
//! serve it is the scheduler's question, not this file's; whether one device matches is answered
//! here, because the answer is only a comparison.

mod short;

pub(crate) use short::is_slice;

/// What [`is_slice`] takes, for people.
pub(crate) const SLICE_RULE: &str = "write it as the driver does: 1g.10gb, 2g.20gb+me";

use crate::ids::DeviceId;
use crate::limits::MAX_GPU_MODELS;
use crate::reading::{elements, parse, text_or_version};
use crate::units::{BadAmount, Bytes, GpuShare};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;
use std::str::FromStr;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum GpuVendor {
    Nvidia,
    Amd,
    Intel,
}

/// Where the knowledge of a device comes from; everything that shows a device says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum GpuSource {
    Nvml,
    Sysfs,
    Declared,
}

/// A dotted version such as a compute capability (`8.0`) or a driver (`550.54.15`).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(Vec<u32>);

/// One device, or one slice of a device, that a task can be given.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct GpuDevice {
    pub id: DeviceId,
    pub model: String,
    pub memory: Bytes,
    pub vendor: GpuVendor,
    pub source: GpuSource,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub capability: Option<Version>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub driver: Option<Version>,
    /// The profile of a hardware slice (`1g.10gb`), when this is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slice: Option<String>,
}

/// From and to, both inclusive and both optional: `40GB..`, `..80GB`, `8.0..9.0`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span<T> {
    pub from: Option<T>,
    pub to: Option<T>,
}

/// Numbers in one version; drivers have four.
pub const VERSION_PARTS: usize = 32;

impl<T> Default for Span<T> {
    fn default() -> Self {
        Span { from: None, to: None }
    }
}

impl<T: PartialOrd> Span<T> {
    pub fn holds(&self, value: &T) -> bool {
        self.from.as_ref().is_none_or(|from| value >= from)
            && self.to.as_ref().is_none_or(|to| value <= to)
    }
    pub fn is_any(&self) -> bool {
        self.from.is_none() && self.to.is_none()
    }
    /// Written the wrong way round: nothing lies between.
    pub fn is_empty(&self) -> bool {
        self.from.as_ref().zip(self.to.as_ref()).is_some_and(|(from, to)| from > to)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct GpuRequest {
    pub count: u32,
    /// Part of one device; `count` is 1 when this is less than a whole one.
    #[serde(skip_serializing_if = "is_whole", serialize_with = "share_as_text")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub share: GpuShare,
    #[serde(rename = "model", skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<String>,
    #[serde(skip_serializing_if = "Span::is_any")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub memory: Span<Bytes>,
    #[serde(skip_serializing_if = "Span::is_any")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub capability: Span<Version>,
    #[serde(skip_serializing_if = "Span::is_any")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub driver: Span<Version>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vendor: Option<GpuVendor>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slice: Option<String>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature serde asks for")]
fn is_whole(share: &GpuShare) -> bool {
    *share == GpuShare::WHOLE
}

/// As people write it (`0.25`), so that what is stored reads back by the same rule.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature serde asks for")]
fn share_as_text<S: Serializer>(share: &GpuShare, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(share)
}

impl Default for GpuRequest {
    fn default() -> Self {
        GpuRequest {
            count: 1,
            share: GpuShare::WHOLE,
            models: Vec::new(),
            memory: Span::default(),
            capability: Span::default(),
            driver: Span::default(),
            vendor: None,
            slice: None,
        }
    }
}

impl GpuRequest {
    pub fn devices(count: u32) -> Self {
        GpuRequest { count, ..Self::default() }
    }

    /// What no device could ever match, in a sentence that names the way out. Asked where a request
    /// comes in; what is stored already is read as it is.
    pub fn contradiction(&self) -> Option<String> {
        fn turned<T: PartialOrd + fmt::Display>(what: &str, span: &Span<T>) -> Option<String> {
            let (from, to) = (span.from.as_ref()?, span.to.as_ref()?);
            let found = format!("no GPU has a {what} of at least {from} and at most {to}");
            span.is_empty().then(|| format!("{found}; write {to}..{from}"))
        }
        if let Some(slice) = self.slice.as_deref().filter(|slice| !is_slice(slice)) {
            return Some(format!("`{slice}` is no profile of a hardware slice ({SLICE_RULE})"));
        }
        turned("memory", &self.memory)
            .or_else(|| turned("capability", &self.capability))
            .or_else(|| turned("driver", &self.driver))
    }

    /// Whether one of the wanted devices may be this one, leaving aside who uses it now.
    pub fn matches(&self, device: &GpuDevice) -> bool {
        let model = device.model.to_ascii_lowercase();
        let named = |wanted: &String| model.contains(&wanted.to_ascii_lowercase());
        let version_in = |span: &Span<Version>, found: &Option<Version>| {
            span.is_any() || found.as_ref().is_some_and(|version| span.holds(version))
        };
        (self.models.is_empty() || self.models.iter().any(named))
            && self.memory.holds(&device.memory)
            && version_in(&self.capability, &device.capability)
            && version_in(&self.driver, &device.driver)
            && self.vendor.is_none_or(|vendor| vendor == device.vendor)
            && self.is_slice_of(device)
    }

    /// A whole device is no slice, and a slice no whole device.
    fn is_slice_of(&self, device: &GpuDevice) -> bool {
        match (&self.slice, &device.slice) {
            (Some(wanted), Some(found)) => wanted.eq_ignore_ascii_case(found),
            (wanted, found) => wanted.is_none() && found.is_none(),
        }
    }
}

impl Version {
    pub fn new(parts: &[u32]) -> Version {
        Version(parts.to_vec())
    }

    /// Its numbers, the first one first; there is at least one.
    pub fn parts(&self) -> &[u32] {
        &self.0
    }
}

impl FromStr for Version {
    type Err = BadAmount;
    fn from_str(text: &str) -> Result<Self, BadAmount> {
        let bad = || BadAmount {
            text: text.chars().take(80).collect(),
            wanted: "a version (write 8.0 or 550.54)",
        };
        if text.split('.').count() > VERSION_PARTS {
            return Err(bad());
        }
        let parts = text.trim().split('.').map(|part| part.parse().map_err(|_| bad()));
        parts.collect::<Result<Vec<u32>, _>>().map(Version)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, part) in self.0.iter().enumerate() {
            write!(f, "{}{part}", if i == 0 { "" } else { "." })?;
        }
        Ok(())
    }
}

impl<T: FromStr<Err = BadAmount>> FromStr for Span<T> {
    type Err = BadAmount;
    /// A lone value means "at least", as people mean it when they ask for memory.
    fn from_str(text: &str) -> Result<Self, BadAmount> {
        let side = |part: &str| (!part.is_empty()).then(|| part.parse()).transpose();
        match text.split_once("..") {
            Some((from, to)) => Ok(Span { from: side(from)?, to: side(to)? }),
            None => Ok(Span { from: Some(text.parse()?), to: None }),
        }
    }
}

impl<T: fmt::Display> fmt::Display for Span<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = |value: &Option<T>| value.as_ref().map(T::to_string).unwrap_or_default();
        write!(f, "{}..{}", side(&self.from), side(&self.to))
    }
}

impl Serialize for Version {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

/// A text that reads back as exactly the same value; what people are shown may be rounded.
trait Exact {
    fn exact(&self) -> String;
}

impl Exact for Bytes {
    fn exact(&self) -> String {
        let shown = self.to_string();
        if shown.parse() == Ok(*self) { shown } else { self.0.to_string() }
    }
}

impl Exact for Version {
    fn exact(&self) -> String {
        self.to_string()
    }
}

impl<T: Exact> Serialize for Span<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let side = |value: &Option<T>| value.as_ref().map(T::exact).unwrap_or_default();
        to.collect_str(&format_args!("{}..{}", side(&self.from), side(&self.to)))
    }
}

impl<'de> Deserialize<'de> for Version {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        text_or_version("a version", from)
    }
}

impl<'de, T: FromStr<Err = BadAmount>> Deserialize<'de> for Span<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        text_or_version("a range", from)
    }
}

/// A share as people write it: `0.25`, with quotes or without.
fn written_share<'de, D: Deserializer<'de>>(from: D) -> Result<Option<GpuShare>, D::Error> {
    text_or_version("a share of a GPU", from).map(Some)
}

/// One model, or a list of them.
#[derive(Default)]
struct Models(Vec<String>);

impl<'de> Deserialize<'de> for Models {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Written;
        impl<'de> de::Visitor<'de> for Written {
            type Value = Models;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a model, or a list of models")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Models, E> {
                Ok(Models(vec![text.to_string()]))
            }
            fn visit_seq<A: de::SeqAccess<'de>>(self, list: A) -> Result<Models, A::Error> {
                elements::<MAX_GPU_MODELS, _, _>(list).map(Models)
            }
        }
        from.deserialize_any(Written)
    }
}

/// The request with named keys.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Long {
    count: Option<u32>,
    #[serde(default, deserialize_with = "written_share")]
    share: Option<GpuShare>,
    model: Option<Models>,
    #[serde(default)]
    memory: Span<Bytes>,
    #[serde(default)]
    capability: Span<Version>,
    #[serde(default)]
    driver: Span<Version>,
    vendor: Option<GpuVendor>,
    slice: Option<String>,
}

impl From<Long> for GpuRequest {
    fn from(long: Long) -> Self {
        GpuRequest {
            count: long.count.unwrap_or(1),
            share: long.share.unwrap_or(GpuShare::WHOLE),
            models: long.model.unwrap_or_default().0,
            memory: long.memory,
            capability: long.capability,
            driver: long.driver,
            vendor: long.vendor,
            slice: long.slice,
        }
    }
}

impl<'de> Deserialize<'de> for GpuRequest {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Written;
        impl<'de> de::Visitor<'de> for Written {
            type Value = GpuRequest;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("GPUs such as 2, A100:40GB..:2 or 0.25")
            }
            fn visit_u64<E: de::Error>(self, count: u64) -> Result<GpuRequest, E> {
                match u32::try_from(count) {
                    Ok(0) => Err(E::custom("a GPU request of 0 devices")),
                    Ok(count) => Ok(GpuRequest::devices(count)),
                    Err(_) => self.visit_str(&count.to_string()),
                }
            }
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<GpuRequest, E> {
                self.visit_str(&number.to_string())
            }
            fn visit_f64<E: de::Error>(self, share: f64) -> Result<GpuRequest, E> {
                self.visit_str(&share.to_string())
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<GpuRequest, E> {
                parse(text)
            }
            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<GpuRequest, A::Error> {
                Long::deserialize(de::value::MapAccessDeserializer::new(map)).map(Into::into)
            }
        }
        from.deserialize_any(Written)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(text: &str) -> GpuRequest {
        text.parse().expect(text)
    }

    #[test]
    fn the_long_form_says_the_same() {
        let json = r#"{"count":2,"model":["a100","h100"],"memory":"40GB..","capability":8.0}"#;
        let long: GpuRequest = serde_json::from_str(json).expect("good");
        assert_eq!(long.capability.from, Some(Version::new(&[8, 0])));
        let text = serde_json::to_string(&long).expect("json");
        assert_eq!(serde_json::from_str::<GpuRequest>(&text).expect("back"), long);
        assert!(serde_json::from_str::<GpuRequest>(r#"{"cout":2}"#).is_err());
    }

    #[test]
    fn a_range_the_wrong_way_round_is_told_with_the_right_one() {
        let said = |text: &str| request(text).contradiction();
        let expected = "no GPU has a memory of at least 40GB and at most 20GB; write 20GB..40GB";
        assert_eq!(said("A100:40GB..20GB").as_deref(), Some(expected));
        for good in ["20GB..40GB", "40GB..40GB", "40GB..", "..20GB", "2"] {
            assert_eq!(said(good), None, "{good}");
        }
        for (key, range) in [("capability", "9.0..8.0"), ("driver", "550.54..550.5")] {
            let long = format!(r#"{{"{key}":"{range}"}}"#);
            let long: GpuRequest = serde_json::from_str(&long).expect("stored ones are read");
            assert!(long.contradiction().is_some_and(|said| said.contains(key)), "{key}");
        }
    }

    #[test]
    fn a_device_matches_by_model_memory_and_capability() {
        let device = GpuDevice {
            id: DeviceId::new("GPU-1").expect("good"),
            model: "NVIDIA A100-SXM4-40GB".into(),
            memory: Bytes(42_949_672_960),
            vendor: GpuVendor::Nvidia,
            source: GpuSource::Declared,
            capability: Some(Version::new(&[8, 0])),
            driver: None,
            slice: None,
        };
        assert!(request("a100:40GB..").matches(&device));
        assert!(!request("H100").matches(&device));
        assert!(!request("80GB..").matches(&device));
        let needs_driver = GpuRequest { driver: "550..".parse().expect("span"), ..request("1") };
        assert!(!needs_driver.matches(&device), "an unknown driver satisfies no wish");
        let by = |vendor| GpuRequest { vendor: Some(vendor), ..request("1") }.matches(&device);
        assert!(by(GpuVendor::Nvidia) && !by(GpuVendor::Amd));
    }

    #[test]
    fn what_is_stored_reads_back_exactly() {
        let texts = [
            r#"{"share":0.25}"#,
            r#"{"share":"0.5","model":"t4"}"#,
            r#"{"count":2,"memory":"40GiB..","capability":8.0}"#,
            r#"{"memory":"1..80GB","driver":"550.54.."}"#,
        ];
        for text in texts {
            let request: GpuRequest = serde_json::from_str(text).expect(text);
            let stored = serde_json::to_string(&request).expect("json");
            assert_eq!(serde_json::from_str::<GpuRequest>(&stored).expect(&stored), request);
        }
    }
}
