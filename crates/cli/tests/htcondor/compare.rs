//! HTCondor's ads against our tasks, attribute by attribute.

use crate::ad::Ad;
use crate::engine::Answer;
use crate::ours::Read;
use shipway_dialects::htcondor::{Task, Transfer};
use shipway_model::GpuRequest;
use std::fmt::Debug;

/// The differences.
pub(crate) fn file(name: &str, theirs: &Answer, ours: &Read) -> Vec<String> {
    let tasks = match (&ours.tasks, theirs.good) {
        (Err(_), false) => return Vec::new(),
        (Err(error), true) => return vec![format!("we refuse it: {error}")],
        (Ok(_), false) => return vec![format!("HTCondor refuses it: {}", theirs.said)],
        (Ok(tasks), true) => tasks,
    };
    let mut wrong = Vec::new();
    same(&mut wrong, "tasks", &tasks.len(), &theirs.tasks.len());
    for (task, ad) in tasks.iter().zip(&theirs.tasks) {
        let mut found = Vec::new();
        program(&mut found, task, ad);
        files(&mut found, task, ad);
        needs(&mut found, task, ad);
        wrong.extend(found.into_iter().map(|what| format!("task {}: {what}", task.process)));
    }
    warnings(&mut wrong, theirs, ours);
    assert!(!name.starts_with("bad-"), "{name} was taken by both");
    wrong
}

fn same<T: PartialEq + Debug>(wrong: &mut Vec<String>, what: &str, ours: &T, theirs: &T) {
    if ours != theirs {
        wrong.push(format!("{what}: ours {ours:?}, HTCondor's {theirs:?}"));
    }
}

fn program(wrong: &mut Vec<String>, task: &Task, ad: &Ad) {
    let program = &task.program.value;
    same(wrong, "Cmd", &Some(program.executable.clone()), &ad.text("Cmd"));
    same(wrong, "arguments", &program.arguments, &ad.arguments());
    same(wrong, "variables", &task.environment(), &ad.variables());
    let transferred = ad.expression("TransferExecutable") != Some("false");
    same(wrong, "TransferExecutable", &program.transferred, &transferred);
}

fn files(wrong: &mut Vec<String>, task: &Task, ad: &Ad) {
    let files = &task.files.value;
    same(wrong, "Iwd", &Some(files.directory.clone()), &ad.text("Iwd"));
    let inside = |path: String| match path.as_str() {
        "/dev/null" => None,
        path if path.starts_with('/') => Some(path.to_string()),
        path => Some(format!("{}/{path}", files.directory)),
    };
    for (name, ours) in [("In", &files.input), ("Out", &files.output), ("Err", &files.error)] {
        same(wrong, name, ours, &ad.text(name).and_then(inside));
    }
    same(wrong, "UserLog", &files.log, &ad.text("UserLog"));
    let brought = ad.files("TransferInput").into_iter().filter_map(inside);
    // An image in a file is brought to the task; ours is named in its place.
    let brought: Vec<String> = brought.filter(|name| !name.contains(".sif")).collect();
    same(wrong, "TransferInput", &files.inputs, &brought);
    let taken = ad.expression("TransferOutput").map(|_| ad.files("TransferOutput"));
    same(wrong, "TransferOutput", &files.outputs, &taken);
    let remaps = ad.text("TransferOutputRemaps").unwrap_or_default();
    let pairs = remaps.split(';').filter_map(|pair| pair.split_once('='));
    let remaps: Vec<(String, String)> = pairs
        .map(|(name, path)| (name.trim().into(), inside(path.trim().into()).expect("a path")))
        .collect();
    same(wrong, "TransferOutputRemaps", &files.remaps, &remaps);
    let transfer = match files.transfer {
        Transfer::Yes => "YES",
        Transfer::No => "NO",
        Transfer::IfNeeded => "IF_NEEDED",
    };
    same(
        wrong,
        "ShouldTransferFiles",
        &Some(transfer.to_string()),
        &ad.text("ShouldTransferFiles"),
    );
}

fn needs(wrong: &mut Vec<String>, task: &Task, ad: &Ad) {
    let needs = &task.needs.value;
    let resources = &needs.resources;
    let cpus = ad.number("RequestCpus").unwrap_or(1);
    same(wrong, "RequestCpus", &(resources.cpus.milli / 1_000), &cpus);
    // What is not asked for is an expression with HTCondor, and nothing with us.
    let memory = ad.number("RequestMemory").unwrap_or(0);
    same(wrong, "RequestMemory", &(resources.memory.0 >> 20), &memory);
    let disk = ad.number("RequestDisk").unwrap_or(0);
    same(wrong, "RequestDisk", &(resources.disk.0 >> 10), &disk);
    gpus(wrong, resources.gpu.as_ref(), ad);
    let licences = resources.named.get("licence").copied();
    same(wrong, "Requestlicence", &licences, &ad.number("Requestlicence"));
    requirements(wrong, needs.requirements.as_deref(), ad);
    if let Some(rank) = &needs.rank {
        same(wrong, "Rank", &Some(rank.as_str()), &ad.expression("Rank"));
    }
    let priority = ad.expression("JobPrio").and_then(|text| text.parse().ok()).unwrap_or(0);
    same(wrong, "JobPrio", &needs.priority, &priority);
    same(wrong, "JobBatchName", &needs.name, &ad.text("JobBatchName").unwrap_or_default());
    let retries = ad.number("JobMaxRetries").unwrap_or(0);
    same(wrong, "JobMaxRetries", &u64::from(needs.retries.limit), &retries);
    let limit = ad.number("AllowedExecuteDuration");
    let ours = needs.time_limit.as_ref().map(|limit| limit.limit.0 / 1_000);
    same(wrong, "AllowedExecuteDuration", &ours, &limit);
    let image = ad.text("ContainerImage").or_else(|| ad.text("DockerImage"));
    same(wrong, "image", &needs.image.is_some(), &image.is_some());
    if let (Some(ours), Some(theirs)) = (&needs.image, image) {
        let name = theirs.rsplit('/').next().expect("a name");
        let shown = ours.to_string();
        same(wrong, "the image's name", &shown.contains(name), &true);
    }
    for (name, value) in &needs.labels {
        same(wrong, name, &Some(value.clone()), &ad.plain(name));
    }
}

fn gpus(wrong: &mut Vec<String>, ours: Option<&GpuRequest>, ad: &Ad) {
    let count = ours.map_or(0, |gpus| u64::from(gpus.count));
    same(wrong, "RequestGPUs", &count, &ad.number("RequestGPUs").unwrap_or(0));
    let Some(ours) = ours else { return };
    let version = |name: &str| ad.expression(name).and_then(|text| text.parse().ok());
    if ad.expression("GPUsMinCapability").is_some() {
        same(wrong, "capability", &ours.capability.from, &version("GPUsMinCapability"));
        same(wrong, "capability", &ours.capability.to, &version("GPUsMaxCapability"));
        let memory = ours.memory.from.map(|bytes| bytes.0 >> 20);
        same(wrong, "memory", &memory, &ad.number("GPUsMinMemory"));
    }
}

/// The user's own part comes first in brackets, then what HTCondor adds.
fn requirements(wrong: &mut Vec<String>, ours: Option<&str>, ad: &Ad) {
    let Some(ours) = ours else { return };
    let plain = |text: &str| text.split_whitespace().collect::<String>();
    let theirs = plain(ad.expression("Requirements").unwrap_or_default());
    if !theirs.starts_with(&format!("({})", plain(ours))) {
        wrong.push(format!("Requirements: ours {ours}, HTCondor's {theirs}"));
    }
}

/// What HTCondor says is unused, we say something about too.
fn warnings(wrong: &mut Vec<String>, theirs: &Answer, ours: &Read) {
    let lines = theirs.said.lines().filter(|line| line.contains("was unused by"));
    for line in lines {
        let name = line.split('\'').nth(1).and_then(|text| text.split(' ').next()).expect("a name");
        if !ours.warnings.iter().any(|warning| warning.what.contains(name)) {
            wrong.push(format!("HTCondor warns: {line}; we do not"));
        }
    }
}
