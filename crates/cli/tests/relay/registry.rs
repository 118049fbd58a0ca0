//! A registry from Debian on this machine's loopback, open or with one user, with one image.

use crate::archive::archive;
use crate::common::{cannot, wait_for};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

const PASSWORD: &str = "s3cret-pass";
/// `ada:PASSWORD` as `docker login` writes it.
const WRITTEN: &str = "YWRhOnMzY3JldC1wYXNz";
/// What `htpasswd -B` makes of it.
const HASHED: &str = "ada:$2y$05$abcdefghijklmnopqrstuuV7fpPozvyqJfnY19y0802WTlXUm6Rjy\n";

pub(crate) struct Registry {
    child: Child,
    pub(crate) host: String,
    dir: tempfile::TempDir,
}

impl Registry {
    /// With the image `tool:1`, that has `echo`, `sh` and a variable `WHO`.
    pub(crate) fn start(closed: bool) -> Option<Registry> {
        let there = |program| {
            let found = Command::new(program).arg("--version").stdout(Stdio::null()).status();
            found.is_ok_and(|status| status.success())
        };
        if !there("docker-registry") || !there("skopeo") {
            cannot("docker-registry and skopeo are not installed");
            return None;
        }
        let dir = tempfile::tempdir().expect("a folder");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let host = listener.local_addr().expect("an address").to_string();
        drop(listener);
        let place = dir.path().display();
        let auth = if closed {
            format!("auth:\n  htpasswd: {{realm: test, path: {place}/htpasswd}}\n")
        } else {
            String::new()
        };
        let config = format!(
            "version: 0.1\nlog: {{level: error}}\nstorage:\n  \
             filesystem: {{rootdirectory: {place}/data}}\nhttp: {{addr: {host}}}\n{auth}"
        );
        std::fs::write(dir.path().join("htpasswd"), HASHED).expect("written");
        let file = dir.path().join("registry.yml");
        std::fs::write(&file, config).expect("written");
        let mut command = Command::new("docker-registry");
        command.arg("serve").arg(&file).stdin(Stdio::null());
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("started");
        wait_for("the registry answers", || TcpStream::connect(&host).is_ok());
        let registry = Registry { child, host, dir };
        registry.fill("tool:1", "WHO=image");
        Some(registry)
    }

    pub(crate) fn fill(&self, name: &str, variable: &str) {
        let busybox = std::fs::read("/bin/busybox").expect("busybox-static is installed");
        let file = self.dir.path().join("image.tar");
        // More than a few pieces, and nothing that packs well.
        let odd = |at: u32| at.wrapping_mul(2_654_435_761).to_le_bytes()[2];
        let bulk: Vec<u8> = (0..6_000_000).map(odd).collect();
        let files: [(&str, &[u8]); 3] =
            [("bin/echo", &busybox), ("bin/sh", &busybox), ("bulk", &bulk)];
        archive(&file, &files, variable);
        let mut skopeo = Command::new("skopeo");
        skopeo.args(["--insecure-policy", "copy", "-q", "--dest-tls-verify=false"]);
        skopeo.args(["--dest-creds", &format!("ada:{PASSWORD}")]);
        skopeo.arg(format!("docker-archive:{}", file.display()));
        let done = skopeo.arg(format!("docker://{}/{name}", self.host)).output().expect("skopeo");
        assert!(done.status.success(), "{done:?}");
    }

    pub(crate) fn image(&self, name: &str) -> String {
        format!("docker://{}/{name}", self.host)
    }

    /// A folder with the login of `ada`, as `docker login` leaves it.
    pub(crate) fn login(&self) -> &Path {
        let text = format!(r#"{{"auths": {{"{}": {{"auth": "{WRITTEN}"}}}}}}"#, self.host);
        std::fs::write(self.dir.path().join("config.json"), text).expect("written");
        self.dir.path()
    }

    pub(crate) fn stop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        self.stop();
    }
}
