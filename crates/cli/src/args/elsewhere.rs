//! Options of other schedulers, and which of `run` does what people want of them.
//!
//! They are not taken as ours: most mean a little less or more there, and a job that runs otherwise
//! than meant is worse than one that is refused with the word to write.

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// What a word means elsewhere, and what to write here.
pub(super) struct Row {
    pub(super) words: &'static [&'static str],
    /// Options of `run`, as they would be typed.
    pub(super) ours: &'static [&'static str],
    means: &'static str,
}

const fn row(
    words: &'static [&'static str],
    ours: &'static [&'static str],
    means: &'static str,
) -> Row {
    Row { words, ours, means }
}

/// Slurm's, HTCondor's, GNU parallel's, HyperQueue's and Docker's, by what is wanted.
pub(super) const ROWS: &[Row] = &[
    row(&["-n", "--ntasks"], &["--array", "1-4"], "four tasks, each with its own $SHIPWAY_INDEX"),
    row(&["-a"], &["--array", "1-4"], "four tasks, each with its own $SHIPWAY_INDEX"),
    row(
        &["-c", "--cpus-per-task", "--request_cpus", "--request-cpus", "--cores", "--threads"],
        &["--cpus", "4"],
        "so many cores for each task",
    ),
    row(
        &["-G", "--gres", "--gpus-per-task", "--gpus-per-node", "--request_gpus"],
        &["--gpus", "2"],
        "so many GPUs for each task; --gpus A100:2 for a model",
    ),
    row(
        &["--mem", "--mem-per-cpu", "--request_memory", "--request-memory", "--ram"],
        &["--memory", "16GB"],
        "so much for each task, however many cores it has",
    ),
    row(
        &["--request_disk", "--request-disk", "--tmp"],
        &["--disk", "10GB"],
        "so much of the node's disk for each task",
    ),
    row(&["-L", "--licenses"], &["--resource", "licence=1"], "something that a site counts itself"),
    row(
        &["-t", "--time", "--walltime", "--timeout", "--time-request"],
        &["--time-limit", "1h30m"],
        "how long each task may run",
    ),
    row(
        &["-p", "--partition", "-q", "--queue", "--qos", "-M", "--clusters"],
        &["--tag", "infiniband"],
        "only sites that have this word; which partition a site uses is in its file",
    ),
    row(
        &["-C", "--constraint"],
        &["--requirements", "HasAVX2"],
        "an expression that has to hold for the node",
    ),
    row(
        &["-P", "-j", "--jobs", "--parallel", "--max-procs", "--max_materialize"],
        &["--max-running", "4"],
        "so many tasks of the job at a time; without it, as many as there is room for",
    ),
    row(
        &["--fast", "--urgent", "--nice", "--prio"],
        &["--priority", "10"],
        "jobs with a higher number start first",
    ),
    row(
        &["-l", "--arg-file", "--each-line", "--from-json"],
        &["--each", "FILE"],
        "one task for each line of FILE, which is {line} in the command",
    ),
    row(
        &["--requeue", "--max_retries", "--max-retries", "--crash-limit"],
        &["--retries", "3"],
        "so many more tries for a task that fails",
    ),
    row(&["--dependency"], &["--after", "12:ok"], "wait until job 12 has succeeded"),
    row(&["-J", "--job-name"], &["--name", "NAME"], "what the job is called in lists"),
    row(&["-i", "--stdin-file"], &["--stdin", "FILE"], "what the task reads"),
    row(&["-o"], &["--stdout", "FILE"], "what the task prints, when it has ended"),
    row(&["--error"], &["--stderr", "FILE"], "its error output, when it has ended"),
    row(
        &["-e"],
        &["--stderr", "FILE"],
        "its error output, when it has ended; --env NAME=VALUE for a variable",
    ),
    row(&["--export"], &["--env", "NAME"], "a copy of your variable; --export-all for all"),
    row(&["-D", "--chdir", "--cwd"], &["--workdir", "DIR"], "where the task runs"),
    row(
        &["--container", "--container-image", "--docker-image", "--container_image"],
        &["--image", "docker://debian:12"],
        "the image whose files the task runs on",
    ),
    row(
        &["-v", "--volume", "--mount", "--container-mounts"],
        &["--bind", "/data:/data:rw"],
        "a folder of the node, shown inside; without `:rw` it cannot be written",
    ),
    row(&["--test-only", "--dryrun"], &["--dry-run"], "show what would run, and submit nothing"),
    row(&["-b", "--background", "--no-wait"], &["--detach"], "print the job's id and return"),
];

/// Says what to write, if a word that `run` does not know means something elsewhere.
pub(super) fn with_advice(mut error: clap::Error) -> clap::Error {
    if error.kind() != ErrorKind::UnknownArgument {
        return error;
    }
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidArg) else { return error };
    let Some(row) = ROWS.iter().find(|row| row.words.contains(&word.as_str())) else {
        return error;
    };
    let tip = format!("here it is `{}`: {}", row.ours.join(" "), row.means);
    // What is only spelled like it is not what is meant.
    error.remove(ContextKind::SuggestedArg);
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    error
}
