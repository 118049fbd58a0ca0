//! Docker archives for tests, made here.

use serde_json::json;
use sha2::{Digest as _, Sha256};
use shipway_images::tar::{Kind, Member, Time, write};
use std::path::Path;

fn sha256(bytes: &[u8]) -> String {
    let hex: Vec<String> = Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect();
    format!("sha256:{}", hex.concat())
}

pub(crate) fn tar(files: &[(&str, &[u8])]) -> Vec<u8> {
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

/// An archive as `docker save` writes it, with these files in one layer.
pub(crate) fn archive(to: &Path, files: &[(&str, &[u8])], variable: &str) {
    let layer = tar(files);
    let architecture = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
    let config = json!({"os": "linux", "architecture": architecture,
        "config": {"Env": [variable], "Labels": {"who": "a\u{1b}[2Jb"}},
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
