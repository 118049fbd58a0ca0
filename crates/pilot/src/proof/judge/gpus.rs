//! GPUs: whether they answer, whether they compute, and whether a container sees its own only.

use super::super::facts::{GpuFact, InsideFact, KernelFact, TriedFacts};
use super::super::{About, Check};
use shipway_model::gpu::Version;
use shipway_model::{GpuVendor, Millis};
use std::path::PathBuf;

pub(super) fn checks(facts: &TriedFacts, containers_work: bool) -> Vec<Check> {
    let mut checks = vec![answer(facts), driver(facts)];
    for gpu in &facts.gpus {
        checks.push(usable(gpu));
        checks.push(visible(gpu, containers_work));
    }
    checks
}

fn answer(facts: &TriedFacts) -> Check {
    let check = |found: String| Check::ok("GPUs", "every one answers", found);
    let found = match facts.gpus.as_slice() {
        [] => "none".to_owned(),
        gpus => summary(gpus),
    };
    let nvidia = facts.gpus.iter().filter(|gpu| gpu.device.vendor == GpuVendor::Nvidia);
    let driverless = nvidia.count() == 0 && !facts.nvidia_cards.is_empty();
    match facts.gpu_faults.first() {
        Some(fault) => check(format!("{found}; {fault}")).failed(
            "`nvidia-smi` on the node says more; load the driver of the library's version, reset \
             the GPU, or take the card out",
        ),
        None if driverless => {
            let cards = facts.nvidia_cards.join(", ");
            check(format!("{found}; an NVIDIA card at {cards} that no driver answers for"))
                .warning("install NVIDIA's driver with its library (libnvidia-ml)")
        }
        None if facts.gpus.is_empty() => check(found).not_applicable(),
        None => check(found),
    }
}

/// `2 × NVIDIA H200`, models in the order of their first.
fn summary(gpus: &[GpuFact]) -> String {
    let mut counts: Vec<(String, usize)> = Vec::new();
    for gpu in gpus {
        let slice = gpu.device.slice.as_ref().map(|slice| format!(" {slice}"));
        let model = format!("{}{}", gpu.device.model, slice.unwrap_or_default());
        match counts.iter_mut().find(|(known, _)| *known == model) {
            Some((_, count)) => *count += 1,
            None => counts.push((model, 1)),
        }
    }
    let parts: Vec<String> =
        counts.into_iter().map(|(model, count)| format!("{count} × {model}")).collect();
    parts.join(", ")
}

fn driver(facts: &TriedFacts) -> Check {
    let check = |found: String| Check::ok("driver", "its version and CUDA's are known", found);
    let nvidia = |gpu: &&GpuFact| gpu.device.vendor == GpuVendor::Nvidia;
    let Some(gpu) = facts.gpus.iter().find(nvidia) else {
        return check("no NVIDIA GPU".into()).not_applicable();
    };
    let text = |version: Option<&Version>| version.map(ToString::to_string);
    match (text(gpu.device.driver.as_ref()), text(facts.cuda.as_ref())) {
        (Some(driver), Some(cuda)) => check(format!("{driver}, CUDA {cuda}")),
        (driver, cuda) => {
            let known = [driver, cuda].into_iter().flatten().collect::<Vec<_>>().join(", ");
            check(format!("not all of it is told: {known}"))
                .warning("install a driver of one version, its libraries and its module alike")
        }
    }
}

fn usable(gpu: &GpuFact) -> Check {
    let about = About::Gpu(gpu.device.id.clone());
    if gpu.device.vendor != GpuVendor::Nvidia {
        let check = |found: String| Check::ok(&gpu.name, "its files can be opened", found);
        return match gpu.unusable.first() {
            None => check(format!("{}, opened", gpu.device.model)),
            Some(why) => {
                check(why.clone()).failed("add this user to the groups of the file (video, render)")
            }
        }
        .about(about);
    }
    let check = |found: String| Check::ok(&gpu.name, "a kernel runs, its result is right", found);
    match &gpu.kernel {
        None => check("no kernel was tried".into()).not_applicable(),
        Some(fact) => match said(fact) {
            Ok(found) => check(format!("{}: {found}", gpu.device.model)),
            Err((found, fix)) => check(found).failed(fix),
        },
    }
    .about(about)
}

/// What became of a kernel in words, and what helps.
fn said(fact: &KernelFact) -> Result<String, (String, &'static str)> {
    const RESET: &str = "reset it (`nvidia-smi -r`) or reboot the node; should it fail again, have \
                         the card replaced";
    Err(match fact {
        KernelFact::Right { numbers, .. } => {
            return Ok(format!("a kernel ran, {numbers} results are right"));
        }
        KernelFact::Wrong { at, wanted, found } => {
            (format!("computed wrongly: {found:#010x} for {wanted:#010x} at {at}"), RESET)
        }
        KernelFact::Refused { call, error } => (format!("{call}: {error}"), fix_of(error)),
        KernelFact::NoLibrary { message } => (
            format!("the driver's library cannot be loaded: {message}"),
            "install the driver's library for computing (libcuda.so.1) beside NVML",
        ),
        KernelFact::Crashed { signal } => {
            (format!("the driver's library crashed (signal {signal})"), RESET)
        }
        KernelFact::Late { within } => {
            let within = Millis(u64::try_from(within.as_millis()).unwrap_or(u64::MAX));
            (format!("a kernel was not over after {within}"), RESET)
        }
        KernelFact::Silent { code } => {
            (format!("the process that tried it ended with {code} and said nothing"), RESET)
        }
        KernelFact::NotTried { message } => {
            (format!("no process could be started to try it: {message}"), "see that memory is free")
        }
    })
}

/// For errors that have a known way out.
fn fix_of(error: &str) -> &'static str {
    let known = [
        (
            "CUDA_ERROR_DEVICE_UNAVAILABLE",
            "somebody else has it alone: end that process, or `nvidia-smi -c DEFAULT`",
        ),
        ("CUDA_ERROR_OUT_OF_MEMORY", "its memory is full: `nvidia-smi` shows who has it"),
        (
            "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
            "the library and the loaded module differ: reboot after the driver's update",
        ),
        (
            "CUDA_ERROR_SYSTEM_NOT_READY",
            "start the fabric manager (`systemctl start nvidia-fabricmanager`)",
        ),
        (
            "CUDA_ERROR_NO_DEVICE",
            "see that this user may open /dev/nvidia*, and that /dev/nvidia-uvm is there \
             (`nvidia-modprobe -u -c 0`)",
        ),
        ("CUDA_ERROR_ECC_UNCORRECTABLE", "its memory is damaged: have the card replaced"),
    ];
    let found = known.iter().find(|(name, _)| error.starts_with(name));
    found.map_or("`dmesg | grep -i nvrm` says more; reset the GPU or reboot the node", |one| one.1)
}

fn visible(gpu: &GpuFact, containers_work: bool) -> Check {
    let name = format!("{} in a container", gpu.name);
    let check = |found: String| {
        let about = About::Gpu(gpu.device.id.clone());
        Check::ok(&name, "its files are there, no other GPU's", found).about(about)
    };
    let fix = "see the files and their rights: `ls -l /dev/nvidia* /dev/dri`, `nvidia-modprobe -u \
               -c 0`; a CDI file in /etc/cdi or /var/run/cdi may be out of date";
    match &gpu.inside {
        _ if !containers_work => check("no container was started".into()).not_applicable(),
        None => check("no file of it is known".into()).not_applicable(),
        Some(InsideFact { seen: Err(why), .. }) => check(why.clone()).failed(fix),
        Some(InsideFact { wanted, seen: Ok(seen) }) if same(wanted, seen) => {
            check(format!("{}, and no other", paths(seen)))
        }
        Some(InsideFact { wanted, seen: Ok(seen) }) => {
            check(format!("{} for {}", paths(seen), paths(wanted))).failed(fix)
        }
    }
}

fn same(wanted: &[PathBuf], seen: &[PathBuf]) -> bool {
    let sorted = |list: &[PathBuf]| {
        let mut list = list.to_vec();
        list.sort();
        list
    };
    !wanted.is_empty() && sorted(wanted) == sorted(seen)
}

fn paths(list: &[PathBuf]) -> String {
    let names: Vec<String> = list.iter().map(|path| path.display().to_string()).collect();
    if names.is_empty() { "none".into() } else { names.join(", ") }
}

#[cfg(test)]
mod tests;
