//! `shipway image` with the real binary and a Docker archive made here; no server, no registry.

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use shipway_images::tar::{Kind, Member, Time, write};
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

fn sha256(bytes: &[u8]) -> String {
    let hex: Vec<String> = Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect();
    format!("sha256:{}", hex.concat())
}

fn tar(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut out = Vec::new();
    for (path, content) in files {
        let member = Member {
            path: (*path).into(),
            kind: Kind::File,
            mode: 0o4755,
            uid: 0,
            gid: 0,
            mtime: Time { seconds: 1, nanos: 0 },
            link: Vec::new(),
            size: content.len() as u64,
            sparse: None,
            xattrs: Vec::new(),
        };
        write::header(&mut out, &member).expect("memory");
        out.extend_from_slice(content);
        write::pad(&mut out, member.size).expect("memory");
    }
    write::end(&mut out).expect("memory");
    out
}

/// An archive as `docker save` writes it, with one file in one layer.
fn archive(to: &Path) {
    let layer = tar(&[("bin/hello", b"hello")]);
    let architecture = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
    let config = json!({"os": "linux", "architecture": architecture,
        "config": {"Env": ["CUDA_VERSION=12.4.1"], "Labels": {"who": "a\u{1b}[2Jb"}},
        "rootfs": {"diff_ids": [sha256(&layer)]}})
    .to_string();
    let list = json!([{"Config": "config.json", "Layers": ["l/layer.tar"]}]).to_string();
    let files: [(&str, &[u8]); 3] = [
        ("manifest.json", list.as_bytes()),
        ("config.json", config.as_bytes()),
        ("l/layer.tar", &layer),
    ];
    std::fs::write(to, tar(&files)).expect("written");
}

#[test]
fn an_image_is_pulled_shown_and_removed() {
    let dir = tempfile::tempdir().expect("directory");
    let home = dir.path();
    archive(&home.join("saved.tar"));
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
