//! A program that stands for `shipway pilot`: writes down what it was started with, and ends as it
//! is told. The real one is tested where it is made.

use crate::engine::{Engine, until};
use shipway_model::{AllocationId, Bytes, Cores, Millis};
use shipway_sites::batch::{BatchSystem, Order, PilotStart, Seen, SeenPhase};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

const PROGRAM: &str = r#"#!/bin/sh
report=REPORT/${SLURM_PROCID:-none}
trap 'echo TERM > "$report.end"; exit 0' TERM
{
    printf '<%s>' "$@"
    echo
    pwd
    stat -c '%a %n' . * | tr '\n' ' '
    echo
    cat credentials.json
    echo
} > "$report.start.new"
env > "$report.env"
cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\0' ' ' > "$report.processes"
mv "$report.start.new" "$report.start"
case "$*" in *--then=fail*) exit 3 ;; esac
while :; do sleep 0.1; done
"#;

pub(crate) struct Stand {
    pub(crate) folder: PathBuf,
}

impl Stand {
    /// Each test has one of its own.
    pub(crate) fn new(engine: &Engine, name: &str) -> Stand {
        let folder = engine.folder().join(name);
        for folder in [folder.clone(), folder.join("scratch")] {
            std::fs::create_dir(&folder).expect("made");
        }
        let program = PROGRAM.replace("REPORT", folder.to_str().expect("text"));
        std::fs::write(folder.join("shipway"), program).expect("written");
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(folder.join("shipway"), mode).expect("made to run");
        Stand { folder }
    }

    /// Whose pilots run as another account.
    pub(crate) fn for_all(engine: &Engine, name: &str) -> Stand {
        let stand = Stand::new(engine, name);
        let mode = std::fs::Permissions::from_mode(0o777);
        for folder in [stand.folder.clone(), stand.folder.join("scratch")] {
            std::fs::set_permissions(folder, mode.clone()).expect("opened");
        }
        stand
    }

    pub(crate) fn order(&self, allocation: &str) -> Order {
        let text = |name: &str| self.folder.join(name).to_str().expect("text").to_string();
        Order {
            allocation: AllocationId::new(allocation).expect("good"),
            partition: None,
            nodes: 1,
            cpus: Cores::whole(1),
            memory: Bytes(100 << 20),
            gpus: None,
            wall: Millis(30 * 60_000),
            warning: Millis(0),
            submit_lines: Vec::new(),
            pilot: PilotStart {
                sha256: None,
                program: text("shipway"),
                options: vec!["--server".into(), "https://x".into()],
                scratch: Some(text("scratch")),
                credentials: vec!["secret-0".into()],
                files: vec![("ca.pem".into(), "a certificate".into())],
            },
        }
    }

    pub(crate) fn file(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.folder.join(name)).ok()
    }

    pub(crate) fn scratch_is_empty(&self) -> bool {
        std::fs::read_dir(self.folder.join("scratch")).expect("there").next().is_none()
    }
}

/// The one of this name, once it is so.
pub(crate) fn seen_as(
    slurm: &impl BatchSystem,
    allocation: &str,
    wanted: impl Fn(SeenPhase) -> bool,
) -> Seen {
    until(allocation, || {
        let all = slurm.look().expect("it answers");
        all.into_iter().find(|seen| seen.allocation.as_str() == allocation && wanted(seen.phase))
    })
}
