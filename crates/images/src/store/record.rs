//! What is known of an image: where it came from, what it is made of, how it wants to be run.

use crate::layer::index::LeftOut;
use serde::{Deserialize, Serialize};
use shipway_model::{Bytes, Digest, ImageRef, Timestamp};
use std::collections::BTreeMap;

/// `image.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageRecord {
    /// The digest of its manifest; of its configuration or file where there is no manifest.
    pub image: Digest,
    pub source: ImageRef,
    pub platform: String,
    pub unpacked_at: Timestamp,
    pub layers: Vec<LayerRecord>,
    /// Of its tree.
    pub files: u64,
    pub bytes: Bytes,
    pub left_out: LeftOut,
    pub config: RunConfig,
    /// A login was needed for it, or somebody's file: whoever else wants it has to show theirs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub private: bool,
}

impl ImageRecord {
    /// Whether it is not for everybody. Records from before did not say so of files.
    pub fn needs_proof(&self) -> bool {
        self.private || self.source.place().is_some()
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerRecord {
    pub diff_id: Digest,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
    /// As fetched; 0 when the source does not say.
    pub packed: Bytes,
    pub unpacked: Bytes,
}

/// How an image wants to be run, as its configuration says.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunConfig {
    #[serde(default)]
    pub env: Vec<String>,
    #[serde(default)]
    pub entrypoint: Vec<String>,
    #[serde(default)]
    pub cmd: Vec<String>,
    #[serde(default)]
    pub workdir: String,
    #[serde(default)]
    pub user: String,
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
}

impl RunConfig {
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.env.iter().find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
    }

    /// The CUDA version the image was made with, where it says so.
    pub fn cuda(&self) -> Option<&str> {
        let label = |name: &str| self.labels.get(name).map(String::as_str);
        let from_requirement = || {
            let text = self.variable("NVIDIA_REQUIRE_CUDA")?;
            text.split([' ', ',']).find_map(|part| part.strip_prefix("cuda>="))
        };
        self.variable("CUDA_VERSION")
            .or_else(from_requirement)
            .or_else(|| label("com.nvidia.cuda.version"))
            .filter(|text| !text.is_empty())
    }
}

/// A name of an image: a reference, and where it led last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Named {
    pub reference: ImageRef,
    pub image: Digest,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cuda_version_is_found_where_images_put_it() {
        let with = |env: &str| RunConfig { env: vec![env.into()], ..RunConfig::default() };
        assert_eq!(with("CUDA_VERSION=12.4.1").cuda(), Some("12.4.1"));
        let required = with("NVIDIA_REQUIRE_CUDA=cuda>=12.4 brand=tesla,driver>=470");
        assert_eq!(required.cuda(), Some("12.4"));
        assert_eq!(with("PATH=/bin").cuda(), None);
    }
}
