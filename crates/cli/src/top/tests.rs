//! The live view without a terminal and without a server: fixed data, a clock that stands still.

mod acting;
mod frames;
mod moving;
mod news;

use super::app::App;
use super::news::{Ask, Fresh, Input, News};
use super::update::update;
use crate::view::time::Reader;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use serde_json::{Value, json};
use shipway_model::Timestamp;

const NOW: u64 = 1_767_225_600_000;
const MINUTE: u64 = 60_000;

fn from<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("fixture")
}

/// Succeeded, failed, active, waiting.
fn job(id: u64, name: &str, state: &str, counts: [u32; 4]) -> Value {
    let [succeeded, failed, active, waiting] = counts;
    let tasks: u32 = counts.iter().sum();
    json!({
        "id": id, "owner": "ada", "name": name, "labels": {}, "state": state, "tasks": tasks,
        "counts": {"waiting": waiting, "active": active, "succeeded": succeeded, "failed": failed,
            "cancelled": 0},
        "is_array": tasks > 1, "priority": 0, "submitted": NOW - (20 - id) * 7 * MINUTE,
    })
}

fn with(mut job: Value, more: Value) -> Value {
    let Value::Object(more) = more else { panic!("not an object") };
    more.into_iter().for_each(|(key, value)| job[key] = value);
    job
}

fn busy() -> Value {
    json!({"kind": "busy", "nodes": 2, "class": "64 cores, 256GB of memory, 4 × NVIDIA A100",
        "wanted": {"resource": "gpus", "amount": 8, "request": "A100:8"},
        "found": {"resource": "gpus", "amount": 1, "request": "A100:8"}})
}

fn jobs() -> Value {
    let after = json!({"kind": "after_job", "job": 16, "condition": "ok", "state": "waiting"});
    let oom = json!({"kind": "out_of_memory", "limit": 1_000_000_000, "used": 1_200_000_000});
    json!([
        with(job(17, "report", "held", [0, 0, 0, 1]), json!({"reasons": [after]})),
        with(job(16, "train-llm", "waiting", [0, 0, 0, 1]), json!({"reasons": [busy()]})),
        with(
            job(15, "scan", "running", [480, 3, 8, 509]),
            json!({"labels": {"project": "higgs"}, "reasons": [busy()]})
        ),
        job(14, "train-resnet", "running", [0, 0, 1, 0]),
        with(
            job(13, "fit", "failed", [0, 1, 0, 0]),
            json!({"outcome": oom, "ended": NOW - 48 * MINUTE})
        ),
        with(job(12, "prepare", "succeeded", [1, 0, 0, 0]), json!({"ended": NOW - 50 * MINUTE})),
    ])
}

fn gpu(id: &str, source: &str, used: u32, tasks: &[&str]) -> Value {
    json!({"used": used, "tasks": tasks, "device": {"id": id, "model": "NVIDIA A100-SXM4-40GB",
        "memory": 40_000_000_000u64, "vendor": "nvidia", "source": source}})
}

fn nodes() -> Value {
    let node = |name: &str, link: &str, gpus: Value| {
        json!({"pilot": name, "name": name, "link": link, "running": 9, "backlog": 2, "gpus": gpus,
            "used": {"cpus": 12.5, "memory": 64_000_000_000u64, "disk": 0},
            "ad": {"node": name,
                "capacity": {"cpus": 64, "memory": 256_000_000_000u64, "disk": 0}}})
    };
    let first = json!([
        gpu("GPU-0001", "nvml", 10_000, &["14/0"]),
        gpu("GPU-0002", "nvml", 7_500, &["15/481", "15/482", "15/483", "15/484"]),
        gpu("GPU-0003", "nvml", 10_000, &[]),
        gpu("GPU-0004", "nvml", 0, &[]),
    ]);
    let mut away = node("gpu-2", "away", json!([gpu("GPU-0005", "declared", 0, &[])]));
    away["away_since"] = json!(NOW - 3 * MINUTE);
    away["ad"]["notes"] = json!(["no NVML: library not found"]);
    json!([node("gpu-1", "connected", first), away])
}

fn sites() -> Value {
    let class = |name: &str, running: u32, pending: u32, most: u32| {
        json!({"name": name, "has": "8 cores, 32GB, no GPU", "running": running,
            "pending": pending, "most": most})
    };
    let limits = json!({"pending": 10, "running": 100, "starts_per_hour": 200});
    let site = |name: &str, kind: &str, state: &str, classes: Value| {
        json!({"name": name, "kind": kind, "state": state, "classes": classes, "limits": limits,
            "wall": "12h", "allocations": [], "ended": [], "heard": NOW - 8_000})
    };
    let refused = json!({"class": "a100", "kind": "refused", "words": "Invalid partition \u{1b}[2J",
        "since": NOW - MINUTE, "until": NOW + MINUTE});
    let mut hpc =
        site("hpc", "slurm", "in trouble", json!([class("a100", 2, 1, 16), class("cpu", 0, 0, 4)]));
    hpc["troubles"] = json!([refused]);
    let mut pool = site("pool", "htcondor", "draining", json!([class("any", 7, 0, 50)]));
    pool["heard"] = Value::Null;
    json!([hpc, pool])
}

fn fresh(role: &str) -> Fresh {
    Fresh {
        user: from(json!({"user": "ada", "role": role})),
        jobs: from(jobs()),
        has_more: false,
        nodes: from(nodes()),
        sites: Vec::new(),
        open: None,
    }
}

fn app() -> App {
    let reader = Reader { now: Timestamp(NOW), zone: jiff::tz::TimeZone::UTC };
    App::new("http://127.0.0.1:7447".into(), fresh("admin"), reader, false)
}

fn tasks() -> Value {
    json!([
        {"id": "15/7", "state": "failed", "attempt": 2, "outcome": {"kind": "exit", "code": 3},
         "node": "gpu-1", "started": NOW - 9 * MINUTE, "ended": NOW - 8 * MINUTE},
        {"id": "15/481", "state": "running", "attempt": 1, "node": "gpu-1",
         "started": NOW - MINUTE, "devices": ["GPU-0002"]},
        {"id": "15/489", "state": "waiting", "attempt": 0},
    ])
}

/// The details of the array, with everything that comes for them.
fn open_array(app: &mut App) {
    app.list.selected = Some(shipway_model::JobId(15));
    press(app, KeyCode::Enter);
    let spec = json!({"name": "scan", "command": ["python", "scan.py", "--point={index}"],
        "array": "1-1000", "resources": {"cpus": 4, "memory": "16GB", "gpu": "0.25"}});
    let whole = with(jobs()[2].clone(), json!({ "spec": spec }));
    hear(app, News::Spec(Box::new(from(whole))));
    let page = json!({"tasks": tasks()});
    let open = Some((from(jobs()[2].clone()), from(page)));
    hear(app, News::Fresh(Box::new(Fresh { open, ..fresh("admin") })));
}

fn press(app: &mut App, key: KeyCode) -> Vec<Ask> {
    update(app, Input::Key(KeyEvent::new(key, KeyModifiers::NONE)))
}

fn press_all(app: &mut App, keys: &str) -> Vec<Ask> {
    keys.chars().flat_map(|key| press(app, KeyCode::Char(key))).collect()
}

fn hear(app: &mut App, news: News) -> Vec<Ask> {
    update(app, Input::News(news))
}
