//! Scripts are looked at and run, by the shell of this machine and with a program that stands for
//! the pilot. What Slurm makes of them is shown in `tests/slurm`.

use super::*;
use crate::batch::OrderedGpus;
use crate::way::{Local, Way};
use shipway_model::{AllocationId, Bytes, Cores, Digest, GpuOption, Millis};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_mins(1);
/// Stands for a pilot: writes down what it was started with, and ends as it is told.
const PROGRAM: &str = r#"#!/bin/sh
trap 'echo term >> "$REPORT/said"; exit 7' TERM
for word in "$@"; do printf '<%s>' "$word"; done > "$REPORT/words"
pwd > "$REPORT/folder"
stat -c '%a %n' . * > "$REPORT/modes"
cp credentials.json "$REPORT/credentials"
cp ca.pem "$REPORT/ca" 2>/dev/null
env > "$REPORT/env"
tr '\0' ' ' < "/proc/$PPID/cmdline" > "$REPORT/parent"
echo started >> "$REPORT/said"
[ -z "$WAIT" ] || while :; do sleep 0.05; done
exit 3
"#;
const HOSTILE: &str = "it's $(touch bad) `touch bad` \"x\" \\ ; END_OF_NODE\n#SBATCH --bogus\n%s*";

fn order(program: &str) -> Order {
    Order {
        allocation: AllocationId::new("alc-7").expect("good"),
        partition: Some("gpu".into()),
        nodes: 1,
        cpus: Cores { milli: 3_500 },
        memory: Bytes((2 << 30) + 1),
        gpus: Some(OrderedGpus { count: 4, kind: Some("a100".into()), request: None }),
        wall: Millis(3_600_001),
        warning: Millis(90_000),
        submit_lines: vec!["--constraint=nvlink".into(), "-A physics".into()],
        pilot: PilotStart {
            sha256: None,
            program: program.into(),
            options: Vec::new(),
            scratch: None,
            credentials: vec!["{}".into()],
            files: Vec::new(),
        },
    }
}

fn naming() -> Naming {
    Naming { whose: "s1".into() }
}

fn made(order: &Order) -> Submission {
    submission(order, &naming()).expect("a good order")
}

fn asking(order: &Order, request: GpuOption) -> Order {
    let gpus = order.gpus.clone().map(|gpus| OrderedGpus { request: Some(request), ..gpus });
    Order { gpus, ..order.clone() }
}

#[test]
fn the_arguments_say_what_was_ordered() {
    let order = order("/opt/shipway");
    let words = made(&order).arguments.join(" ");
    assert_eq!(
        words,
        "--constraint=nvlink -A physics --job-name=shipway-s1-alc-7 --partition=gpu --nodes=1 \
         --ntasks-per-node=1 --cpus-per-task=4 --mem=2049M --gres=gpu:a100:4 --time=61 \
         --signal=B:TERM@90 --no-requeue --chdir=/ --output=/dev/null --error=/dev/null"
    );
    let gpus = Some(OrderedGpus { count: 2, kind: None, request: None });
    for (request, words) in
        [(GpuOption::Gres, " --gres=gpu:a100:4 "), (GpuOption::Gpus, " --gpus=a100:4 ")]
    {
        let arguments = made(&asking(&order, request)).arguments.join(" ");
        assert!(arguments.contains(words), "{arguments}");
    }
    let by_the_site = made(&asking(&order, GpuOption::None)).arguments.join(" ");
    assert!(!by_the_site.contains("--g"), "{by_the_site}");
    let pilot = PilotStart { credentials: vec!["a".into(), "b".into()], ..order.pilot.clone() };
    let (nodes, warning) = (2, Millis(999));
    let few = Order { partition: None, nodes, gpus, warning, pilot, ..order.clone() };
    let words = made(&few).arguments.join(" ");
    assert!(words.contains("--nodes=2") && words.contains("--gres=gpu:2 "), "{words}");
    assert!(!words.contains("--partition") && !words.contains("--signal"), "{words}");
    let words = made(&asking(&few, GpuOption::Gpus)).arguments.join(" ");
    assert!(words.contains(" --gpus-per-node=2 ") && !words.contains("--gpus="), "{words}");
    let both = Order { warning: Millis(60_000), ..few };
    assert!(made(&both).arguments.contains(&"--signal=TERM@60".into()));
    let least = Order { wall: Millis(0), cpus: Cores { milli: 1 }, memory: Bytes(1), ..order };
    let words = made(&least).arguments.join(" ");
    assert!(words.contains("--cpus-per-task=1 --mem=1M"), "{words}");
    assert!(words.contains("--time=1 "), "{words}");
}

#[test]
fn what_cannot_be_handed_in_is_refused() {
    type Change = fn(&mut Order);
    let changes: [(&str, Change); 16] = [
        ("partition", |it| it.partition = Some("a b".into())),
        ("partition", |it| it.partition = Some(String::new())),
        ("kind of GPU", |it| it.gpus.as_mut().expect("some").kind = Some("a:1,gpu".into())),
        ("GPUs", |it| it.gpus.as_mut().expect("some").count = 0),
        ("processors", |it| it.cpus = Cores { milli: 0 }),
        ("memory", |it| it.memory = Bytes(0)),
        ("1 credentials for 2 nodes", |it| it.nodes = 2),
        ("number of nodes", |it| (it.nodes, it.pilot.credentials) = (0, Vec::new())),
        ("program", |it| it.pilot.program = "shipway".into()),
        ("program", |it| it.pilot.program = "/a\nb".into()),
        ("scratch", |it| it.pilot.scratch = Some("$HOME".into())),
        ("file", |it| it.pilot.files = vec![("../x".into(), String::new())]),
        ("file", |it| it.pilot.files = vec![("credentials.json".into(), String::new())]),
        ("NUL", |it| it.pilot.options = vec!["a\0".into()]),
        ("bytes long", |it| it.pilot.files = vec![("a".into(), "x".repeat(MAX_SCRIPT))]),
        ("refused", |it| it.submit_lines = vec!["--array=1-2".into()]),
    ];
    for (what, change) in changes {
        let mut order = order("/opt/shipway");
        change(&mut order);
        let error = submission(&order, &naming()).expect_err(what).to_string();
        assert!(error.contains(what), "{what}: {error}");
    }
    let odd = Naming { whose: "a b".into() };
    assert!(submission(&order("/opt/shipway"), &odd).is_err());
}

/// A folder where the program lies and reports, and where scratch is.
struct Place {
    folder: tempfile::TempDir,
    program: String,
}

impl Place {
    fn new() -> Place {
        let folder = tempfile::tempdir().expect("a folder");
        let program = folder.path().join("it's a $(pilot)");
        std::fs::write(&program, PROGRAM).expect("written");
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&program, mode).expect("made to run");
        for name in ["scratch it's", "report"] {
            std::fs::create_dir(folder.path().join(name)).expect("made");
        }
        let program = program.to_str().expect("text").to_string();
        Place { folder, program }
    }

    fn order(&self) -> Order {
        let mut order = order(&self.program);
        order.pilot.scratch = Some(self.scratch().to_str().expect("text").into());
        order.pilot.options = vec!["--ca".into(), "ca.pem".into(), HOSTILE.into(), String::new()];
        order.pilot.credentials = vec![HOSTILE.into()];
        order.pilot.files = vec![("ca.pem".into(), HOSTILE.repeat(2))];
        order
    }

    fn scratch(&self) -> std::path::PathBuf {
        self.folder.path().join("scratch it's")
    }

    fn report(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder.path().join("report").join(name)).unwrap_or_default()
    }

    fn vars(&self) -> Vec<(String, String)> {
        let report = self.folder.path().join("report");
        vec![("REPORT".into(), report.to_str().expect("text").into())]
    }
}

fn is_empty(folder: &Path) -> bool {
    std::fs::read_dir(folder).expect("a folder").next().is_none()
}

#[test]
fn texts_that_mean_harm_reach_the_pilot_as_texts() {
    let place = Place::new();
    let script = made(&place.order()).script;
    let way = Local::new(place.vars());
    // As slurmd starts it: as a file of its own.
    let file = place.folder.path().join("script");
    std::fs::write(&file, script).expect("written");
    let output = way.run(&["sh", file.to_str().expect("text")], b"", LONG).expect("it runs");
    assert_eq!(output.code, Some(3), "{}", String::from_utf8_lossy(&output.stderr));
    let folder = place.report("folder").trim_end().to_string();
    assert!(Path::new(&folder).starts_with(place.scratch()), "{folder}");
    let words = format!(
        "<pilot><--dir><{folder}><--token-file><{folder}/credentials.json><--ca><ca.pem>\
         <{HOSTILE}><>"
    );
    assert_eq!(place.report("words"), words);
    assert_eq!(place.report("credentials"), HOSTILE);
    assert_eq!(place.report("ca"), HOSTILE.repeat(2));
    assert_eq!(place.report("modes"), "700 .\n600 ca.pem\n600 credentials.json\n");
    assert!(!place.report("env").contains("touch"), "no text is in the environment");
    assert!(!place.report("parent").contains("touch"), "{}", place.report("parent"));
    assert!(is_empty(&place.scratch()), "the folder is gone, and nothing else was made");
}

#[test]
fn a_program_that_was_sent_is_started_only_where_it_is_the_same() {
    let place = Place::new();
    let file = place.folder.path().join("script");
    let exit_with = |sha256: Digest| {
        let mut order = place.order();
        order.pilot.sha256 = Some(sha256);
        std::fs::write(&file, made(&order).script).expect("written");
        let way = Local::new(place.vars());
        way.run(&["sh", file.to_str().expect("text")], b"", LONG).expect("it runs").code
    };
    assert_eq!(exit_with(Digest([7; 32])), Some(66));
    assert_eq!(place.report("said"), "", "it was not started");
    let said = Local::new(Vec::new()).run(&["sha256sum"], PROGRAM.as_bytes(), LONG).expect("runs");
    let hex = String::from_utf8(said.stdout).expect("text");
    assert_eq!(exit_with(format!("sha256:{}", &hex[..64]).parse().expect("a digest")), Some(3));
    assert!(is_empty(&place.scratch()));
}

fn start(place: &Place, script: &str) -> Child {
    let file = place.folder.path().join("script");
    std::fs::write(&file, script).expect("written");
    let mut command = Command::new("sh");
    command.arg(file).envs(place.vars()).env("WAIT", "yes");
    command.stdin(Stdio::null()).spawn().expect("sh starts")
}

fn until(done: impl Fn() -> bool) {
    let deadline = Instant::now() + LONG;
    while !done() {
        assert!(Instant::now() < deadline);
        // tidy: allow(sleep-in-test) because it is the pause between two looks
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn the_engines_warning_is_passed_on_and_the_pilots_code_comes_back() {
    let place = Place::new();
    let mut child = start(&place, &made(&place.order()).script);
    until(|| place.report("said").contains("started"));
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it lives");
    let status = child.wait().expect("it ends");
    assert_eq!((status.code(), place.report("said").as_str()), (Some(7), "started\nterm\n"));
    assert!(is_empty(&place.scratch()));
}

/// Whether somebody sleeps for so many seconds.
fn someone_sleeps(seconds: &str) -> bool {
    let entries = std::fs::read_dir("/proc").expect("there").flatten();
    let lines = entries.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    let words = ["sleep\0", seconds, "\0"].concat();
    lines.into_iter().any(|line| line == words.as_bytes())
}

#[test]
fn a_script_that_nobody_warns_warns_itself_and_leaves_nothing() {
    let place = Place::new();
    let mut order = place.order();
    (order.wall, order.warning) = (Millis(60_000), Millis(55_000));
    let mut child = start(&place, &warning_itself(&order).expect("good"));
    until(|| place.report("said").contains("term"));
    let status = child.wait().expect("it ends");
    assert_eq!((status.code(), place.report("said").as_str()), (Some(7), "started\nterm\n"));
    assert!(is_empty(&place.scratch()));

    // Of a pilot that ends before.
    let other = Place::new();
    let mut order = other.order();
    (order.wall, order.warning) = (Millis(1_440 * 60_000), Millis(29_000));
    let script = warning_itself(&order).expect("good");
    let way = Local::new(other.vars());
    let file = other.folder.path().join("script");
    std::fs::write(&file, script).expect("written");
    let output = way.run(&["sh", file.to_str().expect("text")], b"", LONG).expect("it runs");
    assert_eq!(output.code, Some(3), "{}", String::from_utf8_lossy(&output.stderr));
    until(|| !someone_sleeps("86371"));
    assert!(other.report("env").contains("HOME=/"), "{}", other.report("env"));
    order.warning = Millis(0);
    assert!(!warning_itself(&order).expect("good").contains("sleep 8"));
}

#[test]
fn each_node_takes_its_own_credentials() {
    let place = Place::new();
    let mut order = place.order();
    order.pilot.credentials = vec!["first".into(), "second".into()];
    let node = node_script(&order.pilot, "").expect("good");
    for (number, expected) in [("0", "first"), ("1", "second"), ("2", "")] {
        let mut vars = place.vars();
        vars.push(("SLURM_PROCID".into(), number.into()));
        let report = place.folder.path().join("report");
        let _ = std::fs::remove_file(report.join("credentials"));
        // As srun gives it to each node.
        let output = Local::new(vars).run(&["/bin/sh"], node.as_bytes(), LONG).expect("it runs");
        assert_eq!(place.report("credentials"), expected);
        let code = if expected.is_empty() { 1 } else { 3 };
        assert_eq!(output.code, Some(code));
    }
}

#[test]
fn no_text_ends_the_script_of_several_nodes_early() {
    let mut order = order("/opt/shipway");
    order.nodes = 2;
    order.pilot.credentials = vec!["a\nEND_OF_NODE\nid\n".into(), "END_OF_NODE__".into()];
    let script = made(&order).script;
    assert!(script.contains("<<'END_OF_NODE___' &\n"), "{script}");
    assert_eq!(script.lines().filter(|line| *line == "END_OF_NODE___").count(), 1);
    assert!(!format!("{:?}", made(&order)).contains("END_OF_NODE"), "no secret is printed");
}
