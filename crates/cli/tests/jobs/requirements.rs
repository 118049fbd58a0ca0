//! `requirements` and `rank`: three nodes of three kinds, jobs that choose among them, and why none
//! will do.

use super::common::{World, as_myself, wait_for};
use super::{job, state};
use std::path::PathBuf;
use std::process::{Child, Stdio};

/// A pilot of its own, with the devices and attributes that a file declares.
struct Node(Child);

impl Node {
    fn start(world: &World, name: &str, declared: &str) -> Node {
        let dir = world.work().join(name);
        std::fs::create_dir_all(&dir).expect("a folder");
        let path = |file: &str| -> PathBuf { dir.join(file) };
        let token = path("token.json");
        std::fs::write(&token, world.ok(&["token", "pilot", "--json"])).expect("a file");
        std::fs::write(path("declared.json"), declared).expect("a file");
        let (declared, dir) = (path("declared.json"), path("pilot"));
        let text = |path: &PathBuf| path.to_str().expect("text").to_owned();
        let words = [
            "pilot",
            "--dir",
            &text(&dir),
            "--server",
            &world.url(),
            "--token-file",
            &text(&token),
        ];
        let mut command = world.command(&words);
        command.args(["--declared", &text(&declared)]).args(as_myself());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Node(command.spawn().expect("the pilot starts"))
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        super::common::terminate(self.0.id());
        let _ = self.0.wait();
    }
}

fn gpu(model: &str, memory: &str, capability: &str, attributes: &str) -> String {
    format!(
        r#"{{"cpus_milli": 4000, "gpus": [{{"uuid": "GPU-{model}", "model": "{model}",
            "memory": "{memory}", "vendor": "nvidia", "capability": "{capability}"}}],
            "attributes": {{{attributes}}}}}"#
    )
}

fn three_kinds(world: &World) -> [Node; 3] {
    world.up_with(&["--no-pilot"], |_| {});
    let nodes = [
        Node::start(world, "old", &gpu("K40", "12GB", "3.5", r#""Rack": "1", "Name": "\"n1\"""#)),
        Node::start(world, "middle", &gpu("V100", "16GB", "7.0", r#""Rack": "2""#)),
        Node::start(world, "new", &gpu("A100", "40GB", "8.0", r#""Rack": "3""#)),
    ];
    wait_for("three nodes have joined", || {
        let known = world.json(&["nodes"]);
        let nodes = known["nodes"].as_array().expect("nodes");
        nodes.iter().filter(|node| node["link"] == "connected").count() == 3
    });
    nodes
}

/// The device that a job with these options was given.
fn device(world: &World, options: &[&str]) -> String {
    let words =
        [&["run", "--gpus", "1"], options, &["--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES"]];
    let ran = world.cli(&words.concat());
    assert_eq!(ran.code, 0, "{options:?}: {}", ran.stderr);
    ran.stdout.trim().to_owned()
}

#[test]
fn a_job_runs_where_its_requirements_hold() {
    let world = World::new();
    let _nodes = three_kinds(&world);
    for (requirements, model) in [
        ("CUDACapability >= 8.0", "GPU-A100"),
        ("CUDACapability < 5", "GPU-K40"),
        ("CUDACapability >= 6.0 && GPUs_GlobalMemoryMb < 20000", "GPU-V100"),
        ("regexp(\"^v\", CUDADeviceName, \"i\")", "GPU-V100"),
        ("TARGET.Rack =?= 3 && MY.RequestGPUs == 1", "GPU-A100"),
    ] {
        assert_eq!(device(&world, &["--requirements", requirements]), model, "{requirements}");
    }
    // Of those that will do, the one that is liked most; without a rank the least one.
    let some = "CUDACapability >= 6.0";
    let ranked = ["--requirements", some, "--rank", "CUDACapability"];
    assert_eq!(device(&world, &ranked), "GPU-A100");
    assert_eq!(device(&world, &["--requirements", some]), "GPU-V100");
    assert_eq!(device(&world, &["--rank", "-Rack"]), "GPU-K40");

    let id =
        world.submit(&["--gpus", "1", "--requirements", "CUDACapability >= 9.0", "--", "true"]);
    assert_eq!(state(&world, &id), "waiting");
    let reasons = job(&world, &id)["reasons"].clone();
    assert_eq!(reasons.as_array().expect("reasons").len(), 3, "{reasons}");
    assert_eq!(reasons[0]["kind"], "requires");
    let why = world.ok(&["why", &id]);
    assert!(why.contains("requires CUDACapability >= 9.0; the node with"), "{why}");
    assert!(
        why.contains("has CUDACapability 3.5") && why.contains("has CUDACapability 8.0"),
        "{why}"
    );
    assert!(why.contains("leave out the requirement CUDACapability >= 9.0"), "{why}");

    let id = world.submit(&["--requirements", "Cudacapabilty > 1 && HasAVX99", "--", "true"]);
    let why = world.ok(&["why", &id]);
    assert!(why.contains("has no Cudacapabilty (did you mean CUDACapability?)"), "{why}");
}

#[test]
fn an_expression_that_cannot_be_read_is_refused_with_its_place() {
    let world = World::started();
    wait_for("the node has joined", || world.json(&["nodes"])["nodes"][0]["link"] == "connected");
    let ran = world.cli(&["run", "--requirements", "Memory >= 1024 && && true", "--", "true"]);
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    assert!(ran.stderr.contains("requirements: column 19: wanted a value"), "{}", ran.stderr);
    let ran = world.cli(&["run", "--rank", "(1", "--", "true"]);
    assert!(ran.stderr.contains("rank: column 3: wanted `)`, found the end"), "{}", ran.stderr);
    for (option, text, said) in [
        ("--requirements", "regexpp(\"a\", Machine)", "there is no function regexpp() (did you"),
        ("--requirements", "\"yes\"", "is the text \"yes\" for every node, so that none will do"),
        ("--rank", "Machine", "rank: it cannot look at Machine"),
        ("--rank", "Memry", "rank: no node has Memry (did you mean Memory?)"),
    ] {
        let ran = world.cli(&["run", option, text, "--", "true"]);
        assert!(ran.code != 0 && ran.stderr.contains(said), "{text}: {}", ran.stderr);
    }
    let host =
        world.json(&["nodes"])["nodes"][0]["ad"]["node"].as_str().expect("a name").to_owned();
    let here = format!("Machine == \"{host}\" && OpSys == \"LINUX\" && Disk > 0");
    assert_eq!(world.cli(&["run", "--requirements", &here, "--", "true"]).code, 0);
    let id = world.submit(&["--requirements", "Machine == \"elsewhere\"", "--", "true"]);
    let why = world.ok(&["why", &id]);
    assert!(why.contains(&format!("has Machine \"{host}\"")), "{why}");
    assert!(why.contains("not Machine == ") && !why.contains("too small"), "{why}");
    assert!(!why.contains("It may start"), "{why}");
    let dry = world.work().join("job.yaml");
    std::fs::write(&dry, "command: [\"true\"]\nrequirements: TARGET.Cpus > 100000\n")
        .expect("a file");
    let said = world.ok(&["submit", "--dry-run", dry.to_str().expect("text")]);
    assert!(said.contains("requires TARGET.Cpus > 100000"), "{said}");
}

#[test]
fn the_language_by_itself() {
    let world = World::new();
    let eval = |words: &[&str]| world.cli(&[&["classad", "eval"], words].concat());
    assert_eq!(eval(&["1 + 2 * 3"]).stdout, "7\n");
    assert_eq!(eval(&["undefined || true"]).stdout, "true\n");
    assert_eq!(eval(&["0.1 + 0.2"]).stdout, "0.3\n");
    let file = |name: &str, text: &str| {
        std::fs::write(world.work().join(name), text).expect("a file");
        world.work().join(name).to_str().expect("text").to_owned()
    };
    let job = file("job", "RequestMemory = 2048\nRequirements = TARGET.Memory >= RequestMemory\n");
    let node = file("node", "[ Memory = 4096; Requirements = TARGET.RequestMemory < 3000 ]");
    let small = file("small", "[ Memory = 1024; Requirements = true ]");
    assert_eq!(eval(&["Memory / RequestMemory", "--ad", &job, "--target", &node]).stdout, "2\n");
    let shown = world.json(&["classad", "eval", "{1, \"a\"}", "--json"]);
    assert_eq!(
        (shown["value"].as_str(), shown["kind"].as_str()),
        (Some("{ 1,\"a\" }"), Some("list"))
    );
    assert_eq!(world.cli(&["classad", "match", &job, &node]).code, 0);
    let ran = world.cli(&["classad", "match", &job, &small]);
    assert_eq!(ran.code, 1);
    assert!(ran.stdout.contains("job: TARGET.Memory >= RequestMemory is false"), "{}", ran.stdout);
    let wrong = eval(&["1 + * 2"]);
    assert_eq!(wrong.code, 2);
    assert!(wrong.stderr.contains("  1 + * 2\n      ^"), "{}", wrong.stderr);
    let deep = "(".repeat(100_000);
    assert!(eval(&[&deep]).stderr.contains("nested too deep: at most 165 brackets"), "parentheses");
    let misspelt = eval(&["regexpp(\"a\", \"b\")"]).stdout;
    assert_eq!(misspelt, "error (there is no function regexpp() (did you mean regexp?))\n");
    for (name, two) in [("lines", "Cpus = 1\n\nCpus = 2\n"), ("both", "[Cpus = 1]\n[Cpus = 2]")] {
        let ran = eval(&["Cpus", "--ad", &file(name, two)]);
        assert_eq!(ran.code, 2, "{two}");
        assert!(ran.stderr.contains("a second ad begins here"), "{}", ran.stderr);
    }
}
