//! What no image and no task may do: see others, gain rights, reach the node.

use crate::site::{Site, wait_for};
use crate::{Case, On};
use shipway_runtime::binds::{AllowList, Allowed};
use shipway_runtime::plan::{Bind, Network, Root};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

pub(crate) const ALL: &[Case] = &[
    Case { name: "no other processes", on: On::All, run: no_other_processes },
    Case { name: "linked targets are refused", on: On::All, run: linked_targets },
    Case { name: "an allowed source that became a link", on: On::All, run: swapped_source },
    Case { name: "what the server keeps is not bound", on: On::All, run: closed_places },
    Case { name: "the node's own places are not bound", on: On::All, run: places_of_the_node },
    Case { name: "the node's tree is without secrets", on: On::Native, run: node_without_secrets },
    Case { name: "a linked proc is refused", on: On::All, run: linked_proc },
    Case {
        name: "a directory behind a descriptor is refused",
        on: On::All,
        run: descriptor_directory,
    },
    Case { name: "the helper's program cannot be written", on: On::All, run: helper_program },
    Case { name: "no descriptors but three", on: On::Strict, run: descriptors },
    Case { name: "the first process is closed", on: On::Native, run: first_process },
    Case { name: "no rights by setuid", on: On::All, run: setuid },
    Case { name: "no namespaces, mounts or nodes", on: On::Strict, run: namespaces },
    Case { name: "the kernel's files are read-only", on: On::Strict, run: kernel_files },
    Case { name: "nothing of the node is left mounted", on: On::Native, run: mounts },
    Case { name: "nothing is made in bound directories", on: On::All, run: bound_directories },
    Case { name: "only device nodes are devices", on: On::All, run: devices },
];

fn no_other_processes(site: &Site) {
    let mut other = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
    let outcome = site.run(&site.script("ls /proc | grep '^[0-9]' | wc -l; cat /proc/*/cmdline"));
    let _killed = other.kill();
    let _reaped = other.wait();
    let count: u32 = outcome.stdout.lines().next().unwrap().trim().parse().unwrap();
    assert!(count <= 5 && !outcome.stdout.contains("sleep"), "{}", outcome.stdout);
}

fn linked_targets(site: &Site) {
    let tree = site.other_tree("linked");
    let (outside, data) = (site.directory("outside"), site.directory("linked-data"));
    symlink(&outside, tree.join("absolute")).unwrap();
    symlink("../../outside", tree.join("relative")).unwrap();
    symlink("/proc/self/cwd", tree.join("magic")).unwrap();
    for target in ["/absolute", "/relative", "/absolute/new", "/magic", "/magic/new"] {
        let mut container = site.command(&["true"]);
        container.root = Root::Tree(tree.clone());
        container.binds = vec![Bind::read_only(&data, target)];
        let outcome = site.run(&container);
        assert!(outcome.refusal().contains("symbolic link"), "{target}: {}", outcome.refusal());
    }
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0, "something was made outside");
}

/// Somebody names a folder that a site offers, and then it is a link to another one.
fn swapped_source(site: &Site) {
    let (allowed, secret) = (site.directory("allowed"), site.directory("not-allowed"));
    fs::create_dir(allowed.join("data")).unwrap();
    let offer = Allowed { path: allowed.clone(), writable: false };
    let mut container = site.command(&["true"]);
    container.reach.offered = Some(AllowList::new([offer]));
    container.binds = vec![Bind::read_only(allowed.join("data"), "/var").asked_for()];
    site.ok(&container);
    container.binds[0].writable = true;
    assert!(site.run(&container).refusal().contains("for reading"));
    container.binds[0].writable = false;
    fs::remove_dir(allowed.join("data")).unwrap();
    symlink(&secret, allowed.join("data")).unwrap();
    site.run(&container).refusal();
}

/// What the server keeps: not to be had by any name.
fn closed_places(site: &Site) {
    let around = site.directory("around");
    let (home, links) = (around.join("kept"), around.join("links"));
    fs::create_dir_all(home.join("below")).unwrap();
    fs::write(home.join("below/token"), "secret\n").unwrap();
    fs::create_dir(&links).unwrap();
    symlink(&home, links.join("link")).unwrap();
    let closed = vec![home.canonicalize().unwrap()];
    for source in ["kept", "kept/below", "kept/below/token", "links/link", "links/link/below"] {
        for writable in [false, true] {
            let mut container = site.command(&["true"]);
            container.reach.closed.clone_from(&closed);
            let bind = Bind { writable, ..Bind::read_only(around.join(source), "/var") };
            container.binds = vec![bind.asked_for()];
            let outcome = site.run(&container);
            outcome.refusal();
        }
    }
    for tree in ["kept", "links/link/below"] {
        let mut container = site.command(&["true"]);
        container.reach.closed.clone_from(&closed);
        container.root = Root::Tree(around.join(tree));
        site.run(&container).refusal();
    }
    // A folder around it is bound without it, or not at all.
    let mut container = site.script("ls -R /var; cat /var/kept/below/token");
    container.reach.closed.clone_from(&closed);
    container.binds = vec![Bind::read_only(&around, "/var").asked_for()];
    let outcome = site.run(&container);
    outcome.refusal_or_failure();
    assert!(!outcome.stdout.contains("token"), "{}", outcome.stdout);
}

/// Where the kernel and the services of the node answer.
fn places_of_the_node(site: &Site) {
    let links = site.directory("node-links");
    symlink("/run", links.join("run")).unwrap();
    symlink("/proc/self/root/proc", links.join("proc")).unwrap();
    let linked = |name: &str| links.join(name).display().to_string();
    for source in ["/run", "/var/run", "/proc", "/sys/kernel", &linked("run"), &linked("proc")] {
        let mut container = site.command(&["true"]);
        container.binds = vec![Bind::read_only(source, "/var").asked_for()];
        let outcome = site.run(&container);
        outcome.refusal();
    }
}

/// The node's own tree, without what is not for tasks.
fn node_without_secrets(site: &Site) {
    let home = site.directory("node-kept");
    fs::write(home.join("token"), "secret\n").unwrap();
    let seen = fs::read_dir("/run").unwrap().count();
    assert!(seen > 0, "there is nothing to hide on this node");
    // The second is a folder that is not hidden by a `/tmp` of its own.
    let other = "/usr/share";
    assert!(fs::read_dir(other).unwrap().count() > 0, "there is nothing to hide in it");
    let script =
        format!("ls -A /run; ls -A /var/run/; ls -A {other}; cat {}/token", home.display());
    let mut container = site.command(&["/bin/sh", "-c", &script]);
    container.root = Root::Host;
    container.env = vec![("PATH".into(), "/usr/bin:/bin".into())];
    container.network = Network::None;
    container.reach.closed = vec![home.canonicalize().unwrap(), other.into()];
    let bound = Bind::writable(home.parent().unwrap(), home.parent().unwrap()).asked_for();
    for binds in [vec![], vec![bound]] {
        container.binds = binds;
        let outcome = site.run(&container);
        outcome.refusal_or_failure();
        assert!(!outcome.stdout.contains("secret"), "{}", outcome.stdout);
        let left: Vec<&str> = outcome.stdout.lines().filter(|name| *name != "systemd").collect();
        assert!(left.is_empty(), "{left:?}");
    }
    // What a plan puts there is there, as the driver's sockets are.
    container.argv = ["/bin/cat", "/run/some/where"].map(String::from).to_vec();
    container.binds = vec![Bind::read_only("/etc/hostname", "/run/some/where")];
    assert_eq!(site.ok(&container), fs::read_to_string("/etc/hostname").unwrap());
}

fn linked_proc(site: &Site) {
    for name in ["proc", "dev", "sys", "tmp"] {
        let tree = site.other_tree(&format!("linked-{name}"));
        fs::remove_dir(tree.join(name)).unwrap();
        symlink("/etc", tree.join(name)).unwrap();
        let mut container = site.command(&["true"]);
        container.root = Root::Tree(tree);
        let outcome = site.run(&container);
        assert!(outcome.refusal().contains(name), "{}", outcome.refusal());
    }
}

fn descriptor_directory(site: &Site) {
    let tree = site.other_tree("descriptors");
    for number in 0..16 {
        symlink(format!("/proc/self/fd/{number}"), tree.join(format!("fd{number}"))).unwrap();
        let paths = [format!("/proc/self/fd/{number}"), format!("/fd{number}")];
        for cwd in paths.into_iter().chain(["/proc/1/cwd".into(), "/proc/self/root".into()]) {
            let mut container = site.command(&["pwd"]);
            container.root = Root::Tree(tree.clone());
            container.cwd = cwd.into();
            let outcome = site.run(&container);
            if site.runtime.name() == "native" {
                outcome.refusal();
            }
            assert!(["", "/\n"].contains(&outcome.stdout.as_str()), "{}", outcome.stdout);
        }
    }
}

/// An image whose command is the program that made the container.
fn helper_program(site: &Site) {
    let tree = site.other_tree("own-program");
    let script = tree.join("bin/entry");
    fs::write(&script, "#!/proc/self/exe\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let before = fs::read("/proc/self/exe").unwrap();
    let mut container = site.command(&["/bin/entry"]);
    container.root = Root::Tree(tree);
    site.run(&container);
    let said =
        site.says("for p in /proc/[0-9]*; do echo bad 2>/dev/null > $p/exe; done; echo done");
    assert_eq!(said, "done\n");
    assert!(fs::read("/proc/self/exe").unwrap() == before, "the program was changed");
}

fn descriptors(site: &Site) {
    let _inherited = rustix::io::dup(rustix::stdio::stderr()).unwrap();
    let said = site.says("for n in $(seq 0 99); do test -e /proc/$$/fd/$n && echo $n; done; true");
    assert_eq!(said, "0\n1\n2\n");
}

fn first_process(site: &Site) {
    let said = site.says(
        "for f in root cwd exe fd environ mem; do \
         ls /proc/1/$f/ 2>/dev/null; cat /proc/1/$f 2>/dev/null; done; \
         kill -9 1; kill -TERM 1; echo alive",
    );
    assert_eq!(said, "alive\n");
}

fn setuid(site: &Site) {
    let tree = site.other_tree("setuid");
    let busybox = tree.join("bin/busybox");
    fs::set_permissions(&busybox, fs::Permissions::from_mode(0o4755)).unwrap();
    let mut container = site.script("id -u; grep -h Eff /proc/self/status");
    container.root = Root::Tree(tree);
    let said = site.ok(&container);
    assert!(!said.starts_with("0\n") && said.contains("0000000000000000"), "{said}");
}

fn namespaces(site: &Site) {
    let said = site.says(
        "unshare -U true 2>/dev/null && echo userns; unshare -m true 2>/dev/null && echo mountns; \
         mount -t tmpfs x /tmp 2>/dev/null && echo mount; umount /proc 2>/dev/null && echo umount; \
         mknod /tmp/n c 1 3 2>/dev/null && echo node; \
         hostname x 2>/dev/null && echo name; echo end",
    );
    assert_eq!(said, "end\n");
}

fn kernel_files(site: &Site) {
    let said = site.says(
        "for f in /proc/sys/kernel/core_pattern /proc/sysrq-trigger /proc/sys/kernel/hostname; do \
         (echo x > $f) 2>/dev/null && echo wrote $f; done; \
         wc -c < /proc/keys; find /proc/scsi /sys/firmware -mindepth 1 2>/dev/null | wc -l",
    );
    assert_eq!(said, "0\n0\n");
}

fn mounts(site: &Site) {
    let before = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let said = site.says("cat /proc/self/mountinfo");
    for line in said.lines() {
        let (point, options) = {
            let fields: Vec<&str> = line.split(' ').collect();
            (fields[4], fields[5])
        };
        let own = ["/dev", "/proc", "/sys", "/tmp"];
        let expected = point == "/" || own.iter().any(|own| point.starts_with(own));
        assert!(expected, "{line}");
        assert!(options.contains("nosuid"), "{line}");
    }
    wait_for("the container's mounts to go", || {
        fs::read_to_string("/proc/self/mountinfo").unwrap() == before
    });
}

fn bound_directories(site: &Site) {
    let (data, other) = (site.directory("bound"), site.directory("bound-other"));
    let mut container = site.command(&["true"]);
    container.binds = vec![Bind::writable(&data, "/data"), Bind::writable(&other, "/data/missing")];
    assert!(site.run(&container).refusal().contains("/data"));
    assert_eq!(fs::read_dir(&data).unwrap().count(), 0, "made on the node");
}

fn devices(site: &Site) {
    let file = site.directory("not-a-device").join("x");
    fs::write(&file, "").unwrap();
    let mut container = site.command(&["true"]);
    container.devices = vec![file];
    assert!(site.run(&container).refusal().contains("not a device node"));
}
