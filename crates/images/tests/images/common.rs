//! Images made by the tests themselves: archives, layers, layouts; and a store to pull into.

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use shipway_images::progress::Silent;
use shipway_images::tar::{Kind, Member, Time, write};
use shipway_images::{Ensured, Holder, ImageError, Pull, Settings, Store};
use shipway_model::{ImageRef, Timestamp};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

pub(crate) const GZIP: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
pub(crate) const NOW: Timestamp = Timestamp(1_800_000_000_000);

/// An archive in the making.
#[derive(Debug, Default, Clone)]
pub(crate) struct Tar(pub(crate) Vec<u8>);

pub(crate) fn member(path: impl Into<Vec<u8>>, kind: Kind) -> Member {
    Member {
        path: path.into(),
        kind,
        mode: if kind == Kind::Dir { 0o755 } else { 0o644 },
        uid: 0,
        gid: 0,
        mtime: Time { seconds: 1_700_000_000, nanos: 0 },
        link: Vec::new(),
        size: 0,
        sparse: None,
        xattrs: Vec::new(),
    }
}

impl Tar {
    pub(crate) fn new() -> Self {
        Tar::default()
    }

    pub(crate) fn with(mut self, mut member: Member, content: &[u8]) -> Self {
        member.size = content.len() as u64;
        write::header(&mut self.0, &member).expect("memory");
        self.0.extend_from_slice(content);
        write::pad(&mut self.0, member.size).expect("memory");
        self
    }

    pub(crate) fn file(self, path: &str, content: &str) -> Self {
        self.with(member(path, Kind::File), content.as_bytes())
    }

    pub(crate) fn dir(self, path: &str) -> Self {
        self.with(member(path, Kind::Dir), b"")
    }

    pub(crate) fn link(self, path: &str, to: &str) -> Self {
        let link = to.into();
        self.with(Member { link, ..member(path, Kind::Symlink) }, b"")
    }

    pub(crate) fn hard(self, path: &str, to: &str) -> Self {
        let link = to.into();
        self.with(Member { link, ..member(path, Kind::HardLink) }, b"")
    }

    pub(crate) fn raw(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    pub(crate) fn end(mut self) -> Vec<u8> {
        write::end(&mut self.0).expect("memory");
        self.0
    }
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = GzEncoder::new(Vec::new(), Compression::new(6));
    out.write_all(bytes).expect("memory");
    out.finish().expect("memory")
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    let hex: Vec<String> = Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect();
    format!("sha256:{}", hex.concat())
}

/// A layer as it goes into a layout: its packed bytes, and what is claimed of it.
#[derive(Debug, Clone)]
pub(crate) struct Layer {
    pub(crate) packed: Vec<u8>,
    pub(crate) diff_id: String,
    pub(crate) descriptor: Value,
}

impl Layer {
    pub(crate) fn new(tar: &[u8]) -> Self {
        Layer::packed(gzip(tar), tar)
    }

    pub(crate) fn packed(packed: Vec<u8>, tar: &[u8]) -> Self {
        let descriptor =
            json!({"mediaType": GZIP, "digest": sha256(&packed), "size": packed.len()});
        Layer { packed, diff_id: sha256(tar), descriptor }
    }
}

/// Writes an OCI layout with one image.
pub(crate) fn layout(dir: &Path, layers: &[Layer]) -> ImageRef {
    layout_with(dir, layers, |_| {})
}

/// The same, with a last change of the manifest.
pub(crate) fn layout_with(
    dir: &Path,
    layers: &[Layer],
    change: impl FnOnce(&mut Value),
) -> ImageRef {
    let blobs = dir.join("blobs/sha256");
    fs::create_dir_all(&blobs).expect("directory");
    let put = |bytes: &[u8], named: &str| {
        fs::write(blobs.join(named.trim_start_matches("sha256:")), bytes).expect("written");
    };
    for layer in layers {
        put(&layer.packed, layer.descriptor["digest"].as_str().expect("digest"));
    }
    let architecture = shipway_images::sources::manifest::this_platform();
    let architecture = architecture.strip_prefix("linux/").expect("linux");
    let diff_ids: Vec<&String> = layers.iter().map(|layer| &layer.diff_id).collect();
    let config = json!({"os": "linux", "architecture": architecture,
        "config": {"Env": ["PATH=/bin", "CUDA_VERSION=12.4.1"], "Cmd": ["sh"],
            "Labels": {"who": "test"}},
        "rootfs": {"type": "layers", "diff_ids": diff_ids}})
    .to_string();
    put(config.as_bytes(), &sha256(config.as_bytes()));
    let kind = "application/vnd.oci.image.config.v1+json";
    let descriptors: Vec<&Value> = layers.iter().map(|layer| &layer.descriptor).collect();
    let mut manifest = json!({"schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": {"mediaType": kind, "digest": sha256(config.as_bytes()), "size": config.len()},
        "layers": descriptors});
    change(&mut manifest);
    let manifest = manifest.to_string();
    let digest = sha256(manifest.as_bytes());
    put(manifest.as_bytes(), &digest);
    let index = json!({"schemaVersion": 2, "manifests": [{"digest": digest,
        "size": manifest.len(), "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "annotations": {"org.opencontainers.image.ref.name": "latest"}}]});
    fs::write(dir.join("index.json"), index.to_string()).expect("written");
    fs::write(dir.join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#).expect("written");
    format!("oci:{}", dir.display()).parse().expect("reference")
}

/// A store of its own, gone at the end.
pub(crate) struct Fixture {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) store: Store,
    pub(crate) settings: Settings,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().expect("directory");
        let store = Store::create(&dir.path().join("store")).expect("store");
        Fixture { dir, store, settings: Settings::default() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn pull(&self, reference: &ImageRef) -> Result<Ensured, ImageError> {
        let holder = Holder::begin(&self.store)?;
        pull(&holder, &self.settings, reference)
    }

    /// Pulls an image of these layers and says where its tree is.
    pub(crate) fn unpack(&self, name: &str, layers: &[Layer]) -> Result<PathBuf, ImageError> {
        let reference = layout(&self.path(name), layers);
        self.pull(&reference).map(|done| self.store.tree(&done.image))
    }

    pub(crate) fn assert_whole(&self) {
        assert_eq!(self.store.verify().expect("verified"), []);
    }
}

pub(crate) fn pull(
    holder: &Holder,
    settings: &Settings,
    reference: &ImageRef,
) -> Result<Ensured, ImageError> {
    Pull { holder, settings, progress: &Silent, now: NOW }.run(reference)
}

/// An error with all its causes.
pub(crate) fn told(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut at = error.source();
    while let Some(source) = at {
        text = format!("{text}: {source}");
        at = source.source();
    }
    text
}
