//! The way to the server: plain text on this machine, TLS for everybody else.

use super::common::{Ran, World, wait_for};
use std::process::{Command, Stdio};

#[test]
fn other_machines_are_not_served_in_plain_text() {
    let world = World::new();
    let ran = world.cli(&["up", "--listen", "0.0.0.0:0"]);
    assert_ne!(ran.code, 0);
    assert!(ran.stderr.contains("0.0.0.0:0"), "{}", ran.stderr);
    let hint = ran.stderr.lines().find(|line| line.starts_with("hint: ")).expect("a hint");
    assert!(hint.contains("--tls") && hint.contains("--allow-plain-text"), "{hint}");
    assert!(!world.home().join("server.json").exists(), "nothing was started");
}

fn elsewhere(world: &World, set: &[(&str, &str)]) -> Ran {
    let mut command = world.command(&["jobs"]);
    command.env("SHIPWAY_URL", world.url()).env("SHIPWAY_TOKEN", world.token());
    ran(command.envs(set.iter().copied()))
}

fn ran(command: &mut Command) -> Ran {
    let output = command.env_remove("SSL_CERT_DIR").output().expect("the binary runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let code = output.status.code().unwrap_or(-1);
    Ran { code, stdout: text(&output.stdout), stderr: text(&output.stderr) }
}

fn curl(world: &World, words: &[&str]) -> (bool, String) {
    let mut command = Command::new("curl");
    command.args(["--silent", "--max-time", "60"]).args(words);
    let output = command.arg(format!("{}/readyz", world.url())).stderr(Stdio::null()).output();
    let output = output.expect("curl is here");
    (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn a_certificate_of_its_own_is_trusted_by_who_knows_it() {
    let world = World::new();
    world.launch(&["--tls"], |_| {});
    wait_for("the server is up", || world.cli(&["jobs"]).code == 0);
    assert!(world.url().starts_with("https://"));
    wait_for("a task runs over TLS", || world.cli(&["run", "--", "echo", "hi"]).stdout == "hi\n");

    let file = std::fs::read_to_string(world.home().join("server.json")).expect("a server file");
    let file: serde_json::Value = serde_json::from_str(&file).expect("JSON");
    let certificate = file["certificate"].as_str().expect("a certificate");
    let stranger = elsewhere(&world, &[]);
    assert_eq!(stranger.code, 4, "{}", stranger.stderr);
    assert!(stranger.stderr.to_lowercase().contains("certificate"), "{}", stranger.stderr);
    for name in ["SHIPWAY_CA", "SSL_CERT_FILE"] {
        let friend = elsewhere(&world, &[(name, certificate)]);
        assert_eq!(friend.code, 0, "{name}: {}", friend.stderr);
    }
    let nothing = elsewhere(&world, &[("SSL_CERT_FILE", "/no/such.pem")]);
    assert!(
        nothing.stderr.contains("found no certificates to trust in /no/such.pem"),
        "{}",
        nothing.stderr
    );

    let (good, body) = curl(&world, &["--cacert", certificate]);
    assert!(good && body.contains("true"), "{body}");
    assert!(!curl(&world, &[]).0, "curl does not know it");
    let plain = world.url().replace("https://", "http://");
    let ran = Command::new("curl").args(["--silent", "--max-time", "60", &plain]).output();
    assert!(!ran.expect("curl is here").status.success(), "nobody answers in plain text");

    let before = std::fs::read(certificate).expect("a certificate");
    world.stop_server();
    world.launch(&["--tls"], |_| {});
    wait_for("the server is up again", || world.cli(&["jobs"]).code == 0);
    assert!(std::fs::read(certificate).expect("a certificate") == before, "it is made once");
}

/// Our own server stands in for a registry: how far one comes with it is what is looked at.
#[test]
fn a_registry_is_trusted_by_the_certificates_of_the_system() {
    let world = World::new();
    world.launch(&["--tls", "--listen", "0.0.0.0:0"], |_| {});
    wait_for("the server is up", || world.cli(&["jobs"]).code == 0);
    let url = world.url();
    let (_, port) = url.rsplit_once(':').expect("an address has a port");
    let certificate = world.home().join("certificate.pem");
    let pull = |trusted: &str| {
        let image = format!("docker://0.0.0.0:{port}/test/a");
        let mut command = world.command(&["image", "pull", &image]);
        ran(command.env("SSL_CERT_FILE", trusted)).stderr
    };
    let known = pull(certificate.to_str().expect("text"));
    assert!(known.contains("answered") || known.contains("does not"), "it was asked: {known}");
    let none = pull("/no/such.pem");
    assert!(none.contains("cannot reach 0.0.0.0") && none.contains("SSL_CERT_FILE"), "{none}");
}
