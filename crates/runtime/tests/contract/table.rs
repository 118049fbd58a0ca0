//! What holds for every task, however it is run: in a container of ours, of crun's or apptainer's,
//! or as a plain program. A task has nothing of whoever started the pilot.

use crate::attacks::with_this_program;
use crate::site::{NOBODY, Site};
use crate::{Case, On, probe};
use rustix::process::{Pid, Resource, getrlimit, getsid};
use shipway_runtime::native::{Helper, Start};
use shipway_runtime::plan::{Bind, Container, Process, Root, WritableSpace};
use shipway_runtime::runtime::{Finding, Launch, LaunchError};
use shipway_runtime::{Runtime, report::Ending};
use std::fs;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

pub(crate) const ALL: &[Case] = &[
    Case { name: "no new rights", on: On::PlainToo, run: no_new_rights },
    Case { name: "no capabilities", on: On::PlainToo, run: no_capabilities },
    Case { name: "no groups of the starter's", on: On::PlainToo, run: groups },
    Case { name: "no signal is ignored or blocked", on: On::PlainToo, run: signals },
    Case { name: "no descriptors of the starter's", on: On::PlainToo, run: descriptors },
    Case { name: "a session of its own", on: On::PlainToo, run: session },
    Case { name: "no terminal", on: On::PlainToo, run: no_terminal },
    Case { name: "no keys into a terminal", on: On::PlainToo, run: terminal_input },
    Case { name: "no pipe is kept busy", on: On::PlainToo, run: busy_pipes },
    Case { name: "no keys of the starter's", on: On::PlainToo, run: keyring },
    Case { name: "the usual mask", on: On::PlainToo, run: mask },
    Case { name: "limits below the starter's", on: On::PlainToo, run: limits },
    Case { name: "it goes first when memory ends", on: On::PlainToo, run: goes_first },
    Case { name: "no variables of the starter's", on: On::PlainToo, run: variables },
    Case { name: "no variables in whoever starts it", on: On::PlainToo, run: starters },
    Case { name: "binds are read-only all the way down", on: On::All, run: recursive },
];

/// A program of the node, started as a pilot starts those of other accounts. What is in the plan
/// and needs a container is left out.
#[derive(Debug)]
pub(crate) struct Plain(pub(crate) Arc<Helper>);

impl Runtime for Plain {
    fn name(&self) -> &'static str {
        "plain"
    }

    fn check(&self) -> Vec<Finding> {
        Vec::new()
    }

    fn launch(&self, container: &Container, stdin: Option<OwnedFd>) -> Result<Launch, LaunchError> {
        let argv = container.argv.iter().map(Into::into).collect();
        let env = container.env.iter().map(|(name, value)| (name.into(), value.into())).collect();
        let user = container.user.clone();
        let process = Process { cwd: container.cwd.clone(), user, ..Process::default() };
        self.0.before(Start { argv, env, stdin }, &process)
    }
}

/// A line of the kernel's about the task, without its name. No shell is in between: some have
/// signals of their own.
fn status(site: &Site, name: &str) -> String {
    let said = site.ok(&site.command(&["grep", &format!("^{name}:"), "/proc/self/status"]));
    said.trim().trim_start_matches(name).trim_start_matches(':').trim().to_owned()
}

fn no_new_rights(site: &Site) {
    assert_eq!(status(site, "NoNewPrivs"), "1");
}

fn no_capabilities(site: &Site) {
    for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
        assert_eq!(status(site, set), "0000000000000000", "{set}");
    }
}

fn groups(site: &Site) {
    if rustix::process::geteuid().is_root() {
        let groups = status(site, "Groups");
        let own = NOBODY.to_string();
        // Apptainer's user namespace shows the group itself once more.
        assert!(groups.split_whitespace().all(|group| group == own), "{groups}");
    }
}

/// As with `nohup`, which all that this program starts would inherit.
fn signals(site: &Site) {
    probe::ignore_hangups(true);
    let found = ["SigIgn", "SigBlk"].map(|name| status(site, name));
    probe::ignore_hangups(false);
    let set = |text: &String| u64::from_str_radix(text, 16).unwrap();
    // Signals 32 and 33 are the C library's own, which ignores them in all that it starts.
    assert_eq!(found.each_ref().map(|found| set(found) & !(0b11 << 31)), [0, 0], "{found:?}");
}

fn descriptors(site: &Site) {
    use std::os::unix::fs::MetadataExt;
    // A file of its own, so that it can be told from all others by whoever has it open.
    let file = tempfile::tempfile().unwrap();
    let inherited = rustix::io::dup(&file).unwrap();
    let script = "for n in $(seq 3 99); do test -e /proc/$$/fd/$n && \
                  stat -L -c '%d:%i' /proc/$$/fd/$n; done; true";
    let said = site.says(script);
    // What apptainer opens itself leads to the container's own files.
    if site.runtime.name() != "apptainer" {
        assert_eq!(said, "");
    }
    let own = file.metadata().unwrap();
    let own = format!("{}:{}", own.dev(), own.ino());
    assert!(!said.lines().any(|line| line == own), "the starter's own file: {said}");
    drop(inherited);
}

fn session(site: &Site) {
    let (reading, writing) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
    let (mut child, after) = site.start(&site.script("echo ready; cat"), Some(reading));
    crate::lifetimes::wait_until_ready(&mut child);
    let leads = getsid(Some(Pid::from_child(&child))).unwrap();
    drop(writing);
    let status = child.wait().unwrap();
    assert_eq!(leads, Pid::from_child(&child), "it is in somebody else's session");
    assert_eq!(after.ending(status), Ending::Exit(0));
}

fn no_terminal(site: &Site) {
    let said = site.says(
        "(: < /dev/tty) 2>/dev/null && echo read; (: > /dev/tty) 2>/dev/null && echo write; true",
    );
    assert_eq!(said, "");
}

fn terminal_input(site: &Site) {
    let said = site.ok(&with_this_program(site, "typing", &[probe::TYPE]));
    assert_eq!(said, "refused\n".repeat(4));
}

/// Refused as what these files cannot do, so that programs read and write instead.
fn busy_pipes(site: &Site) {
    let said = site.ok(&with_this_program(site, "pipes", &[probe::PIPES]));
    let refused = |name| format!("{name}: {:?}\n", Some(libc::EINVAL));
    let refused: String = ["splice", "tee", "vmsplice", "sendfile"].map(refused).concat();
    assert_eq!(said, refused + "sendfile of what has a size: allowed\n");
}

fn keyring(site: &Site) {
    // Whoever runs tasks as themselves has their keys there, too.
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let name = format!("shipway-table-{}", std::process::id());
    if !probe::add_key(&name) {
        println!("left out: this kernel keeps no keys");
        return;
    }
    let said = site.ok(&with_this_program(site, "keys", &[probe::KEYS, &name]));
    assert_eq!(said, "absent\n");
}

fn mask(site: &Site) {
    let before = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    let said = site.says("umask");
    rustix::process::umask(before);
    // The other two have the usual one whoever starts them.
    let is_usual = rustix::process::geteuid().is_root()
        || ["crun", "apptainer"].contains(&site.runtime.name());
    assert_eq!(said.trim(), if is_usual { "0022" } else { "0077" });
}

/// What a task uses up of them leaves the starter something.
fn limits(site: &Site) {
    for (name, what) in [
        ("Max processes", Resource::Nproc),
        ("Max open files", Resource::Nofile),
        ("Max pending signals", Resource::Sigpending),
        ("Max msgqueue size", Resource::Msgqueue),
    ] {
        let own = getrlimit(what);
        let Some(most) = own.maximum else { continue };
        let said = site.ok(&site.command(&["grep", &format!("^{name}"), "/proc/self/limits"]));
        let numbers = said.split_whitespace().filter_map(|word| word.parse().ok());
        let [soft, hard] = numbers.collect::<Vec<u64>>()[..] else { panic!("{said}") };
        // However many a user may have, one task has not all numbers that there are.
        let least = (most - most / 8).min(if what == Resource::Nproc { 16_384 } else { u64::MAX });
        assert!(hard < most && hard >= least, "{name}: {hard} of {most}");
        // Programs that ask how many files they may have want to hear the same as ever.
        assert_eq!(soft, own.current.unwrap_or(most).min(hard), "{name}");
    }
}

fn goes_first(site: &Site) {
    let said = site.ok(&site.command(&["cat", "/proc/self/oom_score_adj"]));
    assert!(said.trim().parse::<i32>().is_ok_and(|score| score >= 500), "{said}");
}

fn variables(site: &Site) {
    let said = site.says("env | grep -c CARGO; true");
    assert_eq!(said, "0\n");
}

/// What the loader of programs says where variables of a task ask it to: which programs ran with
/// them. None that has more rights than the task may.
fn starters(site: &Site) {
    let dir = site.directory("loader");
    let mut container = site.command(&["true"]);
    container.env.extend(asking_the_loader(&dir));
    site.ok(&container);
    let expected = if site.runtime.name() == "plain" { vec!["true".to_owned()] } else { vec![] };
    assert_eq!(programs_that_ran(&dir), expected);
}

pub(crate) fn asking_the_loader(dir: &Path) -> [(String, String); 2] {
    let file = dir.join("said").display().to_string();
    [("LD_DEBUG".into(), "libs".into()), ("LD_DEBUG_OUTPUT".into(), file)]
}

pub(crate) fn programs_that_ran(dir: &Path) -> Vec<String> {
    let files = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let said: String = files.map(|file| fs::read_to_string(file).unwrap()).collect();
    let programs = said.lines().filter_map(|line| line.split("initialize program: ").nth(1));
    programs.map(str::to_owned).collect()
}

/// Another file system below what is bound.
fn recursive(site: &Site) {
    let is_mount = fs::metadata("/dev/shm").and_then(|below| {
        use std::os::unix::fs::MetadataExt;
        Ok(below.dev() != fs::metadata("/dev")?.dev())
    });
    assert!(is_mount.is_ok_and(|is_mount| is_mount), "this node mounts nothing below /dev");
    let mut container = site.script(
        "test -d /var/in/shm || echo missing; \
         (echo x > /var/in/shm/shipway-table) 2>/dev/null && echo wrote; true",
    );
    let tree = site.own_tree("recursive");
    fs::create_dir(tree.join("var/in")).unwrap();
    container.root = Root::Tree(tree);
    container.scratch = Some(WritableSpace::Memory(1 << 20));
    container.binds = vec![Bind::read_only("/dev", "/var/in")];
    let said = site.ok(&container);
    let _absent = fs::remove_file("/dev/shm/shipway-table");
    assert_eq!(said, "");
}
