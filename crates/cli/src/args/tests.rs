//! What may be typed and what may not, and that every command explains itself.

use super::*;
use clap::CommandFactory;
use shipway_model::{Attempt, Bytes, Condition, Cores, Millis};

fn parse(line: &str) -> Result<Cli, clap::Error> {
    super::parse(std::iter::once("shipway").chain(line.split_whitespace()))
}

#[test]
fn good_lines_are_taken() {
    for line in [
        "up",
        "up --listen 0.0.0.0:1 --tls --no-pilot --log-format json --log-level debug",
        "up --cert c --key k",
        "up --gpu-sharing mps",
        "run -- true",
        "run true --not-ours -d",
        "run -d --json -- true",
        "run --dry-run -- true",
        "run --array 1-10 --max-running 2 -- ./fit",
        "run --each rows -- ./fit {line}",
        "run --script job.sh",
        "run --script job.sh -- one two",
        "run --after 1,2:any --after 3:failed -- true",
        "run --gpus A100:40GB..:2 --cpus 0.5 --memory 1GB --resource lic=2 -- true",
        "run --time-limit 1h --warn-signal USR1 --grace 10s -- true",
        "run --priority -5 -- true",
        "run --stdin i --stdout o.{job} --stderr o.{job} --event-log l -- true",
        "run --input a --input b/:c --output new --output-dir d --output-on success -- true",
        "submit job.yaml --dry-run",
        "submit -",
        "jobs --state failed --label a=b --label c=d --limit 5 --before 9 --all",
        "show 12/3",
        "logs -f 12 --stderr --attempt 2",
        "wait 1 2 --timeout 90",
        "cancel 1 2/3",
        "cancel --label a=b --state waiting",
        "retry 1 --state failed",
        "why 1",
        "gpus 0.25",
        "nodes",
        "doctor",
        "doctor --quick --image docker://ubuntu:24.04 --dir d --images i --json",
        "top --once --all",
        "image pull docker://ubuntu:24.04 --insecure head:5000 --credentials f --store d",
        "image list --json",
        "image show 4f5e6d7c",
        "image rm a b --store d",
        "image gc --unused-for 30d --max-size 200GB",
        "classad eval 1+1 --ad f --target -",
        "classad match a b --json",
        "user add ada --role admin",
        "token new --note x --lasts 90d",
        "token revoke abc",
        "completions bash",
        "pilot --dir d --home h --token-file f",
        "pilot --dir d --server http://x --token-file f --lease 5m --inner",
        "openapi",
        "version",
        "--json jobs",
    ] {
        if let Err(error) = parse(line) {
            panic!("{line}: {error}");
        }
    }
}

#[test]
fn bad_lines_are_wrong_usage_and_say_why() {
    for (line, why) in [
        ("", "Usage"),
        ("run", "<CMD>"),
        ("run --array x -- true", "not an array of indices"),
        ("run --array 1-2 --each f -- true", "cannot be used with"),
        ("run --gpus 0 -- true", "GPU request"),
        ("run --memory lots -- true", "a size"),
        ("run --label novalue -- true", "KEY=VALUE"),
        ("run --env =x -- true", "names no variable"),
        ("run --resource lic=x -- true", "whole number"),
        ("run --grace 1s -- true", "--time-limit"),
        ("run --retry-on 300 -- true", "end to retry on"),
        ("run --after 1:never -- true", "dependency"),
        ("run --key é -- true", "a key has"),
        ("jobs --state gone", "not a state"),
        ("run --array 5-1 -- true", "the array goes backwards: 5-1 (write 1-5)"),
        ("why 1/2", "`shipway why 1` says why"),
        ("why x", "is not a job"),
        ("show x", "is not a job"),
        ("show 1/x", "is not a job"),
        ("logs 1 --stdout --stderr", "cannot be used with"),
        ("logs 1 --attempt 0", "counted from 1"),
        ("wait", "<ID>"),
        ("cancel", "ID[/INDEX]"),
        ("cancel --state waiting", "ID[/INDEX]"),
        ("cancel 1 --label a=b", "cannot be used with"),
        ("up --cert c", "--key"),
        ("up --tls --allow-plain-text", "cannot be used with"),
        ("image pull ubuntu:24.04", "did you mean `docker://ubuntu:24.04`?"),
        ("image rm", "<IMAGES>"),
        ("image gc --max-size lots", "a size"),
        ("user add a/b", "user name"),
        ("user add a --role king", "role"),
        ("token revoke ../users", "not the id of a token"),
        ("pilot --dir d --token-file f", "--home"),
        ("pilot --dir d --home h --server u --token-file f", "cannot be used with"),
        ("pilot --dir d --server u", "--token-file"),
        ("nonsense", "unrecognized subcommand"),
    ] {
        let error = parse(line).expect_err(line);
        assert_eq!(error.exit_code(), 2, "{line}");
        let text = error.to_string();
        assert!(text.contains(why), "{line}: {text}");
    }
}

#[test]
fn options_after_the_command_are_the_commands_own() {
    let cli = parse("run -d python fit.py --json -d").expect("good");
    let Command::Run(args) = cli.command else { panic!("not run") };
    assert_eq!(args.command, ["python", "fit.py", "--json", "-d"]);
    assert!(args.detach && !cli.json);
}

/// The words of `run` before the command, the command, and what stands in the way of both.
#[test]
fn an_unknown_option_never_becomes_the_program() {
    for (line, why) in [
        ("run --gpu 2 -- true", "a similar argument exists: '--gpus'"),
        ("run --gpu=2 -- true", "a similar argument exists: '--gpus'"),
        ("run --gpu 2 true", "a similar argument exists: '--gpus'"),
        ("run --memroy 1GB -- true", "a similar argument exists: '--memory'"),
        ("run --dry -- true", "a similar argument exists: '--dry-run'"),
        ("run --dry-run --key k -- true", "cannot be used with"),
        ("run -n 4 -- true", "unexpected argument '-n'"),
        ("run -n4 -- true", "unexpected argument '-n'"),
        ("run -x true", "unexpected argument '-x'"),
        ("run -dx true", "unexpected argument '-x'"),
        ("run -d -n 4 true", "unexpected argument '-n'"),
        ("run -5 true", "unexpected argument '-5'"),
        ("run --script job.sh --fast", "unexpected argument '--fast'"),
        ("run --array 1-2 --parallel 4 true", "unexpected argument '--parallel'"),
        ("run --priority --gpu -- true", "a similar argument exists: '--gpus'"),
        ("classad eval --taget", "`--taget` is not an option"),
        ("classad eval --taget=f", "`--taget=f` is not an option"),
        ("submit --dry --set a=b job.sub", "a similar argument exists: '--dry-run'"),
        ("image rm --all a", "unexpected argument '--all'"),
        ("wait -x 1", "unexpected argument '-x'"),
        ("cancel --lable a=b", "a similar argument exists: '--label'"),
    ] {
        let error = parse(line).expect_err(line);
        assert_eq!(error.exit_code(), 2, "{line}");
        let text = error.to_string();
        assert!(text.contains(why), "{line}: {text}");
        assert!(!text.contains("-- -"), "who follows this runs a program `-…`: {line}: {text}");
    }
}

#[test]
fn the_command_begins_with_the_first_word_or_after_two_dashes() {
    for (line, command) in [
        ("run echo -n x", "echo -n x"),
        ("run echo --json", "echo --json"),
        ("run -d echo --gpu 2 -- x", "echo --gpu 2 -- x"),
        ("run -- --gpu 2", "--gpu 2"),
        ("run -- -x", "-x"),
        ("run -d -- echo -- --json", "echo -- --json"),
        ("run --gpus 2 true -d --gpus 4", "true -d --gpus 4"),
        ("run --script job.sh one --two", "one --two"),
        ("run --script job.sh -- --one two", "--one two"),
        ("run - -x", "- -x"),
    ] {
        let cli = parse(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        assert!(!cli.json, "{line}");
        let Command::Run(args) = cli.command else { panic!("not run") };
        assert_eq!(args.command.join(" "), command, "{line}");
    }
    for line in ["classad eval -x", "classad eval -1+2", "classad eval --ad f -x"] {
        assert!(parse(line).is_ok(), "{line}");
    }
}

#[test]
fn values_arrive_as_their_types() {
    let line = "run --cpus 1.5 --memory 2GiB --grace 1m --time-limit 02:00:00 --after 7:any \
                --env A=b=c --env HOME --retries 3 -- x";
    let Command::Run(args) = parse(line).expect("good").command else { panic!("not run") };
    assert_eq!(args.needs.cpus, Some(Cores { milli: 1_500 }));
    assert_eq!(args.needs.memory, Some(Bytes(2 << 30)));
    assert_eq!(args.ends.time_limit, Some(Millis(7_200_000)));
    assert_eq!(args.tasks.after[0].condition, Condition::Any);
    let env: Vec<_> = args.program.env.iter().map(|e| (&*e.name, e.value.as_deref())).collect();
    assert_eq!(env, [("A", Some("b=c")), ("HOME", None)]);
    let Command::Logs(args) = parse("logs 12/3 --attempt 4").expect("good").command else {
        panic!("not logs")
    };
    assert_eq!((args.target.to_string(), args.attempt), ("12/3".into(), Some(Attempt(4))));
}

#[test]
fn every_command_has_an_example_in_its_help() {
    fn check(command: &mut clap::Command, path: &str) {
        let help = command.render_long_help().to_string();
        assert!(help.contains("Example"), "`{path} --help` has no example");
        assert!(help.contains("shipway "), "{path}");
        let names: Vec<String> = command.get_subcommands().map(|c| c.get_name().into()).collect();
        for name in names.iter().filter(|name| *name != "help") {
            let inner = command.find_subcommand_mut(name).expect("listed");
            check(inner, &format!("{path} {name}"));
        }
    }
    let mut top = Cli::command();
    top.build();
    check(&mut top, "shipway");
}

/// The examples are lines that would be taken.
#[test]
fn the_examples_of_run_parse() {
    let lines = examples::RUN.lines().filter(|line| line.starts_with("  shipway "));
    let mut seen = 0;
    for line in lines {
        assert!(parse(line.trim().trim_start_matches("shipway ")).is_ok(), "{line}");
        seen += 1;
    }
    assert!(seen >= 4, "only {seen} examples");
}

/// And what they are told to write is taken.
#[test]
fn who_writes_what_another_scheduler_takes_is_told_our_word() {
    for line in ["run -n 4 true", "run --parallel 4 true", "run --fast true", "run --gres=gpu:2 x"]
    {
        assert!(parse(line).expect_err(line).to_string().contains("here it is `--"), "{line}");
    }
    let run = Cli::command().find_subcommand("run").expect("a command").clone();
    let known = |word: &str| {
        run.get_arguments().any(|arg| arg.get_long() == Some(word.trim_start_matches('-')))
    };
    let mut seen = std::collections::BTreeSet::new();
    for row in elsewhere::ROWS {
        let ours = row.ours.join(" ");
        parse(&format!("run {ours} -- true")).unwrap_or_else(|error| panic!("{ours}: {error}"));
        for word in row.words {
            assert!(seen.insert(word) && !known(word), "{word} is there twice");
            for line in [format!("run {word} 4 true"), format!("run {word}=4 -- true")] {
                let text = parse(&line).expect_err(&line).to_string();
                assert!(text.contains(&format!("here it is `{ours}`")), "{line}: {text}");
                assert!(!text.contains("similar"), "{line}: {text}");
            }
        }
    }
    // Other commands have other options, and nobody's are guessed after the program.
    assert!(!parse("jobs -n 4").expect_err("unknown").to_string().contains("here it is"));
    assert!(parse("run true -n 4").is_ok());
}
