//! What is handed in, as text, and run by a real shell where it is a script.

use super::*;
use shipway_model::{AllocationId, Bytes, Cores, Millis};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};

fn order() -> Order {
    Order {
        allocation: AllocationId::new("alc-1").expect("good"),
        partition: None,
        nodes: 1,
        cpus: Cores { milli: 1_500 },
        memory: Bytes(1_000_000_000),
        gpus: None,
        wall: Millis(3_600_000),
        warning: Millis(120_000),
        submit_lines: Vec::new(),
        pilot: PilotStart {
            sha256: None,
            program: "/opt/it's/shipway".into(),
            options: vec!["--server".into(), "https://a b".into()],
            scratch: None,
            credentials: vec!["{\"token\":\"SECRET\"}\n".into()],
            files: vec![("server.pem".into(), "CERT\n".into())],
        },
    }
}

fn naming() -> Naming {
    Naming { whose: "s1".into() }
}

fn described(order: &Order) -> Result<String, String> {
    description(order, &naming(), &Settings::default())
}

#[test]
fn a_description_says_all_and_tells_nothing_secret() {
    let text = described(&order()).expect("good");
    for line in [
        "JobBatchName = \"shipway-s1-alc-1\"",
        "+ShipwayAllocation = \"shipway-s1-alc-1\"",
        "transfer_input_files = credentials.$(Process).json, server.pem",
        "request_cpus = 2",
        "request_memory = 954",
        "job_max_vacate_time = 120",
        "requirements = (JobStartDate =?= undefined)",
        "queue 1",
    ] {
        assert!(text.lines().any(|it| it == line), "{line} is not in\n{text}");
    }
    assert!(text.contains("time() - JobCurrentStartDate > 3480"), "{text}");
    assert!(!text.contains("SECRET") && !text.contains("CERT"), "{text}");
    assert!(!text.contains("require_gpus") && !text.contains("xcount"), "{text}");
}

#[test]
fn kinds_of_gpu_and_names_are_quoted() {
    let kind = Some("A \"1\" \\ $(Process)".to_string());
    let gpus = Some(OrderedGpus { count: 2, kind, request: None });
    let text = described(&Order { gpus, ..order() }).expect("good");
    assert!(text.contains("request_gpus = 2\n"), "{text}");
    let line = "require_gpus = DeviceName == \"A \\\"1\\\" \\\\ $(DOLLAR)(Process)\"\n";
    assert!(text.contains(line), "{text}");
    let request = Some(GpuOption::None);
    let gpus = Some(OrderedGpus { count: 2, kind: Some("A100".into()), request });
    let text = described(&Order { gpus, ..order() }).expect("good");
    assert!(!text.contains("_gpus"), "its own lines ask: {text}");
    let gpus = Some(OrderedGpus { count: 2, kind: Some("A\nqueue 9".into()), request: None });
    assert!(described(&Order { gpus, ..order() }).is_err());
}

#[test]
fn lines_of_the_site_come_in_and_cannot_take_the_guard_away() {
    let submit_lines = vec!["requirements = A || B".to_string(), "+Project = \"x\"".into()];
    let text = described(&Order { submit_lines, ..order() }).expect("good");
    assert!(text.contains("\n+Project = \"x\"\n"), "{text}");
    assert!(text.contains("\nrequirements = (A || B) && (JobStartDate =?= undefined)\n"), "{text}");
    let submit_lines = vec!["queue 9".to_string()];
    assert!(described(&Order { submit_lines, ..order() }).is_err());
}

#[test]
fn a_compute_element_is_told_in_its_own_words() {
    let settings = Settings { ce: true, ..Settings::default() };
    let order = Order { partition: Some("gpu\"q".into()), ..order() };
    let text = description(&order, &naming(), &settings).expect("good");
    let words = "+xcount = 2\n+maxMemory = 954\n+maxWallTime = 60\n+queue = \"gpu\\\"q\"\n";
    assert!(text.contains(words), "{text}");
    assert!(described(&order).is_err(), "a pool has no partitions");
}

#[test]
fn what_cannot_be_handed_in_is_refused() {
    let mut bad = vec![Order { nodes: 0, ..order() }, Order { nodes: 2, ..order() }];
    bad.push(Order { warning: order().wall, ..order() });
    for name in ["../x", "credentials.0.json", "shipway-pilot", "", "-x", ".x", "a b", "a,b"] {
        let mut order = order();
        order.pilot.files = vec![(name.into(), String::new())];
        bad.push(order);
    }
    for order in bad {
        assert!(described(&order).is_err(), "{order:?}");
    }
}

/// The script, run by a real shell with a `condor_submit` that looks at what it was given.
fn hand_in(order: &Order, submit: &str) -> (tempfile::TempDir, Output) {
    let dir = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).expect("written");
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).expect("set");
    };
    write("condor_submit", &format!("#!/bin/sh\n{submit}\n"));
    write("condor_rm", &format!("#!/bin/sh\necho \"$@\" > {}/removed", dir.path().display()));
    let settings = Settings { schedd: Some("a'b".into()), ..Settings::default() };
    let text = script(order, &naming(), &settings).expect("good");
    write("script", &text);
    let path = format!("{}:{}", dir.path().display(), std::env::var("PATH").expect("a path"));
    let script = std::fs::File::open(dir.path().join("script")).expect("there");
    let mut shell = Command::new("sh");
    shell.arg("-s").stdin(script).env("PATH", path).env("TMPDIR", dir.path());
    let output = shell.output().expect("a shell");
    (dir, output)
}

#[test]
fn files_are_there_for_the_command_and_for_nobody_else() {
    let look = r#"printf '%s|' "$@"; ls -a; cat credentials.0.json server.pem
        stat -c '%a %n' . credentials.0.json; cat"#;
    let (dir, output) = hand_in(&order(), look);
    let said = String::from_utf8(output.stdout).expect("text");
    assert!(said.starts_with("-terse|-spool|-name|a'b|shipway-submit|"), "{said}");
    assert!(said.contains("SECRET") && said.contains("CERT\n"), "{said}");
    assert!(said.ends_with("700 .\n600 credentials.0.json\n"), "{said}");
    let left: Vec<_> = std::fs::read_dir(dir.path()).expect("readable").flatten().collect();
    assert_eq!(left.len(), 3, "{left:?}");
    assert!(output.status.success());
}

#[test]
fn what_fails_half_way_is_taken_back() {
    let (dir, output) = hand_in(&order(), "exit 4");
    assert_eq!(output.status.code(), Some(4));
    let removed = std::fs::read_to_string(dir.path().join("removed")).expect("it was called");
    let only = "-constraint ShipwayAllocation =?= \"shipway-s1-alc-1\" && HoldReasonCode =?= 16";
    assert_eq!(removed, format!("-name a'b {only}\n"), "one of that name that runs stays");
}

#[test]
fn a_program_that_was_sent_comes_as_a_file_of_the_job_and_is_looked_at() {
    let mut order = order();
    let hex = "7f".repeat(32);
    order.pilot.sha256 = Some(format!("sha256:{hex}").parse().expect("a digest"));
    order.pilot.program = format!("/home/ada/shipway-{hex}");
    let text = description(&order, &naming(), &Settings::default()).expect("good");
    assert!(text.contains(&format!(", /home/ada/shipway-{hex}\n")), "{text}");
    let dir = tempfile::tempdir().expect("a folder");
    let lies = dir.path().join(format!("shipway-{hex}"));
    std::fs::write(&lies, "#!/bin/sh\ntouch ../started\n").expect("written");
    assert_eq!(start(&order.pilot, dir.path()).status.code(), Some(66));
    assert!(!dir.path().join("started").exists(), "it is another one");
    order.pilot.program = "/home/a,b/shipway".into();
    let refused = description(&order, &naming(), &Settings::default());
    assert!(refused.expect_err("a list").contains("list of files"));
}

/// Runs what starts a pilot, beside its files, with a pilot that says what it sees.
fn start(pilot: &PilotStart, dir: &std::path::Path) -> Output {
    let write = |name: &str, text: &str| std::fs::write(dir.join(name), text).expect("written");
    write("starter", &starter(pilot).expect("good"));
    write("credentials.3.json", "SECRET");
    write("server.pem", "CERT");
    let mut shell = Command::new("sh");
    shell.arg(dir.join("starter")).env("_CONDOR_SCRATCH_DIR", dir).current_dir(dir);
    shell.output().expect("a shell")
}

#[test]
fn a_pilot_finds_its_files_in_a_folder_of_its_own() {
    let dir = tempfile::tempdir().expect("a folder");
    let scratch = tempfile::tempdir().expect("a folder");
    let program = dir.path().join("it's");
    let see = "#!/bin/sh\nprintf '%s|' \"$@\"; pwd; stat -c '%a %n' . *; exit 5\n";
    std::fs::write(&program, see).expect("written");
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).expect("set");
    let program = program.to_str().expect("text").to_string();
    for scratch in [None, Some(scratch.path().to_str().expect("text").to_string())] {
        let pilot = PilotStart { program: program.clone(), scratch, ..order().pilot };
        let output = start(&pilot, dir.path());
        let said = String::from_utf8(output.stdout).expect("text");
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(5), "{said} {error}");
        let base = pilot.scratch.clone().unwrap_or(dir.path().to_str().expect("text").into());
        assert!(said.starts_with(&format!("pilot|--dir|{base}/shipway.")), "{said}");
        assert!(said.contains("|--server|https://a b|"), "{said}");
        let modes = "\n700 .\n600 credentials.json\n600 server.pem\n";
        assert!(said.ends_with(modes), "{said}");
    }
    let left = std::fs::read_dir(scratch.path()).expect("readable").count();
    assert_eq!(left, 0, "nobody else removes it");
    let nowhere = Some("/no/such/folder".to_string());
    let output = start(&PilotStart { program, scratch: nowhere, ..order().pilot }, dir.path());
    assert_eq!(output.status.code(), Some(73));
}
