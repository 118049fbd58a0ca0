//! What is handed in to Slurm for an allocation: the arguments of `sbatch`, and the script it
//! reads, or slurmrestd instead (`rest/submit.rs`). Pure: made of an order, and looked at in tests.
//!
//! The script goes in by standard input, where nobody else can list it, and lies in folders of the
//! controller and the node that only Slurm and the account read. Slurm can be told to keep scripts
//! in its accounting database (`AccountingStoreFlags=job_script`); then its operators can read the
//! tokens too, which end with the allocation.

use super::options::{self, BadLine};
use crate::batch::{Naming, Order, OrderedGpus, PilotStart};
use crate::exits::{NO_FOLDER, OTHER_PROGRAM};
use crate::way::ssh::quoted;
use shipway_model::{Digest, GpuOption};
use std::fmt;

/// Slurm takes 4 MiB; credentials and a certificate are kilobytes.
const MAX_SCRIPT: usize = 1 << 20;
const MAX_WORD: usize = 4_096;
/// More warns earlier than any job of ours is short.
const MAX_WARNING_SECONDS: u64 = 65_535;
const CREDENTIALS: &str = "credentials.json";
const MIB: u64 = 1 << 20;

#[derive(Clone, PartialEq, Eq)]
pub(super) struct Submission {
    pub(super) arguments: Vec<String>,
    pub(super) script: String,
}

/// The script has secrets.
impl fmt::Debug for Submission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Submission").field("arguments", &self.arguments).finish_non_exhaustive()
    }
}

/// Why an order cannot be handed in as it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadOrder {
    #[error("the {what} `{text}` is not of the letters Slurm or a file's name may have")]
    Word { what: &'static str, text: String },
    #[error("{what} must be a path that begins with /, and not `{text}`")]
    NoPath { what: &'static str, text: String },
    #[error("{found} credentials for {nodes} nodes")]
    Credentials { found: usize, nodes: u32 },
    #[error("{0} is asked for with an amount of nothing")]
    Nothing(&'static str),
    #[error("a text has a NUL in it, which no shell can pass on")]
    Nul,
    #[error("the script is {size} bytes long; at most {MAX_SCRIPT}")]
    Long { size: usize },
    #[error(transparent)]
    Line(#[from] BadLine),
    #[error(
        "`{option}` cannot be asked of slurmrestd here; what can: {}",
        super::rest::what_can_be_said()
    )]
    Unsaid { option: String },
    #[error("{nodes} nodes in one allocation are not asked of slurmrestd")]
    Nodes { nodes: u32 },
}

pub(super) fn submission(order: &Order, naming: &Naming) -> Result<Submission, BadOrder> {
    let arguments = arguments(order, naming)?;
    let script = script(order)?;
    Ok(Submission { arguments, script: sane(script)? })
}

/// For one node, and for an engine that warns no script: it sends itself what the engine would
/// send. An account that was not logged in anywhere gets its home from the node.
pub(super) fn warning_itself(order: &Order) -> Result<String, BadOrder> {
    if order.nodes != 1 {
        return Err(BadOrder::Nodes { nodes: order.nodes });
    }
    let seconds = minutes(order).saturating_mul(60);
    let seconds = seconds.saturating_sub(order.warning.0.div_ceil(1000));
    let timer = match order.warning.0 {
        0 => String::new(),
        _ => format!(
            "(trap 'kill \"$nap\" 2>/dev/null; exit' TERM\n\
             sleep {seconds} &\n\
             nap=$!\n\
             wait \"$nap\" && kill -TERM \"$$\") </dev/null >/dev/null 2>&1 &\n\
             timer=$!\n"
        ),
    };
    let node = node_script(&order.pilot, &timer)?;
    check_credentials(order)?;
    sane(format!(
        "#!/bin/sh\n\
         [ -n \"${{HOME:-}}\" ] || HOME=$(getent passwd \"$(id -u)\" | cut -d: -f6)\n\
         [ -n \"$HOME\" ] && export HOME || unset HOME\n\
         {node}"
    ))
}

fn sane(script: String) -> Result<String, BadOrder> {
    if script.contains('\0') {
        return Err(BadOrder::Nul);
    }
    if script.len() > MAX_SCRIPT {
        return Err(BadOrder::Long { size: script.len() });
    }
    Ok(script)
}

/// What is asked for: Slurm counts in minutes.
pub(super) fn minutes(order: &Order) -> u64 {
    order.wall.0.div_ceil(60_000).max(1)
}

/// The site's own options come first: of an option that is there twice Slurm takes the last.
fn arguments(order: &Order, naming: &Naming) -> Result<Vec<String>, BadOrder> {
    let mut words = Vec::new();
    for line in &order.submit_lines {
        words.extend(options::words(line)?);
    }
    let name = naming.of(&order.allocation);
    words.push(format!("--job-name={}", word("name", &name)?));
    if let Some(partition) = &order.partition {
        words.push(format!("--partition={}", word("partition", partition)?));
    }
    let nodes = some("the number of nodes", order.nodes.into())?;
    let cpus = some("processors", order.cpus.milli.div_ceil(1000))?;
    // Zero would be all the memory of a node.
    let memory = some("memory", order.memory.0.div_ceil(MIB))?;
    words.push(format!("--nodes={nodes}"));
    words.push("--ntasks-per-node=1".to_string());
    words.push(format!("--cpus-per-task={cpus}"));
    words.push(format!("--mem={memory}M"));
    if let Some(gpus) = &order.gpus {
        words.extend(gpu_option(gpus, order.nodes)?);
    }
    words.push(format!("--time={}", minutes(order)));
    words.extend(warning(order));
    // What is lost is asked for again, with other credentials.
    words.push("--no-requeue".to_string());
    // The folder it is submitted from need not be there on a node; and a pilot has its own log.
    words.extend(["--chdir=/", "--output=/dev/null", "--error=/dev/null"].map(String::from));
    Ok(words)
}

/// `None`: the site's own lines ask for them.
fn gpu_option(gpus: &OrderedGpus, nodes: u32) -> Result<Option<String>, BadOrder> {
    let count = some("GPUs", gpus.count.into())?;
    let kind = match &gpus.kind {
        Some(kind) => format!("{}:", gpu_kind(kind)?),
        None => String::new(),
    };
    Ok(match gpus.request {
        Some(GpuOption::None) => None,
        Some(GpuOption::Gpus) if nodes == 1 => Some(format!("--gpus={kind}{count}")),
        // Of all nodes together one may have more than another.
        Some(GpuOption::Gpus) => Some(format!("--gpus-per-node={kind}{count}")),
        // Older than --gpus-per-node, and known to every plugin that chooses nodes.
        None | Some(GpuOption::Gres) => Some(format!("--gres=gpu:{kind}{count}")),
    })
}

/// With one node the script is signalled and tells the pilot; with several the engine signals the
/// pilots by itself.
fn warning(order: &Order) -> Option<String> {
    let seconds = (order.warning.0 / 1000).min(MAX_WARNING_SECONDS);
    let whom = if order.nodes == 1 { "B:" } else { "" };
    (seconds > 0).then(|| format!("--signal={whom}TERM@{seconds}"))
}

pub(super) fn some(what: &'static str, amount: u64) -> Result<u64, BadOrder> {
    if amount == 0 { Err(BadOrder::Nothing(what)) } else { Ok(amount) }
}

/// Reaches Slurm as part of one argument: no shell reads it, but people do.
pub(super) fn word<'a>(what: &'static str, text: &'a str) -> Result<&'a str, BadOrder> {
    let odd = |c: char| c.is_control() || c.is_whitespace();
    if text.is_empty() || text.len() > MAX_WORD || text.contains(odd) {
        return Err(BadOrder::Word { what, text: text.chars().take(80).collect() });
    }
    Ok(text)
}

/// Of a list of resources, so without its signs.
pub(super) fn gpu_kind(kind: &str) -> Result<&str, BadOrder> {
    let good = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if kind.is_empty() || kind.len() > MAX_WORD || !kind.chars().all(good) {
        let text = kind.chars().take(80).collect();
        return Err(BadOrder::Word { what: "kind of GPU", text });
    }
    Ok(kind)
}

fn script(order: &Order) -> Result<String, BadOrder> {
    check_credentials(order)?;
    let node = node_script(&order.pilot, "")?;
    if order.nodes == 1 {
        return Ok(format!("#!/bin/sh\n{node}"));
    }
    let (nodes, cpus) = (order.nodes, order.cpus.milli.div_ceil(1000));
    let end = delimiter(&node);
    // Each node reads the script from standard input: its words would be seen by everybody there.
    // Since 22.05 a step has to be told anew how many processors a task gets. No node's end ends
    // another's pilot.
    Ok(format!(
        "#!/bin/sh\n\
         umask 077\n\
         trap : TERM INT HUP\n\
         srun --nodes={nodes} --ntasks={nodes} --ntasks-per-node=1 --cpus-per-task={cpus} --mem=0 \
         --export=ALL --kill-on-bad-exit=0 --wait=0 --mpi=none /bin/sh <<'{end}' &\n\
         {node}{end}\n\
         started=$!\n\
         {WAIT}\
         exit \"$code\"\n"
    ))
}

fn check_credentials(order: &Order) -> Result<(), BadOrder> {
    let (found, nodes) = (order.pilot.credentials.len(), order.nodes);
    let is_right = u32::try_from(found) == Ok(nodes);
    if is_right { Ok(()) } else { Err(BadOrder::Credentials { found, nodes }) }
}

/// A line that the text does not have.
fn delimiter(text: &str) -> String {
    let mut word = "END_OF_NODE".to_string();
    while text.contains(&word) {
        word.push('_');
    }
    word
}

/// A signal ends `wait`, and not what it waits for.
const WAIT: &str = "wait \"$started\"\n\
                    code=$?\n\
                    while [ \"$code\" -gt 128 ] && kill -0 \"$started\" 2>/dev/null; do\n\
                    \x20   wait \"$started\"\n\
                    \x20   code=$?\n\
                    done\n";
/// One that was killed has left its tasks behind, and not every Slurm ends those: the next one in
/// the same folder does, before anything else. What was killed with it may take a moment to die.
const MOST_RESTARTS: u32 = 3;

/// What runs on each node. All texts stand in single quotes or not at all. `printf` is the shell's
/// own, so that no list of processes has its words. A signal may come before there is a pilot.
/// `timer` starts what sends one, where the engine does not.
fn node_script(pilot: &PilotStart, timer: &str) -> Result<String, BadOrder> {
    let scratch = match &pilot.scratch {
        Some(scratch) => quoted(path("scratch", scratch)?),
        None => "\"${TMPDIR:-/tmp}\"".to_string(),
    };
    let files: Vec<String> = pilot.files.iter().map(file).collect::<Result<_, BadOrder>>()?;
    let numbered = pilot.credentials.iter().enumerate();
    let credentials: Vec<String> = numbered
        .map(|(node, credentials)| format!("{node}) printf %s {} ;;\n", quoted(credentials)))
        .collect();
    let program = quoted(path("program", &pilot.program)?);
    let options: Vec<String> = pilot.options.iter().map(|word| quoted(word)).collect();
    let checked = pilot.sha256.map(|sha256| checked(&program, &sha256)).unwrap_or_default();
    let untimed = if timer.is_empty() { "" } else { "kill \"$timer\" 2>/dev/null\n" };
    let (files, credentials, options) = (files.concat(), credentials.concat(), options.join(" "));
    Ok(format!(
        "umask 077\n\
         scratch={scratch}\n\
         dir=$(mktemp -d \"$scratch/shipway-XXXXXXXXXX\") || exit {NO_FOLDER}\n\
         trap 'cd /; rm -rf --one-file-system -- \"$dir\" 2>/dev/null' EXIT\n\
         cd \"$dir\" || exit {NO_FOLDER}\n\
         {files}\
         case ${{SLURM_PROCID:-0}} in\n\
         {credentials}\
         *) exit 1 ;;\n\
         esac > {CREDENTIALS} || exit {NO_FOLDER}\n\
         {checked}\
         started= stop=\n\
         trap 'stop=1; [ -z \"$started\" ] || kill -TERM \"$started\" 2>/dev/null' TERM INT HUP\n\
         {timer}\
         tries=0\n\
         while :; do\n\
         {program} pilot --dir \"$dir\" --token-file \"$dir/{CREDENTIALS}\" {options} \
         </dev/null &\n\
         started=$!\n\
         [ -z \"$stop\" ] || kill -TERM \"$started\"\n\
         {WAIT}\
         [ \"$code\" -gt 128 ] && [ -z \"$stop\" ] && [ \"$tries\" -lt {MOST_RESTARTS} ] || break\n\
         tries=$((tries + 1))\n\
         sleep 1\n\
         done\n\
         {untimed}\
         exit \"$code\"\n"
    ))
}

/// Whether a program is still what was sent there.
fn checked(program: &str, sha256: &Digest) -> String {
    let hex = sha256.hex();
    format!("printf '%s  %s\\n' {hex} {program} | sha256sum -c --status || exit {OTHER_PROGRAM}\n")
}

fn file((name, content): &(String, String)) -> Result<String, BadOrder> {
    Ok(format!("printf %s {} > ./{} || exit {NO_FOLDER}\n", quoted(content), file_name(name)?))
}

fn path<'a>(what: &'static str, text: &'a str) -> Result<&'a str, BadOrder> {
    if !text.starts_with('/') || text.len() > MAX_WORD || text.chars().any(char::is_control) {
        let text = text.chars().filter(|c| !c.is_control()).take(80).collect();
        return Err(BadOrder::NoPath { what, text });
    }
    Ok(text)
}

/// In the folder itself, and in nothing else's place.
fn file_name(name: &str) -> Result<&str, BadOrder> {
    let good = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let bad = name.is_empty() || name.len() > 255 || name.starts_with(['.', '-']);
    if bad || name == CREDENTIALS || !name.chars().all(good) {
        let text = name.chars().take(80).collect();
        return Err(BadOrder::Word { what: "file", text });
    }
    Ok(name)
}

#[cfg(test)]
mod tests;
