//! `/metrics` as Prometheus sees it: read and judged by `promtool`, which knows the format and the
//! conventions for names better than we do.

use super::common::{World, cannot, wait_for};
use super::curl::{Answer, ask, get};
use std::io::Write;
use std::process::{Command, Stdio};

/// The value of one sample, written exactly like this.
fn value(page: &str, sample: &str) -> Option<f64> {
    let line = page.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
    line.map(|value| value.parse().expect("a number"))
}

fn page(world: &World) -> String {
    let answer = get(world, "/metrics");
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.body
}

/// What promtool has to say; nothing when all is well.
fn judged(page: &str) -> Option<String> {
    let mut command = Command::new("promtool");
    command.args(["check", "metrics"]).stdin(Stdio::piped());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let Ok(mut child) = child else {
        cannot("promtool is not here (Debian package `prometheus`)");
        return None;
    };
    child.stdin.take().expect("piped").write_all(page.as_bytes()).expect("it reads");
    let output = child.wait_with_output().expect("a child");
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    let fine = output.status.success() && said.trim().is_empty();
    (!fine).then(|| said.into_owned())
}

#[test]
fn the_page_is_one_that_prometheus_takes() {
    let world = World::started();
    assert_eq!(world.cli(&["run", "--array", "1-3", "--", "true"]).code, 0);
    assert_eq!(world.cli(&["run", "--", "false"]).code, 1);
    assert_eq!(world.cli(&["show", "99"]).code, 3);
    world.ok(&["run", "-d", "--cpus", "9999", "--array", "1-40", "--", "true"]);
    world.ok(&["run", "-d", "--after", "3", "--array", "1-7", "--", "true"]);
    let odd = format!("/api/v1/jobs/{}", "%22%0a".repeat(50));
    ask(&world, &odd, &["-X", "BREW"], None);

    let answer = get(&world, "/metrics");
    let kind = answer.header("content-type").expect("a kind");
    assert!(kind.starts_with("text/plain; version=0.0.4"), "{kind}");
    let page = answer.body;
    assert_eq!(judged(&page), None);
    let labels = r#"{route="/api/v1/jobs/{job}",method="GET",status="4xx"}"#;
    let unknown = format!("shipway_http_requests_total{labels}");
    for (sample, expected) in [
        ("shipway_jobs{state=\"waiting\"}", 1.0),
        ("shipway_jobs{state=\"held\"}", 1.0),
        ("shipway_tasks{state=\"waiting\"}", 40.0),
        ("shipway_tasks{state=\"held\"}", 7.0),
        ("shipway_tasks{state=\"running\"}", 0.0),
        ("shipway_pilots{link=\"connected\"}", 1.0),
        ("shipway_jobs_submitted_total", 4.0),
        ("shipway_jobs_ended_total{state=\"succeeded\"}", 1.0),
        ("shipway_attempts_ended_total{outcome=\"success\"}", 3.0),
        ("shipway_attempts_ended_total{outcome=\"exit\"}", 1.0),
        ("shipway_journal_problem", 0.0),
        (&unknown, 1.0),
    ] {
        assert_eq!(value(&page, sample), Some(expected), "{sample}");
    }
    for sample in [
        "shipway_commit_duration_seconds_count",
        "shipway_events_total",
        "shipway_cores{link=\"connected\"}",
        "process_resident_memory_bytes",
        "process_open_fds",
    ] {
        assert!(value(&page, sample).is_some_and(|value| value > 0.0), "{sample}");
    }
    assert!(!page.contains("BREW") && !page.contains("%22"), "a request made a label");
}

#[test]
fn what_is_in_use_and_what_is_only_declared_are_told_apart() {
    let world = World::new();
    let file = world.work().join("declared.json");
    let gpu = |id: &str| {
        format!(r#"{{"uuid": "{id}", "model": "A100", "memory": "40GB", "vendor": "nvidia"}}"#)
    };
    let text = format!(r#"{{"gpus": [{}, {}], "cpus_milli": 4000}}"#, gpu("G-1"), gpu("G-2"));
    std::fs::write(&file, text).expect("a file");
    world.up_with(&["--declared", file.to_str().expect("a plain path")], |_| {});
    let words = [
        "--gpus",
        "0.25",
        "--cpus",
        "1.5",
        "--",
        "sh",
        "-c",
        "until [ -e go ]; do sleep 0.02; done",
    ];
    let id = world.submit(&words);
    wait_for("it runs", || value(&page(&world), "shipway_tasks{state=\"running\"}") == Some(1.0));
    let page = page(&world);
    for (sample, expected) in [
        ("shipway_gpus{link=\"connected\",source=\"declared\"}", 2.0),
        ("shipway_gpus_in_use{link=\"connected\",source=\"declared\"}", 0.25),
        ("shipway_cores{link=\"connected\"}", 4.0),
        ("shipway_cores_in_use{link=\"connected\"}", 1.5),
    ] {
        assert_eq!(value(&page, sample), Some(expected), "{sample}");
    }
    std::fs::write(world.work().join("go"), "").expect("a file");
    assert_eq!(world.cli(&["wait", &id]).code, 0);
}

#[test]
fn only_operators_and_monitors_may_look() {
    let world = World::started();
    let (status, _) = world.get("/metrics").expect("an answer");
    assert_eq!(status, 401, "without a token there is nothing to see, on loopback either");
    let with_role = |role: &str| -> Answer {
        world.ok(&["user", "add", role, "--role", role]);
        let token = world.ok(&["token", "new", "--user", role]);
        let header = format!("Authorization: Bearer {}", token.trim());
        super::curl::anonymous(&world, "/metrics", &["--header", &header])
    };
    assert_eq!(with_role("user").status, 403);
    assert_eq!(with_role("monitor").status, 200);
    assert_eq!(with_role("operator").status, 200);
    assert_eq!(with_role("admin").status, 200);
}

/// The one figure that matters most is there when little else is.
#[test]
fn a_journal_in_trouble_is_on_the_page() {
    let Some(world) = World::on_small_disk("4m") else {
        return cannot("a small disk needs root");
    };
    world.up_with(&["--no-pilot"], |_| {});
    let before = page(&world);
    assert_eq!(value(&before, "shipway_journal_problem"), Some(0.0));
    let filler = world.home().join("filler");
    wait_for("the disk is full and the server noticed", || {
        let _ = std::fs::write(&filler, vec![b'x'; 8 << 20]);
        world.cli(&["run", "-d", "--env", &format!("A={}", "x".repeat(100_000)), "--", "true"]);
        value(&page(&world), "shipway_journal_problem") == Some(1.0)
    });
    assert!(value(&page(&world), "shipway_commit_failures_total") >= Some(1.0));
    std::fs::remove_file(&filler).expect("ours");
    wait_for("it goes on", || value(&page(&world), "shipway_journal_problem") == Some(0.0));
}
