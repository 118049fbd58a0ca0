//! Manifests, indexes and configurations, of OCI and of Docker (schema 2): JSON from outside,
//! judged. Pure.

use crate::limits::LAYER_LIMIT;
use crate::store::RunConfig;
use serde::{Deserialize, Deserializer};
use shipway_model::{BadImageRef, Digest};
use std::collections::BTreeMap;

/// What to ask a registry for.
pub const ACCEPTED: [&str; 4] = [OCI_INDEX, DOCKER_LIST, OCI_MANIFEST, DOCKER_MANIFEST];
const OCI_INDEX: &str = "application/vnd.oci.image.index.v1+json";
const OCI_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const DOCKER_LIST: &str = "application/vnd.docker.distribution.manifest.list.v2+json";
const DOCKER_MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";
/// What layers may be; how they are packed is seen by their first bytes.
const LAYERS: [&str; 5] = [
    "application/vnd.oci.image.layer.v1.tar",
    "application/vnd.oci.image.layer.v1.tar+gzip",
    "application/vnd.oci.image.layer.v1.tar+zstd",
    "application/vnd.docker.image.rootfs.diff.tar.gzip",
    "application/vnd.docker.image.rootfs.diff.tar",
];

#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    #[error("the {what} is not JSON of the right form")]
    Json {
        what: &'static str,
        #[source]
        source: serde_json::Error,
    },
    #[error("the manifest is of the old schema 1, which cannot be verified")]
    SchemaOne,
    #[error("the manifest has the unknown type `{0}`")]
    UnknownType(String),
    #[error("a layer has the type `{0}`, which is not a layer of an image")]
    LayerType(String),
    #[error("the manifest sends to other addresses for its layers, which is refused")]
    ForeignUrls,
    #[error("the manifest does not say which blob a layer is")]
    NoBlob,
    #[error("the image has more than {LAYER_LIMIT} layers")]
    TooManyLayers,
    #[error("the manifest has {layers} layers, and the configuration {diff_ids}")]
    Count { layers: usize, diff_ids: usize },
    #[error("the image is for {found}, and this machine is {wanted}")]
    Platform { wanted: String, found: String },
    #[error(transparent)]
    Digest(#[from] BadImageRef),
}

/// What an image is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImagePlan {
    pub image: Digest,
    pub platform: String,
    pub config: RunConfig,
    /// Lowest first.
    pub layers: Vec<PlannedLayer>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedLayer {
    pub diff_id: Digest,
    /// Of the packed bytes, where the source states them.
    pub digest: Option<Digest>,
    pub size: Option<u64>,
    /// Its position, and how the source finds it again.
    pub number: usize,
    /// The source as a whole was verified, and what the layer unpacks to has no digest.
    pub is_checked: bool,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    #[serde(default)]
    pub media_type: String,
    pub digest: String,
    pub size: u64,
    #[serde(default)]
    urls: Vec<String>,
    platform: Option<Platform>,
    #[serde(default)]
    pub annotations: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Deserialize)]
struct Platform {
    architecture: String,
    os: String,
}

/// A manifest or a list of them.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    schema_version: Option<u32>,
    media_type: Option<String>,
    manifests: Option<Vec<Descriptor>>,
    config: Option<Descriptor>,
    layers: Option<Vec<Descriptor>>,
}

#[derive(Debug)]
pub enum Parsed {
    Index(Vec<Descriptor>),
    Manifest { config: Descriptor, layers: Vec<Descriptor> },
}

/// `linux/amd64` and the like, for the machine this runs on.
pub fn this_platform() -> String {
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "powerpc64" => "ppc64le",
        other => other,
    };
    format!("linux/{architecture}")
}

/// Reads a manifest or an index. `stated` is the type the sender gave, where there is one.
pub fn parse(bytes: &[u8], stated: Option<&str>) -> Result<Parsed, ManifestError> {
    let document: Document = json(bytes, "manifest")?;
    if document.schema_version == Some(1) {
        return Err(ManifestError::SchemaOne);
    }
    // The document's own word counts before the sender's: its digest was verified.
    let kind = document.media_type.as_deref().or(stated);
    if let Some(kind) = kind.filter(|kind| !ACCEPTED.contains(kind) && kind.contains("vnd.")) {
        return Err(ManifestError::UnknownType(kind.chars().take(200).collect()));
    }
    match document {
        Document { manifests: Some(manifests), config: None, layers: None, .. } => {
            Ok(Parsed::Index(manifests))
        }
        Document { manifests: None, config: Some(config), layers: Some(layers), .. } => {
            check_layers(&layers)?;
            Ok(Parsed::Manifest { config, layers })
        }
        // Both at once would let two readers see two images.
        _ => Err(ManifestError::UnknownType("neither a manifest nor an index".to_owned())),
    }
}

fn check_layers(layers: &[Descriptor]) -> Result<(), ManifestError> {
    if layers.len() > LAYER_LIMIT {
        return Err(ManifestError::TooManyLayers);
    }
    for layer in layers {
        let foreign = layer.media_type.contains("foreign");
        if !layer.urls.is_empty() || foreign || layer.media_type.contains("nondistributable") {
            return Err(ManifestError::ForeignUrls);
        }
        if !layer.media_type.is_empty() && !LAYERS.contains(&layer.media_type.as_str()) {
            return Err(ManifestError::LayerType(layer.media_type.chars().take(200).collect()));
        }
    }
    Ok(())
}

/// The manifest for a platform out of an index.
pub fn choose<'a>(
    manifests: &'a [Descriptor],
    wanted: &str,
) -> Result<&'a Descriptor, ManifestError> {
    let name =
        |of: &Descriptor| of.platform.as_ref().map(|p| format!("{}/{}", p.os, p.architecture));
    let fits = manifests.iter().find(|one| name(one).as_deref() == Some(wanted));
    // A lone manifest without a platform is judged by its configuration.
    let lone = || manifests.first().filter(|one| manifests.len() == 1 && one.platform.is_none());
    fits.or_else(lone).ok_or_else(|| {
        let mut found: Vec<String> = manifests.iter().filter_map(name).collect();
        found.retain(|name| name != "unknown/unknown");
        found.dedup();
        let found = if found.is_empty() { "no platform".to_owned() } else { found.join(", ") };
        ManifestError::Platform { wanted: wanted.to_owned(), found }
    })
}

#[derive(Debug, Deserialize)]
struct Config {
    #[serde(default)]
    architecture: String,
    #[serde(default)]
    os: String,
    #[serde(rename = "config")]
    run: Option<ConfigOfRun>,
    rootfs: RootFs,
}

#[derive(Debug, Deserialize)]
struct RootFs {
    #[serde(default, deserialize_with = "null_is_empty")]
    diff_ids: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ConfigOfRun {
    #[serde(default, deserialize_with = "null_is_empty")]
    env: Vec<String>,
    #[serde(default, deserialize_with = "null_is_empty")]
    entrypoint: Vec<String>,
    #[serde(default, deserialize_with = "null_is_empty")]
    cmd: Vec<String>,
    #[serde(default, deserialize_with = "null_is_empty")]
    working_dir: String,
    #[serde(default, deserialize_with = "null_is_empty")]
    user: String,
    #[serde(default, deserialize_with = "null_is_empty")]
    labels: BTreeMap<String, String>,
}

/// Writers in Go say `null` for an empty list.
fn null_is_empty<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    from: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

/// From a configuration, and the manifest's layers where there is one, to a plan.
pub fn plan(
    image: Digest,
    config: &[u8],
    layers: Option<&[Descriptor]>,
    wanted: &str,
) -> Result<ImagePlan, ManifestError> {
    let config: Config = json(config, "configuration")?;
    let platform = format!("{}/{}", config.os, config.architecture);
    if platform != wanted && platform != "/" {
        return Err(ManifestError::Platform { wanted: wanted.to_owned(), found: platform });
    }
    let diff_ids = config.rootfs.diff_ids;
    if diff_ids.len() > LAYER_LIMIT {
        return Err(ManifestError::TooManyLayers);
    }
    if let Some(layers) = layers.filter(|layers| layers.len() != diff_ids.len()) {
        return Err(ManifestError::Count { layers: layers.len(), diff_ids: diff_ids.len() });
    }
    let mut planned = Vec::new();
    for (number, diff_id) in diff_ids.iter().enumerate() {
        let stated = layers.and_then(|layers| layers.get(number));
        planned.push(PlannedLayer {
            diff_id: diff_id.parse()?,
            digest: stated.map(|layer| layer.digest.parse()).transpose()?,
            size: stated.map(|layer| layer.size),
            number,
            is_checked: false,
        });
    }
    let ConfigOfRun { env, entrypoint, cmd, working_dir, user, labels } =
        config.run.unwrap_or_default();
    let config = RunConfig { env, entrypoint, cmd, workdir: working_dir, user, labels };
    Ok(ImagePlan { image, platform: wanted.to_owned(), config, layers: planned })
}

pub(super) fn json<'a, T: Deserialize<'a>>(
    bytes: &'a [u8],
    what: &'static str,
) -> Result<T, ManifestError> {
    serde_json::from_slice(bytes).map_err(|source| ManifestError::Json { what, source })
}

#[cfg(test)]
#[path = "manifest_tests.rs"]
mod tests;
