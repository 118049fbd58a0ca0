//! `cargo xtask demo`: Shipway in a temporary home, doing what people do with it.
//!
//! Uses the real binary through its command line only, shows each command as one would type it,
//! and leaves nothing behind: no process and no file, also after Ctrl-C.

mod follow;

use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context as _, Result, bail};

use crate::children;
use crate::instance::{self, Instance};

/// `run` ends with this when the server refuses a job, with the reason on standard error.
const REFUSED: i32 = 3;

const NEXT: &str = "\
What to type next:
  cargo build --release                     then put target/release/shipway on your PATH
  shipway up                                the same server, in your own home
  shipway run -- echo hello                 in another terminal: submit and follow
  shipway run --array 1-100 -- sh -c 'echo $SHIPWAY_INDEX'
  shipway jobs · shipway logs ID · shipway why ID";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Build and show the optimised binary (slow to build)
    #[arg(long)]
    release: bool,
    /// Show this `shipway` instead of building one
    #[arg(long, value_name = "FILE", conflicts_with = "release")]
    binary: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let binary = if let Some(binary) = &args.binary {
        binary.clone()
    } else {
        println!("building shipway …");
        instance::build(args.release)?
    };
    let instance = Instance::start(&binary, &std::env::temp_dir())?;
    println!("`shipway up` runs in a temporary home on a free port.\n");
    let shown = show(&instance);
    if shown.is_err() && !children::interrupted() {
        eprintln!("the server's last words:\n{}", instance.log_tail());
    }
    shown?;
    instance.stop()?;
    println!("\nThe server has ended, nothing is left running, and the home is removed.\n");
    println!("{NEXT}");
    Ok(())
}

fn show(instance: &Instance) -> Result<()> {
    let mut jobs = vec![hello(instance)?];
    jobs.extend(chain(instance)?);
    jobs.push(stubborn(instance)?);
    let gpu = on_a_gpu(instance)?;
    println!();
    follow::until_done(instance, &jobs)?;
    println!();
    shell(instance, &["jobs"])?;
    if let Some(id) = gpu {
        explain_gpu(instance, &id)?;
    }
    Ok(())
}

/// Twenty tasks of one job.
fn hello(instance: &Instance) -> Result<String> {
    let task = "echo task $SHIPWAY_INDEX";
    submit(instance, &["--name", "hello", "--array", "1-20", "--", "sh", "-c", task])
}

/// Three jobs, each after the one before.
fn chain(instance: &Instance) -> Result<Vec<String>> {
    let fetch = submit(instance, &["--name", "fetch", "--", "sh", "-c", "echo fetching"])?;
    let after = ["--name", "train", "--after", &fetch, "--", "sh", "-c", "echo training"];
    let train = submit(instance, &after)?;
    let after = ["--name", "report", "--after", &train, "--", "sh", "-c", "echo reporting"];
    let report = submit(instance, &after)?;
    Ok(vec![fetch, train, report])
}

/// Fails twice, then works.
fn stubborn(instance: &Instance) -> Result<String> {
    let task = "test \"$SHIPWAY_ATTEMPT\" -ge 3";
    let retries = ["--name", "stubborn", "--retries", "3", "--retry-delay", "200ms"];
    submit(instance, &[&retries[..], &["--", "sh", "-c", task]].concat())
}

/// None where the server refuses: a machine without a GPU may say so at once.
fn on_a_gpu(instance: &Instance) -> Result<Option<String>> {
    let args = ["run", "-d", "--name", "gpu", "--gpus", "1", "--", "nvidia-smi", "-L"];
    typed(&args);
    let (status, id) = children::capture(&mut instance.command(&args))?;
    match status.code() {
        Some(0) => {
            println!("{}", id.trim());
            Ok(Some(id.trim().to_owned()))
        }
        Some(REFUSED) => Ok(None),
        _ => bail!("`shipway run` ended with {status}"),
    }
}

/// Why the job waits or what it was given; then it is cancelled, if it still waits.
fn explain_gpu(instance: &Instance, id: &str) -> Result<()> {
    shell(instance, &["why", id])?;
    if !follow::is_over(instance, id)? {
        shell(instance, &["cancel", id])?;
    }
    Ok(())
}

/// Submits without waiting; the id is all that standard output holds.
fn submit(instance: &Instance, args: &[&str]) -> Result<String> {
    let args = [&["run", "-d"], args].concat();
    typed(&args);
    let id = children::stdout_of(&mut instance.command(&args))?.trim().to_owned();
    if id.is_empty() || id.contains(char::is_whitespace) {
        bail!("`shipway run -d` printed `{id}` where an id was expected");
    }
    println!("{id}");
    Ok(id)
}

/// Runs a command for the reader to see.
fn shell(instance: &Instance, args: &[&str]) -> Result<()> {
    typed(args);
    let mut command = instance.command(args);
    children::run(command.stdout(Stdio::inherit())).context("a command of the demo failed")
}

fn typed(args: &[&str]) {
    println!("$ shipway {}", quoted(args));
}

/// Arguments as a shell would want them.
fn quoted(args: &[&str]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    let quote = |arg: &&str| {
        if !arg.is_empty() && arg.chars().all(plain) {
            (*arg).to_owned()
        } else {
            format!("'{}'", arg.replace('\'', r"'\''"))
        }
    };
    args.iter().map(quote).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers like `shipway` where the demo asks; jobs wait at the first look and end at the
    /// second. What `up` really does is tested with the real thing.
    const STAND_IN: &str = r#"
        cd "$SHIPWAY_HOME" || exit 9
        case "$1" in
        up) echo '{}' > server.json; trap 'exit 0' TERM; while :; do sleep 0.05; done ;;
        run) case "$*" in *--gpus*) test -z "$GPU_EXIT" || exit "$GPU_EXIT" ;; esac
            echo "$*" >> asked; wc -l < asked | tr -d ' ' ;;
        wait) until grep -q . looked; do sleep 0.05; done ;;
        jobs) state=waiting; test -s looked && state=succeeded; echo x >> looked
            n=$(wc -l < asked); i=1; sep='['
            while [ $i -le $n ]; do
                s=$state; sed -n "${i}p" asked | grep -q gpus && s=waiting
                printf '%s{"id":"%s","name":"n","state":"%s"}' "$sep" $i $s; sep=,; i=$((i + 1))
            done; echo ']' ;;
        why) ;;
        cancel) echo "cancel $2" >> asked ;;
        esac"#;

    fn shown(stand_in: &str) -> String {
        let folder = tempfile::tempdir().expect("a folder");
        let binary = instance::tests::stand_in(folder.path(), stand_in);
        let instance = Instance::start(&binary, folder.path()).expect("it starts");
        show(&instance).expect("the demo runs");
        let asked = instance.command(&[]).get_envs().find_map(|(name, home)| {
            let home = (name == "SHIPWAY_HOME").then_some(home?)?;
            std::fs::read_to_string(std::path::Path::new(home).join("asked")).ok()
        });
        instance.stop().expect("it ends");
        asked.expect("a list of what was asked")
    }

    #[test]
    fn jobs_are_chained_and_a_waiting_gpu_job_is_cancelled() {
        let asked = shown(STAND_IN);
        assert!(asked.contains("--name train --after 2 "), "{asked}");
        assert!(asked.contains("--name report --after 3 "), "{asked}");
        assert!(asked.ends_with("--gpus 1 -- nvidia-smi -L\ncancel 6\n"), "{asked}");
    }

    #[test]
    fn a_machine_that_refuses_gpus_ends_the_demo_well() {
        let asked = shown(&format!("GPU_EXIT=3\n{STAND_IN}"));
        assert!(!asked.contains("--gpus") && !asked.contains("cancel"), "{asked}");
    }

    #[test]
    fn what_is_shown_can_be_pasted() {
        assert_eq!(quoted(&["run", "--array", "1-20"]), "run --array 1-20");
        assert_eq!(quoted(&["sh", "-c", "echo $X"]), "sh -c 'echo $X'");
        assert_eq!(quoted(&["it's", ""]), r"'it'\''s' ''");
    }
}
