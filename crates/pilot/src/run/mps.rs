//! NVIDIA's Multi-Process Service, where a site wants it: tasks with shares of one GPU compute at
//! the same time instead of in turns, each held to its part by the service itself.
//!
//! One control process for each GPU, with a folder of its own, started with the pilot and ended
//! with it. Only plain tasks use it: a container has processes and shared memory of its own, which
//! the service does not cross.

use crate::leftovers::NODE_KEY_VARIABLE;
use crate::machine::Start;
use crate::probe::Probe;
use crate::spawn::ATTEMPT_KEY_VARIABLE;
use shipway_model::{DeviceId, GpuShare, GpuSource, GpuVendor};
use shipway_runtime::again;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;

/// In the foreground, so that it stays ours to end.
const CONTROL: &str = "nvidia-cuda-mps-control";
const FOREGROUND: &str = "-f";
const BYTES_IN_MIB: u64 = 1 << 20;
/// Ten-thousandths in a hundredth.
const PERCENT: u32 = 100;

#[derive(Debug, thiserror::Error)]
#[error("cannot start {CONTROL} for {device}: is the whole driver installed?")]
pub struct MpsError {
    device: String,
    #[source]
    source: io::Error,
}

/// The services of this node, by the ids of their GPUs.
#[derive(Debug, Default)]
pub(super) struct Mps {
    served: BTreeMap<DeviceId, Served>,
    /// The thread that holds the control processes ends them when this is gone.
    _hold: Option<mpsc::Sender<()>>,
}

#[derive(Debug)]
struct Served {
    pipes: PathBuf,
    memory: u64,
}

impl Mps {
    /// Starts a control process for every whole NVIDIA GPU.
    pub(super) fn start(dir: &Path, node_key: &str, probe: &Probe) -> Result<Self, MpsError> {
        let whole = probe.gpus.iter().filter(|gpu| {
            gpu.vendor == GpuVendor::Nvidia && gpu.source == GpuSource::Nvml && gpu.slice.is_none()
        });
        let mut served = BTreeMap::new();
        let mut commands = Vec::new();
        for (number, gpu) in whole.enumerate() {
            let device = gpu.id.clone();
            let pipes = dir.join("mps").join(number.to_string());
            let made = std::fs::create_dir_all(pipes.join("log"));
            made.map_err(|source| MpsError { device: device.to_string(), source })?;
            commands.push((device.to_string(), control(device.as_str(), &pipes, node_key)));
            served.insert(device, Served { pipes, memory: gpu.memory.0 });
        }
        if commands.is_empty() {
            return Ok(Mps::default());
        }
        Ok(Mps { served, _hold: Some(hold(commands)?) })
    }

    /// What a task with a share needs to know; nothing for the others.
    pub(super) fn variables(&self, start: &Start) -> Vec<(&'static str, String)> {
        let ([device], Some(share)) = (start.devices.as_slice(), start.template.gpu_share) else {
            return Vec::new();
        };
        let served = self.served.get(device);
        served.map(|served| variables(served, share)).unwrap_or_default()
    }
}

fn variables(served: &Served, share: GpuShare) -> Vec<(&'static str, String)> {
    let part = super::shares::part(served.memory, share) / BYTES_IN_MIB;
    vec![
        ("CUDA_MPS_PIPE_DIRECTORY", served.pipes.to_string_lossy().into_owned()),
        ("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", share.0.div_ceil(PERCENT).to_string()),
        // The one device that a task sees is number 0 to it.
        ("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", format!("0={}M", part.max(1))),
    ]
}

fn control(device: &str, pipes: &Path, node_key: &str) -> Command {
    let mut command = Command::new(CONTROL);
    command.arg(FOREGROUND).env("CUDA_VISIBLE_DEVICES", device);
    command.env("CUDA_MPS_PIPE_DIRECTORY", pipes).env("CUDA_MPS_LOG_DIRECTORY", pipes.join("log"));
    // Found by the next pilot should this one and its guard be killed, and no attempt's.
    command.env(NODE_KEY_VARIABLE, node_key).env(ATTEMPT_KEY_VARIABLE, "mps");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Starts them in a thread of their own: children of the main thread are taken for what a task
/// left behind. Returns when all run or one cannot be started.
fn hold(commands: Vec<(String, Command)>) -> Result<mpsc::Sender<()>, MpsError> {
    let (hold, held) = mpsc::channel();
    let (tell, told) = mpsc::channel();
    let begun = again::thread("mps", move || {
        let mut running: Vec<Child> = Vec::new();
        let started = commands.into_iter().try_for_each(|(device, mut command)| {
            running.push(command.spawn().map_err(|source| MpsError { device, source })?);
            Ok(())
        });
        let goes_on = started.is_ok();
        let _nobody_waits = tell.send(started);
        if goes_on {
            // Ends when the other side is gone; nothing is ever sent.
            let _ended = held.recv();
        }
        for mut child in running {
            let _already_dead = child.kill();
            let _reaped = child.wait();
        }
    });
    begun.map_err(|source| MpsError { device: "all devices".into(), source })?;
    told.recv().expect("the thread answers before it ends")?;
    Ok(hold)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_told_to_the_service_in_its_own_units() {
        let served = Served { pipes: "/p/mps/0".into(), memory: 8 << 30 };
        let expected = [
            ("CUDA_MPS_PIPE_DIRECTORY", "/p/mps/0".to_owned()),
            ("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "25".to_owned()),
            ("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "0=2048M".to_owned()),
        ];
        assert_eq!(variables(&served, GpuShare(2_500)), expected);
        assert_eq!(variables(&served, GpuShare(1))[1].1, "1", "never nothing");
    }

    #[test]
    fn one_that_cannot_be_started_is_an_error_and_the_others_end() {
        let dir = tempfile::tempdir().unwrap();
        let mut sleeping = Command::new("sleep");
        sleeping.arg("1000000");
        let commands = vec![
            ("GPU-a".to_owned(), sleeping),
            ("GPU-b".to_owned(), Command::new(dir.path().join("missing"))),
        ];
        let error = hold(commands).unwrap_err();
        assert!(error.to_string().contains("GPU-b"), "{error}");
    }
}
