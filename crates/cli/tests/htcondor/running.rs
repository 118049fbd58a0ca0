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
fn a_task_knows_its_folder_and_what_is_new_may_go_elsewhere() {
    let submit = "executable = make.sh\nshould_transfer_files = yes\n\
        transfer_output_remaps = \"far = results/far.$(Process); never = x\"\n\
        output = out.$(Process)\nqueue 2\n";
    let script = "#!/bin/sh\necho n > near\necho f > far\n\
        test \"$_CONDOR_SCRATCH_DIR\" = \"$PWD\" && echo here\n";
    let world = world_with(&[("x.sub", submit), ("make.sh", script)]);
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(world.work().join("make.sh"), mode).expect("an executable");
    let id = world.ok(&["submit", "x.sub"]).trim().to_string();
    world.ok(&["wait", &id]);
    assert_eq!(text(&world, "out.1"), "here\n");
    assert_eq!((text(&world, "near"), text(&world, "results/far.1")), ("n\n".into(), "f\n".into()));
    assert!(!world.work().join("far").exists(), "it went elsewhere");
}

/// As `condor_submit` does, and before anything is submitted.
#[test]
fn files_that_are_not_there_are_said_at_once() {
    let world = world_with(&[
        ("exe.sub", "executable = none\nqueue\n"),
        ("there.sub", "executable = /none\ntransfer_executable = false\nqueue\n"),
        ("plain.sub", "executable = exe.sub\nqueue\n"),
        (
            "in.sub",
            "executable = /bin/true\n\ntransfer_input_files = in.sub, $(f)\n\
             queue f in (exe.sub no.dat)\n",
        ),
        ("out.sub", "executable = /bin/true\noutput = later/out\nqueue\n"),
        ("bytes.sub", "executable = /bin/true\n# a\0b\nqueue\n"),
    ]);
    for (name, words) in [
        ("exe.sub", "exe.sub, line 1: executable: there is no file"),
        ("plain.sub", "plain.sub, line 1: executable: "),
        ("in.sub", "in.sub, line 3: transfer_input_files: there is no file or folder"),
        ("bytes.sub", "bytes.sub, line 2: "),
    ] {
        let ran = world.cli(&["submit", name]);
        assert_eq!(ran.code, 2, "{name}: {}", ran.stderr);
        assert!(ran.stderr.contains(words) && ran.stderr.contains("hint: "), "{}", ran.stderr);
    }
    assert_eq!(world.json(&["jobs"])["jobs"].as_array().map(Vec::len), Some(0));
    let ran = world.cli(&["submit", "out.sub"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.stderr.contains("out.sub, line 2: output: the folder"), "{}", ran.stderr);
    world.ok(&["submit", "--dry-run", "there.sub"]);
}

#[test]
fn a_dry_run_shows_what_a_task_gets() {
    let submit = "executable = /bin/true\nrequest_gpus = 1\ngpus_minimum_capability = 8.0\n\
        transfer_input_files = $(f)\noutput = $Fn(f).out\nqueue f in (a.txt b.txt)\n";
    let world = world_with(&[("x.sub", submit), ("a.txt", ""), ("b.txt", "")]);
    let said = world.ok(&["submit", "--dry-run", "x.sub"]);
    assert!(said.contains("compute capability 8.0.."), "{said}");
    for file in ["a.txt", "a.out"] {
        let path = world.work().join(file).display().to_string();
        assert!(said.contains(&path), "no {path} in {said}");
    }
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
    assert!(ran.stderr.contains("--set hold="), "{}", ran.stderr);
    let ran = world.cli(&["submit", "--dry-run", "--set", "n=3", "typo.sub"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.stderr.contains("typo.sub, line 3: arguements is not known"), "{}", ran.stderr);
    assert!(ran.stderr.contains("did you mean arguments?"), "{}", ran.stderr);
    assert!(ran.stdout.contains("of 3 tasks"), "{}", ran.stdout);
    let ran = world.cli(&["submit", "--set", "n=3", "job.yaml"]);
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    assert_eq!(world.json(&["jobs"])["jobs"].as_array().map(Vec::len), Some(0));
}
