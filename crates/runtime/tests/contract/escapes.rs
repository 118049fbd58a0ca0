//! What no image and no task may do: see others, gain rights, reach the node.

use crate::site::{Site, wait_for};
use crate::{Case, On};
use shipway_runtime::binds::{AllowList, Allowed};
use shipway_runtime::plan::{Bind, Root};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

pub(crate) const ALL: &[Case] = &[
    Case { name: "no other processes", on: On::All, run: no_other_processes },
    Case { name: "linked targets are refused", on: On::All, run: linked_targets },
    Case { name: "an allowed source that became a link", on: On::All, run: swapped_source },
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

/// Allowed once, then exchanged for a link to something else.
fn swapped_source(site: &Site) {
    let (allowed, secret) = (site.directory("allowed"), site.directory("not-allowed"));
    fs::create_dir(allowed.join("data")).unwrap();
    let offer = Allowed { path: allowed.clone(), writable: false };
    let bind = AllowList::new([offer]).check(&Bind::read_only(allowed.join("data"), "/var"));
    let mut container = site.command(&["true"]);
    container.binds = vec![bind.unwrap()];
    site.ok(&container);
    fs::remove_dir(allowed.join("data")).unwrap();
    symlink(&secret, allowed.join("data")).unwrap();
    site.run(&container).refusal();
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
