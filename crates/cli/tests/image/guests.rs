//! People whose tasks run as the user who started the server, for want of anything else: they have
//! its number and not its things. What answers that user (tmux, ssh-agent, an X server) does not
//! answer them, by whatever a job can name.

use crate::site::{Site, add_user, has_guests, ordinary, with_each_runtime};
use std::fs;
use std::io::Write as _;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::{chown, symlink};
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// What the owner's service says to whoever connects.
const GREETING: &str = "at-your-service";

/// Says what is answered at each of these names; `@` begins one without a file.
const CONNECT: &str = r#"
import socket, sys
for name in sys.argv[1:]:
    one = socket.socket(socket.AF_UNIX)
    try:
        one.connect(name.replace("@", "\0", 1))
        print(name, one.recv(100).decode())
    except OSError as error:
        print(name, error)
"#;

/// A service of the owner's: a socket, and who answers there.
struct Service {
    at: SocketAddr,
    ends: Arc<AtomicBool>,
    answers: Option<JoinHandle<()>>,
}

impl Service {
    fn start(at: SocketAddr) -> Self {
        let listener = UnixListener::bind_addr(&at).expect("a socket");
        let ends = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&ends);
        let answers = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if told.load(Ordering::Relaxed) {
                    return;
                }
                let _gone = stream.and_then(|mut stream| stream.write_all(GREETING.as_bytes()));
            }
        });
        Service { at, ends, answers: Some(answers) }
    }

    fn in_file(path: &Path, owner: Option<u32>) -> Self {
        let service = Self::start(SocketAddr::from_pathname(path).expect("a short path"));
        chown(path, owner, owner).expect("given away");
        service
    }

    fn without_file(name: &str) -> Self {
        Self::start(SocketAddr::from_abstract_name(name).expect("a short name"))
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if UnixStream::connect_addr(&self.at).is_ok() {
            let _ = self.answers.take().map(JoinHandle::join);
        }
    }
}

/// Exit code, and all that was said.
fn run(site: &Site, token: &str, options: &[&str], command: &[&str]) -> (i32, String) {
    let mut shipway = site.with_token(token);
    shipway.arg("run");
    if !options.contains(&"--workdir") {
        shipway.args(["--workdir", "private"]);
    }
    let done = shipway.args(options).arg("--").args(command).output().expect("started");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (done.status.code().unwrap_or(-1), text(&done.stdout) + &text(&done.stderr))
}

fn connect(site: &Site, token: &str, options: &[&str], names: &[&str]) -> (i32, String) {
    run(site, token, options, &[&["python3", "-c", CONNECT], names].concat())
}

fn owners_token(site: &Site) -> String {
    let file = fs::read_to_string(site.path("home/server.json")).expect("a server");
    let file: serde_json::Value = serde_json::from_str(&file).expect("JSON");
    file["token"].as_str().expect("a token").into()
}

/// Whether this kernel can keep sockets without a file apart: from Linux 6.12 on.
fn kernel_keeps_names_apart() -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").expect("a kernel");
    let mut numbers = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(6), Some(12))
}

#[test]
fn no_door_leads_a_guest_to_sockets_of_the_owner() {
    if !has_guests() {
        return;
    }
    let site = Site::start();
    let (ada, owner) = (add_user(&site, "ada"), owners_token(&site));
    let folder = site.path("service");
    fs::create_dir(&folder).expect("a folder");
    chown(&folder, site.user(), site.user()).expect("given away");
    let _here = Service::in_file(&folder.join("s"), site.user());
    // Somewhere that every task on the node's files used to see.
    let top = if ordinary().is_some() { "/var/lib" } else { env!("CARGO_TARGET_TMPDIR") };
    let elsewhere = tempfile::Builder::new().prefix("shipway-guests-").tempdir_in(top);
    let elsewhere = elsewhere.expect("a folder");
    chown(elsewhere.path(), site.user(), site.user()).expect("given away");
    let _there = Service::in_file(&elsewhere.path().join("s"), site.user());
    let (folder, seen) = (folder.display().to_string(), elsewhere.path().display().to_string());
    let socket = format!("{folder}/s");
    let doors: [(&[&str], &str); 9] = [
        (&["--bind", &format!("{folder}:/mnt")], "/mnt/s"),
        (&["--bind", &format!("{folder}:/mnt:rw")], "/mnt/s"),
        (&["--bind", &format!("{socket}:/mnt/s")], "/mnt/s"),
        (&["--bind", "/tmp:/mnt"], &socket.replacen("/tmp", "/mnt", 1)),
        (&["--bind", "/:/mnt"], &format!("/mnt{socket}")),
        (&["--bind", &format!("{seen}:/mnt")], "/mnt/s"),
        (&["--workdir", &folder], "s"),
        (&["--image", "host"], &socket),
        (&["--image", "host"], &format!("{seen}/s")),
    ];
    for (options, name) in doors {
        let (code, said) = connect(&site, &ada, options, &[name]);
        assert!(!said.contains(GREETING), "{options:?}: {said}");
        let is_told = code == 0 || said.contains("--binds DIR");
        assert!(is_told, "{options:?}: {code} {said}");
    }
    let (code, said) = run(&site, &ada, &["--input", &format!("{folder}/:x")], &["ls"]);
    assert!(code != 0 && said.contains("--binds DIR"), "{code} {said}");
    let (code, said) = run(&site, &ada, &["--stdin", &socket], &["cat"]);
    assert!(code != 0 && !said.contains(GREETING), "{code} {said}");
    let image = format!("dir:{folder}");
    let (code, said) = run(&site, &ada, &["--image", &image], &["/s"]);
    assert!(code != 0 && said.contains("--binds DIR"), "{code} {said}");
    // Whose they are gets there, by the first of these and by the last.
    for (options, name) in [doors[0], doors[8]] {
        let (_, said) = connect(&site, &owner, options, &[name]);
        assert!(said.contains(GREETING), "{options:?}: {said}");
    }
}

#[test]
fn a_guest_sees_the_system_and_what_is_offered() {
    if !has_guests() {
        return;
    }
    let top = if ordinary().is_some() { "/var/lib" } else { env!("CARGO_TARGET_TMPDIR") };
    let outside = tempfile::Builder::new().prefix("shipway-guests-").tempdir_in(top);
    let outside = outside.expect("a folder");
    for name in ["open", "other"] {
        fs::create_dir(outside.path().join(name)).expect("a folder");
        fs::write(outside.path().join(name).join("data"), format!("{name}-data")).expect("written");
        chown(outside.path().join(name), ordinary(), ordinary()).expect("given away");
    }
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(outside.path(), mode).expect("opened");
    let (open, other) = (outside.path().join("open"), outside.path().join("other"));
    let [open, other] = [open, other].map(|path| path.display().to_string());
    let site = Site::start_with(ordinary(), &["--binds", &format!("{open}:rw")]);
    let ada = add_user(&site, "ada");
    let line = format!("cat {open}/data; ls /usr/bin/env /etc/passwd; ls /home /root /var/*");
    let (_, said) = run(&site, &ada, &[], &["sh", "-c", &line]);
    assert!(said.contains("open-data") && said.contains("/usr/bin/env"), "{said}");
    let (_, said) = run(&site, &ada, &[], &["sh", "-c", &format!("cat {other}/data; ls /var")]);
    assert!(!said.contains("other-data") && said.contains("No such file"), "{said}");
    assert!(said.contains("tmp") && !said.contains("spool"), "{said}");
    // What is offered for writing can be worked in, at its own path.
    let (code, said) = run(&site, &ada, &["--workdir", &open], &["sh", "-c", "pwd; echo x > made"]);
    assert!(code == 0 && said.contains(&open), "{code} {said}");
    let kept = "test -w /usr || test -w /etc || echo x > /var/tmp/x && cat /var/tmp/x";
    let (code, said) = run(&site, &ada, &[], &["sh", "-c", kept]);
    assert_eq!((code, &*said), (0, "x\n"), "its own temporary files, and no others");
}

/// A tree with nothing of its own, for the system's programs.
fn bare_tree(site: &Site) -> String {
    let tree = site.path("bare");
    for name in ["usr", "etc", "proc", "sys", "dev", "tmp"] {
        fs::create_dir_all(tree.join(name)).expect("a folder");
        chown(tree.join(name), site.user(), site.user()).expect("given away");
    }
    for name in ["bin", "lib", "lib64"] {
        symlink(format!("usr/{name}"), tree.join(name)).expect("a link");
    }
    chown(&tree, site.user(), site.user()).expect("given away");
    tree.display().to_string()
}

/// Without a file there is nothing to hide: the kernel has to tell whose they are.
#[test]
fn sockets_without_a_file_are_not_for_guests() {
    if !has_guests() {
        return;
    }
    if !kernel_keeps_names_apart() {
        crate::common::cannot("sockets without a file are kept apart from Linux 6.12 on");
        return;
    }
    let name = format!("shipway-guests-{}", std::process::id());
    let _service = Service::without_file(&name);
    let name = format!("@{name}");
    with_each_runtime(|site| {
        let tree = format!("dir:{}", bare_tree(site));
        let on_tree = ["--image", &tree, "--bind", "/usr:/usr"];
        // Those of its own container answer.
        let own = "import socket; s = socket.socket(socket.AF_UNIX); s.bind('\\0own'); s.listen(); \
                   c = socket.socket(socket.AF_UNIX); c.connect('\\0own'); print('own')";
        let (_, said) = connect(site, &owners_token(site), &on_tree, &[&name]);
        assert!(said.contains(GREETING), "whose it is: {said}");
        let offers = format!("{},/usr", site.path("bare").display());
        let site = &Site::start_with(
            ordinary(),
            &["--runtime", site.runtime_option(), "--binds", &offers],
        );
        let ada = add_user(site, "ada");
        let (code, said) = connect(site, &ada, &on_tree, &[&name]);
        assert!(code == 0 && said.contains("not permitted"), "{code} {said}");
        let (code, said) = run(site, &ada, &on_tree, &["python3", "-c", own]);
        assert_eq!((code, &*said), (0, "own\n"));
    });
}

/// Puts a key into a session of its own and turns into the program that is named.
const WITH_KEY: &str = r#"
import ctypes, os, platform, sys
add_key, keyctl = (248, 250) if platform.machine() == "x86_64" else (217, 219)
call = ctypes.CDLL(None).syscall
assert call(keyctl, 1, None) > 0 and call(add_key, b"user", b"of-the-owner", b"x", 1, -3) > 0
os.execv(sys.argv[1], sys.argv[1:])
"#;

const FIND_KEY: &str = r#"
import ctypes, platform
keyctl = 250 if platform.machine() == "x86_64" else 219
found = ctypes.CDLL(None).syscall(keyctl, 10, -3, b"user", b"of-the-owner", 0)
print("found" if found > 0 else "absent")
"#;

/// Tickets and keys of file systems lie in keyrings, which namespaces do not keep apart.
#[test]
fn keys_of_the_owner_are_not_for_guests() {
    // With crun a server cannot be started by another program here; its filter is our own.
    for runtime in crate::site::runtimes().iter().filter(|name| *name != "crun") {
        let mut site = Site::start();
        let tree = bare_tree(&site);
        let (offers, image) = (format!("{tree},/usr"), format!("dir:{tree}"));
        let by = ["/usr/bin/python3", "-c", WITH_KEY];
        site.restart_by(&by, &["--runtime", runtime, "--binds", &offers]);
        let ada = add_user(&site, "ada");
        let options = ["--image", &image, "--bind", "/usr:/usr"];
        let (code, said) = run(&site, &ada, &options, &["python3", "-c", FIND_KEY]);
        assert_eq!((code, &*said), (0, "absent\n"), "{runtime}");
    }
}
