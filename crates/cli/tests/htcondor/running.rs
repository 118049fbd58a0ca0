//! Submit files from the command line to the files their tasks write.

use super::common::World;
use std::fs;

fn world_with(files: &[(&str, &str)]) -> World {
    let world = World::started();
    for (name, text) in files {
        let path = world.work().join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(&path, text).expect("a file");
    }
    world
}

fn text(world: &World, name: &str) -> String {
    fs::read_to_string(world.work().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[test]
fn a_submit_file_runs_where_it_was_submitted() {
    let submit = "executable = /bin/sh\ntransfer_executable = false\n\
        arguments = \"-c 'echo $(Process) $(word) {index} ${PART}' x\"\n\
        environment = \"PART=p$(Process)\"\n\
        output = out.$(Cluster).$(Process)\nlog = run.log\nqueue word from words.txt\n";
    let world = world_with(&[("fit.sub", submit), ("words.txt", "one two\nthree\n")]);
    let id = world.ok(&["submit", "fit.sub"]).trim().to_string();
    world.ok(&["wait", &id]);
    assert_eq!(text(&world, &format!("out.{id}.0")), "0 one two {index} p0\n");
    assert_eq!(text(&world, &format!("out.{id}.1")), "1 three {index} p1\n");
    assert!(text(&world, "run.log").contains("Job terminated."));
}

#[test]
fn files_are_brought_and_taken() {
    let submit = "executable = count.sh\nshould_transfer_files = yes\n\
        transfer_input_files = data/in.$(Process)\ntransfer_output_files = result\n\
        transfer_output_remaps = \"result = results/r.$(Process)\"\nqueue 2\n";
    let script = "#!/bin/sh\ncat in.* | wc -c > result\n";
    let files = [
        ("x.sub", submit),
        ("count.sh", script),
        ("data/in.0", "a"),
        ("data/in.1", "abc"),
        ("results/keep", ""),
    ];
    let world = world_with(&files);
    let executable = world.work().join("count.sh");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(executable, mode).expect("an executable");
    let id = world.ok(&["submit", "x.sub"]).trim().to_string();
    world.ok(&["wait", &id]);
    assert_eq!(text(&world, "results/r.0").trim(), "1");
    assert_eq!(text(&world, "results/r.1").trim(), "3");
}

#[test]
fn what_is_wrong_is_said_with_its_line() {
    let world = world_with(&[
        ("bad.sub", "executable = x\nhold = true\nqueue\n"),
        ("typo.sub", "executable = /bin/true\nn = 1\narguements = x\nqueue $(n)\n"),
        ("job.yaml", "command: [\"true\"]\n"),
    ]);
    let ran = world.cli(&["submit", "bad.sub"]);
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    assert!(ran.stderr.contains("bad.sub, line 2: hold cannot be honoured"), "{}", ran.stderr);
    let ran = world.cli(&["submit", "--dry-run", "--set", "n=3", "typo.sub"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.stderr.contains("typo.sub, line 3: arguements is not known"), "{}", ran.stderr);
    assert!(ran.stderr.contains("did you mean arguments?"), "{}", ran.stderr);
    assert!(ran.stdout.contains("of 3 tasks"), "{}", ran.stdout);
    let ran = world.cli(&["submit", "--set", "n=3", "job.yaml"]);
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    assert_eq!(world.json(&["jobs"])["jobs"].as_array().map(Vec::len), Some(0));
}
