//! Every view as text and as JSON, from the same fixed values. The clock stands still.

use super::*;
use crate::commands::gpus;
use crate::failure::Failure;
use crate::settings::SettingsError;
use acted::ActedView;
use dry_run::{DryRuns, MemberRun};
use job_detail::{JobDetail, TaskDetail};
use job_table::JobTable;
use serde_json::{Value, json};
use std::path::Path;
use time::Reader;

const NOW: u64 = 1_767_225_600_000;
const MINUTE: u64 = 60_000;

fn reader() -> Reader {
    Reader { now: shipway_model::Timestamp(NOW), zone: jiff::tz::TimeZone::UTC }
}

fn from<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("fixture")
}

/// Both forms in one snapshot: whoever changes one sees the other.
fn check(name: &str, view: &impl View) {
    let both = format!("{}--- json\n{}", text(view, false), json(view));
    insta::with_settings!({ omit_expression => true, prepend_module_to_snapshot => false }, {
        insta::assert_snapshot!(name, both);
    });
}

fn counts(succeeded: u32, failed: u32, active: u32, waiting: u32) -> Value {
    json!({"waiting": waiting, "active": active, "succeeded": succeeded, "failed": failed,
        "cancelled": 0})
}

fn array_job() -> Value {
    json!({
        "id": 12, "owner": "ada", "name": "fit", "labels": {"project": "higgs"},
        "state": "running", "counts": counts(3, 1, 2, 4), "tasks": 10, "is_array": true,
        "priority": 5, "submitted": NOW - 90 * MINUTE,
        "reasons": [busy_reason()],
        "spec": {
            "name": "fit", "command": ["python", "fit.py", "--seed={seed}", "two words"],
            "array": "1-10", "env": {"TOKEN": "secret"}, "max_running": 2, "after": ["3:any"],
            "retries": 2, "time_limit": "1h",
            "resources": {"cpus": 4, "memory": "16GB", "gpu": "A100:2"}
        }
    })
}

fn busy_reason() -> Value {
    json!({"kind": "busy", "nodes": 2, "class": "4 cores, 16GB",
        "wanted": {"resource": "gpus", "amount": 2, "request": "A100:2"},
        "found": {"resource": "gpus", "amount": 1, "request": "A100:2"}})
}

fn small_reason() -> Value {
    json!({"kind": "too_small", "nodes": 1, "class": "4 cores, 16GB",
        "wanted": {"resource": "memory", "amount": 64_000_000_000u64},
        "found": {"resource": "memory", "amount": 16_000_000_000u64}})
}

fn ended_job() -> Value {
    json!({
        "id": 11, "owner": "grace", "name": "", "labels": {}, "state": "failed",
        "counts": counts(0, 1, 0, 0), "tasks": 1, "is_array": false, "priority": 0,
        "submitted": NOW - 3 * 24 * 60 * MINUTE, "ended": NOW - 3 * 24 * 60 * MINUTE + 2_500,
        "outcome": {"kind": "out_of_memory", "limit": 1_000_000_000, "used": 1_200_000_000}
    })
}

fn tasks() -> Value {
    let attempt = json!({"attempt": 1, "outcome": {"kind": "exit", "code": 3}, "node": "n1",
        "started": NOW - 9 * MINUTE, "ended": NOW - 8 * MINUTE});
    json!([
        {"id": "12/4", "state": "failed", "attempt": 2, "outcome": {"kind": "signal", "signal": 9},
         "node": "n1", "started": NOW - 7 * MINUTE, "ended": NOW - 6 * MINUTE,
         "devices": ["GPU-1"], "attempts": [attempt]},
        {"id": "12/5", "state": "running", "attempt": 1, "node": "n2", "started": NOW - MINUTE},
        {"id": "12/6", "state": "waiting", "attempt": 0},
    ])
}

#[test]
fn jobs() {
    let page = json!({"jobs": [array_job(), ended_job()], "next": 11});
    check(
        "jobs",
        &JobTable {
            page: from(page.clone()),
            with_owner: false,
            options: String::new(),
            reader: reader(),
        },
    );
    let owned =
        JobTable { page: from(page), with_owner: true, options: " --all".into(), reader: reader() };
    assert!(text(&owned, false).contains("OWNER"));
    assert!(text(&owned, false).contains("shipway jobs --all --before 11"));
    let none = JobTable {
        page: from(json!({"jobs": []})),
        with_owner: false,
        options: String::new(),
        reader: reader(),
    };
    assert_eq!(text(&none, false), "no jobs\n");
}

#[test]
fn job_and_task() {
    let page = json!({"tasks": tasks(), "next": 6});
    let job = from(array_job());
    let detail = JobDetail { job, tasks: from(page), not_shown: 7, reader: reader() };
    check("job", &detail);
    let task = from(tasks()[0].clone());
    let of = |task| TaskDetail { job: from(array_job()), task, series: None, reader: reader() };
    check("task", &of(task));
    let mut lent = tasks()[1].clone();
    lent["site"] = json!("hpc");
    let said = text(&of(from(lent)), false);
    assert!(said.contains("  node        n2 (site hpc)\n"), "{said}");
}

#[test]
fn what_a_task_has_used_is_shown_with_advice() {
    let mut task = tasks()[0].clone();
    task["usage"] = json!({"wall_ms": 7_200_000, "looks": 1_440, "cpu_ms": 5_400_000,
        "memory": 3_000_000_000u64, "read": 1_200_000_000, "written": 4_096,
        "waited_ms": 216_000, "gpu_given_ms": 7_200_000, "gpus": 1, "gpus_idle": 0,
        "gpu_busy": 600, "gpu_busy_max": 9_800, "gpu_memory_busy": 150,
        "gpu_memory": 3_000_000_000u64, "gpu_memory_of": 141_000_000_000u64,
        "energy_mj": 900_000_000, "power_max_mw": 410_500, "temperature_max": 41,
        "throttled_ms": 0, "throttle_reasons": 0, "ecc_errors": 0, "occupancy": 1_234});
    task["advice"] = json!({"kind": "gpu_errors", "errors": 1, "words": "run it again"});
    let series = json!({"attempt": 2, "step_ms": 30_000, "cpu_milli": [0, 500, 1_000],
        "memory_mib": [1, 2_861, 2_861], "gpu_busy": [0, 10_000, 600]});
    let detail = TaskDetail {
        job: from(array_job()),
        task: from(task),
        series: Some(from(series)),
        reader: reader(),
    };
    check("task_used", &detail);
}

#[test]
fn colours_leave_the_words_alone() {
    let page = json!({"jobs": [array_job(), ended_job()]});
    let table =
        JobTable { page: from(page), with_owner: true, options: " --all".into(), reader: reader() };
    let mut plain = text(&table, true);
    for code in ["1", "2", "31", "32", "36", "0"] {
        plain = plain.replace(&format!("\x1b[{code}m"), "");
    }
    assert_eq!(plain, text(&table, false));
    assert_ne!(text(&table, true), text(&table, false));
}

fn prospect() -> Value {
    let gpus = |amount: u32| json!({"resource": "gpus", "amount": amount, "request": "A100:2"});
    let memory = |amount: u64| json!({"resource": "memory", "amount": amount * 1_000_000_000});
    json!({
        "place": {"own_before": 3, "users_before": 1, "used_core_seconds": 12, "share": 100,
            "held": {"nodes": ["gpu-07"], "latest": NOW + 5 * MINUTE}},
        "classes": [
            {"class": "4 cores, 16GB of memory, no GPU", "nodes": 1, "fit": "never",
                "requirements": [
                    {"wanted": memory(64), "has": memory(16), "free": memory(10)},
                    {"wanted": gpus(2), "has": gpus(0), "free": gpus(0)}]},
            {"class": "64 cores, 256GB of memory, 4 × A100", "nodes": 2, "fit": "busy",
                "requirements": [
                    {"wanted": memory(64), "has": memory(256), "free": memory(100)},
                    {"wanted": gpus(2), "has": gpus(4), "free": gpus(1)}]}],
        "changes": [{"ask": [gpus(1)], "instead_of": [gpus(2)], "now": true,
            "class": "64 cores, 256GB of memory, 4 × A100"}],
        "estimate": {"at": NOW + 7 * MINUTE, "room_at": NOW + 5 * MINUTE, "jobs_before": 4,
            "tasks_before": 96, "work_before": "2m", "side_by_side": 4,
            "usual": "2m", "known_of": 120}})
}

#[test]
fn what_is_kept_says_from_whom_and_how_long() {
    let mut prospect = prospect();
    prospect["place"]["held"] = json!({"nodes": ["gpu-07"], "behind_own": true});
    let why = json!({"job": 12, "state": "waiting", "reasons": [busy_reason()],
        "prospect": prospect});
    let said = text(&why::WhyView { why: from(why), reader: reader() }, false).replace('\n', " ");
    let expected = "Kept for it: node gpu-07, from tasks of the same user only, as one of those is \
        in the way (nobody can say until when: something that runs there has no time limit, or one \
        of more than a week, or somebody who has used less went first; it is looked at again \
        within ten minutes).";
    assert!(said.contains(expected), "{said}");
}

/// What the core says of each, as its own test keeps it.
#[test]
fn the_classic_misfits() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../core/src/decide/tests/snapshots");
    let files = std::fs::read_dir(&folder).expect("kept there").flatten();
    let mut names: Vec<_> = files.filter_map(|file| file.file_name().into_string().ok()).collect();
    names.retain(|name| name.starts_with("misfit_"));
    names.sort();
    assert_eq!(names.len(), 14, "{names:?}");
    let said = names.iter().map(|name| {
        let kept = std::fs::read_to_string(folder.join(name)).expect("text");
        let (_, data) = kept.rsplit_once("---\n").expect("below its head");
        let mut data: Value = serde_json::from_str(data).expect("data");
        let now = from(data["now"].take());
        let reader = Reader { now, ..reader() };
        let why = text(&why::WhyView { why: from(data["why"].take()), reader }, false);
        format!("=== {}\n{why}", name.trim_end_matches(".snap"))
    });
    let said: Vec<String> = said.collect();
    insta::with_settings!({ omit_expression => true, prepend_module_to_snapshot => false }, {
        insta::assert_snapshot!("why_misfits", said.join("\n"));
    });
}

#[test]
fn why() {
    let both = json!({"job": 12, "state": "waiting", "reasons": [small_reason(), busy_reason()],
        "prospect": prospect()});
    check("why_busy", &why::WhyView { why: from(both), reader: reader() });
    let hopeless = json!({"job": 12, "state": "waiting",
        "reasons": [small_reason(), {"kind": "no_nodes"}]});
    check("why_hopeless", &why::WhyView { why: from(hopeless), reader: reader() });
    let mut small = prospect();
    small["classes"].as_array_mut().expect("a list").pop();
    small["changes"] = json!([{"ask": [{"resource": "memory", "amount": 16_000_000_000u64}],
        "instead_of": [{"resource": "memory", "amount": 64_000_000_000u64}], "now": false,
        "class": "4 cores, 16GB"}]);
    let hopeless = json!({"job": 12, "state": "waiting", "reasons": [small_reason()],
        "prospect": small});
    let said = text(&why::WhyView { why: from(hopeless), reader: reader() }, false);
    let advice: Vec<&str> = said.lines().filter(|line| line.starts_with("  - ")).collect();
    assert_eq!(said.matches("would").count(), 1, "one list: {said}");
    assert_eq!(
        advice,
        [
            "  - ask for 16GB instead of 64GB of memory: a node with 4 cores, 16GB could run it \
             when it is free",
            "  - connect a node that has 64GB of memory"
        ]
    );
    let over = json!({"job": 12, "state": "succeeded", "reasons": []});
    let over = why::WhyView { why: from(over), reader: reader() };
    assert_eq!(text(&over, false), "Job 12 is succeeded; `shipway show 12` has the details.\n");
}

fn nodes() -> Value {
    let gpu = |id: &str, memory: u64, used: u32, source: &str| {
        json!({"used": used, "device": {"id": id, "model": "NVIDIA A100", "memory": memory,
            "vendor": "nvidia", "source": source, "capability": "8.0", "driver": "550.54"}})
    };
    let node = |name: &str, link: &str, gpus: Value| {
        json!({"pilot": name, "name": name, "link": link, "running": 1, "backlog": 0, "gpus": gpus,
            "used": {"cpus": 2, "memory": 4_000_000_000u64, "disk": 0},
            "ad": {"node": name, "notes": ["no NVML"],
                "capacity": {"cpus": 8, "memory": 32_000_000_000u64, "disk": 0}}})
    };
    let (small, large) = (40_000_000_000, 80_000_000_000);
    let two = json!([gpu("GPU-1", small, 0, "nvml"), gpu("GPU-2", large, 7_500, "nvml")]);
    let one = json!([gpu("GPU-3", large, 0, "declared")]);
    let (mut here, mut lent) = (node("n1", "connected", two), node("n2", "away", one));
    here["site"] = json!("this-machine");
    (lent["site"], lent["class"]) = (json!("hpc"), json!("a100"));
    json!({"nodes": [here, lent]})
}

#[test]
fn how_people_are_kept_apart_is_shown_of_each_node() {
    let mut list = nodes();
    list["nodes"][0]["ad"]["people"] = json!({"apart": "by_subordinate_id"});
    assert!(users::not_apart(&from(list.clone())).is_empty());
    let (why, fix) = ("svc has no subordinate ids", "as root: usermod …");
    let together = json!({"apart": "no", "user": "svc", "why": why, "fix": fix});
    list["nodes"][1]["ad"]["people"] = together;
    let table = text(&nodes::NodeTable { list: from(list.clone()) }, false);
    let apart = |line: &str, word: &str| assert!(line.contains(word), "{word}: {table}");
    for (line, word) in table.lines().zip(["  APART  ", "  id  ", "  no: all as svc  "]) {
        apart(line, word);
    }
    let warned = users::not_apart(&from(list));
    assert_eq!(warned.len(), 1);
    for word in ["not kept apart on n2: svc has no", "run there as svc", "usermod"] {
        assert!(warned[0].contains(word), "{word}: {warned:?}");
    }
}

fn gpu_table(list: Value, request: Option<&str>, classes: &Value) -> impl View + use<> {
    let request = request.map(|request| request.parse().expect(request));
    gpus::table(&from(list), request, from(json!({ "classes": classes })), reader())
}

/// One that would do, one that is at its limit, and one that is kept out.
fn gpus_of_sites(is_asked: bool) -> Value {
    let class = |name: &str, model: &str, count: u32, more: Value| {
        let mut class = json!({"site": "hpc", "kind": "slurm", "class": name, "running": 0,
            "room": 0, "pending": [], "heard": NOW - 10_000,
            "gpus": {"count": count, "model": model, "memory": "80GB"}});
        let Value::Object(more) = more else { panic!("not an object") };
        let judged = |key: &str| key == "would_do" || key == "waits";
        more.into_iter()
            .filter(|(key, _)| is_asked || !judged(key))
            .for_each(|(key, value)| class[key] = value);
        class
    };
    let (first, second) = ("PENDING (Resources)", "PENDING (ReqNodeNotAvail, drained: gpu7)");
    let pending = json!([{"pilots": 2, "since": NOW - 4 * MINUTE, "words": first},
        {"pilots": 1, "since": NOW - MINUTE, "words": second}]);
    let there = json!({"seen": NOW - 70_000, "nodes": 4, "up": 3, "idle": 1, "gpus": 16,
        "gpus_idle": 4});
    let count = |amount: u32| json!({"resource": "gpus", "amount": amount, "request": "A100:2"});
    let small = json!([{"kind": "too_small", "wanted": count(2), "found": count(1)}]);
    let full = json!([{"kind": "at_limit", "limit": "pilots", "most": 1}]);
    let coming = json!([{"kind": "pending", "pilots": 3, "words": first}]);
    json!([
        class(
            "a100",
            "NVIDIA A100",
            2,
            json!({"running": 5, "room": 8, "pending": pending,
            "there": there, "would_do": true, "waits": coming})
        ),
        class("one", "NVIDIA A100", 1, json!({"room": 3, "would_do": false, "waits": small})),
        class("big", "NVIDIA A100", 8, json!({"running": 1, "would_do": true, "waits": full})),
    ])
}

#[test]
fn gpus_that_sites_would_give() {
    check("gpus_sites", &gpu_table(nodes(), None, &gpus_of_sites(false)));
    let sites = gpus_of_sites(true);
    let asked = gpu_table(json!({"nodes": []}), Some("A100:2"), &sites);
    check("gpus_sites_request", &asked);
    let mut kept = gpus_of_sites(true);
    kept.as_array_mut().expect("a list").retain(|class| class["class"] == "one");
    let said = text(&gpu_table(nodes(), Some("A100:2"), &kept), false);
    let last = said.lines().last().unwrap_or_default();
    assert_eq!(last, "A100:2: 1 node could, none now; at sites no class could");
}

#[test]
fn node_and_gpu_tables() {
    check("nodes", &nodes::NodeTable { list: from(nodes()) });
    check("gpus", &gpu_table(nodes(), None, &json!([])));
    check("gpus_request", &gpu_table(nodes(), Some("A100:40GB..:2"), &json!([])));
    let said = |request: &str| {
        let table = text(&gpu_table(nodes(), Some(request), &json!([])), false);
        table.lines().last().unwrap_or_default().to_string()
    };
    assert_eq!(said("0.25"), "0.25: 2 nodes could, 1 now");
    assert_eq!(said("H100"), "H100:1: no node has that");
    assert_eq!(said("A100:60GB.."), "A100:60GB..:1: 2 nodes could, none now");
}

#[test]
fn nodes_and_gpus_that_failed_their_proof() {
    let mut list = nodes();
    let device = list["nodes"][0]["gpus"][0]["device"].take();
    list["nodes"][0]["gpus"] = json!([]);
    let why = "cuInit: CUDA_ERROR_UNKNOWN (999)";
    list["nodes"][0]["ad"]["withheld"] = json!([{"gpu": device, "name": "GPU 0", "why": why}]);
    list["nodes"][1]["link"] = json!("unfit");
    list["nodes"][1]["ad"]["unfit"] = json!(["work folder: /scratch cannot be written to"]);
    check("nodes_unfit", &nodes::NodeTable { list: from(list.clone()) });
    check("gpus_withheld", &gpu_table(list, None, &json!([])));
}

#[test]
fn a_doctors_findings() {
    use shipway_pilot::proof::{About, Check, State};
    let line = |name: &str, state, found: &str, wanted: &str, fix: Option<&str>| Check {
        name: name.into(),
        state,
        found: found.into(),
        wanted: wanted.into(),
        fix: fix.map(ToOwned::to_owned),
        about: About::Part,
    };
    let good = line("clock", State::Ok, "runs evenly", "shows the time", None);
    let none = line("GPUs", State::NotApplicable, "none", "every one answers", None);
    let little = line("cgroups", State::Warning, "none", "delegated", Some("Delegate=yes"));
    let bad = line("GPU 0", State::Failed, "crashed", "a kernel runs", Some("reset it"));
    check("doctor_fit", &doctor::DoctorView::new(vec![good.clone(), none]));
    check("doctor_not_fit", &doctor::DoctorView::new(vec![good, little, bad]));
}

#[test]
fn users_and_tokens() {
    let list = json!({"users": [
            {"user": "ada", "role": "admin", "share": 100, "used_core_seconds": 12},
            {"user": "bob", "role": "user", "share": 300, "used_core_seconds": 0}]});
    check("users", &users::UserTable { list: from(list) });
    let tokens = json!({"tokens": [
        {"id": "t1", "user": "ada", "note": "laptop", "expires": NOW + MINUTE},
        {"id": "t2", "user": "ada", "note": "", "expires": NOW - MINUTE}]});
    check("tokens", &tokens::TokenTable { list: from(tokens), reader: reader() });
    let token = json!({"id": "t1", "secret": "shw_x", "user": "ada", "expires": NOW});
    check("token_new", &tokens::NewTokenView { token: from(token) });
}

#[test]
fn small_views() {
    let acted = |jobs: Value, tasks: u32| ActedView {
        done: "cancelled",
        acted: from(json!({"jobs": jobs, "tasks": tasks})),
    };
    check("acted", &acted(json!([3, 4]), 7));
    assert_eq!(text(&acted(json!([3]), 0), false), "no task cancelled\n");
    check("ends", &simple::Ends { jobs: vec![from(ended_job())] });
    let one = from(json!({"id": 7, "repeated": false}));
    check("submitted", &simple::SubmittedIds::One(one));
    let run = json!({"tasks": 2, "first_command": ["fit", "1"], "reasons": [{"kind": "no_nodes"}],
        "prospect": {"classes": [], "changes": [], "place": {"own_before": 0, "users_before": 0,
            "used_core_seconds": 0, "share": 100}},
        "spec": {"command": ["fit", "{seed}"], "each": [{"seed": 1}, {"seed": 2}], "priority": 3,
            "labels": {"project": "higgs"}, "time_limit": {"limit": "1h", "warn": "usr1"}}});
    check(
        "dry_run",
        &DryRuns { runs: vec![MemberRun { run: from(run), after: Vec::new() }], reader: reader() },
    );
}

#[test]
fn errors_name_cause_and_hint() {
    let path = "/home/ada/server.json".into();
    let source = std::io::Error::new(std::io::ErrorKind::PermissionDenied, "not yours\x1b[2J");
    let failure = Failure::from(SettingsError::LocalServer { path, source });
    let both = format!("{}--- json\n{}", failure::as_text(&failure), failure::as_json(&failure));
    insta::with_settings!({ omit_expression => true, prepend_module_to_snapshot => false }, {
        insta::assert_snapshot!("error", both);
    });
}

#[test]
fn a_site_with_what_was_found_and_who_did_what() {
    let site = from(json!({
        "name": "hpc", "kind": "slurm", "state": "draining", "wall": "12h",
        "limits": {"pending": 10, "running": 100, "starts_per_hour": 200},
        "findings": [{"class": "a100", "node": "n4", "words": "asked for 2 GPUs, found 1",
            "at": NOW - 90 * MINUTE}],
        "classes": [{"name": "a100", "has": "8 cores, 60GB, 2 × NVIDIA A100 (declared)",
            "most": 16, "pending": 1, "running": 0}],
        "allocations": [], "ended": [],
        "changes": [{"at": NOW - 300 * MINUTE, "what": "added"},
            {"at": NOW - MINUTE, "by": "lin", "what": "drained"}],
    }));
    check("site", &sites::SiteShown { site, reader: reader() });
}
