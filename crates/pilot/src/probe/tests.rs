//! Tests of the probe on trees made for the purpose, and once on the machine at hand.

use super::*;
use shipway_model::gpu::{GpuSource, GpuVendor};
use std::fs;

fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn places(root: &Path) -> Places {
    Places {
        dir: root.to_owned(),
        proc: root.join("proc"),
        sys: root.join("sys"),
        etc: root.join("etc"),
    }
}

#[test]
fn this_machine_has_something() {
    let dir = tempfile::tempdir().unwrap();
    let probe = probe(&Places::of_this_node(dir.path()), None);
    assert!(probe.capacity.cpus.milli >= 1000);
    assert!(probe.capacity.memory > Bytes(1 << 20));
    assert!(probe.capacity.disk > Bytes(0));
    assert!(probe.gpus.iter().all(|gpu| gpu.source != GpuSource::Declared));
}

#[test]
fn memory_is_the_lowest_of_machine_and_control_groups() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    write(root, "proc/meminfo", "MemFree: 1 kB\nMemTotal:       1000 kB\n");
    assert_eq!(memory_bytes(&places(root)), Some(1_024_000));
    write(root, "proc/self/cgroup", "0::/user/job\n");
    write(root, "sys/fs/cgroup/user/job/memory.max", "max\n");
    assert_eq!(memory_bytes(&places(root)), Some(1_024_000));
    write(root, "sys/fs/cgroup/user/memory.max", "5000\n");
    assert_eq!(memory_bytes(&places(root)), Some(5000));
    write(root, "proc/self/cgroup", "7:cpu,memory:/batch\n0::/user/job\n");
    write(root, "sys/fs/cgroup/memory/batch/memory.limit_in_bytes", "4000\n");
    assert_eq!(memory_bytes(&places(root)), Some(4000));
}

#[test]
fn amd_cards_are_found_and_their_sockets_and_neighbours_are_not() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    let card = "sys/class/drm/card10/device";
    write(root, &format!("{card}/vendor"), "0x1002\n");
    write(root, &format!("{card}/mem_info_vram_total"), "68702699520\n");
    write(root, &format!("{card}/unique_id"), "af3c1\n");
    write(root, &format!("{card}/product_name"), "Instinct MI210\n");
    write(root, "sys/class/drm/card2/device/vendor", "0x1002\n");
    write(root, "sys/class/drm/card0/device/vendor", "0x10de\n");
    write(root, "sys/class/drm/card10-DP-1/device/vendor", "0x1002\n");
    write(root, "sys/module/amdgpu/version", "6.7.0\n");
    let mut notes = Vec::new();
    let gpus: Vec<_> =
        amd::probe(&root.join("sys"), &mut notes).into_iter().map(|(gpu, _)| gpu).collect();
    assert_eq!(gpus.len(), 1);
    assert_eq!(gpus[0].id.as_str(), "GPU-af3c1");
    assert_eq!(gpus[0].model, "Instinct MI210");
    assert_eq!(gpus[0].memory, Bytes(68_702_699_520));
    assert_eq!((gpus[0].vendor, gpus[0].source), (GpuVendor::Amd, GpuSource::Sysfs));
    assert_eq!(gpus[0].driver, Some(Version::new(&[6, 7, 0])));
    assert!(matches!(&notes[..], [note] if note.contains("card2")), "{notes:?}");
}

#[test]
fn what_is_declared_twice_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("node.json");
    let gpu = r#"{"uuid":"GPU-7","model":"A100","memory":"40GB","vendor":"nvidia"}"#;
    for (text, words) in [
        (format!(r#"{{"gpus":[{gpu},{gpu}]}}"#), "declares the GPU GPU-7 twice"),
        (r#"{"named":{"licences":1,"licences":2}}"#.into(), "`licences` is given twice"),
    ] {
        std::fs::write(&file, &text).unwrap();
        let error = Declared::read(&file).unwrap_err();
        let causes =
            std::iter::successors(Some(&error as &dyn std::error::Error), |error| error.source());
        let said: Vec<String> = causes.map(ToString::to_string).collect();
        assert!(said.join(": ").contains(words), "{said:?}");
    }
}

#[test]
fn attributes_that_need_one_another_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    for (attributes, words) in [
        (r#""Row": "Rack / 8", "Rack": "MY.Row * 8", "Room": "1""#, "Row needs Rack needs Row"),
        (r#""Memory": "Memory - 1024""#, "Memory needs Memory"),
    ] {
        write(dir.path(), "node.json", &format!(r#"{{"attributes": {{{attributes}}}}}"#));
        let wrong = Declared::read(&dir.path().join("node.json")).unwrap_err().to_string();
        assert!(wrong.contains("go in a circle") && wrong.contains(words), "{wrong}");
    }
    write(dir.path(), "node.json", r#"{"attributes": {"Row": "Rack / 8", "Rack": "Cpus"}}"#);
    assert!(Declared::read(&dir.path().join("node.json")).is_ok());
}

#[test]
fn declared_resources_come_on_top_and_say_so() {
    let dir = tempfile::tempdir().unwrap();
    write(
        dir.path(),
        "node.json",
        r#"{
        "gpus": [
            {"uuid": "GPU-1", "model": "A100", "memory": "40GB", "capability": "8.0",
             "vendor": "nvidia"}
        ],
        "cpus_milli": 1500, "memory": "64GB", "named": {"licences": 3}
    }"#,
    );
    let declared = Declared::read(&dir.path().join("node.json")).unwrap();
    let mut found = probe(&Places::of_this_node(dir.path()), Some(declared.clone()));
    let shown: Vec<_> = found.gpus.iter().filter(|gpu| gpu.source == GpuSource::Declared).collect();
    assert_eq!(shown.len(), 1);
    assert_eq!(shown[0].capability, Some(Version::new(&[8, 0])));
    assert_eq!(found.capacity.cpus.milli, 1500);
    assert_eq!(found.capacity.memory, Bytes(64_000_000_000));
    assert!(found.capacity.disk > Bytes(0));
    assert_eq!(found.capacity.named["licences"], 3);
    found.gpus[0].id = declared.gpus[0].uuid.clone();
    let before = found.gpus.len();
    declared.apply(&mut found);
    assert_eq!(found.gpus.len(), before, "one that is there is not hidden by a declared one");
    assert!(found.notes.iter().any(|note| note.contains("GPU-1")));
}

#[test]
fn a_mistake_in_the_declaration_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "node.json", r#"{"cpu": 4}"#);
    let wrong = Declared::read(&dir.path().join("node.json")).unwrap_err();
    assert!(matches!(wrong, DeclaredError::Parse { .. }), "{wrong}");
    let missing = Declared::read(&dir.path().join("none.json")).unwrap_err();
    assert!(matches!(missing, DeclaredError::Read { .. }), "{missing}");
}
