//! A real OpenSSH server for the tests: on loopback, with keys and a configuration of its own in a
//! temporary folder, for the account that runs the tests.

#![allow(clippy::print_stderr, reason = "a skipped test must be seen")]

use shipway_sites::way::{Local, Ssh};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_mins(1);
/// As root it wants an empty folder of the system's; it gets one that nobody else sees.
const AS_ROOT: &str = "mount -t tmpfs none /run && mkdir -m 755 /run/sshd && exec \"$@\"";

pub(crate) struct Sshd {
    folder: tempfile::TempDir,
    port: u16,
    server: Child,
}

impl Sshd {
    /// `None`: it is not installed, and that was said. `env` is set for what is run there.
    pub(crate) fn start(env: &[(String, String)]) -> Option<Sshd> {
        let program = ["/usr/sbin/sshd", "/usr/local/sbin/sshd", "/usr/bin/sshd"];
        let Some(program) = program.into_iter().find(|path| PathBuf::from(path).exists()) else {
            assert!(std::env::var_os("CI").is_none(), "sshd (openssh-server) is not installed");
            eprintln!("skipped: sshd (openssh-server) is not installed");
            return None;
        };
        let folder = tempfile::tempdir().expect("a folder");
        let closed = std::fs::Permissions::from_mode(0o700);
        std::fs::set_permissions(folder.path(), closed).expect("closed");
        let at = |name: &str| folder.path().join(name).to_str().expect("text").to_string();
        for name in ["host", "key"] {
            let mut keygen = Command::new("ssh-keygen");
            keygen.args(["-q", "-t", "ed25519", "-N", "", "-C", "", "-f", &at(name)]);
            assert!(keygen.status().expect("ssh-keygen starts").success());
        }
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("known").port();
        drop(listener);
        let set: Vec<String> = env.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let set = if set.is_empty() { String::new() } else { format!("SetEnv {}", set.join(" ")) };
        let config = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {}\nAuthorizedKeysFile {}\n\
             PidFile none\nUsePAM no\nStrictModes no\nPermitRootLogin prohibit-password\n\
             PasswordAuthentication no\nLogLevel INFO\nBanner {}\n{set}\n",
            at("host"),
            at("key.pub"),
            at("banner")
        );
        std::fs::write(at("banner"), "Welcome to the machine\n").expect("written");
        std::fs::write(at("config"), config).expect("written");
        std::fs::create_dir(at("kept")).expect("made");
        std::fs::set_permissions(at("kept"), std::fs::Permissions::from_mode(0o700)).expect("ok");
        let host = std::fs::read_to_string(at("host.pub")).expect("made");
        std::fs::write(at("known"), format!("[127.0.0.1]:{port} {host}")).expect("written");
        let log = std::fs::File::create(at("log")).expect("made");
        let mut command = if rustix::process::geteuid().is_root() {
            let mut command = Command::new("unshare");
            command.args(["--mount", "sh", "-c", AS_ROOT, "sh", program]);
            command
        } else {
            Command::new(program)
        };
        command.args(["-D", "-e", "-f", &at("config")]).stdin(Stdio::null()).stderr(log);
        let server = command.spawn().expect("sshd starts");
        let sshd = Sshd { folder, port, server };
        sshd.until_it_listens();
        Some(sshd)
    }

    fn until_it_listens(&self) {
        let deadline = Instant::now() + PATIENCE;
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            assert!(Instant::now() < deadline, "sshd does not listen: {}", self.log());
            // tidy: allow(sleep-in-test) because it is the pause between two looks
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).expect("there")
    }

    /// Where connections are kept.
    pub(crate) fn kept(&self) -> PathBuf {
        self.folder.path().join("kept")
    }

    pub(crate) fn options(&self) -> Vec<String> {
        let at = |name: &str| self.folder.path().join(name).to_str().expect("text").to_string();
        let known = format!("UserKnownHostsFile={}", at("known"));
        let port = self.port.to_string();
        // The configuration of whoever runs the tests has no say.
        let words = ["-F", "none", "-p", &port, "-i", &at("key"), "-o", &known];
        words.map(String::from).to_vec()
    }

    pub(crate) fn way(&self) -> Ssh {
        self.way_with(self.options())
    }

    pub(crate) fn way_with(&self, options: Vec<String>) -> Ssh {
        let local = Local::new(Vec::new());
        Ssh::new("127.0.0.1", options, self.kept(), local).expect("a good host")
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        // Those that serve a connection end with it.
        self.way().close();
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}
