//! What a site's file declares about a node: devices for tests and dry planning, amounts that the
//! probe cannot know (licences) or should not believe.
//!
//! Declared devices say so wherever they are shown.

use super::Probe;
use serde::{Deserialize, Deserializer, de};
use shipway_classad::{Ad, Name, parse_expression};
use shipway_model::gpu::{GpuDevice, GpuSource, GpuVendor, Version};
use shipway_model::ids::DeviceId;
use shipway_model::units::{Bytes, Cores};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[derive(Debug, thiserror::Error)]
pub enum DeclaredError {
    #[error("cannot read the declared resources in {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot understand the declared resources in {}", path.display())]
    Parse { path: PathBuf, source: serde_json::Error },
    #[error("{} declares the attribute `{name}`: {what}", path.display())]
    Attribute { path: PathBuf, name: String, what: String },
    #[error("{} declares attributes that go in a circle: {circle}", path.display())]
    Circle { path: PathBuf, circle: String },
    #[error("{} declares {what} twice", path.display())]
    Twice { path: PathBuf, what: String },
}

/// The file: `{"gpus": […], "cpus_milli": 4000, "memory": "64GB", "named": {"licences": 3}}`,
/// every part optional.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Declared {
    pub gpus: Vec<DeclaredGpu>,
    pub cpus_milli: Option<u64>,
    pub memory: Option<Bytes>,
    pub disk: Option<Bytes>,
    #[serde(deserialize_with = "each_once")]
    pub named: BTreeMap<String, u64>,
    /// ClassAd expressions by name, for requirements: `{"Rack": "7", "HasFastDisk": "true"}`.
    pub attributes: BTreeMap<String, String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeclaredGpu {
    pub uuid: DeviceId,
    pub model: String,
    pub memory: Bytes,
    pub vendor: GpuVendor,
    #[serde(default)]
    pub capability: Option<Version>,
    #[serde(default)]
    pub driver: Option<Version>,
    #[serde(default)]
    pub slice: Option<String>,
}

impl Declared {
    pub fn read(path: &Path) -> Result<Self, DeclaredError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| DeclaredError::Read { path: path.to_owned(), source })?;
        let declared: Declared = serde_json::from_str(&text)
            .map_err(|source| DeclaredError::Parse { path: path.to_owned(), source })?;
        for (name, text) in &declared.attributes {
            let starts = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
            let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            let what = if starts && plain {
                shipway_classad::complaint(text)
            } else {
                Some("this is not the name of an attribute (letters, digits and _)".into())
            };
            if let Some(what) = what {
                let (path, name) = (path.to_owned(), name.clone());
                return Err(DeclaredError::Attribute { path, name, what });
            }
        }
        if let Some(circle) = declared.circle() {
            return Err(DeclaredError::Circle { path: path.to_owned(), circle });
        }
        match declared.twice() {
            Some(what) => Err(DeclaredError::Twice { path: path.to_owned(), what }),
            None => Ok(declared),
        }
    }

    /// Attributes that are said by one another, and would be undefined.
    fn circle(&self) -> Option<String> {
        let read = |(name, text): (&String, &String)| {
            Some((Name::from(name.as_str()), parse_expression(text).ok()?))
        };
        let ad: Ad = self.attributes.iter().filter_map(read).collect();
        let around = shipway_classad::circle(&Arc::new(ad))?;
        let around: Vec<String> = around.iter().map(Name::to_text).collect();
        Some(around.join(" needs "))
    }

    /// What stands in the file more than once. Which of the two was meant nobody can tell.
    fn twice(&self) -> Option<String> {
        let mut seen = BTreeSet::new();
        let gpu = self.gpus.iter().find(|gpu| !seen.insert(&gpu.uuid));
        gpu.map(|gpu| format!("the GPU {}", gpu.uuid))
    }

    /// Amounts replace what was found, named ones and devices are added. A device that was really
    /// found is never hidden by a declared one of the same name.
    pub(super) fn apply(self, probe: &mut Probe) {
        let capacity = &mut probe.capacity;
        capacity.cpus = self.cpus_milli.map_or(capacity.cpus, |milli| Cores { milli });
        capacity.memory = self.memory.unwrap_or(capacity.memory);
        capacity.disk = self.disk.unwrap_or(capacity.disk);
        capacity.named.extend(self.named);
        probe.attributes.extend(self.attributes);
        for gpu in self.gpus {
            if probe.gpus.iter().any(|found| found.id == gpu.uuid) {
                probe.notes.push(format!("GPU {} is declared, and really there", gpu.uuid));
            } else {
                probe.gpus.push(gpu.into());
            }
        }
    }
}

/// A map that refuses a key it has seen; serde's own would take the last.
fn each_once<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<String, u64>, D::Error> {
    struct Amounts;
    impl<'de> de::Visitor<'de> for Amounts {
        type Value = BTreeMap<String, u64>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("names with whole numbers")
        }
        fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut amounts = BTreeMap::new();
            while let Some((name, amount)) = map.next_entry::<String, u64>()? {
                if amounts.contains_key(&name) {
                    return Err(de::Error::custom(format_args!("`{name}` is given twice")));
                }
                amounts.insert(name, amount);
            }
            Ok(amounts)
        }
    }
    from.deserialize_map(Amounts)
}

impl From<DeclaredGpu> for GpuDevice {
    fn from(gpu: DeclaredGpu) -> Self {
        let DeclaredGpu { uuid, model, memory, vendor, capability, driver, slice } = gpu;
        let source = GpuSource::Declared;
        Self { id: uuid, model, memory, vendor, source, capability, driver, slice }
    }
}
