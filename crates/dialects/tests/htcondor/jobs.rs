//! The jobs that submit files become.

use super::{World, refusal, setting, submit, submit_with};
use shipway_dialects::htcondor::read;
use shipway_model::files::OutputFiles;
use shipway_model::{Bytes, Each, JobSpec};

fn one(text: &str) -> JobSpec {
    let mut jobs = submit(text).expect("a good file").jobs;
    assert_eq!(jobs.len(), 1);
    jobs.remove(0)
}

fn row(each: &Each, at: usize) -> Vec<&str> {
    each.values(at).collect()
}

#[test]
fn numbers_need_no_rows() {
    let spec = one("executable = fit\narguments = $(Process) c$(Cluster)\n\
         output = out/$(Cluster).$(Process)\nqueue 100000\n");
    assert_eq!(spec.command, ["/home/ada/fit", "{index}", "c{job}"]);
    assert_eq!(spec.stdout.as_deref(), Some("/home/ada/out/{job}.{index}"));
    assert_eq!(spec.array.expect("an array").to_string(), "0-99999");
    assert!(spec.each.is_none());
}

#[test]
fn what_differs_becomes_a_column() {
    let spec =
        one("executable = fit\narguments = \"$(file) --name='$(note)' $INT(Process,%03d)\"\n\
         queue file, note from (\n a.in, first one\n b.in, second\n)\n");
    assert_eq!(spec.command, ["/home/ada/fit", "{arg1}", "{arg2}", "{arg3}"]);
    let each = spec.each.expect("rows");
    assert_eq!(each.fields().collect::<Vec<_>>(), ["arg1", "arg2", "arg3"]);
    assert_eq!(row(&each, 0), ["a.in", "--name=first one", "000"]);
    assert_eq!(row(&each, 1), ["b.in", "--name=second", "001"]);
}

#[test]
fn tasks_of_other_needs_are_other_jobs() {
    let text = "executable = fit\nrequest_memory = $(m)\narguments = $(Process)\n\
         queue m in (1GB 2GB 1GB 2GB)\n";
    let submitted = submit(text).expect("good");
    assert_eq!((submitted.jobs.len(), submitted.tasks), (2, 4));
    assert_eq!(submitted.jobs[0].resources.memory, Bytes(1 << 30));
    let each = submitted.jobs[1].each.as_ref().expect("rows");
    assert_eq!([row(each, 0), row(each, 1)], [["1"], ["3"]]);
}

#[test]
fn many_queues_of_like_tasks_are_one_job() {
    let text = (0..500).fold("executable = fit\n".to_string(), |text, at| {
        text + &format!("arguments = seed{at}\nqueue\n")
    });
    let spec = one(&text);
    assert_eq!(spec.command, ["/home/ada/fit", "{arg1}"]);
    assert_eq!(spec.each.expect("rows").len(), 500);
}

#[test]
fn the_job_id_stays_open_in_columns() {
    let spec =
        one("executable = fit\noutput = $(Cluster)/$INT(Process,%02d).$(Cluster)\nqueue 2\n");
    assert_eq!(spec.stdout.as_deref(), Some("{file1_0}{job}{file1_1}{job}{file1_2}"));
    let each = spec.each.expect("rows");
    assert_eq!(row(&each, 1), ["/home/ada/", "/01.", ""]);
}

#[test]
fn braces_of_the_user_stay() {
    let spec = one("executable = fit\narguments = {index} {job} {x} $(Process)\nqueue 2\n");
    assert_eq!(spec.command[1..], ["{brace}index}", "{brace}job}", "{x}", "{index}"]);
    let each = spec.each.expect("rows");
    assert_eq!([row(&each, 0), row(&each, 1)], [["{"], ["{"]]);
}

#[test]
fn files_are_brought_and_taken() {
    let spec = one("executable = bin/fit\nshould_transfer_files = yes\n\
         transfer_input_files = a.dat, /data/b\ntransfer_output_files = out.txt\n\
         transfer_output_remaps = \"out.txt = res/$(Process).txt\"\nlog = l.log\nqueue 2\n");
    assert_eq!(spec.command, ["./fit"]);
    assert_eq!(spec.workdir, None);
    let inputs: Vec<String> = spec.inputs.iter().map(ToString::to_string).collect();
    assert_eq!(inputs, ["/home/ada/a.dat", "/data/b", "/home/ada/bin/fit"]);
    let outputs = spec.outputs.expect("outputs");
    assert_eq!(outputs.names()[0].to_string(), "out.txt:/home/ada/res/{index}.txt");
    assert_eq!(spec.event_log.as_deref(), Some("/home/ada/l.log"));
}

#[test]
fn without_files_a_task_runs_where_it_was_submitted() {
    let spec = one("executable = fit\ninitialdir = run$(Process)\nqueue 2\n");
    assert_eq!(spec.workdir.as_deref(), Some("/home/ada/run{index}"));
    assert_eq!(spec.command, ["/home/ada/fit"]);
    let spec = one("executable = fit\nshould_transfer_files = yes\nqueue\n");
    assert_eq!(spec.outputs.expect("new ones").files, OutputFiles::New);
}

#[test]
fn the_example_of_the_grid_works() {
    let spec = one("universe = container\ncontainer_image = docker://org/image:1\n\
         executable = run.sh\narguments = $(Process)\nrequest_gpus = 1\nrequest_cpus = 1\n\
         request_memory = 8GB\nrequest_disk = 5GB\nrequirements = (CUDACapability >= 6.0)\n\
         output = out.$(Process)\nlog = run.log\nqueue 20\n");
    assert_eq!(spec.image.expect("an image").to_string(), "docker://docker.io/org/image:1");
    assert_eq!(spec.requirements.as_deref(), Some("(CUDACapability >= 6.0)"));
    assert_eq!(spec.resources.gpu.expect("GPUs").count, 1);
    assert_eq!(spec.resources.memory, Bytes(8 << 30));
    assert_eq!(spec.array.expect("an array").len(), 20);
}

#[test]
fn nothing_is_dropped_in_silence() {
    let text = "executable = fit\nrequest_memmory = 2048\nstream_output = true\n\
         notification = always\n+Mine = MY.Other + 1\nqueue v in (a)\n";
    let warnings = submit(text).expect("good").warnings;
    let said: Vec<String> = warnings.iter().map(ToString::to_string).collect();
    for (line, part) in [
        (2, "did you mean request_memory?"),
        (3, "stream_output has no meaning here"),
        (4, "notification can only be `never`"),
        (5, "+Mine has no meaning here"),
        (6, "the variable `v` of `queue` is not used"),
    ] {
        let place = format!("x.sub, line {line}:");
        assert!(
            said.iter().any(|s| s.starts_with(&place) && s.contains(part)),
            "{part}: {said:#?}"
        );
    }
}

#[test]
fn what_would_change_results_is_refused() {
    for (line, part) in [
        ("universe = vm", "universe"),
        ("concurrency_limits = db", "concurrency_limits cannot be honoured"),
        ("deferral_time = 17", "deferral_time"),
        ("hold = true", "hold"),
        ("arguments = $$(Memory)", "of the machine"),
        ("transfer_input_files = osdf:///x/y", "would have to be fetched"),
        ("success_exit_code = 3", "success_exit_code"),
        ("x509userproxy = /tmp/x", "logins"),
        ("+WantX = $(", ""),
        ("include command : ls", "runs nothing"),
        ("queue x from ls |", "runs nothing"),
        ("requirements = a &&", "not an expression"),
    ] {
        if part.is_empty() {
            continue;
        }
        let said = refusal(&format!("executable = fit\n{line}\nqueue\n"));
        assert!(said.starts_with("x.sub, line 2:") && said.contains(part), "{line}: {said}");
    }
}

#[test]
fn what_was_set_wins() {
    let mut setting = setting();
    setting.overrides = vec![("n".into(), "3".into()), ("+Kind".into(), "\"x\"".into())];
    let text = "executable = fit\nn = 1\nhold = \narguments = $(n)\nqueue $(n)\n";
    let submitted = read(text, &setting, &World::default()).expect("good");
    assert_eq!((submitted.tasks, submitted.jobs[0].command[1].as_str()), (3, "3"));
    assert_eq!(submitted.jobs[0].labels["Kind"], "x");
}

#[test]
fn chance_follows_the_seed() {
    let text = "executable = fit\n\
        arguments = $RANDOM_INTEGER(1,1000000) $RANDOM_CHOICE(a,b,c)\nqueue 50\n";
    let rows = |seed| {
        let setting = shipway_dialects::htcondor::Setting { seed, ..setting() };
        let submitted = read(text, &setting, &World::default()).expect("good");
        submitted.jobs[0].each.clone().expect("rows")
    };
    assert_eq!(rows(1), rows(1));
    assert_ne!(rows(1), rows(2));
    assert_ne!(row(&rows(1), 0), row(&rows(1), 1), "each task draws its own");
}

#[test]
fn items_come_from_files() {
    let mut world = World::default();
    world.files.insert("list.txt", "a 1\nb 2\n".into());
    let text = "executable = fit\narguments = $(x)-$(y)\nqueue x y from list.txt\n";
    let submitted = submit_with(&world, text).expect("good");
    let each = submitted.jobs[0].each.clone().expect("rows");
    assert_eq!([row(&each, 0), row(&each, 1)], [["a", "1"], ["b", "2"]]);
    let error = submit(text).expect_err("no such file").to_string();
    assert_eq!(error, "x.sub, line 3: cannot read `list.txt`: there is no such file");
}
