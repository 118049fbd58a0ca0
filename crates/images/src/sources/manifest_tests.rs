//! Documents as registries send them, and as they must not.

use super::*;
use serde_json::{Value, json};

const DIGEST: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

fn manifest(layer: &Value) -> Value {
    let config = json!({"digest": DIGEST, "size": 2, "mediaType": "x"});
    json!({"schemaVersion": 2, "mediaType": OCI_MANIFEST, "config": config, "layers": [layer]})
}

fn layer(kind: &str) -> Value {
    json!({"mediaType": kind, "digest": DIGEST, "size": 1})
}

fn why(document: &Value) -> String {
    parse(document.to_string().as_bytes(), None).expect_err("refused").to_string()
}

#[test]
fn what_could_mislead_is_refused() {
    let good = manifest(&layer(LAYERS[1]));
    assert!(matches!(parse(good.to_string().as_bytes(), None), Ok(Parsed::Manifest { .. })));
    let mut urls = layer(LAYERS[1]);
    urls["urls"] = json!(["http://169.254.169.254/"]);
    assert!(why(&manifest(&urls)).contains("other addresses"));
    let foreign = layer("application/vnd.docker.image.rootfs.foreign.diff.tar.gzip");
    assert!(why(&manifest(&foreign)).contains("other addresses"));
    assert!(why(&manifest(&layer("application/wasm"))).contains("not a layer"));
    assert!(why(&json!({"schemaVersion": 1})).contains("schema 1"));
    let mut both = good.clone();
    both["manifests"] = json!([]);
    assert!(why(&both).contains("neither"));
    let mut many = good;
    many["layers"] = json!(vec![layer(LAYERS[1]); LAYER_LIMIT + 1]);
    assert!(why(&many).contains("layers"));
    assert!(parse(b"{", None).is_err());
}

#[test]
fn the_platform_decides() {
    let of = |os: &str, architecture: &str| {
        let mut one = layer(OCI_MANIFEST);
        one["platform"] = json!({"os": os, "architecture": architecture});
        one
    };
    let index = json!({"manifests": [of("linux", "arm64"), of("unknown", "unknown"),
        of("linux", "amd64")]});
    let Ok(Parsed::Index(all)) = parse(index.to_string().as_bytes(), Some(OCI_INDEX)) else {
        panic!("an index");
    };
    assert!(choose(&all, "linux/amd64").is_ok());
    let error = choose(&all, "linux/s390x").expect_err("none").to_string();
    assert!(error.contains("linux/arm64, linux/amd64"), "{error}");
}

#[test]
fn a_plan_pairs_layers_with_their_digests() {
    let config = json!({"os": "linux", "architecture": "amd64",
        "config": {"Env": ["A=1"], "Cmd": null, "Labels": null, "WorkingDir": "/w"},
        "rootfs": {"type": "layers", "diff_ids": [DIGEST]}})
    .to_string();
    let descriptors: Vec<Descriptor> =
        vec![serde_json::from_value(layer(LAYERS[1])).expect("plain")];
    let image = DIGEST.parse().expect("digest");
    let found = plan(image, config.as_bytes(), Some(&descriptors), "linux/amd64").expect("plan");
    assert_eq!((found.layers[0].size, found.config.workdir.as_str()), (Some(1), "/w"));
    let none = plan(image, config.as_bytes(), Some(&[]), "linux/amd64");
    assert!(matches!(none, Err(ManifestError::Count { layers: 0, diff_ids: 1 })));
    let other = plan(image, config.as_bytes(), Some(&descriptors), "linux/arm64");
    assert!(matches!(other, Err(ManifestError::Platform { .. })));
    let odd = config.replace("sha256:e3", "sha512:e3");
    assert!(matches!(
        plan(image, odd.as_bytes(), None, "linux/amd64"),
        Err(ManifestError::Digest(_))
    ));
}
