//! Answers that a real pool gave, of HTCondor 23.9.6, read as a whole; what is made of them when a
//! way gives them; and answers that nothing sensible gives.

use super::*;
use crate::batch::{AllocationEnd, PilotStart, SeenPhase};
use shipway_model::{AllocationId, Bytes, Cores, Millis};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

fn fixtures() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/htcondor/23.9.6"))
}

fn fixture(name: &str) -> Vec<u8> {
    std::fs::read(fixtures().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn naming() -> Naming {
    Naming { whose: "s1".into() }
}

/// Answers each command with the output that is laid ready, and notes what was run.
#[derive(Debug, Default, Clone)]
struct Recorded {
    answers: Arc<Mutex<Vec<Output>>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Way for Recorded {
    fn run(&self, words: &[&str], _: &[u8], _: Duration) -> Result<Output, WayError> {
        self.asked.lock().expect("whole").push(words.join(" "));
        Ok(self.answers.lock().expect("whole").remove(0))
    }
}

fn condor(answers: &[(i32, &[u8], &[u8])]) -> (HtCondor, Recorded) {
    let output = |(code, stdout, stderr): &(i32, &[u8], &[u8])| Output {
        code: Some(*code),
        stdout: stdout.to_vec(),
        stderr: stderr.to_vec(),
    };
    let answers = Arc::new(Mutex::new(answers.iter().map(output).collect()));
    let way = Recorded { answers, asked: Arc::default() };
    let settings = Settings { schedd: Some("x".into()), pool: Some("y".into()), ..<_>::default() };
    (HtCondor::new(Box::new(way.clone()), naming(), settings), way)
}

fn order() -> Order {
    let pilot = PilotStart {
        sha256: None,
        program: "/p".into(),
        options: Vec::new(),
        scratch: None,
        credentials: vec!["SECRET".into()],
        files: Vec::new(),
    };
    Order {
        allocation: AllocationId::new("a").expect("good"),
        partition: None,
        nodes: 1,
        cpus: Cores::whole(1),
        memory: Bytes(1),
        gpus: None,
        wall: Millis(60_000),
        warning: Millis(1_000),
        submit_lines: Vec::new(),
        pilot,
    }
}

#[test]
fn a_real_queue_and_history_are_told_in_our_words() {
    let (queue, history) = (fixture("queue.json"), fixture("history.json"));
    let (condor, way) = condor(&[(0, &queue, b""), (0, &history, b"")]);
    let seen = condor.look().expect("readable");
    let found = |name: &str| {
        let it = seen.iter().find(|seen| seen.allocation.to_string() == name);
        it.unwrap_or_else(|| panic!("{name} is not in {seen:?}"))
    };
    let ended = |end| SeenPhase::Ended(end);
    let phases = [
        ("running", SeenPhase::Running, "RUNNING"),
        ("held", SeenPhase::Held, "HELD (code 1: a person said so (by user tester))"),
        ("nointerp", SeenPhase::Held, "HELD (code 6: Error from slot1_2@pool.test.local: "),
        ("waiting", SeenPhase::Queued, "IDLE (no match found)"),
        ("removed", SeenPhase::Running, "REMOVED (via condor_rm (by user tester)), and still ends"),
        ("limit", ended(AllocationEnd::TimeLimit), "REMOVED (shipway: the time it was given"),
        ("evicted", ended(AllocationEnd::Preempted), "REMOVED (shipway: it lost its node)"),
        (
            "lost",
            ended(AllocationEnd::NodeFailed),
            "REMOVED (shipway: it lost its node; Job not found",
        ),
        ("cancelled", ended(AllocationEnd::Cancelled), "REMOVED (via condor_rm (by user tester))"),
        ("well", ended(AllocationEnd::Completed), "COMPLETED (exit code 0)"),
        ("code", ended(AllocationEnd::Failed), "COMPLETED (exit code 3)"),
        ("signal", ended(AllocationEnd::Failed), "COMPLETED (ended by signal 9)"),
    ];
    for (name, phase, words) in phases {
        let seen = found(name);
        assert_eq!(seen.phase, phase, "{name}");
        assert!(seen.words.starts_with(words), "{}", seen.words);
    }
    assert_eq!(seen.len(), phases.len() + 1, "{seen:?}");
    assert_eq!(found("gpu").nodes, ["k40@pool.test.local"]);
    assert_eq!(found("lost").words.split("; ").nth(1), Some("Job not found at execution machine)"));
    let asked = way.asked.lock().expect("whole");
    assert!(asked[0].starts_with("condor_q -json ") && asked[0].ends_with(" -name x -pool y"));
    assert!(asked[1].contains(" -scanlimit ") && asked[1].ends_with(" -name x -pool y"));
}

#[test]
fn silence_is_an_empty_queue() {
    let (queue, history) = (fixture("queue-empty.json"), fixture("history-empty.json"));
    assert!(queue.is_empty() && !history.is_empty(), "one says nothing, the other `[]`");
    let (condor, _) = condor(&[(0, &queue, b""), (0, &history, b"")]);
    assert_eq!(condor.look().expect("readable"), []);
}

#[test]
fn real_machines_are_told_by_what_they_have() {
    let nodes = |name: &str| {
        let (condor, way) = condor(&[(0, &fixture(name), b"")]);
        let nodes = condor.nodes().expect("readable");
        let asked = way.asked.lock().expect("whole");
        assert!(asked[0].ends_with(" -pool y") && !asked[0].contains("-name"), "{asked:?}");
        nodes
    };
    for name in ["nodes.json", "nodes-whole.json", "nodes-drained.json"] {
        let mut nodes = nodes(name);
        nodes.sort_by(|a, b| a.gpus.cmp(&b.gpus));
        let [a100, k40] = nodes.as_slice() else { panic!("two kinds, not {nodes:?}") };
        let gpus = |kind: &str, count, memory: u64, capability: &str| EngineGpusOf {
            kind: kind.into(),
            count,
            memory: memory << 20,
            capability: capability.into(),
        };
        assert_eq!(of(a100), gpus("A100-SXM4-40GB", 4, 47_661, "8.0"));
        assert_eq!(of(k40), gpus("Tesla K40m", 2, 11_441, "3.5"));
        assert_eq!((a100.cpus, a100.memory), (Cores::whole(16), Bytes(16_000 << 20)));
        assert_eq!(a100.features, ["X86_64", "Debian13", "x86_64-v4"]);
        let drained = name == "nodes-drained.json";
        assert_eq!((k40.count, k40.up), (1, u32::from(!drained)));
        let down: &[&str] = if drained { &["k40@pool.test.local: drained: bad PSU"] } else { &[] };
        assert_eq!(k40.down, down);
    }
}

#[derive(Debug, PartialEq)]
struct EngineGpusOf {
    kind: String,
    count: u32,
    memory: u64,
    capability: String,
}

fn of(nodes: &EngineNodes) -> EngineGpusOf {
    let gpus = nodes.gpus.first().cloned().expect("it has some");
    EngineGpusOf {
        kind: gpus.kind.expect("told"),
        count: gpus.count,
        memory: gpus.memory.expect("told").0,
        capability: gpus.capability.expect("told"),
    }
}

#[test]
fn machines_with_gpus_of_no_one_kind_are_asked_again() {
    let (first, second) = (fixture("nodes-mixed.json"), fixture("nodes-mixed-whole.json"));
    let (condor, way) = condor(&[(0, &first, b""), (0, &second, b"")]);
    let nodes = condor.nodes().expect("readable");
    let gpus = nodes.iter().flat_map(|nodes| &nodes.gpus);
    let kinds: Vec<_> = gpus.map(|gpus| (gpus.kind.as_deref(), gpus.count)).collect();
    for kind in [("Tesla K20m", 1), ("Tesla K40m", 1), ("A100-SXM4-40GB", 4)] {
        assert!(kinds.contains(&(Some(kind.0), kind.1)), "{kind:?} is not in {kinds:?}");
    }
    assert_eq!((kinds.len(), way.asked.lock().expect("whole").len()), (3, 2));
}

#[test]
fn real_errors_say_what_can_be_done() {
    let kinds = [
        ("schedd-unknown", EngineTrouble::NotReached, "Error: unknown host nosuch"),
        ("schedd-not-listed", EngineTrouble::NotReached, "Error: Collector has no record"),
        ("schedd-off", EngineTrouble::NotReached, "Error: Can't find address for schedd"),
        ("rm-schedd-off", EngineTrouble::NotReached, "condor_rm: Can't find address"),
        ("submit-schedd-off", EngineTrouble::NotReached, "ERROR: Can't find address of"),
        ("pool-unknown", EngineTrouble::NotReached, "Error: unknown host nosuch.example"),
        ("pool-dead", EngineTrouble::NotReached, "Error: communication error CEDAR:6001"),
        ("history-unknown", EngineTrouble::NotReached, "Unable to locate remote schedd"),
        ("submit-denied", EngineTrouble::Refused, "ERROR: Failed to connect to local queue"),
        ("submit-expression", EngineTrouble::Refused, "ERROR: Parse error in expression: Req"),
        ("submit-line", EngineTrouble::Refused, "ERROR: on Line 2 of submit file: ERROR"),
        ("submit-grid", EngineTrouble::Refused, "ERROR: Invalid value 'nosuch'"),
        ("submit-requirement", EngineTrouble::Refused, "ERROR: Failed to commit job submission"),
        ("submit-limit", EngineTrouble::NotNow, "ERROR: Failed to create proc Number of"),
    ];
    for (name, kind, words) in kinds {
        let stderr = fixture(&format!("error-{name}.golden"));
        let (condor, _) = condor(&[(1, b"", &stderr)]);
        let error = condor.submit(&order()).expect_err("it failed");
        assert_eq!(error.kind, kind, "{name}: {error}");
        assert!(error.words.starts_with(words), "{name}: {}", error.words);
        assert!(!error.words.contains("Extra Info"), "{}", error.words);
    }
}

#[test]
fn a_submission_is_known_by_its_cluster() {
    for said in ["12.0 - 12.3\n", "note from the site\n12.0 - 12.0\n\n"] {
        let (condor, way) = condor(&[(0, said.as_bytes(), b"")]);
        assert_eq!(condor.submit(&order()).expect("taken"), EngineId("12".into()));
        assert_eq!(*way.asked.lock().expect("whole"), ["sh -s"], "nothing secret is an argument");
    }
    for said in ["", "done", "-1.0 - 2", "x.0 - x.0"] {
        let (condor, _) = condor(&[(0, said.as_bytes(), b"")]);
        let error = condor.submit(&order()).expect_err("no id in it");
        assert_eq!(error.kind, EngineTrouble::Unreadable, "{error}");
    }
}

#[test]
fn what_is_gone_needs_no_removal_and_what_stays_is_an_error() {
    let gone = fixture("error-rm-gone.golden");
    let ids = [EngineId("99".into())];
    let (engine, _) = condor(&[(1, b"", &gone), (0, b"", b"")]);
    engine.cancel(&ids).expect("it has ended");
    let (engine, _) = condor(&[(1, b"", &gone), (0, b"[{\"ClusterId\": 99}]", b"")]);
    let error = engine.cancel(&ids).expect_err("it is still there");
    assert_eq!(error.kind, EngineTrouble::Refused, "{error}");
    let (engine, way) = condor(&[]);
    engine.cancel(&[]).expect("nothing to do");
    engine.cancel(&[EngineId("-all".into())]).expect_err("no id of a cluster");
    engine.why_queued(&EngineId("-all".into())).expect_err("no id of a cluster");
    assert!(way.asked.lock().expect("whole").is_empty());
    let many: Vec<EngineId> = (0..=MAX_AT_ONCE).map(|it| EngineId(it.to_string())).collect();
    let (engine, way) = condor(&[(0, b"", b""), (0, b"", b"")]);
    engine.cancel(&many).expect("taken");
    assert_eq!(way.asked.lock().expect("whole")[1], "condor_rm -name x -pool y 200");
}

#[test]
fn a_real_analysis_is_one_sentence_or_none() {
    let why = |name: &str| {
        let (condor, _) = condor(&[(0, &fixture(name), b"")]);
        condor.why_queued(&EngineId("12".into())).expect("it answers")
    };
    let gpu = why("analyze-gpu.golden").expect("it waits for something");
    let condition = "countMatches(MY.RequireGPUs,TARGET.AvailableGPUs) >= RequestGPUs";
    let values = "RequestGPUs = 1, RequireGPUs = DeviceName == \"H200\"";
    assert_eq!(gpu, format!("none of 2 machines has `{condition}`, {values}"));
    assert_eq!(why("analyze-held.golden"), None);
    assert_eq!(why("analyze-running.golden"), None);
}

/// Numbers that are the same every time.
struct Seeded(u64);

impl Seeded {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % limit.max(1) as u64).expect("below a usize")
    }

    /// The bytes, with some changed, taken out, or doubled.
    fn spoil(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        for _ in 0..=self.below(4) {
            let at = self.below(bytes.len());
            let end = at + self.below(bytes.len() - at).min(40);
            match self.below(4) {
                0 => drop(bytes.drain(at..end)),
                1 => bytes.splice(at..at, bytes[at..end].to_vec()).for_each(drop),
                2 => bytes.truncate(at.max(1)),
                _ => bytes[at] = u8::try_from(self.below(256)).expect("below 256"),
            }
            if bytes.is_empty() {
                bytes.push(b'[');
            }
        }
        bytes
    }
}

#[test]
fn nothing_that_is_said_makes_a_reader_panic() {
    let files = std::fs::read_dir(fixtures()).expect("readable").flatten();
    let files = files.map(|it| std::fs::read(it.path()).expect("readable"));
    let files: Vec<Vec<u8>> = files.filter(|bytes| !bytes.is_empty()).collect();
    let mut seeded = Seeded(0x5eed);
    let mut read = 0;
    let jobs = [fixture("queue.json"), fixture("history.json")];
    for round in 0..2_000 {
        // Every other one is of jobs, of which there is most to be read.
        let files = if round % 2 == 0 { &jobs[..] } else { &files[..] };
        let mut bytes = seeded.spoil(&files[round / 2 % files.len()]);
        if round % 10 == 0 {
            bytes = (0..seeded.below(200)).map(|_| seeded.below(256).to_le_bytes()[0]).collect();
        }
        let (condor, _) = condor(&[(0, &bytes, b""), (0, &bytes, b"")]);
        read += usize::from(condor.look().is_ok_and(|seen| !seen.is_empty()));
        let (engine, _) = self::condor(&[(0, &bytes, b""), (0, &bytes, b"")]);
        let _ = engine.nodes();
        let (engine, _) = self::condor(&[(0, &bytes, b""), (1, &bytes, &bytes)]);
        let _ = engine.why_queued(&EngineId("1".into()));
        let error = engine.submit(&order()).expect_err("it failed");
        assert!(error.words.chars().count() <= crate::batch::MAX_WORDS && !error.words.is_empty());
    }
    assert!(read > 50, "most were refused before anything was read of them: {read}");
}
