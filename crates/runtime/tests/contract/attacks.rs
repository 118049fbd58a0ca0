//! Attacks that were found in other runtimes, and what an attacker would try first: each on every
//! runtime. Where one of them answers differently the row says why that is no way out.

use crate::site::{Site, wait_for};
use crate::{Case, On, probe};
use shipway_runtime::plan::{Bind, Container, Root, WritableSpace};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) const ALL: &[Case] = &[
    Case { name: "no files of the node", on: On::All, run: files_of_the_node },
    Case { name: "no devices but those listed", on: On::All, run: devices_listed },
    Case { name: "no rights by file capabilities", on: On::All, run: file_capabilities },
    Case { name: "a place that is exchanged meanwhile", on: On::All, run: exchanged_place },
    Case { name: "no cgroup can be written", on: On::All, run: cgroups },
    Case { name: "an image's own /dev/null covers nothing", on: On::All, run: own_null },
    Case { name: "no setting of the kernel is written", on: On::All, run: kernel_settings },
    Case { name: "nobody outside is killed or traced", on: On::All, run: outside_processes },
    Case { name: "refused system calls", on: On::All, run: system_calls },
    Case { name: "links of the image stay inside", on: On::All, run: links_of_the_image },
];

fn files_of_the_node(site: &Site) {
    let secret = site.directory("secret-of-others");
    fs::write(secret.join("key"), "of somebody else").unwrap();
    let line = format!(
        "cat {0}/key /etc/hostname /etc/machine-id 2>/dev/null; \
         ls /root /home 2>/dev/null | wc -l; find / -xdev -name key 2>/dev/null | wc -l",
        secret.display()
    );
    assert_eq!(site.says(&line), "0\n0\n");
}

/// What apptainer adds is of no use without rights: a console that is not there, and fuse, which
/// mounts nothing outside.
fn devices_listed(site: &Site) {
    let found = site.says("find /dev -type c -o -type b");
    let usual = ["full", "null", "random", "tty", "urandom", "zero", "ptmx", "pts/ptmx", "console"];
    for node in found.lines().map(|line| line.trim_start_matches("/dev/")) {
        let known = usual.contains(&node) || (node == "fuse" && site.runtime.name() == "apptainer");
        assert!(known, "{node} in {found}");
    }
}

fn file_capabilities(site: &Site) {
    /// Version 2 of the kernel's format: every capability, effective at once.
    const ALL_OF_THEM: [u8; 20] =
        [1, 0, 0, 2, 255, 255, 255, 255, 0, 0, 0, 0, 255, 255, 255, 255, 0, 0, 0, 0];
    let tree = site.other_tree("capabilities");
    let name = "security.capability";
    let flags = rustix::fs::XattrFlags::empty();
    let set = rustix::fs::setxattr(tree.join("bin/busybox"), name, &ALL_OF_THEM, flags);
    // An ordinary user cannot make such an image; an archive can hold one.
    if set.is_err() {
        return;
    }
    let mut container = site.script("grep -hE 'Cap(Eff|Prm|Bnd)' /proc/self/status; id -u");
    container.root = Root::Tree(tree);
    let outcome = site.run(&container);
    // The kernel may also refuse to run what it cannot give its capabilities to.
    let said = outcome.stdout;
    let mut granted = said.lines().filter(|line| line.starts_with("Cap"));
    assert!(granted.all(|line| line.ends_with("0000000000000000")), "{said}");
    assert!(said.lines().all(|line| line != "0"), "{said}");
}

/// A directory on the way to a place turns into a link outside, and back, while containers start.
fn exchanged_place(site: &Site) {
    const ROUNDS: usize = 20;
    let tree = site.own_tree("exchanged");
    let (outside, data) = (site.directory("exchanged-outside"), site.directory("exchanged-data"));
    fs::write(data.join("input"), "data\n").unwrap();
    fs::create_dir_all(tree.join("race/place")).unwrap();
    symlink(&outside, tree.join("link")).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let at = |name: &str| tree.join(name);
            while !stop.load(Ordering::Relaxed) {
                let exchange = rustix::fs::RenameFlags::EXCHANGE;
                let cwd = rustix::fs::CWD;
                rustix::fs::renameat_with(cwd, at("race"), cwd, at("link"), exchange).unwrap();
            }
        });
        for _ in 0..ROUNDS {
            let mut container = site.command(&["cat", "/race/place/input"]);
            container.root = Root::Tree(tree.clone());
            container.scratch = Some(WritableSpace::Memory(1 << 20));
            container.binds = vec![Bind::writable(&data, "/race/place")];
            site.run(&container);
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0, "something was made outside");
    assert!(!mounts_of_this_process().contains("exchanged-outside"), "mounted outside");
}

fn mounts_of_this_process() -> String {
    fs::read_to_string("/proc/self/mountinfo").unwrap()
}

/// The way out by a program that the kernel runs as root when a cgroup is empty.
fn cgroups(site: &Site) {
    let said = site.says(
        "for f in $(find /sys/fs/cgroup -name release_agent -o -name notify_on_release \
         -o -name cgroup.procs 2>/dev/null); do (echo 1 > $f) 2>/dev/null && echo wrote $f; done; \
         mkdir /tmp/c; mount -t cgroup -o rdma none /tmp/c 2>/dev/null && echo mounted; \
         mount -t cgroup2 none /tmp/c 2>/dev/null && echo mounted; echo end",
    );
    assert_eq!(said, "end\n");
}

/// Where files are covered by a mount of `/dev/null`, an image must not choose what that is.
fn own_null(site: &Site) {
    let tree = site.own_tree("own-null");
    fs::write(tree.join("dev/null"), "of the image").unwrap();
    symlink("/proc/sys/kernel/core_pattern", tree.join("dev/zero")).unwrap();
    let mut container = site.script(
        "cat /dev/null; test -c /dev/null && test -c /dev/zero && echo nodes; \
         test -s /proc/keys && echo keys; head -c 1 /proc/kcore 2>/dev/null | wc -c",
    );
    container.root = Root::Tree(tree);
    let said = site.ok(&container);
    // Apptainer covers nothing of /proc: the kernel itself shows a user only what is theirs.
    let said =
        said.replace("keys\n", if site.runtime.name() == "apptainer" { "" } else { "keys\n" });
    assert_eq!(said, "nodes\n0\n");
}

fn kernel_settings(site: &Site) {
    let said = site.says(
        "for f in $(find /proc/sys -type f 2>/dev/null | grep -E \
         'core_pattern|modprobe|hotplug|binfmt_misc/register|uevent|ip_forward|user/max_user'); do \
         (cat $f > /tmp/v && cat /tmp/v > $f) 2>/dev/null && echo wrote $f; done; \
         for f in /proc/sysrq-trigger /sys/kernel/uevent_helper /proc/1/oom_score_adj; do \
         (echo 0 > $f) 2>/dev/null && echo wrote $f; done; echo end",
    );
    assert!(said.ends_with("end\n"), "{said}");
    // Lowering one's own chance to be killed is refused; raising harms nobody but oneself.
    let wrote = said.lines().filter(|line| line.starts_with("wrote"));
    let harmless = |line: &&str| line.contains("oom_score_adj");
    assert_eq!(wrote.filter(|line| !harmless(line)).count(), 0, "{said}");
}

fn outside_processes(site: &Site) {
    let mut other = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
    let (own, other_id) = (std::process::id(), other.id());
    let line = format!(
        "for p in {own} {other_id} -{own}; do kill -9 $p 2>/dev/null && echo killed $p; done; \
         cat /proc/{other_id}/mem /proc/{other_id}/environ 2>/dev/null | wc -c; kill -9 -1; true"
    );
    let outcome = site.run(&site.script(&line));
    assert!(outcome.stdout.starts_with("0\n"), "{}", outcome.stdout);
    assert!(other.try_wait().unwrap().is_none(), "a process outside was killed");
    other.kill().unwrap();
    other.wait().unwrap();
}

/// This program, inside, with what it is linked to.
pub(crate) fn with_this_program(site: &Site, name: &str, words: &[&str]) -> Container {
    let program = site.directory(&format!("{name}-program")).join("contract");
    fs::copy("/proc/self/exe", &program).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    if site.runtime.name() == "plain" {
        return site.command(&[&[program.to_str().unwrap()], words].concat());
    }
    let mut container = site.command(&[&["/probe/contract"], words].concat());
    container.root = Root::Tree(site.own_tree(name));
    container.scratch = Some(WritableSpace::Memory(1 << 20));
    container.binds = vec![Bind::read_only(program.parent().unwrap(), "/probe")];
    let libraries: Vec<PathBuf> = ["/lib", "/lib64", "/usr/lib"].map(PathBuf::from).into();
    for path in libraries.iter().filter(|path| path.exists()) {
        container.binds.push(Bind::read_only(path.canonicalize().unwrap(), path));
    }
    container
}

fn system_calls(site: &Site) {
    let container = with_this_program(site, "probe", &[probe::COMMAND]);
    let said = site.ok(&container);
    let allowed: Vec<&str> = said.lines().filter(|line| line.ends_with(": allowed")).collect();
    // Apptainer has the filter of its settings, which is none: keys are those of its own session,
    // and a new user namespace gives rights over nothing that is outside of it. Handles of files
    // are read before rights are looked at, and nobody inside has those rights.
    let known = [
        "keyctl",
        "add_key",
        "userfaultfd",
        "user namespace",
        "perf_event_open",
        "open_by_handle_at",
    ];
    let is_known = |line: &&&str| {
        let name = line.trim_end_matches(": allowed");
        site.runtime.name() == "apptainer" && known.contains(&name)
    };
    assert_eq!(allowed.iter().filter(|line| !is_known(line)).count(), 0, "{said}");
    assert!(said.contains("bpf"), "{said}");
}

/// What is read and written by name inside is inside, whatever the image's links say.
fn links_of_the_image(site: &Site) {
    let tree = site.own_tree("own-links");
    let outside = site.directory("own-links-outside");
    symlink(&outside, tree.join("var/link")).unwrap();
    symlink("../../../../../../../../..", tree.join("var/up")).unwrap();
    let mut container = site.script(
        "(echo x > /var/link/made) 2>/dev/null; cat /var/up/etc/marker; \
         (echo x > /proc/self/root/../../made) 2>/dev/null; true",
    );
    container.root = Root::Tree(tree);
    container.scratch = Some(WritableSpace::Memory(1 << 20));
    assert_eq!(site.ok(&container), "image\n");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    assert!(!Path::new("/made").exists());
    wait_for("mounts to go", || !mounts_of_this_process().contains("own-links"));
}
