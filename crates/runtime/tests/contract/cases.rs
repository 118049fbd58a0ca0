//! What a task may rely on.

use crate::site::Site;
use crate::{Case, On};
use shipway_runtime::plan::{Bind, Network, Root, WritableSpace};
use shipway_runtime::report::{Ending, Why};
use std::fs;

pub(crate) const ALL: &[Case] = &[
    Case { name: "exit codes come out", on: On::All, run: exit_codes },
    Case { name: "a missing program is told", on: On::Native, run: missing_program },
    Case { name: "streams are the task's", on: On::All, run: streams },
    Case { name: "environment is exact", on: On::Strict, run: environment },
    Case { name: "stands in its directory", on: On::All, run: directory },
    Case { name: "root is read-only", on: On::All, run: read_only_root },
    Case { name: "scratch in memory", on: On::All, run: scratch_in_memory },
    Case { name: "a tree of root's is the task's own", on: On::All, run: tree_of_root },
    Case { name: "an image of one program", on: On::All, run: bare_image },
    Case { name: "scratch in a directory", on: On::Native, run: scratch_in_directory },
    Case { name: "private tmp", on: On::All, run: private_tmp },
    Case { name: "binds", on: On::All, run: binds },
    Case { name: "places the image lacks", on: On::All, run: missing_places },
    Case { name: "places a read-only image lacks", on: On::Native, run: missing_read_only_places },
    Case { name: "user", on: On::Strict, run: user },
    Case { name: "host name", on: On::All, run: host_name },
    Case { name: "minimal dev", on: On::Strict, run: minimal_dev },
    Case { name: "network none", on: On::Native, run: network_none },
    Case { name: "network loopback", on: On::All, run: network_loopback },
    Case { name: "network host", on: On::All, run: network_host },
    Case { name: "the node's own tree", on: On::Native, run: host_tree },
    Case { name: "hidden paths", on: On::Native, run: hidden },
    Case { name: "terminals", on: On::Strict, run: terminals },
];

fn exit_codes(site: &Site) {
    for code in [0, 1, 7, 126, 127, 255] {
        let outcome = site.run(&site.script(&format!("exit {code}")));
        assert_eq!(outcome.ending, Ending::Exit(code));
    }
}

fn missing_program(site: &Site) {
    let why = |argv: &[&str]| match site.run(&site.command(argv)).ending {
        Ending::NotStarted(told) => (told.why, told.message),
        other => panic!("{other:?}"),
    };
    let (kind, message) = why(&["no-such-program"]);
    assert_eq!(kind, Why::NoProgram);
    assert!(message.contains("no-such-program"), "{message}");
    assert_eq!(why(&["/bin/no-such-program"]).0, Why::NoProgram);
    assert_eq!(why(&["/etc/marker"]).0, Why::NotExecutable);
}

fn streams(site: &Site) {
    let outcome = site.run(&site.script("echo out; echo err >&2; wc -c"));
    assert_eq!((outcome.stdout.as_str(), outcome.stderr.as_str()), ("out\n0\n", "err\n"));
    let (reading, writing) = rustix::pipe::pipe().unwrap();
    rustix::io::write(&writing, b"hello").unwrap();
    drop(writing);
    let outcome = site.run_with(&site.command(&["cat"]), Some(reading));
    assert_eq!(outcome.stdout, "hello");
}

fn environment(site: &Site) {
    let mut container = site.command(&["env"]);
    container.env = vec![("PATH".into(), "/bin".into()), ("A".into(), "b=c\nd ü".into())];
    let mut lines: Vec<String> = site.ok(&container).lines().map(str::to_owned).collect();
    lines.sort();
    // Some runtimes add this one when it is not there.
    lines.retain(|line| site.runtime.name() == "native" || !line.starts_with("HOME="));
    assert_eq!(lines, ["A=b=c", "PATH=/bin", "d ü"]);
}

fn directory(site: &Site) {
    let mut container = site.command(&["pwd"]);
    container.cwd = "/etc".into();
    assert_eq!(site.ok(&container), "/etc\n");
    container.cwd = "/no/such".into();
    let outcome = site.run(&container);
    if site.runtime.name() != "apptainer" {
        assert!(outcome.refusal().contains("/no/such"));
    }
    assert_ne!(outcome.ending, Ending::Exit(0), "{}", outcome.stdout);
    assert!(!site.tree().join("no").exists(), "made in the image");
}

fn read_only_root(site: &Site) {
    let script =
        "for f in /new /etc/marker /bin/new /sys/new; do touch $f 2>&1; done; cat /etc/marker";
    let said = site.says(script);
    let refused = |why: &str| said.matches(why).count();
    assert_eq!(refused("Read-only file system") + refused("Permission denied"), 4, "{said}");
    assert!(said.ends_with("image\n"));
    assert!(!site.tree().join("new").exists());
}

fn scratch_in_memory(site: &Site) {
    let tree = site.own_tree("scratch-in-memory");
    let mut container = site.script("echo changed > /etc/marker; mkdir /new; cat /etc/marker");
    container.root = Root::Tree(tree.clone());
    container.scratch = Some(WritableSpace::Memory(1 << 20));
    assert_eq!(site.ok(&container), "changed\n");
    assert_eq!(fs::read_to_string(tree.join("etc/marker")).unwrap(), "image\n");
    container.argv[2] = "ls -d /new 2>/dev/null; cat /etc/marker".into();
    assert_eq!(site.ok(&container), "image\n", "nothing is left of it");
}

/// A store that only root can enter, and a task that is not root.
fn tree_of_root(site: &Site) {
    use std::os::unix::fs::PermissionsExt;
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let tree = site.other_tree("of-root");
    for (path, mode) in [("etc/marker", 0o600), ("", 0o700)] {
        fs::set_permissions(tree.join(path), fs::Permissions::from_mode(mode)).unwrap();
    }
    let line = "cat /etc/marker; echo changed > /etc/marker; cat /etc/marker; rm /bin/ip; id -u";
    let mut container = site.script(line);
    container.root = Root::Tree(tree.clone());
    container.scratch = Some(WritableSpace::Memory(1 << 20));
    site.run(&container).refusal_or_failure();
    container.tree_is_ours = true;
    assert_eq!(site.ok(&container), format!("image\nchanged\n{}\n", crate::site::NOBODY));
    assert_eq!(fs::read_to_string(tree.join("etc/marker")).unwrap(), "image\n");
    assert!(tree.join("bin/ip").symlink_metadata().is_ok());
}

/// An image of one program, as some are.
fn bare_image(site: &Site) {
    let tree = site.own_tree("bare");
    for name in ["dev", "etc", "proc", "sys", "tmp", "var"] {
        fs::remove_dir_all(tree.join(name)).unwrap();
    }
    let mut container = site.script("test -e /proc/self/stat && echo x > /tmp/x && ls /dev/null");
    container.root = Root::Tree(tree.clone());
    container.scratch = Some(WritableSpace::Memory(1 << 20));
    assert_eq!(site.ok(&container), "/dev/null\n");
    assert_eq!(fs::read_dir(tree).unwrap().count(), 1, "something was made in the image");
}

fn scratch_in_directory(site: &Site) {
    let tree = site.own_tree("scratch-in-directory");
    let scratch = site.directory("scratch");
    let mut container = site.script("echo changed > /etc/marker; rm /bin/ip; cat /etc/marker");
    container.root = Root::Tree(tree.clone());
    container.scratch = Some(WritableSpace::Directory(scratch.clone()));
    assert_eq!(site.ok(&container), "changed\n");
    assert_eq!(fs::read_to_string(tree.join("etc/marker")).unwrap(), "image\n");
    assert_eq!(fs::read_to_string(scratch.join("upper/etc/marker")).unwrap(), "changed\n");
    fs::remove_dir_all(&scratch).expect("whoever made it can remove it");
}

fn private_tmp(site: &Site) {
    let outside = tempfile::NamedTempFile::new_in("/tmp").unwrap();
    let name = outside.path().file_name().unwrap().to_str().unwrap();
    assert_eq!(site.says(&format!("ls /tmp /dev/shm | grep -c {name}; true")), "0\n");
    assert_eq!(site.says("echo x > /tmp/shared; echo x > /dev/shm/shared; ls /tmp"), "shared\n");
    assert_eq!(site.says("ls /tmp /dev/shm | grep shared; true"), "");
    let tmp = site.directory("tmp");
    let mut container = site.script("echo kept > /tmp/file");
    container.tmp = WritableSpace::Directory(tmp.clone());
    site.ok(&container);
    assert_eq!(fs::read_to_string(tmp.join("file")).unwrap(), "kept\n");
}

fn binds(site: &Site) {
    let (read, write) = (site.directory("bind-ro"), site.directory("bind-rw"));
    fs::write(read.join("input"), "data\n").unwrap();
    let mut container = site.script(
        "cat /var/in/input /var/one; echo out > /var/out/result; touch /var/in/x 2>&1; \
         echo no > /var/one; true",
    );
    let tree = site.other_tree("with-places");
    for place in ["var/in", "var/out"] {
        fs::create_dir(tree.join(place)).unwrap();
    }
    fs::write(tree.join("var/one"), "").unwrap();
    container.root = Root::Tree(tree);
    container.binds = vec![
        Bind::read_only(&read, "/var/in"),
        Bind::writable(&write, "/var/out"),
        Bind::read_only(read.join("input"), "/var/one"),
    ];
    let said = site.ok(&container);
    assert!(said.starts_with("data\ndata\n"), "{said}");
    assert!(said.contains("Read-only file system"), "{said}");
    assert_eq!(fs::read_to_string(write.join("result")).unwrap(), "out\n");
    assert_eq!(fs::read_to_string(read.join("input")).unwrap(), "data\n");
}

/// The image is writable, as a pilot makes it: others than ours need that.
fn missing_places(site: &Site) {
    let data = site.directory("lacked");
    fs::write(data.join("input"), "data\n").unwrap();
    let tree = site.own_tree("lacks-places");
    let mut container = site.script("cat /no/such/place/input /bin/file /tmp/own/input");
    container.root = Root::Tree(tree.clone());
    container.scratch = Some(WritableSpace::Memory(1 << 20));
    container.binds = vec![
        Bind::read_only(&data, "/no/such/place"),
        Bind::read_only(data.join("input"), "/bin/file"),
        Bind::read_only(&data, "/tmp/own"),
    ];
    assert_eq!(site.ok(&container), "data\ndata\ndata\n");
    for place in ["no", "bin/file", "tmp/own"] {
        assert!(!tree.join(place).exists(), "{place} was made in the image");
    }
}

fn missing_read_only_places(site: &Site) {
    let data = site.directory("data");
    fs::write(data.join("input"), "data\n").unwrap();
    let mut container = site.script("cat /no/such/place/input /bin/file; touch /new 2>&1; true");
    container.binds = vec![
        Bind::read_only(&data, "/no/such/place"),
        Bind::read_only(data.join("input"), "/bin/file"),
    ];
    let said = site.ok(&container);
    assert!(said.starts_with("data\ndata\n"), "{said}");
    assert!(said.contains("Read-only"), "{said}");
    assert!(!site.tree().join("no").exists());
}

fn user(site: &Site) {
    let own = rustix::process::geteuid();
    let uid = match (&site.keeper, own.is_root()) {
        // What images call their first user.
        (Some(_), _) => 1000,
        (None, true) => crate::site::NOBODY,
        (None, false) => own.as_raw(),
    };
    assert_eq!(site.says("id -u"), format!("{uid}\n"));
    assert_eq!(
        site.says(
            "grep -E '^Cap(Prm|Eff|Bnd|Amb)' /proc/self/status | grep -vc 0000000000000000; true"
        ),
        "0\n"
    );
    assert_eq!(
        site.says("grep -E 'NoNewPrivs|^Seccomp:' /proc/self/status | grep -o '[0-9]'"),
        "1\n2\n"
    );
}

fn host_name(site: &Site) {
    let mut container = site.command(&["hostname"]);
    container.hostname = Some("ship-1".into());
    assert_eq!(site.ok(&container), "ship-1\n");
}

fn minimal_dev(site: &Site) {
    let nodes = site.says("find /dev -type c -o -type b | grep -v /dev/pts/");
    let mut nodes: Vec<&str> = nodes.lines().collect();
    nodes.sort_unstable();
    let expected =
        ["/dev/full", "/dev/null", "/dev/random", "/dev/tty", "/dev/urandom", "/dev/zero"];
    assert_eq!(nodes, expected);
    assert_eq!(
        site.says("echo x > /dev/null; dd if=/dev/zero bs=3 count=1 2>/dev/null | wc -c"),
        "3\n"
    );
    let mut container = site.script("ls /dev/fuse /dev/null/x 2>&1; true");
    container.devices.push("/dev/fuse".into());
    if std::path::Path::new("/dev/fuse").exists() {
        assert!(site.ok(&container).contains("/dev/fuse\n"));
    }
}

fn network_none(site: &Site) {
    let mut container =
        site.script("ip link | grep -c '^[0-9]'; ip link show lo | grep -c ,UP; true");
    container.network = Network::None;
    assert_eq!(site.ok(&container), "1\n0\n");
}

fn network_loopback(site: &Site) {
    let mut container =
        site.script("ip link | grep -c '^[0-9]'; ip link show lo | grep -c ,UP; true");
    container.network = Network::Loopback;
    assert_eq!(site.ok(&container), "1\n1\n");
}

fn network_host(site: &Site) {
    let ours = fs::read_link("/proc/self/ns/net").unwrap();
    assert_eq!(site.says("readlink /proc/self/ns/net"), format!("{}\n", ours.display()));
}

fn host_tree(site: &Site) {
    let work = site.directory("host-work");
    let path = work.display();
    let mut container = site.command(&[
        "/bin/sh",
        "-c",
        &format!(
            "echo out > {path}/result; touch /etc/shipway-test 2>&1; ls /tmp; \
             echo nobody > /var/tmp/shipway-test; ls /proc | grep -c '^[0-9]'"
        ),
    ]);
    container.root = Root::Host;
    container.env = vec![("PATH".into(), "/usr/bin:/bin".into())];
    container.cwd.clone_from(&work);
    container.binds = vec![Bind::writable(&work, &work)];
    let said = site.ok(&container);
    assert!(said.contains("Read-only file system"), "{said}");
    // A place that the node does not have.
    container.binds.push(Bind::read_only(&work, "/no/such/place"));
    container.argv[2] = "cat /no/such/place/result; touch /x 2>&1; ls -d /usr/bin /etc".into();
    let said = site.ok(&container);
    assert!(said.starts_with("out\n") && said.contains("Read-only"), "{said}");
    assert!(said.ends_with("/etc\n/usr/bin\n") && !std::path::Path::new("/no").exists(), "{said}");
    assert_eq!(fs::read_to_string(work.join("result")).unwrap(), "out\n");
    assert!(!std::path::Path::new("/var/tmp/shipway-test").exists());
}

fn hidden(site: &Site) {
    let secret = site.directory("secret");
    fs::write(secret.join("token"), "secret").unwrap();
    let script =
        format!("ls {}; cat {}/token 2>/dev/null; true", secret.display(), secret.display());
    let mut container = site.command(&["/bin/sh", "-c", &script]);
    container.root = Root::Host;
    container.hidden = vec![secret.clone(), "/no/such/path".into()];
    assert_eq!(site.ok(&container), "");
}

fn terminals(site: &Site) {
    assert_eq!(
        site.says("ls /dev/pts; echo x 2>/dev/null > /dev/ptmx; stat -c %a /dev/pts/ptmx"),
        "ptmx\n666\n"
    );
}
