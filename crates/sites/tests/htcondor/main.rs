//! Allocations at a real HTCondor pool, by its own commands: handed in, seen, explained, ended.
//! What a pilot does there is not looked at; a script stands for it and notes how it was started.

mod pool;

use pool::{Pool, until};
use shipway_model::{AllocationId, Bytes, Cores, Millis};
use shipway_sites::batch::{
    AllocationEnd, BatchSystem, EngineId, EngineTrouble, Naming, Order, OrderedGpus, PilotStart,
    Seen, SeenPhase,
};
use shipway_sites::htcondor::{HtCondor, Settings};
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

const SECRET: &str = "n0b0dy-els3-may-s33-this";
const K40: &str = "Tesla K40m";
const A100: &str = "A100-SXM4-40GB";

/// Notes what it was given and waits to be told to end.
const PILOT: &str = r#"#!/bin/sh
for word; do
    case $last in --dir) dir=$word ;; --token-file) token=$word ;; --name) name=$word ;; esac
    last=$word
done
said=/home/tester/said.$name
{
    echo "started"
    printf 'args'; printf ' [%s]' "$@"; echo
    echo "gpus $CUDA_VISIBLE_DEVICES"
    stat -c 'mode %a %F' "$dir" "$token" "$dir/server.pem"
    echo "token $(cat "$token")"
    env | sed 's/^/env /'
    echo "noted"
} >> "$said"
trap 'echo warned >> "$said"; exit 0' TERM
i=0
while [ $i -lt 3000 ]; do sleep 0.1; i=$((i + 1)); done
"#;

struct Ground {
    pool: Pool,
    condor: HtCondor,
}

fn naming() -> Naming {
    Naming { whose: "s1".into() }
}

fn order(name: &str) -> Order {
    Order {
        allocation: AllocationId::new(name).expect("good"),
        partition: None,
        nodes: 1,
        cpus: Cores::whole(1),
        memory: Bytes(64 << 20),
        gpus: None,
        wall: Millis(3_600_000),
        warning: Millis(20_000),
        submit_lines: Vec::new(),
        pilot: PilotStart {
            sha256: None,
            program: "/home/tester/pilot".into(),
            options: vec!["--name".into(), name.into(), "--odd".into(), "it's \"$(id)\"".into()],
            scratch: None,
            credentials: vec![SECRET.into()],
            files: vec![("server.pem".into(), "CERT\n".into())],
        },
    }
}

fn gpu(name: &str, kind: &str) -> Order {
    Order {
        gpus: Some(OrderedGpus { count: 1, kind: Some(kind.into()), request: None }),
        ..order(name)
    }
}

impl Ground {
    fn said(&self, name: &str) -> String {
        std::fs::read_to_string(self.pool.home().join(format!("said.{name}"))).unwrap_or_default()
    }

    fn seen(&self, id: &EngineId) -> Option<Seen> {
        self.condor.look().expect("it answers").into_iter().find(|seen| seen.id == *id)
    }

    fn submit(&self, order: &Order) -> EngineId {
        self.condor.submit(order).expect("it takes it")
    }

    /// Waits for a phase, and for the pilot to have noted all where it runs.
    fn comes(&self, id: &EngineId, name: &str, phase: SeenPhase) -> Seen {
        until(name, || match self.seen(id) {
            Some(seen) if seen.phase == phase => Ok(seen),
            other => Err(format!("{other:?}")),
        })
    }

    fn runs(&self, order: &Order) -> (EngineId, Seen) {
        let name = order.allocation.to_string();
        let id = self.submit(order);
        let seen = self.comes(&id, &name, SeenPhase::Running);
        until("a started pilot", || match self.said(&name) {
            said if said.contains("noted") => Ok(()),
            said => Err(said),
        });
        (id, seen)
    }

    fn ends(&self, id: &EngineId, name: &str, end: AllocationEnd) -> Seen {
        self.comes(id, name, SeenPhase::Ended(end))
    }
}

type Step = fn(&Ground);

/// One pool for all: it takes seconds to come up.
#[test]
fn allocations_at_a_real_pool() {
    let pool = match Pool::up() {
        Ok(pool) => pool,
        Err(why) => {
            println!("skipped: {why}");
            return;
        }
    };
    let program = pool.home().join("pilot");
    std::fs::write(&program, PILOT).expect("written");
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).expect("ours");
    let condor = HtCondor::new(Box::new(pool.way("tester")), naming(), Settings::default());
    let ground = Ground { pool, condor };
    let steps: [(&str, Step); 14] = [
        ("nodes", nodes_are_told_by_their_gpus),
        ("secrets", a_pilot_starts_with_secrets_that_nobody_else_sees),
        ("names", it_is_found_by_name_and_ended),
        ("kinds", each_kind_of_gpu_is_where_it_is),
        ("sets", several_nodes_are_one_allocation),
        ("scratch", a_folder_elsewhere_is_removed),
        ("limit", the_time_limit_warns_and_ends),
        ("eviction", what_is_evicted_does_not_start_again),
        ("loss", a_lost_node_is_told_from_an_eviction),
        ("restart", a_schedd_that_was_killed_starts_nothing_again),
        ("held", what_is_held_says_why),
        ("failure", a_pilot_that_is_not_there_is_a_failure),
        ("waiting", what_waits_says_for_what),
        ("errors", errors_say_what_can_be_done),
    ];
    for (name, step) in steps {
        println!("step {name}");
        step(&ground);
    }
    println!("step drained");
    drained_machines_are_not_up(&ground);
    println!("step silence");
    a_schedd_that_does_not_answer_is_not_reached(&ground);
}

fn nodes_are_told_by_their_gpus(ground: &Ground) {
    let nodes = ground.condor.nodes().expect("it answers");
    let mut kinds: Vec<_> = nodes
        .iter()
        .flat_map(|nodes| nodes.gpus.iter().map(|gpus| (gpus.kind.as_deref(), gpus.count)))
        .collect();
    kinds.sort_unstable();
    assert_eq!(kinds, [(Some(A100), 4), (Some(K40), 2)], "{nodes:?}");
    for nodes in &nodes {
        assert_eq!((nodes.count, nodes.up, nodes.idle), (1, 1, 1), "{nodes:?}");
        assert_eq!((nodes.cpus, nodes.memory), (Cores::whole(16), Bytes(16_000 << 20)));
    }
    let k40 = nodes.iter().find(|nodes| nodes.gpus[0].kind.as_deref() == Some(K40));
    let gpus = &k40.expect("seen above").gpus[0];
    assert_eq!(gpus.capability.as_deref(), Some("3.5"));
    assert_eq!(gpus.memory, Some(Bytes(11_441 << 20)));
}

fn a_pilot_starts_with_secrets_that_nobody_else_sees(ground: &Ground) {
    let (id, seen) = ground.runs(&gpu("secret", K40));
    assert!(seen.nodes[0].starts_with("k40@"), "{seen:?}");
    let said = ground.said("secret");
    assert!(said.contains(" [--name] [secret] [--odd] [it's \"$(id)\"]\n"), "{said}");
    assert!(said.contains("args [pilot] [--dir] [/var/lib/condor/execute.k40/dir_"), "{said}");
    assert!(said.contains("gpus GPU-k40aaaa"), "{said}");
    let modes = "mode 700 directory\nmode 600 regular file\nmode 600 regular file\n";
    assert!(said.contains(modes), "{said}");
    assert!(said.contains(&format!("token {SECRET}\n")), "{said}");
    let env = said.lines().filter(|line| line.starts_with("env ")).collect::<String>();
    assert!(!env.contains(SECRET), "{env}");
    let ads = ground.pool.says("other", &["condor_q", "-l", "-all", &id.0]);
    assert!(ads.contains("ShipwayAllocation = \"shipway-s1-secret\"") && !ads.contains(SECRET));
    let words = "for it in /proc/[0-9]*; do cat $it/cmdline $it/environ; done 2> /dev/null; true";
    let processes = ground.pool.says("root", &["sh", "-c", words]);
    assert!(processes.contains("condor_schedd") && !processes.contains(SECRET));
    let readable = format!("grep -rls {SECRET} / --exclude-dir=proc --exclude-dir=sys || :");
    let found = ground.pool.says("other", &["sh", "-c", &readable]);
    assert_eq!(found, "", "files that somebody else can read");
    let left = ground.pool.says("root", &["ls", "/tmp"]);
    assert!(!left.contains("shipway"), "{left}");
    ground.condor.cancel(&[id]).expect("it takes it");
}

fn it_is_found_by_name_and_ended(ground: &Ground) {
    let (id, _) = ground.runs(&order("found"));
    let same = |server: &str| {
        let naming = Naming { whose: server.into() };
        HtCondor::new(Box::new(ground.pool.way("tester")), naming, Settings::default())
    };
    let seen = same("s1").look().expect("it answers");
    assert!(seen.iter().any(|seen| seen.allocation.to_string() == "found"), "{seen:?}");
    for other in ["s", "s1-", "S1", "s2"] {
        let seen = same(other).look().expect("it answers");
        assert!(seen.iter().all(|seen| seen.allocation.to_string() != "found"), "{seen:?}");
    }
    ground.condor.cancel(std::slice::from_ref(&id)).expect("it takes it");
    let seen = ground.ends(&id, "found", AllocationEnd::Cancelled);
    assert!(seen.words.starts_with("REMOVED (via condor_rm"), "{seen:?}");
    assert!(ground.said("found").ends_with("warned\n"), "{}", ground.said("found"));
    ground.condor.cancel(&[id, EngineId("98765".into())]).expect("they have ended");
    let stranger = HtCondor::new(Box::new(ground.pool.way("other")), naming(), Settings::default());
    let (id, _) = ground.runs(&order("ours"));
    let error = stranger.cancel(std::slice::from_ref(&id)).expect_err("it is not theirs");
    assert_eq!(error.kind, EngineTrouble::Refused, "{error}");
    ground.condor.cancel(&[id]).expect("it takes it");
}

fn each_kind_of_gpu_is_where_it_is(ground: &Ground) {
    let (id, seen) = ground.runs(&gpu("a100", A100));
    assert!(!seen.nodes[0].starts_with("k40@"), "{seen:?}");
    assert!(ground.said("a100").contains("gpus GPU-a0223334"), "{}", ground.said("a100"));
    ground.condor.cancel(&[id]).expect("it takes it");
}

fn several_nodes_are_one_allocation(ground: &Ground) {
    let mut both = order("set");
    both.nodes = 2;
    both.pilot.credentials = vec!["first".into(), "second".into()];
    let id = ground.submit(&both);
    until("two pilots", || match ground.said("set") {
        said if said.contains("token first") && said.contains("token second") => Ok(()),
        said => Err(said),
    });
    let seen = ground.comes(&id, "set", SeenPhase::Running);
    assert_eq!(seen.words, "2 of 2: RUNNING");
    ground.condor.cancel(std::slice::from_ref(&id)).expect("it takes it");
    ground.ends(&id, "set", AllocationEnd::Cancelled);
}

fn a_folder_elsewhere_is_removed(ground: &Ground) {
    let folders = || {
        let all = std::fs::read_dir(ground.pool.home()).expect("readable").flatten();
        all.filter(|it| it.file_name().to_string_lossy().starts_with("shipway.")).count()
    };
    let mut order = order("scratch");
    // Not `/tmp`, of which each job has its own.
    order.pilot.scratch = Some("/home/tester".into());
    let (id, _) = ground.runs(&order);
    assert_eq!(folders(), 1);
    ground.condor.cancel(std::slice::from_ref(&id)).expect("it takes it");
    ground.ends(&id, "scratch", AllocationEnd::Cancelled);
    assert!(ground.said("scratch").ends_with("warned\n"));
    until("no folder", || match folders() {
        0 => Ok(()),
        left => Err(left.to_string()),
    });
}

fn the_time_limit_warns_and_ends(ground: &Ground) {
    let order = Order { wall: Millis(25_000), ..order("limit") };
    let (id, _) = ground.runs(&order);
    ground.ends(&id, "limit", AllocationEnd::TimeLimit);
    assert!(ground.said("limit").ends_with("warned\n"), "{}", ground.said("limit"));
}

fn what_is_evicted_does_not_start_again(ground: &Ground) {
    let (id, _) = ground.runs(&order("evicted"));
    ground.pool.says("tester", &["condor_vacate_job", &id.0]);
    ground.ends(&id, "evicted", AllocationEnd::Preempted);
    assert_eq!(ground.said("evicted").matches("started").count(), 1);
}

fn a_lost_node_is_told_from_an_eviction(ground: &Ground) {
    let (id, _) = ground.runs(&order("lost"));
    ground.pool.signal("KILL", "condor_starter");
    ground.ends(&id, "lost", AllocationEnd::NodeFailed);
    assert_eq!(ground.said("lost").matches("started").count(), 1);
}

/// It forgets how often it started what runs, and takes up what runs.
fn a_schedd_that_was_killed_starts_nothing_again(ground: &Ground) {
    let (id, _) = ground.runs(&order("restart"));
    ground.pool.signal("KILL", "condor_schedd");
    until("a running job", || match ground.condor.look() {
        Ok(seen) if seen.iter().any(|it| it.id == id && it.phase == SeenPhase::Running) => Ok(()),
        Err(error) if error.kind != EngineTrouble::NotReached => panic!("{error}"),
        other => Err(format!("{other:?}")),
    });
    ground.pool.says("tester", &["condor_vacate_job", &id.0]);
    let seen = until("an end", || match ground.seen(&id) {
        Some(seen) if matches!(seen.phase, SeenPhase::Ended(_)) => Ok(seen),
        other => Err(format!("{other:?}")),
    });
    assert_eq!(seen.phase, SeenPhase::Ended(AllocationEnd::Preempted), "{seen:?}");
    assert_eq!(ground.said("restart").matches("started").count(), 1);
}

fn what_is_held_says_why(ground: &Ground) {
    let (id, _) = ground.runs(&order("held"));
    ground.pool.says("tester", &["condor_hold", "-reason", "it is too warm", &id.0]);
    let seen = ground.comes(&id, "held", SeenPhase::Held);
    assert_eq!(seen.words, "HELD (code 1: it is too warm (by user tester))");
    ground.condor.cancel(std::slice::from_ref(&id)).expect("it takes it");
    ground.ends(&id, "held", AllocationEnd::Cancelled);
}

fn a_pilot_that_is_not_there_is_a_failure(ground: &Ground) {
    let mut order = order("absent");
    order.pilot.program = "/no/such/program".into();
    let id = ground.submit(&order);
    let seen = ground.ends(&id, "absent", AllocationEnd::Failed);
    assert_eq!(seen.words, "COMPLETED (exit code 127: the program is not there)");
}

fn what_waits_says_for_what(ground: &Ground) {
    let id = ground.submit(&gpu("waiting", "No \"such\" \\ $(Process) GPU"));
    let seen = until("a refused match", || match ground.seen(&id) {
        Some(seen) if seen.words.contains("no match") => Ok(seen),
        other => Err(format!("{other:?}")),
    });
    assert_eq!((seen.phase, seen.nodes), (SeenPhase::Queued, vec![]));
    let why = ground.condor.why_queued(&id).expect("it answers").expect("it is understood");
    assert!(why.starts_with("none of 2 machines has `countMatches("), "{why}");
    let kind = r#"RequireGPUs = DeviceName == "No \"such\" \\ $(Process) GPU""#;
    assert!(why.contains(kind), "{why}");
    ground.condor.cancel(&[id]).expect("it takes it");
}

fn errors_say_what_can_be_done(ground: &Ground) {
    let at = |schedd: Option<&str>, pool: Option<&str>, user| {
        let [schedd, pool] = [schedd, pool].map(|it| it.map(String::from));
        let settings = Settings { schedd, pool, ..Settings::default() };
        HtCondor::new(Box::new(ground.pool.way(user)), naming(), settings)
    };
    let nobody = at(Some("nosuch"), None, "tester");
    for error in [
        nobody.look().map(drop).expect_err("there is none"),
        nobody.submit(&order("a")).map(drop).expect_err("there is none"),
        nobody.cancel(&[EngineId("1".into())]).expect_err("there is none"),
        at(None, Some("127.0.0.1:1"), "tester").nodes().map(drop).expect_err("there is none"),
        at(Some("pool.test"), Some("127.0.0.1:1"), "tester").look().map(drop).expect_err("none"),
        at(Some("x@localhost"), None, "tester").look().map(drop).expect_err("there is none"),
    ] {
        assert_eq!(error.kind, EngineTrouble::NotReached, "{error}");
        assert!(!error.words.is_empty() && !error.words.contains("Extra Info"), "{error}");
    }
    let name = ground.pool.says("tester", &["condor_status", "-schedd", "-af", "Name"]);
    let named = at(Some(name.trim()), Some("127.0.0.1"), "tester");
    assert!(named.look().is_ok(), "{:?}", named.look());
    let id = named.submit(&order("elsewhere")).expect("it takes it");
    named.cancel(std::slice::from_ref(&id)).expect("it takes it");
    ground.ends(&id, "elsewhere", AllocationEnd::Cancelled);
    let lines = vec!["request_disk = foo((".to_string()];
    let bad = Order { submit_lines: lines, ..order("bad") };
    let error = ground.condor.submit(&bad).expect_err("it is not an expression");
    assert_eq!(error.kind, EngineTrouble::Refused, "{error}");
    assert!(error.words.contains("Parse error in expression"), "{error}");
    let left = ground.pool.says("root", &["ls", "/tmp"]);
    assert!(!left.contains("shipway"), "{left}");
}

fn drained_machines_are_not_up(ground: &Ground) {
    let slots = ground.pool.says("root", &["condor_status", "-af", "Name"]);
    let k40 = slots.lines().find(|name| name.starts_with("slot1@k40@")).expect("it is there");
    ground.pool.says("root", &["condor_drain", "-reason", "bad PSU", k40]);
    until("a drained machine", || {
        let nodes = ground.condor.nodes().expect("it answers");
        let down: Vec<_> = nodes.iter().filter(|nodes| nodes.up == 0).collect();
        match down.as_slice() {
            [one] if one.down[0].ends_with(": drained: bad PSU") => Ok(()),
            _ => Err(format!("{nodes:?}")),
        }
    });
}

fn a_schedd_that_does_not_answer_is_not_reached(ground: &Ground) {
    ground.pool.signal("STOP", "condor_schedd");
    let settings = Settings { patience: Duration::from_secs(3), ..Settings::default() };
    let condor = HtCondor::new(Box::new(ground.pool.way("tester")), naming(), settings);
    for error in [
        condor.look().map(drop).expect_err("it does not answer"),
        condor.submit(&order("silent")).map(drop).expect_err("it does not answer"),
        condor.cancel(&[EngineId("1".into())]).expect_err("it does not answer"),
    ] {
        assert_eq!(error.kind, EngineTrouble::NotReached, "{error}");
        assert!(error.words.contains("did not end within 3 s"), "{error}");
    }
    ground.pool.signal("CONT", "condor_schedd");
    until("an answer", || ground.condor.look().map_err(|error| error.to_string()));
}
