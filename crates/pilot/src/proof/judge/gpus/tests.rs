//! Every way a GPU can fail its proof, and what is said of it.

use super::super::super::State;
use super::super::super::facts::{ContainerFacts, Overlay};
use super::*;
use shipway_model::{Bytes, DeviceId, GpuDevice, GpuSource};
use std::time::Duration;

fn gpu(vendor: GpuVendor) -> GpuFact {
    let device = GpuDevice {
        id: DeviceId::new("GPU-a").unwrap(),
        model: "NVIDIA H200".into(),
        memory: Bytes(1),
        vendor,
        source: GpuSource::Nvml,
        capability: None,
        driver: Some(Version::new(&[580, 159])),
        slice: None,
    };
    let kernel = Some(KernelFact::Right { numbers: 9, cuda: 13_000 });
    let own = vec![PathBuf::from("/dev/nvidia0")];
    let inside = Some(InsideFact { wanted: own.clone(), seen: Ok(own) });
    GpuFact { name: "GPU 0".into(), device, kernel, unusable: Vec::new(), inside }
}

fn facts(gpus: Vec<GpuFact>) -> TriedFacts {
    let containers = ContainerFacts {
        findings: Vec::new(),
        overlay: Overlay::Works,
        switches: Vec::new(),
        delegation: shipway_runtime::cgroup::Delegation::Polled { why: "none".into() },
        seccomp: None,
    };
    let (gpu_faults, nvidia_cards) = (Vec::new(), Vec::new());
    TriedFacts { containers, gpus, gpu_faults, nvidia_cards, cuda: Some(Version::new(&[13, 0])) }
}

fn states(facts: &TriedFacts) -> Vec<State> {
    checks(facts, true).iter().map(|check| check.state).collect()
}

#[test]
fn a_node_without_gpus_is_as_fit_as_any() {
    use State::{Failed, NotApplicable, Ok, Warning};
    let mut node = facts(Vec::new());
    assert_eq!(states(&node), [NotApplicable, NotApplicable]);
    node.nvidia_cards = vec!["0000:01:00.0".into()];
    assert_eq!(states(&node), [Warning, NotApplicable]);
    node.gpu_faults = vec!["NVML is installed and does not start: driver not loaded".into()];
    assert_eq!(states(&node), [Failed, NotApplicable]);
    assert_eq!(states(&facts(vec![gpu(GpuVendor::Nvidia)])), [Ok; 4]);
}

#[test]
fn every_failure_of_a_kernel_has_its_words_and_its_fix() {
    let refused = |error: &str| KernelFact::Refused { call: "cuInit".into(), error: error.into() };
    for (kernel, words, fix) in [
        (refused("CUDA_ERROR_NO_DEVICE (100)"), "cuInit: CUDA_ERROR_NO_DEVICE (100)", "uvm"),
        (refused("CUDA_ERROR_UNKNOWN (999)"), "cuInit: CUDA_ERROR_UNKNOWN (999)", "dmesg"),
        (refused("CUDA_ERROR_SYSTEM_NOT_READY (802)"), "NOT_READY", "fabricmanager"),
        (KernelFact::Wrong { at: 3, wanted: 1, found: 2 }, "0x00000002 for 0x00000001 at 3", "re"),
        (KernelFact::Crashed { signal: 11 }, "crashed (signal 11)", "reset"),
        (KernelFact::Late { within: Duration::from_mins(1) }, "not over after 1m", "reset"),
        (KernelFact::Silent { code: 7 }, "ended with 7 and said nothing", "reset"),
        (KernelFact::NoLibrary { message: "no such file".into() }, "no such file", "libcuda"),
        (KernelFact::NotTried { message: "no memory".into() }, "no memory", "memory"),
    ] {
        let mut bad = gpu(GpuVendor::Nvidia);
        bad.kernel = Some(kernel);
        let check = usable(&bad);
        assert!(check.is_failed() && check.found.contains(words), "{check:?}");
        assert!(check.fix.as_ref().unwrap().contains(fix), "{check:?}");
        assert_eq!(check.about, About::Gpu(bad.device.id.clone()));
    }
    let mut untried = gpu(GpuVendor::Nvidia);
    untried.kernel = None;
    assert_eq!(usable(&untried).state, State::NotApplicable);
}

#[test]
fn a_container_must_see_its_own_gpu_and_no_other() {
    let path = |number: u32| PathBuf::from(format!("/dev/nvidia{number}"));
    let seen = |wanted: &[u32], seen: Result<&[u32], &str>| {
        let list = |numbers: &[u32]| numbers.iter().map(|number| path(*number)).collect();
        let mut one = gpu(GpuVendor::Nvidia);
        let seen = seen.map(list).map_err(ToOwned::to_owned);
        one.inside = Some(InsideFact { wanted: list(wanted), seen });
        visible(&one, true)
    };
    assert_eq!(seen(&[0], Ok(&[0])).state, State::Ok);
    assert_eq!(seen(&[0], Ok(&[0, 1])).found, "/dev/nvidia0, /dev/nvidia1 for /dev/nvidia0");
    assert!(seen(&[0], Ok(&[0, 1])).is_failed());
    assert!(seen(&[0], Ok(&[])).is_failed());
    assert!(seen(&[], Ok(&[])).is_failed(), "nothing was given");
    assert!(seen(&[0], Err("no node")).is_failed());
    let state = visible(&gpu(GpuVendor::Nvidia), false).state;
    assert_eq!(state, State::NotApplicable, "a plain task may still use it");
}

#[test]
fn an_amd_gpu_is_proven_by_its_files() {
    let mut amd = gpu(GpuVendor::Amd);
    amd.kernel = None;
    assert_eq!(usable(&amd).state, State::Ok);
    amd.unusable = vec!["/dev/kfd: Permission denied".into()];
    let check = usable(&amd);
    assert!(check.is_failed() && check.fix.unwrap().contains("render"));
}

#[test]
fn models_are_counted() {
    let mut slice = gpu(GpuVendor::Nvidia);
    slice.device.slice = Some("1g.18gb".into());
    let found = summary(&[gpu(GpuVendor::Nvidia), slice, gpu(GpuVendor::Nvidia)]);
    assert_eq!(found, "2 × NVIDIA H200, 1 × NVIDIA H200 1g.18gb");
}
