//! Good job files in both languages, and hostile ones: each gives a message, none a panic.

use super::*;
use std::fmt::Write;

fn yaml(text: &str) -> Result<Vec<JobSpec>, JobFileError> {
    let jobs = parse(Path::new("job.yaml"), text)?;
    Ok(jobs.into_iter().map(|job| job.spec).collect())
}

/// The whole message a user would see, hint included.
fn complaint(name: &str, text: &str) -> String {
    let error = parse(Path::new(name), text).expect_err(text);
    let hint = error.hint().map(|hint| format!(" | hint: {hint}")).unwrap_or_default();
    format!("{error}{hint}")
}

#[test]
fn yaml_and_json_say_the_same() {
    let from_yaml = yaml(
        "name: fit\ncommand: [python, fit.py]\nresources:\n  cpus: 0.5\n  gpu: A100:40GB..:2\n\
         retries: 3\ntime_limit: 2h\nworkdir: .\nenv: {A: \"1\"}\n",
    );
    let from_json = parse(
        Path::new("job"),
        r#" {"name":"fit","command":["python","fit.py"],"resources":{"cpus":0.5,
            "gpu":"A100:40GB..:2"},"retries":3,"time_limit":"2h","workdir":".","env":{"A":"1"}}"#,
    );
    assert_eq!(from_yaml.expect("yaml")[0], from_json.expect("json")[0].spec);
}

#[test]
fn documents_are_jobs() {
    let specs = yaml("command: echo one\n---\ncommand: echo two\n").expect("good");
    assert_eq!(specs.len(), 2);
    assert_eq!(specs[1].command, ["/bin/sh", "-c", "echo two"]);
}

#[test]
fn jobs_of_a_file_wait_for_each_other_by_name() {
    let text = "name: make\ncommand: a\n---\ncommand: b\nafter: [make:any, 12]\ntime_limit: 1h\n";
    let jobs = parse(Path::new("job.yaml"), text).expect("good");
    assert_eq!(jobs[1].after, ["make:any".parse().expect("good")]);
    assert_eq!(jobs[1].spec.after, ["12".parse().expect("good")]);
    assert_eq!(jobs[1].spec.command, ["/bin/sh", "-c", "b"]);
    for (text, expected) in [
        ("name: make\ncommand: a\n---\ncommand: b\nafter: [mkae]\n", "did you mean `make`?"),
        ("name: a\ncommand: a\nafter: [a]\n", "wait for each other: `a` after `a`"),
        ("command: a\nafter: [\"12:soon\"]\n", "12:soon"),
        ("name: a\ncommand: a\n---\ncommand: b\nafter: [a]\ntime_limit: soon\n", "time_limit"),
    ] {
        let said = complaint("job.yaml", text);
        assert!(said.contains(expected), "{said}");
    }
}

#[test]
fn an_unknown_key_names_its_line_and_the_nearest_one() {
    for (text, expected) in [
        (
            "name: x\ncomand: [a]\n",
            "job.yaml, line 2: `comand` is not a key of a job | hint: did you mean `command`?",
        ),
        (
            "command: a\nresources:\n  gpus: 2\n",
            "job.yaml, line 3: `gpus` is not a key of `resources` | hint: did you mean `gpu`?",
        ),
        (
            "command: a\nresources: {gpu: {cuont: 2}}\n",
            "job.yaml, line 2: `cuont` is not a key of `gpu` | hint: did you mean `count`?",
        ),
        (
            "command: a\nretries: {limits: 2}\n",
            "`limits` is not a key of `retries` | hint: did you mean `limit`?",
        ),
        (
            "command: a\ntime_limit: {signal: TERM}\n",
            "`signal` is not a key of `time_limit` | hint: known keys: limit, warn, grace",
        ),
    ] {
        let found = complaint("job.yaml", text);
        assert!(found.contains(expected), "{found}");
    }
    let found = complaint("job.json", "{\n \"command\": [\"a\"],\n \"nmae\": \"x\"}");
    assert!(found.contains("job.json, line 3: `nmae`") && found.contains("`name`"), "{found}");
}

#[test]
fn wrong_types_and_broken_text_name_the_place() {
    for (name, text, expected) in [
        ("job.yaml", "command: a\npriority: high\n", "line 2: `priority` must be a whole number"),
        (
            "job.yaml",
            "command: a\nresources:\n  memory: lots\n",
            "line 3: `resources.memory`: `lots`",
        ),
        ("job.yaml", "command: [a\n", "this YAML cannot be read"),
        ("job.yaml", "command: {a: b}\n", "`command` must be a list of words"),
        ("job.yaml", "command: true\n", "put it in quotes"),
        ("job.yaml", "- command: a\n", "a list"),
        ("job.yaml", "just words\n", "a single value"),
        ("job.yaml", "", "no job in it"),
        ("job.yaml", "# only a comment\n", "no job in it"),
        ("job.yaml", "name: x\n", "a job needs a command or a script"),
        ("job.yaml", "command: a\n---\nname: y\n", "job.yaml: job 2: command"),
        ("job.yaml", "command: a\narray: 1-x\n", "not an array of indices"),
        ("job.yaml", "command: a\narray: 1-3\neach: [a]\n", "not both"),
        ("job.json", "{", "job.json, line 1"),
        ("job.json", "[]", "a list"),
        ("job.json", "{\"command\": [\"a\"]} trailing", "this JSON cannot be read"),
    ] {
        let found = complaint(name, text);
        assert!(found.contains(expected), "{text:?}: {found}");
    }
}

#[test]
fn hostile_files_end_in_a_message() {
    let deep_yaml = format!("command: {}", "[".repeat(20_000));
    let deep_json = format!("{{\"command\": {}", "[".repeat(20_000));
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let above = level - 1;
        let copies = vec![format!("*a{above}"); 9].join(", ");
        writeln!(bomb, "a{level}: &a{level} [{copies}]").unwrap();
    }
    for (name, text) in [
        ("job.yaml", deep_yaml.as_str()),
        ("job.json", deep_json.as_str()),
        ("job.yaml", bomb.as_str()),
        ("job.yaml", "\u{1b}[2J\u{7}: x\n"),
        ("job.yaml", "command: !!binary zzzz\n"),
        ("job.yaml", &format!("{}: 1\n", "k".repeat(100_000))),
    ] {
        let found = complaint(name, text);
        assert!(found.len() < 2_000, "{} bytes of complaint", found.len());
    }
}
