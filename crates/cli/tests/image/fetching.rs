//! Images of one person and everybody else's.

use crate::archive::archive;
use crate::common::wait_for;
use crate::site::{Site, add_user};
use std::net::TcpListener;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Several times the images that are fetched at the same time for all together: each of those is
/// given up after a minute.
const MANY: usize = 24;
/// As many as certainly are, for one person.
const AT_LEAST: usize = 4;

/// A registry that takes connections and says nothing. How many came.
fn silent_registry() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let host = listener.local_addr().expect("an address").to_string();
    let came = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&came);
    std::thread::spawn(move || {
        let mut open = Vec::new();
        for stream in listener.incoming() {
            open.push(stream);
            counted.fetch_add(1, Ordering::SeqCst);
        }
    });
    (host, came)
}

#[test]
fn a_registry_that_hangs_holds_up_nobody_else() {
    let site = Site::start();
    let ada = add_user(&site, "ada");
    let (host, came) = silent_registry();
    for number in 0..MANY {
        let image = format!("docker://{host}/tool@sha256:{number:064x}");
        let mut run = site.with_token(&ada);
        run.args(["run", "-d", "--workdir", "private", "--cpus", "0.01", "--image", &image]);
        let made = run.args(["--", "true"]).stdout(Stdio::null()).status();
        assert!(made.expect("started").success());
    }
    wait_for("images are waited for", || came.load(Ordering::SeqCst) >= AT_LEAST);
    let busybox = std::fs::read("/bin/busybox").expect("busybox-static is installed");
    let file = site.path("saved.tar");
    archive(&file, &[("bin/echo", &busybox)], "WHO=image");
    let image = format!("docker-archive:{}", file.display());
    let job = ["run", "-d", "--cpus", "0.01", "--workdir", "private", "--image", &image];
    let made = site.shipway(&[&job[..], &["--", "echo", "x"]].concat());
    let job = String::from_utf8(made.stdout).expect("text").trim().to_owned();
    let is_over = |state: &str| {
        let shown = site.shipway(&["--json", "show", &job]).stdout;
        let shown: serde_json::Value = serde_json::from_slice(&shown).expect("JSON");
        shown["job"]["state"] == state
    };
    wait_for("the other's image has come", || is_over("succeeded"));
}
