//! How fast a container starts: ours, bwrap's and crun's, in the same tree, in turns.
//!
//! `cargo run --release -p shipway-pilot --example start_rate [ROUNDS]`, best as an ordinary user.
//! Ours goes by the helper that pilots use; `--helper PROGRAM` has another one: `shipway` itself,
//! which is larger. `--json` prints medians for programs. Every round starts `/bin/true` once with
//! each, so that what disturbs one disturbs all.

#![allow(clippy::print_stderr, clippy::print_stdout, reason = "this program is for reading")]

use shipway_pilot::helper::of_tasks;
use shipway_runtime::Runtime;
use shipway_runtime::native::{self, Helper, Native};
use shipway_runtime::plan::{Container, Network, Root, User};
use shipway_runtime::report::Ending;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

const ROUNDS: usize = 200;
const NOBODY: u32 = 65534;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|arg| arg == native::COMMAND) {
        return native::main();
    }
    if rustix::process::geteuid().is_root() && args.first().is_none_or(|arg| arg != "--as-root") {
        let mut again = Command::new("/proc/self/exe");
        again.args(args).uid(NOBODY).gid(NOBODY).current_dir("/");
        let done = again.status().expect("this program starts again").success();
        return if done { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    if args.iter().any(|arg| arg == "--alone") {
        // Only ours, for a profiler.
        let dir = tempfile::tempdir().expect("a temporary directory");
        let start = native(&tree(dir.path()), Network::Host);
        return if (0..rounds(&args)).all(|_| start()) {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        };
    }
    let medians = measure(rounds(&args));
    if args.iter().any(|arg| arg == "--json") {
        println!("{}", serde_json::to_string(&medians).expect("plain data"));
    }
    ExitCode::SUCCESS
}

fn rounds(args: &[String]) -> usize {
    args.iter().find_map(|arg| arg.parse().ok()).unwrap_or(ROUNDS)
}

/// Starts one, and says whether it went well.
type Start = Box<dyn Fn() -> bool>;

/// Prints what was measured, and returns the medians in microseconds by what was started.
fn measure(rounds: usize) -> BTreeMap<&'static str, u128> {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let tree = tree(dir.path());
    let mut starts: Vec<(&'static str, Start)> = vec![
        ("busybox, no container", Box::new(|| run(&mut bare(&["/bin/busybox", "true"])))),
        ("native", native(&tree, Network::Host)),
        ("bwrap", bwrap(&tree, &[])),
        ("bwrap with /sys", bwrap(&tree, &["--ro-bind", "/sys", "/sys"])),
        ("native, own network", native(&tree, Network::Loopback)),
        ("bwrap, own network", bwrap(&tree, &["--unshare-net"])),
        ("crun", crun(dir.path(), &tree)),
    ];
    // Not installed, or not working here.
    starts.retain(|(name, start)| {
        let works = start();
        if !works {
            eprintln!("left out: {name}");
        }
        works
    });
    let mut times: Vec<Vec<Duration>> = vec![Vec::new(); starts.len()];
    for round in 0..=rounds {
        for ((_, start), times) in starts.iter().zip(&mut times) {
            let clock = Instant::now();
            assert!(start(), "it worked before");
            // The first round warms up.
            if round > 0 {
                times.push(clock.elapsed());
            }
        }
    }
    let mut medians = BTreeMap::new();
    for ((name, _), times) in starts.iter().zip(&mut times) {
        times.sort();
        let (least, middle) = (times[0].as_micros(), times[times.len() / 2].as_micros());
        eprintln!("{name:24} least {least:6} µs   median {middle:6} µs");
        medians.insert(*name, middle);
    }
    medians
}

fn bare(words: &[&str]) -> Command {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).env_clear().env("PATH", "/usr/bin:/bin").stdin(Stdio::null());
    command
}

fn run(command: &mut Command) -> bool {
    command.status().is_ok_and(|status| status.success())
}

fn native(tree: &Path, network: Network) -> Start {
    let named = std::env::args().skip_while(|arg| arg != "--helper").nth(1);
    let helper = named.map_or_else(of_tasks, |program| {
        Helper::program(program.into(), vec!["start_rate".into(), native::COMMAND.into()])
    });
    let native = Native::new(helper.expect("a helper").into());
    let mut container = Container::new(Root::Tree(tree.into()), vec!["/bin/true".into()]);
    container.network = network;
    if rustix::process::geteuid().is_root() {
        container.user = Some(User { uid: NOBODY, gid: NOBODY, groups: Vec::new() });
    }
    Box::new(move || {
        let (mut command, after) = native.launch(&container, None).expect("a plan").into_command();
        let status = command.status().expect("the helper starts");
        after.ending(status) == Ending::Exit(0)
    })
}

fn bwrap(tree: &Path, more: &[&str]) -> Start {
    let tree = tree.to_str().expect("a plain path").to_owned();
    let more: Vec<String> = more.iter().map(|&word| word.to_owned()).collect();
    Box::new(move || {
        let mut command = bare(&["/usr/bin/bwrap", "--ro-bind", &tree, "/"]);
        command.args(["--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts"]);
        command.args(["--unshare-cgroup", "--die-with-parent", "--proc", "/proc"]);
        command.args(["--dev", "/dev", "--tmpfs", "/tmp"]).args(&more).arg("/bin/true");
        run(&mut command)
    })
}

fn crun(dir: &Path, tree: &Path) -> Start {
    let (bundle, root) = (dir.join("bundle"), dir.join("crun"));
    fs::create_dir(&bundle).expect("a bundle");
    let user = rustix::process::geteuid().as_raw();
    let map = format!(r#"[{{"containerID":{user},"hostID":{user},"size":1}}]"#);
    let kinds =
        ["pid", "ipc", "uts", "mount", "user"].map(|kind| format!(r#"{{"type":"{kind}"}}"#));
    let config = format!(
        r#"{{"ociVersion":"1.0.0","root":{{"path":"{}","readonly":true}},
        "process":{{"user":{{"uid":{user},"gid":{user}}},"args":["/bin/true"],"cwd":"/",
        "env":["PATH=/bin"],"noNewPrivileges":true}},"mounts":[
        {{"destination":"/proc","type":"proc","source":"proc"}},
        {{"destination":"/dev","type":"tmpfs","source":"tmpfs","options":["mode=755"]}},
        {{"destination":"/tmp","type":"tmpfs","source":"tmpfs"}}],
        "linux":{{"uidMappings":{map},"gidMappings":{map},"namespaces":[{}]}}}}"#,
        tree.display(),
        kinds.join(","),
    );
    fs::write(bundle.join("config.json"), config).expect("a config");
    Box::new(move || {
        let mut command = bare(&["/usr/bin/crun", "--cgroup-manager=disabled"]);
        command.arg("--root").arg(&root).arg("run").arg("--bundle").arg(&bundle).arg("rate");
        run(&mut command)
    })
}

fn tree(dir: &Path) -> PathBuf {
    let tree = dir.join("tree");
    for name in ["bin", "dev", "proc", "sys", "tmp"] {
        fs::create_dir_all(tree.join(name)).expect("a directory");
    }
    fs::copy("/bin/busybox", tree.join("bin/busybox")).expect("busybox is installed");
    std::os::unix::fs::symlink("busybox", tree.join("bin/true")).expect("a link");
    tree
}
