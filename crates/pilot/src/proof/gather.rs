//! Looks and tries: the edge of the proof that acts. What any of it means is for `judge` to say.

use super::facts::{
    ClockFact, ContainerFacts, FolderFact, GpuFact, InsideFact, KeptFact, NodeFacts, Overlay,
    ServerFact, Switch, TriedFacts,
};
use super::offer::Names;
use super::{kernel, trial};
use crate::hanging;
use crate::probe::Probe;
use shipway_api::causes::causes;
use shipway_images::Store;
use shipway_images::store::StoreError;
use shipway_model::{GpuSource, GpuVendor, Millis, Timestamp};
use shipway_runtime::cgroup::Delegation;
use shipway_runtime::gpu::{Assigned, access};
use shipway_runtime::plan::{DEFAULT_MEMORY_ROOM, Root, User, WritableSpace};
use shipway_runtime::report::Ending;
use shipway_runtime::{Container, Runtime};
use shipway_trees::disk::Disk;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::thread::{Builder, ScopedJoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A container takes milliseconds; this is for a node that is out of breath.
const CONTAINER_WITHIN: Duration = Duration::from_secs(20);

/// Switches of the kernel below `/proc/sys`, with the value that refuses.
const SWITCHES: [(&str, &str); 3] = [
    ("user/max_user_namespaces", "0"),
    ("kernel/unprivileged_userns_clone", "0"),
    ("kernel/apparmor_restrict_unprivileged_userns", "1"),
];

/// Whoever is not root will do for a container that root starts to see whether one starts.
const NOBODY: u32 = 65_534;

/// Prints the files of GPUs that can be read, with nothing but the shell.
const LIST_GPUS: &str = "for f in /dev/nvidia[0-9]* /dev/nvidia-caps/* /dev/dri/renderD*; do \
                         if [ -c \"$f\" ] && [ -r \"$f\" ]; then echo \"$f\"; fi; done";

/// Looks at the node: this takes no time.
pub fn look(work: &Path, images: &Path, clock: ClockFact) -> NodeFacts {
    let processes = crate::run::room_for_processes();
    NodeFacts {
        work: folder(work),
        images: image_store(images),
        clock,
        processes,
        kept: kept(work),
        hanging: hanging::still(work),
    }
}

/// Nothing where this user may not look.
fn kept(work: &Path) -> Option<KeptFact> {
    let path = work.join(shipway_trees::KEPT);
    let count = std::fs::read_dir(&path).ok()?.count();
    (count > 0).then_some(KeptFact { path, count })
}

/// Tries what a look cannot tell. Without `with_kernel` no GPU has to compute.
pub fn try_out(probe: &Probe, runtime: &dyn Runtime, with_kernel: bool) -> TriedFacts {
    TriedFacts {
        containers: containers(runtime),
        gpus: gpus(probe, runtime, with_kernel),
        gpu_faults: probe.gpu_faults.clone(),
        nvidia_cards: probe.nvidia_cards.clone(),
        cuda: probe.cuda.clone(),
    }
}

/// Whether a folder can be written to, and what is free there. One that is not there yet is not
/// made: then the question is whether it could be.
fn folder(path: &Path) -> FolderFact {
    let there = path.ancestors().find(|place| place.exists()).unwrap_or(Path::new("/"));
    let trace = there.join(format!(".shipway-proof-{}", std::process::id()));
    let written = File::create_new(&trace).and_then(|mut file| file.write_all(b"proof"));
    let _never_made = std::fs::remove_file(&trace);
    let act = if there == path { "written to" } else { "made" };
    let problem = written.err().map(|error| format!("cannot be {act}: {error}"));
    let disk = Disk::of(there);
    let (free, least) = (disk.map(|disk| disk.free), disk.map_or(0, |disk| disk.least()));
    FolderFact { path: path.to_owned(), problem, free, least }
}

/// The same for a store of images, which must also be one that this user may add to.
fn image_store(path: &Path) -> FolderFact {
    use std::os::unix::fs::MetadataExt;
    let own = rustix::process::geteuid().as_raw();
    let owner = std::fs::metadata(path).ok().map(|found| found.uid()).filter(|uid| *uid != own);
    let foreign = owner.map(|uid| format!("belongs to user {uid}, not to {own}"));
    let odd = match Store::open(path) {
        Ok(_) | Err(StoreError::NoStore { .. }) => None,
        Err(error) => Some(format!("cannot be used: {}", causes(&error))),
    };
    let found = folder(path);
    FolderFact { problem: found.problem.or(foreign).or(odd), ..found }
}

/// The two clocks, from now on.
#[derive(Debug, Clone, Copy)]
pub struct Watch {
    steady: Instant,
    wall: SystemTime,
}

impl Watch {
    pub fn start() -> Self {
        Watch { steady: Instant::now(), wall: SystemTime::now() }
    }

    pub fn read(self, server: Option<ServerFact>) -> ClockFact {
        let now = SystemTime::now();
        let expected = self.wall + self.steady.elapsed();
        let apart = now.duration_since(expected).unwrap_or_else(|behind| behind.duration());
        let wall = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        ClockFact { wall: Timestamp(millis(wall)), jumped: Millis(millis(apart)), server }
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// Starts a container or two.
fn containers(runtime: &dyn Runtime) -> ContainerFacts {
    let read = |path: &str| std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
    let switches = SWITCHES.iter().filter_map(|(name, refusing)| {
        let value = read(&format!("/proc/sys/{name}"))?;
        let refuses = value == *refusing;
        Some(Switch { name: name.replace('/', "."), value, refuses })
    });
    ContainerFacts {
        findings: runtime.check(),
        overlay: overlay(runtime),
        switches: switches.collect(),
        delegation: Delegation::find(Path::new("/")),
        seccomp: read("/proc/sys/kernel/seccomp/actions_avail"),
    }
}

/// `/usr` has all that a shell needs and none of the places that a container needs: on such a tree
/// there is no way around an overlay when the root is to be writable.
fn overlay(runtime: &dyn Runtime) -> Overlay {
    let command = vec!["/bin/sh".into(), "-c".into(), "exit 0".into()];
    let mut container = Container::new(Root::Tree("/usr".into()), command);
    container.scratch = Some(WritableSpace::Memory(DEFAULT_MEMORY_ROOM));
    let Err(writable) = run(runtime, &container) else { return Overlay::Works };
    container.scratch = None;
    match run(runtime, &container) {
        Ok(_) => Overlay::Refused(writable),
        Err(_) => Overlay::Unknown(writable),
    }
}

/// What a container printed, or why there was none.
fn run(runtime: &dyn Runtime, container: &Container) -> Result<String, String> {
    let mut container = container.clone();
    if rustix::process::geteuid().is_root() {
        container.user = Some(User { uid: NOBODY, gid: NOBODY, groups: Vec::new() });
    }
    let launch = runtime.launch(&container, None).map_err(|error| error.to_string())?;
    let (mut command, after) = launch.into_command();
    let tried = trial::run(&mut command, CONTAINER_WITHIN).map_err(|error| error.to_string())?;
    let Some(status) = tried.status else {
        return Err(format!("it was not over after {}", Millis(millis(CONTAINER_WITHIN))));
    };
    match after.ending(status) {
        Ending::Exit(0) => Ok(String::from_utf8_lossy(&tried.output).into_owned()),
        Ending::NotStarted(told) => Err(told.message),
        Ending::Exit(code) => Err(format!("it ended with exit code {code}")),
        Ending::Signal { number, .. } => Err(format!("it was ended by signal {number}")),
    }
}

/// Tries every GPU that was really found, all of them at the same time: the first use of one may
/// take long.
fn gpus(probe: &Probe, runtime: &dyn Runtime, with_kernel: bool) -> Vec<GpuFact> {
    let names = Names::of(&probe.gpus);
    let real = probe.gpus.iter().filter(|gpu| gpu.source != GpuSource::Declared);
    std::thread::scope(|scope| {
        let tries: Vec<_> = real
            .map(|device| {
                let (name, node) = (names.get(&device.id), probe.nodes.get(device.id.as_str()));
                let try_it = move || GpuFact {
                    name: name.clone(),
                    device: device.clone(),
                    kernel: (with_kernel && device.vendor == GpuVendor::Nvidia).then(|| {
                        let own = Path::new("/proc/self/exe");
                        kernel::prove(own, device.id.as_str(), kernel::WITHIN)
                    }),
                    unusable: node.map(unusable).unwrap_or_default(),
                    inside: node.map(|node| inside(runtime, node)),
                };
                // Without room for a thread one comes after the other.
                Builder::new().spawn_scoped(scope, try_it.clone()).map_err(|_| Box::new(try_it()))
            })
            .collect();
        let fact = |tried: Result<ScopedJoinHandle<'_, GpuFact>, Box<GpuFact>>| match tried {
            Ok(thread) => thread.join().expect("a try does not panic"),
            Err(fact) => *fact,
        };
        tries.into_iter().map(fact).collect()
    })
}

/// Files of a device that this user cannot open. NVIDIA's the kernel run has opened already.
fn unusable(node: &Assigned) -> Vec<String> {
    let Assigned::Amd { render } = node else { return Vec::new() };
    let files = [PathBuf::from("/dev/kfd"), format!("/dev/dri/renderD{render}").into()];
    let refused = files.iter().filter_map(|path| {
        let opened = OpenOptions::new().read(true).write(true).open(path);
        opened.err().map(|error| format!("{}: {error}", path.display()))
    });
    refused.collect()
}

fn inside(runtime: &dyn Runtime, node: &Assigned) -> InsideFact {
    let command = vec!["/bin/sh".into(), "-c".into(), LIST_GPUS.into()];
    let mut container = Container::new(Root::Host, command);
    let given = match access(Path::new("/"), std::slice::from_ref(node)) {
        Ok(given) => given,
        Err(error) => {
            let hint = error.hint().map(|hint| format!(" ({hint})")).unwrap_or_default();
            return InsideFact { wanted: Vec::new(), seen: Err(format!("{error}{hint}")) };
        }
    };
    let wanted = given.devices.iter().filter(|path| is_gpu(path)).cloned().collect();
    given.add_to(&mut container);
    let seen = run(runtime, &container);
    InsideFact { wanted, seen: seen.map(|text| text.lines().map(PathBuf::from).collect()) }
}

/// A file of one GPU or slice, as opposed to those that all share.
fn is_gpu(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let numbered = |prefix: &str| {
        let number = name.strip_prefix(prefix);
        number.is_some_and(|number| {
            !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
        })
    };
    numbered("nvidia") || numbered("nvidia-cap") || numbered("renderD")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_cannot_be_written_says_why() {
        let dir = tempfile::tempdir().unwrap();
        for found in [folder(&dir.path().join("new/below")), image_store(&dir.path().join("new"))] {
            assert_eq!(found.problem, None);
            assert!(found.free.unwrap() > 0);
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "no traces");
        std::fs::write(dir.path().join("file"), "").unwrap();
        let found = folder(&dir.path().join("file/below"));
        assert!(found.problem.unwrap().starts_with("cannot be made"));
        std::fs::write(dir.path().join("format.json"), "{}").unwrap();
        assert!(image_store(dir.path()).problem.unwrap().starts_with("cannot be used"));
        // Nobody may make a file there, not even root.
        assert!(folder(Path::new("/proc/self")).problem.unwrap().starts_with("cannot be written"));
    }

    #[test]
    fn files_of_one_gpu_are_told_from_those_of_all() {
        for (path, expected) in [
            ("/dev/nvidia0", true),
            ("/dev/nvidia12", true),
            ("/dev/dri/renderD128", true),
            ("/dev/nvidiactl", false),
            ("/dev/nvidia-uvm", false),
            ("/dev/nvidia-caps/nvidia-cap12", true),
            ("/dev/kfd", false),
        ] {
            assert_eq!(is_gpu(Path::new(path)), expected, "{path}");
        }
    }
}
