//! `shipway image` with the real binary and a Docker archive made here; no server, no registry.

use crate::archive::archive;
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, Output};

fn shipway(home: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_shipway"));
    command.args(args).env_clear().env("SHIPWAY_HOME", home).env("HOME", home);
    command.current_dir(home).output().expect("started")
}

fn answer(home: &Path, args: &[&str]) -> Value {
    let done = shipway(home, args);
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success(), "{args:?}: {said}");
    serde_json::from_slice(&done.stdout).expect("JSON")
}

#[test]
fn an_image_is_pulled_shown_and_removed() {
    let dir = tempfile::tempdir().expect("directory");
    let home = dir.path();
    archive(&home.join("saved.tar"), &[("bin/hello", b"hello")], "CUDA_VERSION=12.4.1");
    let name = "docker-archive:saved.tar";
    assert_eq!(answer(home, &["image", "list", "--json"])["images"], json!([]));
    let pulled = answer(home, &["image", "pull", name, "--json"]);
    assert_eq!((&pulled["fetched"], &pulled["left_out"]["set_id_bits"]), (&json!(true), &json!(1)));
    let tree = pulled["tree"].as_str().expect("a path");
    assert_eq!(std::fs::read(Path::new(tree).join("bin/hello")).expect("read"), b"hello");
    assert_eq!(answer(home, &["image", "pull", name, "--json"])["fetched"], json!(false));
    let shown = answer(home, &["image", "show", name, "--json"]);
    assert_eq!((&shown["cuda"], &shown["usage"]["own"]), (&json!("12.4.1"), &json!(5)));
    let image = pulled["image"].as_str().expect("a digest").trim_start_matches("sha256:");
    let text = shipway(home, &["image", "show", &image[..8]]);
    let text = String::from_utf8(text.stdout).expect("text");
    assert!(text.contains("CUDA       12.4.1") && !text.contains('\u{1b}'), "{text}");
    let digest = shipway(home, &["image", "pull", name]);
    assert_eq!(String::from_utf8_lossy(&digest.stdout), format!("sha256:{image}\n"));
    let cleared = answer(home, &["image", "rm", name, "--json"]);
    assert_eq!((&cleared["files"], &cleared["bytes"]), (&json!(1), &json!(5)));
    assert_eq!(answer(home, &["image", "list", "--json"])["images"], json!([]));
    assert_eq!(answer(home, &["image", "gc", "--json"])["files"], json!(0));
}

#[test]
fn what_cannot_be_done_is_said_with_its_code() {
    let dir = tempfile::tempdir().expect("directory");
    let home = dir.path();
    std::fs::write(home.join("bad.tar"), vec![b'x'; 2000]).expect("written");
    for (args, code, said) in [
        (&["image", "pull", "ubuntu"][..], 2, "docker://ubuntu"),
        (&["image", "pull", "host"], 2, "nothing to fetch"),
        (&["image", "pull", "docker-archive:bad.tar"], 3, "malformed"),
        (&["image", "pull", "docker-archive:none.tar"], 3, "cannot open"),
        (&["image", "show", "4f5e6d7c"], 3, "no image `4f5e6d7c`"),
        (&["image", "pull", "docker://127.0.0.1:9/x"], 1, "cannot reach 127.0.0.1"),
    ] {
        let done = shipway(home, args);
        let text = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(code), "{args:?}: {text}");
        assert!(text.contains(said), "{args:?}: {text}");
    }
}
