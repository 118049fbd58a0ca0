//! Tasks in containers, from `shipway run` to their end, with every runtime.

use crate::archive::archive;
use crate::common::wait_for;
use crate::site::{Site, command, with_each_runtime};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

#[test]
fn a_task_sees_its_image_and_nothing_else() {
    with_each_runtime(sees_its_image_and_nothing_else);
}

fn sees_its_image_and_nothing_else(site: &Site) {
    let (code, out, err) = site.on_tree(&[], "id -u; pwd; ls /; ps -o pid= | wc -l; ls /dev");
    assert_eq!(code, 0, "{out}{err}");
    let lines: Vec<&str> = out.lines().map(str::trim).collect();
    assert!(lines[0] != "0", "never root: {out}");
    assert_eq!(lines[1], "/tmp/shipway/work");
    assert_eq!(lines[2..8], ["bin", "dev", "etc", "proc", "sys", "tmp"]);
    // The container's first process, the shell, and what it starts for this line.
    assert!(lines[8].parse::<u32>().is_ok_and(|processes| processes <= 5), "{out}");
    assert!(!lines[9..].iter().any(|name| name.starts_with("sd") || name.starts_with("nvidia")));
    let (_, out, _) = site.on_tree(&[], "touch here && ls; touch /tmp/mine && ls /tmp/mine");
    assert_eq!(out, "here\n/tmp/mine\n");
    assert!(!Path::new("/tmp/mine").exists());
    let (code, ..) = site.on_tree(&[], "exit 7");
    assert_eq!(code, 7);
    let (code, _, err) = site.run(&format!("dir:{}", site.path("tree").display()), &[], &["nope"]);
    // Others than ours do not say whether it was the program that failed.
    if site.runtime() == "native" {
        assert_eq!(code, 127);
        assert!(err.contains("cannot start `nope`: no such program"), "{err}");
    }
    assert!(code != 0 && err.contains("nope"), "{code} {err}");
    let (code, out, err) = site.on_tree(&[], "touch /etc/new /bin/new && ls /etc/new");
    assert_eq!((code, out.as_str()), (0, "/etc/new\n"), "{err}");
    assert!(!site.path("tree/etc/new").exists(), "the image was changed");
}

#[test]
fn output_is_followed_from_the_fetch_on_and_failures_to_start_are_not_tried_again() {
    let site = Site::start();
    let busybox = std::fs::read("/bin/busybox").expect("busybox-static is installed");
    for round in 0..5 {
        let (file, variable) = (format!("{round}.tar"), format!("ROUND={round}"));
        archive(&site.path(&file), &[("bin/sh", &busybox)], &variable);
        let image = format!("docker-archive:../{file}");
        let (code, out, err) = site.run(&image, &[], &["sh", "-c", "echo round $ROUND"]);
        assert_eq!((code, out), (0, format!("round {round}\n")), "{err}");
        assert!(err.starts_with("shipway: fetching docker-archive:"), "{err}");
    }
    let options = ["--retries", "3", "--retry-delay", "0s"];
    let image = format!("dir:{}", site.path("tree").display());
    let (code, _, err) = site.run(&image, &options, &["nope"]);
    assert!(code == 127 && !err.contains("tried again"), "{code} {err}");
}

#[test]
fn a_job_keeps_the_image_it_was_submitted_with() {
    let site = Site::start();
    let busybox = std::fs::read("/bin/busybox").expect("busybox-static is installed");
    let file = site.path("saved.tar");
    let image = "docker-archive:../saved.tar";
    let write = |variable: &str| archive(&file, &[("bin/sh", &busybox)], variable);
    let say = ["sh", "-c", "echo $WHICH; test -e go"];
    write("WHICH=first");
    let (code, out, err) = site.run(image, &["--name", "kept"], &say);
    assert_eq!((code, &*out), (1, "first\n"), "{err}");
    let job = &json(&site.shipway(&["jobs", "--all", "--json"]))["jobs"][0];
    let id = job["id"].to_string().trim_matches('"').to_owned();
    let shown = json(&site.shipway(&["show", &id, "--json"]));
    let named = shown["job"]["spec"]["image"].as_str().expect("an image");
    assert!(named.contains("saved.tar@sha256:"), "{named}");
    write("WHICH=second");
    // A second try of the old job runs the old image; a new job the new one.
    let done = site.shipway(&["retry", &id]);
    assert!(done.status.success(), "{done:?}");
    let _ = site.shipway(&["wait", &id]);
    let logs = site.shipway(&["logs", &id]);
    assert_eq!(String::from_utf8_lossy(&logs.stdout), "first\n");
    assert_eq!(site.run(image, &[], &say).1, "second\n");
    // Gone from the store, it cannot be had again: the file is another image now.
    assert!(site.shipway(&["image", "rm", named]).status.success());
    assert!(site.shipway(&["retry", &id]).status.success());
    let done = site.shipway(&["wait", &id]);
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    let shown = json(&site.shipway(&["show", &id, "--json"])).to_string();
    assert!(shown.contains("is another image now") || said.contains("another image"), "{shown}");
}

#[test]
fn what_never_comes_holds_up_nobody_else() {
    let site = Site::start();
    let digest = |number: usize| format!("sha256:{number:064x}");
    let fifo = site.path("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, 0o666.into(), 0)
        .expect("a pipe with a name");
    for endless in [fifo.to_str().expect("text"), "/dev/zero"] {
        let image = format!("docker-archive:{endless}");
        let (code, _, err) = site.run(&image, &[], &["true"]);
        assert!(code == 3 && err.contains("is not a plain file"), "{code} {err}");
        // By its digest it is asked for on the node.
        let image = format!("{image}@{}", digest(1));
        let (code, _, err) = site.run(&image, &[], &["true"]);
        assert!(code == 127 && err.contains("is not a plain file"), "{code} {err}");
    }
    // Each is waited for, for a minute.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let host = silent.local_addr().expect("an address");
    let mut jobs = Vec::new();
    for number in 0..7 {
        let image = format!("docker://{host}/x@{}", digest(number));
        let words = ["run", "-d", "--image", &image, "--workdir", "private", "--cpus", "0.1"];
        let done = site.shipway(&[&words[..], &["--", "true"]].concat());
        jobs.push(String::from_utf8(done.stdout).expect("text").trim().to_owned());
    }
    for job in &jobs {
        assert!(site.shipway(&["cancel", job]).status.success());
    }
    let busybox = std::fs::read("/bin/busybox").expect("busybox-static is installed");
    archive(&site.path("good.tar"), &[("bin/sh", &busybox)], "A=B");
    let options = ["--cpus", "0.1"];
    let (code, out, err) =
        site.run("docker-archive:../good.tar", &options, &["sh", "-c", "echo came"]);
    assert_eq!((code, &*out), (0, "came\n"), "{err}");
}

#[test]
fn a_pilot_makes_room_by_itself() {
    let mut site = Site::start();
    let file = site.path("saved.tar");
    archive(&file, &[("bin/hello", b"hello")], "A=B");
    let done = site.shipway(&["image", "pull", "docker-archive:../saved.tar"]);
    assert!(done.status.success(), "{done:?}");
    let images = |site: &Site| json(&site.shipway(&["image", "list", "--json"]))["images"].clone();
    site.restart(&["--keep-images", "30d"]);
    let (code, ..) = site.on_tree(&[], "true");
    assert_eq!((code, images(&site).as_array().map(Vec::len)), (0, Some(1)));
    site.restart(&["--images-size", "4B"]);
    wait_for("the image is gone", || images(&site) == serde_json::json!([]));
    let refused = site.shipway(&["up", "--no-pilot", "--images-size", "4B"]);
    assert_eq!(refused.status.code(), Some(2));
}

#[test]
fn every_task_is_in_a_container_unless_the_site_wants_none() {
    let mut site = Site::start();
    let look = ["run", "--workdir", "private", "--", "sh", "-c", "test -w /proc/sys || echo $$"];
    let told = |site: &Site| {
        let done = site.shipway(&look);
        let text = String::from_utf8_lossy(&done.stdout).trim().to_owned();
        text.parse::<u32>().unwrap_or_else(|_| panic!("{done:?}"))
    };
    // Processes are counted anew in a container.
    assert!(told(&site) < 10);
    site.restart(&["--default-image", "none"]);
    assert!(told(&site) > 10);
    site.restart(&["--default-image", "host"]);
    assert!(told(&site) < 10);
    let absent = site.shipway(&["up", "--default-image", "dir:/no/such/tree"]);
    assert!(String::from_utf8_lossy(&absent.stderr).contains("is not there: /no/such/tree"));
    let both = site.shipway(&["up", "--default-image", "host", "--runtime", "crun"]);
    assert!(String::from_utf8_lossy(&both.stderr).contains("crun makes no containers on"));
    // Logins that cannot be read are no matter of a job that asks no registry.
    let docker = site.path("home").join(".docker");
    std::fs::create_dir(&docker).expect("a folder");
    std::fs::write(docker.join("config.json"), "{").expect("written");
    assert_eq!(site.run("host", &[], &["true"]).0, 0);
    let (code, _, err) = site.run("docker://127.0.0.1:9/x", &[], &["true"]);
    assert!(code == 2 && err.contains(".docker/config.json"), "{code} {err}");
    let refused = site.shipway(&["up", "--default-image", "dir:tree"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(2) && said.contains("the whole path"), "{said}");
}

fn json(done: &Output) -> Value {
    serde_json::from_slice(&done.stdout).unwrap_or_else(|error| panic!("{error}: {done:?}"))
}

#[test]
fn a_task_that_waits_for_its_image_can_be_cancelled() {
    let site = Site::start();
    // Takes connections and never answers.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    // With a digest, so that only the node asks.
    let digest = format!("sha256:{}", "0".repeat(64));
    let image = format!("docker://{}/x@{digest}", silent.local_addr().expect("an address"));
    let words = ["run", "-d", "--image", &image, "--workdir", "private", "--", "true"];
    let job = String::from_utf8(site.shipway(&words).stdout).expect("an id");
    let (_connection, _) = silent.accept().expect("it is asked");
    assert!(site.shipway(&["cancel", job.trim()]).status.success());
    let waited = site.shipway(&["wait", job.trim(), "--json"]);
    let text = String::from_utf8_lossy(&waited.stdout);
    assert!(text.contains("\"cancelled\""), "{text}");
}

#[test]
fn the_nodes_own_tree_is_read_only() {
    let site = Site::start();
    let line = "touch /etc/made-by-a-task; touch here && ls; ls /tmp";
    let (_, out, err) = site.run("host", &[], &["sh", "-c", line]);
    assert!(err.contains("Read-only file system"), "{err}");
    assert_eq!(out, "here\nshipway\n", "and /tmp is its own");
}

#[test]
fn binds_network_and_script_are_as_asked() {
    with_each_runtime(binds_network_and_script);
}

fn binds_network_and_script(site: &Site) {
    std::fs::write(site.path("data"), "seen\n").expect("written");
    let bind = format!("{}:/etc/data", site.path("data").display());
    let (_, out, err) = site.on_tree(&["--bind", &bind], "cat /etc/data; touch /etc/data");
    assert_eq!(out, "seen\n");
    assert!(err.contains("Read-only"), "{err}");
    let (_, out, _) = site.on_tree(&["--network", "none"], "ifconfig; ifconfig -a | cat");
    // Others than ours leave it a loopback device that is switched on.
    assert!(site.runtime() != "native" || !out.contains("UP"), "{out}");
    let devices: Vec<&str> = out.lines().filter(|line| line.contains("encap")).collect();
    assert!(!devices.is_empty() && devices.iter().all(|it| it.starts_with("lo")), "{out}");
    let script = site.path("script");
    std::fs::write(&script, "#!/bin/sh\necho \"$1 in $PWD\"\n").expect("written");
    let script = script.display().to_string();
    let image = format!("dir:{}", site.path("tree").display());
    let (_, out, err) = site.run(&image, &["--script", &script], &["hello"]);
    assert_eq!(out, "hello in /tmp/shipway/work\n", "{err}");
}

#[test]
fn an_image_is_fetched_once_for_many_tasks() {
    with_each_runtime(fetched_once);
}

fn fetched_once(site: &Site) {
    let busybox = std::fs::read("/bin/busybox").expect("busybox-static is installed");
    archive(&site.path("saved.tar"), &[("bin/sh", &busybox)], "WHO=image");
    let image = "docker-archive:../saved.tar";
    let (code, out, err) =
        site.run(image, &["--array", "1-20"], &["sh", "-c", "test $WHO = image"]);
    assert_eq!(code, 0, "{out}{err}");
    let listed = site.shipway(&["image", "list", "--json"]);
    let listed: Value = serde_json::from_slice(&listed.stdout).expect("JSON");
    assert_eq!(listed["images"].as_array().map(Vec::len), Some(1), "{listed}");
    let (code, out, _) = site.run(image, &[], &["sh", "-c", "echo $WHO $PATH"]);
    assert_eq!((code, out.starts_with("image /usr/local/sbin")), (0, true), "{out}");
}

#[test]
fn an_image_that_does_not_come_is_a_reason_not_a_crash() {
    let site = Site::start();
    std::fs::write(site.path("bad.tar"), vec![b'x'; 2000]).expect("written");
    for (image, said) in [
        ("docker-archive:../bad.tar", "malformed"),
        ("docker-archive:none.tar", "cannot open"),
        ("docker://127.0.0.1:9/x", "cannot reach 127.0.0.1"),
        ("dir:/nowhere", "/nowhere"),
    ] {
        let (code, _, err) = site.run(image, &[], &["true"]);
        assert!(code != 0 && err.contains(said), "{image}: {code} {err}");
    }
}

#[test]
fn a_stopped_task_leaves_nothing_behind() {
    with_each_runtime(leaves_nothing_behind);
}

fn leaves_nothing_behind(site: &Site) {
    let options = ["--time-limit", "1s", "--grace", "1s"];
    let word = format!("1000{}", std::process::id());
    let line = format!("trap '' TERM; sleep {word} & sleep {word}");
    let (code, _, err) = site.on_tree(&options, &line);
    assert_eq!(code, 124, "{err}");
    let left = Command::new("pgrep").args(["-f", &format!("sleep {word}")]).output();
    assert_eq!(String::from_utf8_lossy(&left.expect("pgrep").stdout), "");
}

#[test]
fn a_site_says_what_may_be_bound() {
    let data = tempfile::tempdir().expect("a folder");
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(data.path(), open).expect("opened");
    std::fs::write(data.path().join("file"), "seen\n").expect("written");
    std::os::unix::fs::symlink("/etc", data.path().join("link")).expect("a link");
    let data = data.path().display();
    let site = Site::start_offering(&data.to_string());
    // The image's own links are followed inside it.
    std::os::unix::fs::symlink("etc", site.path("tree/settings")).expect("a link");
    let bind = format!("{data}:/settings/data");
    let (code, out, err) = site.on_tree(&["--bind", &bind], "cat /etc/data/file");
    assert_eq!((code, out.as_str()), (0, "seen\n"), "{err}");
    for (bind, said) in [
        (format!("{data}/link:/x"), "which this site does not offer"),
        ("/usr:/x".to_string(), "which this site does not offer"),
        (format!("{data}:/x:rw"), "for reading"),
        (format!("{data}:/"), "the container's own root"),
    ] {
        let (code, _, err) = site.on_tree(&["--bind", &bind], "true");
        assert!(code != 0 && err.contains(said), "{bind}: {code} {err}");
    }
    let (code, _, err) = site.run("dir:/", &[], &["true"]);
    assert!(code != 0 && err.contains("`host`"), "{code} {err}");
}

#[test]
fn files_in_memory_count_as_memory() {
    with_each_runtime(files_count);
}

fn files_count(site: &Site) {
    // Each of them alone would fit.
    let line =
        "for f in /tmp/a /dev/shm/b; do dd if=/dev/zero of=$f bs=1M count=40; done; sleep 100";
    let (code, _, err) = site.on_tree(&["--memory", "64MB"], line);
    assert!(code == 137 && err.contains("out of memory: used"), "{code} {err}");
    let line = "dd if=/dev/zero of=/tmp/a bs=1M count=80";
    let (code, _, err) = site.on_tree(&["--memory", "64MB"], line);
    assert!(code != 0 && err.contains("No space left"), "{code} {err}");
}

#[test]
fn a_runtime_that_is_not_there_is_said_at_the_start() {
    let home = tempfile::tempdir().expect("a home");
    let program = Path::new(env!("CARGO_BIN_EXE_shipway"));
    let up = |runtime: &str| {
        let mut up = command(program, home.path(), None);
        up.args(["up", "--listen", "127.0.0.1:0", "--runtime", runtime]);
        let done = up.env("PATH", "/nowhere").output().expect("started");
        (done.status.code(), String::from_utf8_lossy(&done.stderr).into_owned())
    };
    let (code, said) = up("apptainer");
    assert!(code == Some(1) && said.contains("apptainer` in PATH (/nowhere)"), "{code:?} {said}");
    assert!(said.contains("--runtime apptainer=PROGRAM"), "{said}");
    let (code, said) = up("crun=/nowhere/crun");
    assert!(code == Some(1) && said.contains("/nowhere/crun"), "{code:?} {said}");
    let (code, said) = up("docker");
    assert!(code == Some(2) && said.contains("native, crun or apptainer"), "{code:?} {said}");
}
