//! From typed options to the specification that is sent.

use super::*;
use crate::args::{Cli, Command};
use clap::Parser;

fn built(line: &str) -> Result<JobSpec, Failure> {
    let words = ["shipway", "run"].into_iter().chain(line.split_whitespace());
    let Command::Run(args) = Cli::try_parse_from(words).expect(line).command else {
        panic!("not run")
    };
    let variables = [("HOME", "/home/ada"), ("SHIPWAY_TOKEN", "secret"), ("LANG", "C")];
    let variables = variables.map(|(name, value)| (name.into(), value.into())).to_vec();
    build(*args, Caller { variables, directory: Ok("/here".into()) })
}

#[test]
fn the_current_directory_is_the_default_and_private_is_none() {
    for (line, expected) in [
        ("true", Some("/here")),
        ("--workdir private -- true", None),
        ("--workdir /there -- true", Some("/there")),
        ("--workdir . -- true", Some("/here")),
        ("--workdir sub/dir -- true", Some("/here/sub/dir")),
    ] {
        assert_eq!(built(line).expect(line).workdir.as_deref(), expected, "{line}");
    }
}

#[test]
fn the_environment_is_clean_unless_asked_for() {
    assert!(built("true").expect("good").env.is_empty());
    let named = built("--env HOME --env X=1 -- true").expect("good").env;
    assert_eq!(
        named.iter().map(|(k, v)| format!("{k}={v}")).collect::<Vec<_>>(),
        ["HOME=/home/ada", "X=1"]
    );
    let all = built("--export-all --env LANG=de -- true").expect("good").env;
    assert_eq!(all.get("LANG").map(String::as_str), Some("de"));
    assert!(all.contains_key("HOME") && !all.contains_key("SHIPWAY_TOKEN"));
    let error = built("--env NOT_SET -- true").expect_err("refused");
    assert!(error.to_string().contains("no such variable"), "{error}");
    assert!(error.hint().expect("hint").contains("--env NOT_SET=VALUE"));
}

#[test]
fn a_resource_is_named_once() {
    let named = built("--resource a=1 --resource b=2 -- true").expect("good").resources.named;
    assert_eq!(named.len(), 2);
    let error = built("--resource a=1 --resource a=2 -- true").expect_err("refused");
    assert!(error.to_string().contains("--resource a is given twice"), "{error}");
    assert!(error.hint().expect("hint").contains("--resource a=N"));
}

#[test]
fn a_range_the_wrong_way_round_is_refused() {
    let error = built("--gpus 40GB..20GB -- true").expect_err("refused");
    assert!(error.to_string().contains("write 20GB..40GB"), "{error}");
}

#[test]
fn files_are_read_into_the_job() {
    let dir = tempfile::tempdir().expect("directory");
    let (rows, script) = (dir.path().join("rows"), dir.path().join("script"));
    std::fs::write(&rows, "a\nb\n").expect("written");
    std::fs::write(&script, "#!/bin/sh\ntrue\n").expect("written");
    let line = format!("--each {} --script {} -- arg", rows.display(), script.display());
    let spec = built(&line).expect("good");
    assert_eq!(spec.each.expect("rows").len(), 2);
    assert!(spec.script.expect("script").starts_with("#!"));
    assert_eq!(spec.command, ["arg"]);
}

#[test]
fn what_cannot_run_is_refused_before_it_is_sent() {
    let dir = tempfile::tempdir().expect("directory");
    let binary = dir.path().join("binary");
    std::fs::write(&binary, [0xff, 0xfe, 0x41]).expect("written");
    for (line, why) in [
        ("--each - --script - -- x".to_string(), "standard input"),
        (format!("--script {}", binary.display()), "not UTF-8"),
        ("--script /no/such/file".into(), "cannot read /no/such/file"),
        ("--max-running 0 -- x".into(), "max_running"),
        ("--priority 9999999 -- x".into(), "priority"),
    ] {
        let error = built(&line).expect_err(&line);
        assert_eq!(error.exit(), crate::failure::Exit::WRONG_USAGE, "{line}");
        assert!(error.to_string().contains(why), "{line}: {error}");
    }
}

#[test]
fn limits_and_needs_are_filled_in() {
    let spec = built("--retries 2 --time-limit 1h --gpus 2 --memory 1GB -- x").expect("good");
    assert_eq!(spec.retries, RetryPolicy { limit: 2, ..RetryPolicy::default() });
    assert_eq!(spec.time_limit.expect("limit").grace, shipway_model::limits::DEFAULT_GRACE);
    assert_eq!(spec.resources.gpu.expect("gpu").count, 2);
    assert_eq!(spec.resources.cpus, Resources::default().cpus);
}
