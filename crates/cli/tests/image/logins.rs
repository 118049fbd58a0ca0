//! Logins that users leave with the server, judged by a registry that asks for them.

use crate::archive::archive;
use crate::common::{cannot, wait_for};
use crate::site::{Site, add_user};
use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

const PASSWORD: &str = "s3cret-pass";
/// `ada:PASSWORD` as `docker login` writes it.
const WRITTEN: &str = "YWRhOnMzY3JldC1wYXNz";
/// What `htpasswd -B` makes of it.
const HASHED: &str = "ada:$2y$05$abcdefghijklmnopqrstuuV7fpPozvyqJfnY19y0802WTlXUm6Rjy\n";

/// A registry from Debian that lets nobody in but `ada`.
struct Closed {
    child: Child,
    host: String,
}

impl Closed {
    /// With one image: `tool:1`.
    fn start(dir: &Path) -> Option<Closed> {
        let there = |program| {
            let found = Command::new(program).arg("--version").stdout(Stdio::null()).status();
            found.is_ok_and(|status| status.success())
        };
        if !there("docker-registry") || !there("skopeo") {
            cannot("docker-registry and skopeo are not installed");
            return None;
        }
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let host = listener.local_addr().expect("an address").to_string();
        drop(listener);
        std::fs::write(dir.join("htpasswd"), HASHED).expect("written");
        let config = format!(
            "version: 0.1\nlog: {{level: error}}\nstorage:\n  \
             filesystem: {{rootdirectory: {0}/data}}\nhttp: {{addr: {host}}}\n\
             auth:\n  htpasswd: {{realm: test, path: {0}/htpasswd}}\n",
            dir.display()
        );
        let file = dir.join("registry.yml");
        std::fs::write(&file, config).expect("written");
        let mut command = Command::new("docker-registry");
        command.arg("serve").arg(&file).stdin(Stdio::null());
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("started");
        wait_for("the registry answers", || TcpStream::connect(&host).is_ok());
        let closed = Closed { child, host };
        closed.fill(dir);
        Some(closed)
    }

    fn fill(&self, dir: &Path) {
        let busybox = std::fs::read("/bin/busybox").expect("busybox-static is installed");
        let file = dir.join("tool.tar");
        archive(&file, &[("bin/echo", &busybox), ("bin/env", &busybox)], "WHO=image");
        let mut skopeo = Command::new("skopeo");
        skopeo.args(["--insecure-policy", "copy", "-q", "--dest-tls-verify=false"]);
        skopeo.args(["--dest-creds", &format!("ada:{PASSWORD}")]);
        skopeo.arg(format!("docker-archive:{}", file.display()));
        let done = skopeo.arg(format!("docker://{}/tool:1", self.host)).output().expect("skopeo");
        assert!(done.status.success(), "{done:?}");
    }
}

impl Drop for Closed {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn login(site: &Site, token: &str, host: &str, password: &str) -> Output {
    let mut command = site.with_token(token);
    command.args(["registry", "login", host, "--user", "ada"]).stdin(Stdio::piped());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("started");
    writeln!(child.stdin.take().expect("a pipe"), "{password}").expect("written");
    child.wait_with_output().expect("ended")
}

fn run(site: &Site, token: &str, image: &str, words: &[&str]) -> (bool, String) {
    let mut command = site.with_token(token);
    command.args(["run", "--workdir", "private", "--image", image, "--"]).args(words);
    said_by(command)
}

fn said_by(mut command: Command) -> (bool, String) {
    let done = command.output().expect("started");
    let said = [done.stdout, done.stderr].concat();
    (done.status.success(), String::from_utf8_lossy(&said).into_owned())
}

/// Every file below a folder that holds a text, by name.
fn files_with(dir: &Path, text: &str) -> Vec<String> {
    let mut grep = Command::new("grep");
    grep.args(["--recursive", "--files-with-matches", "--binary-files=text", text]).arg(dir);
    let found = String::from_utf8_lossy(&grep.output().expect("grep").stdout).into_owned();
    found.lines().map(|line| line.rsplit('/').next().unwrap_or(line).to_owned()).collect()
}

#[test]
fn a_login_opens_a_registry_for_its_user_and_for_nobody_else() {
    let place = tempfile::tempdir().expect("a directory");
    let Some(registry) = Closed::start(place.path()) else { return };
    let site = Site::start();
    // The commands of other users run as whoever runs the tests; their home is read by them.
    let open = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(site.path("home"), open).expect("opened");
    let (ada, bob) = (add_user(&site, "ada"), add_user(&site, "bob"));
    let image = format!("docker://{}/tool:1", registry.host);
    let (done, said) = run(&site, &ada, &image, &["echo", "hello"]);
    let advice = format!("shipway registry login {}", registry.host);
    assert!(!done && said.contains("does not let us have") && said.contains(&advice), "{said}");

    let wrong = login(&site, &ada, &registry.host, "guessed");
    let said = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert!(wrong.status.code() == Some(3) && said.contains("does not accept"), "{said}");
    let kept = login(&site, &ada, &registry.host, PASSWORD);
    assert!(kept.status.success(), "{kept:?}");
    let listed = site.with_token(&ada).args(["registry", "list"]).output().expect("started");
    assert!(String::from_utf8_lossy(&listed.stdout).contains(&registry.host), "{listed:?}");

    let (done, said) = run(&site, &ada, &image, &["env"]);
    assert!(done && said.contains("WHO=image") && !said.contains(PASSWORD), "{said}");
    // It was submitted by its digest, and is on the node now: which is no reason to let others in.
    let shown = site.with_token(&ada).args(["show", "1", "--json"]).output().expect("started");
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    let word = shown.split('"').find(|word| word.starts_with(&image));
    let pinned = word.expect("an image").to_owned();
    assert!(pinned.contains("@sha256:"), "{pinned}");
    let (done, said) = run(&site, &bob, &pinned, &["echo", "hello"]);
    assert!(!done && said.contains("does not let us have"), "{said}");
    let (done, said) = run(&site, &ada, &pinned, &["echo", "hello"]);
    assert!(done && said.contains("hello"), "{said}");

    // Kept in one place, which is closed.
    assert_eq!(files_with(&site.path("home"), PASSWORD), ["registry-logins.json"]);
    let mut logout = site.with_token(&ada);
    let gone = logout.args(["registry", "logout", &registry.host]).output().expect("started");
    assert!(gone.status.success(), "{gone:?}");
    assert_eq!(files_with(&site.path("home"), PASSWORD), [""; 0]);
    let (done, said) = run(&site, &ada, &pinned, &["echo", "hello"]);
    assert!(!done && said.contains("does not let us have"), "{said}");
}

/// Whoever starts a server has logins of their own, in the file that `docker login` writes.
#[test]
fn the_login_of_whoever_started_the_server_is_for_their_own_jobs() {
    let place = tempfile::tempdir().expect("a directory");
    let Some(registry) = Closed::start(place.path()) else { return };
    let mut site = Site::start();
    let docker = site.path("home").join(".docker");
    std::fs::create_dir(&docker).expect("a folder");
    let config = format!(r#"{{"auths": {{"{}": {{"auth": "{WRITTEN}"}}}}}}"#, registry.host);
    std::fs::write(docker.join("config.json"), config).expect("written");
    let open = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(site.path("home"), open).expect("opened");
    let eve = add_user(&site, "eve");
    let eves = |site: &Site, words: &[&str]| {
        let mut command = site.with_token(&eve);
        // Her own command must not find that file.
        command.env("HOME", place.path()).args(["run", "--workdir", "private"]).args(words);
        said_by(command)
    };

    let image = format!("docker://{}/tool:1", registry.host);
    let (done, said) = eves(&site, &["--image", &image, "--", "echo", "got in"]);
    assert!(!done && said.contains("does not let us have"), "by the tag: {said}");
    let (code, out, err) = site.run(&image, &[], &["echo", "the owner"]);
    assert!(code == 0 && out.contains("the owner"), "{code} {err}");
    // Now it is on the node, and its digest known.
    let shown = site.shipway(&["show", "1", "--json"]);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    let pinned = shown.split('"').find(|word| word.starts_with(&image)).expect("an image");
    assert!(pinned.contains("@sha256:"), "{pinned}");
    let (done, said) = eves(&site, &["--image", pinned, "--", "echo", "got in"]);
    assert!(!done && said.contains("does not let us have"), "by the digest: {said}");

    // What the owner has chosen for everybody is fetched for everybody.
    site.restart(&["--default-image", pinned]);
    let (done, said) = eves(&site, &["--", "echo", "as all"]);
    assert!(done && said.contains("as all"), "{said}");
    let (done, said) = eves(&site, &["--image", &image, "--", "echo", "got in"]);
    assert!(!done && said.contains("does not let us have"), "by the tag again: {said}");
}

/// Agents, tickets, proxies with passwords: whatever stands in the environment of `up`.
#[test]
fn tasks_have_nothing_of_the_environment_of_whoever_started_the_server() {
    let mut site = Site::start();
    let names = ["SSH_AUTH_SOCK", "KRB5CCNAME", "X509_USER_PROXY", "HTTPS_PROXY", "DOCKER_CONFIG"];
    let set: Vec<String> = names.iter().map(|name| format!("{name}=/owners-own")).collect();
    let set: Vec<&str> = set.iter().map(String::as_str).collect();
    let by = [&["/usr/bin/env"][..], &set].concat();
    for options in [&[][..], &["--default-image", "none"]] {
        site.restart_by(&by, options);
        let (code, out, err) = site.words(&["--", "env"]);
        assert!(code == 0 && out.contains("SHIPWAY_"), "{code} {err}");
        assert!(!out.contains("owners-own"), "{out}");
    }
}
