//! What is handed in for an allocation: a submit description, the script that starts the pilot on
//! its node, and the script that brings both to HTCondor. Pure: texts from an [`Order`].
//!
//! The pilot's credentials are a file of the job. Whoever may list the queue sees its name and not
//! what is in it: HTCondor keeps the files of a job in a folder that only its account opens, at the
//! schedd and on the node. To get there they pass through the login node, which has only what is
//! fed to a command. So one shell is fed everything: it makes a folder that only the account
//! opens, hands in with `-spool`, by which the schedd takes copies of its own before the command
//! ends, and removes the folder. Nothing has to stay on the login node while the job waits, and
//! nothing secret is an argument, an environment variable or an attribute of the job.

use super::Settings;
use super::lines::{self, requirements};
use super::quoting::{here_document, shell_word, string, submit_string};
use crate::batch::{Naming, Order, OrderedGpus, PilotStart};
use crate::exits::{NO_FOLDER, OTHER_PROGRAM};
use shipway_model::GpuOption;
use std::fmt::Write as _;

/// The attribute that an allocation is found by, with its name.
pub(super) const NAME: &str = "ShipwayAllocation";

/// Why we had the engine remove a job: it keeps the words for us.
pub(super) const WALL: &str = "shipway: the time it was given is over";
pub(super) const TAKEN: &str = "shipway: it lost its node";
pub(super) const MEMORY: &str = "shipway: it took more memory than it was given";
pub(super) const NO_FILES: &str = "shipway: its files did not come";

/// HTCondor holds a job with it until its files have been spooled.
pub(super) const HELD_FOR_FILES: i64 = 16;
/// A cgroup's limit was passed.
pub(super) const HELD_FOR_MEMORY: i64 = 34;
/// Files come with the command that hands the job in; after this it must have died.
const FILES_LIMIT_S: u32 = 1_800;
/// One line of the list of jobs to run, and one file of credentials each.
const MAX_NODES: u32 = 1_000;

/// The shell script that hands it in, or why it cannot be.
pub(super) fn script(
    order: &Order,
    naming: &Naming,
    settings: &Settings,
) -> Result<String, String> {
    let mut files = vec![("shipway-submit".to_string(), description(order, naming, settings)?)];
    files.push(("shipway-pilot".into(), starter(&order.pilot)?));
    for (number, text) in order.pilot.credentials.iter().enumerate() {
        files.push((format!("credentials.{number}.json"), text.clone()));
    }
    files.extend(order.pilot.files.iter().cloned());
    let mut script = String::from(FOLDER);
    for (name, text) in &files {
        let written = here_document(name, text);
        script += &written.ok_or_else(|| format!("file `{name}` has a zero byte"))?;
    }
    let at = settings.words().iter().map(|word| shell_word(word)).collect::<Option<Vec<_>>>();
    let at = at.ok_or("the schedd's or the pool's name has a zero byte")?.join(" ");
    let name = naming.of(&order.allocation);
    let name = string(&name).ok_or("its name has control characters")?;
    let ours = format!("{NAME} =?= {name} && HoldReasonCode =?= {HELD_FOR_FILES}");
    let ours = shell_word(&ours).ok_or("its name has a zero byte")?;
    let _ = write!(
        script,
        "condor_submit -terse -spool {at} shipway-submit < /dev/null\n\
         code=$?\n\
         # A job whose files did not all come stays in the queue, held for ever.\n\
         [ $code = 0 ] || condor_rm {at} -constraint {ours} > /dev/null 2>&1 < /dev/null\n\
         exit $code\n"
    );
    Ok(script)
}

/// A folder for as long as the command takes; those that a killed one left go first.
const FOLDER: &str = r#"umask 077
tmp=${TMPDIR:-/tmp}
find "$tmp/." -maxdepth 1 -type d -name 'shipway-submit.*' -user "$(id -un)" -mmin +120 \
    -exec rm -rf {} + < /dev/null 2> /dev/null
dir=$(mktemp -d "$tmp/shipway-submit.XXXXXXXXXX") || exit 73
trap 'cd /; rm -rf "$dir"' EXIT
trap 'exit 75' HUP INT TERM
cd "$dir" || exit 73
"#;

/// The submit description.
pub(super) fn description(
    order: &Order,
    naming: &Naming,
    settings: &Settings,
) -> Result<String, String> {
    check(order)?;
    let name = naming.of(&order.allocation);
    let name = submit_string(&name).ok_or("its name has control characters")?;
    let mut files = vec!["credentials.$(Process).json"];
    files.extend(order.pilot.files.iter().map(|(name, _)| name.as_str()));
    if order.pilot.sha256.is_some() {
        // From the machine that hands in: nodes need not see its folder.
        files.push(listed(&order.pilot.program)?);
    }
    let mut text = format!(
        "universe = vanilla\n\
         executable = shipway-pilot\n\
         transfer_executable = true\n\
         should_transfer_files = YES\n\
         when_to_transfer_output = ON_EXIT\n\
         transfer_input_files = {}\n\
         transfer_output_files = \"\"\n\
         output = /dev/null\n\
         error = /dev/null\n\
         JobBatchName = {name}\n\
         +{NAME} = {name}\n",
        files.join(", ")
    );
    text += &amounts(order, settings)?;
    text += &ending(order);
    let (wanted, rest) = requirements(&order.submit_lines)?;
    for line in rest {
        let _ = writeln!(text, "{}", lines::checked(line)?);
    }
    // Its credentials are good for one start: what lost its node must not get another before the
    // engine comes to remove it. By the date: the engine's own count of starts is not on its disk
    // yet when it is killed, and is nothing when it comes back.
    let wanted = wanted.map(|it| format!("({it}) && ")).unwrap_or_default();
    let _ = writeln!(text, "requirements = {wanted}(JobStartDate =?= undefined)");
    let _ = writeln!(text, "queue {}", order.nodes);
    Ok(text)
}

/// A path as it may stand in a list of files.
fn listed(path: &str) -> Result<&str, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    let good = path.starts_with('/') && path.chars().all(plain);
    good.then_some(path).ok_or_else(|| format!("`{path}` cannot stand in HTCondor's list of files"))
}

fn check(order: &Order) -> Result<(), String> {
    if order.nodes == 0 || order.nodes > MAX_NODES {
        return Err(format!("{} nodes; from 1 to {MAX_NODES} can be asked for", order.nodes));
    }
    if order.pilot.credentials.len() != order.nodes as usize {
        let found = order.pilot.credentials.len();
        return Err(format!("credentials for {found} pilots, and {} nodes", order.nodes));
    }
    for (name, _) in &order.pilot.files {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        let ours = name.starts_with("credentials.") || name.starts_with("shipway-");
        let good = name.bytes().all(plain) && !name.starts_with(['.', '-']) && !name.is_empty();
        if !good || ours {
            return Err(format!("`{name}` cannot be the name of a file beside a pilot's own"));
        }
    }
    if order.warning >= order.wall {
        return Err("the warning would come before the start".into());
    }
    Ok(())
}

/// What each node is to have.
fn amounts(order: &Order, settings: &Settings) -> Result<String, String> {
    let cpus = order.cpus.milli.div_ceil(1_000).max(1);
    let memory = order.memory.0.div_ceil(1 << 20).max(1);
    let mut text = format!("request_cpus = {cpus}\nrequest_memory = {memory}\n");
    let ours = order.gpus.as_ref().filter(|gpus| gpus.request != Some(GpuOption::None));
    if let Some(OrderedGpus { count, kind, .. }) = ours {
        let _ = writeln!(text, "request_gpus = {count}");
        if let Some(kind) = kind {
            let kind = submit_string(kind).ok_or("the kind of GPU has control characters")?;
            let _ = writeln!(text, "require_gpus = DeviceName == {kind}");
        }
    }
    match (&order.partition, settings.ce) {
        (None, false) => {}
        (Some(_), false) => return Err("an HTCondor pool has no partitions".into()),
        (partition, true) => {
            let minutes = order.wall.0.div_ceil(60_000);
            let _ = writeln!(text, "+xcount = {cpus}\n+maxMemory = {memory}");
            let _ = writeln!(text, "+maxWallTime = {minutes}");
            if let Some(queue) = partition {
                let queue = submit_string(queue).ok_or("the queue has control characters")?;
                let _ = writeln!(text, "+queue = {queue}");
            }
        }
    }
    Ok(text)
}

/// When and how it ends: once, warned, and never to be started again by the engine.
fn ending(order: &Order) -> String {
    let warning = order.warning.0.div_ceil(1_000);
    // It is warned by the removal: what it has until it is killed was taken off before.
    let until = order.wall.0.saturating_sub(order.warning.0).div_ceil(1_000);
    let taken = "JobStatus == 1 && JobStartDate =!= undefined";
    let wall = format!("JobStatus == 2 && time() - JobCurrentStartDate > {until}");
    let memory = format!("JobStatus == 5 && HoldReasonCode =?= {HELD_FOR_MEMORY}");
    let files = format!(
        "JobStatus == 5 && HoldReasonCode =?= {HELD_FOR_FILES} && \
         time() - EnteredCurrentStatus > {FILES_LIMIT_S}"
    );
    format!(
        "on_exit_remove = true\n\
         leave_in_queue = false\n\
         kill_sig = SIGTERM\n\
         want_graceful_removal = true\n\
         job_max_vacate_time = {warning}\n\
         periodic_remove = ({taken}) || ({wall}) || ({memory}) || ({files})\n\
         +PeriodicRemoveReason = ifThenElse(JobStatus == 1, \"{TAKEN}\", \
         ifThenElse(JobStatus == 2, \"{WALL}\", \
         ifThenElse(HoldReasonCode =?= {HELD_FOR_MEMORY}, \"{MEMORY}\", \"{NO_FILES}\")))\n"
    )
}

fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// What runs on the node. The files it finds beside itself are HTCondor's copies, which only the
/// account reads; HTCondor removes them with their folder when the job is over.
fn starter(pilot: &PilotStart) -> Result<String, String> {
    let word = |text: &str| shell_word(text).ok_or("an option has a zero byte");
    let base = match &pilot.scratch {
        Some(scratch) => word(scratch)?,
        None => "\"$here\"".into(),
    };
    let sent = pilot.sha256.map(|sha256| (base_name(&pilot.program), sha256.hex()));
    let program = match &sent {
        Some(_) => "\"$dir/shipway\"".to_owned(),
        None => word(&pilot.program)?,
    };
    let mut command = format!("{program} pilot");
    command += " --dir \"$dir\" --token-file \"$dir/credentials.json\"";
    for option in &pilot.options {
        let _ = write!(command, " {}", word(option)?);
    }
    let mut text = format!(
        "#!/bin/sh\n\
         # Starts one Shipway pilot in a folder of its own.\n\
         umask 077\n\
         here=${{_CONDOR_SCRATCH_DIR:-$PWD}}\n\
         dir=$(mktemp -d {base}/shipway.XXXXXXXXXX) || exit {NO_FOLDER}\n\
         mv \"$here\"/credentials.*.json \"$dir/credentials.json\" || exit {NO_FOLDER}\n"
    );
    for (name, _) in &pilot.files {
        let _ = writeln!(text, "mv \"$here\"/{name} \"$dir/{name}\" || exit {NO_FOLDER}");
    }
    let _ = writeln!(text, "cd \"$dir\" && chmod 600 ./* || exit {NO_FOLDER}");
    if let Some((name, hex)) = sent {
        let name = word(name)?;
        let _ = writeln!(
            text,
            "mv \"$here\"/{name} ./shipway && chmod 700 ./shipway || exit {NO_FOLDER}\n\
             printf '%s  %s\\n' {hex} ./shipway | sha256sum -c --status || exit {OTHER_PROGRAM}"
        );
    }
    match pilot.scratch {
        None => {
            let _ = writeln!(text, "exec {command}");
        }
        // Nobody else removes a folder that is not HTCondor's. The signal is passed on, and the
        // pilot waited for as long as it takes.
        Some(_) => {
            let _ = write!(
                text,
                "{command} &\n\
                 pilot=$!\n\
                 trap 'kill -TERM $pilot 2> /dev/null' TERM\n\
                 while :; do\n    \
                 wait $pilot\n    \
                 code=$?\n    \
                 kill -0 $pilot 2> /dev/null || break\n\
                 done\n\
                 cd / && rm -rf \"$dir\"\n\
                 exit $code\n"
            );
        }
    }
    Ok(text)
}

#[cfg(test)]
#[path = "submit_tests.rs"]
mod tests;
