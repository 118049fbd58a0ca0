//! Tables of what batch systems were seen to put into the environment of a job, and what a pilot
//! makes of it.
//!
//! The environments of Slurm were recorded with 22.05.8, two nodes of 16 CPUs, 8,000 MB and four
//! GPUs each, from jobs submitted as their names say; those of HTCondor with 23.9.6 and simulated
//! GPUs. What is shortened is what this module does not read.

use super::*;
use std::collections::BTreeMap;

mod slices;

const GB: u64 = 1_000_000_000;
const MIB: u64 = 1 << 20;

fn device(id: &str, minor: Option<u32>) -> Device {
    Device { id: DeviceId::new(id).unwrap(), minor, is_amd: false, declared: minor.is_none() }
}

/// A large node with these GPUs.
fn node(gpus: Vec<Device>) -> Found {
    let (cpus, memory, disk) = (Cores::whole(16), Bytes(64 * GB), Bytes(500 * GB));
    Found { cpus, memory, disk, gpus, ..Found::default() }
}

/// As a test cluster declares them: without files.
fn declared() -> Found {
    node((0..4).map(|at| device(&format!("GPU-fake-{at}"), None)).collect())
}

/// As NVML shows them: these files, in this order.
fn real(minors: &[u32]) -> Found {
    let one = |minor: &u32| device(&format!("GPU-a{minor}223334-0000"), Some(*minor));
    node(minors.iter().map(one).collect())
}

fn facts(environment: &str) -> Facts {
    let split = |word: &str| {
        let (name, value) = word.split_once('=').unwrap();
        (name.to_owned(), value.to_owned())
    };
    let environment: BTreeMap<String, String> = environment.split_whitespace().map(split).collect();
    Facts { environment, affinity: Some(Cores::whole(16)), ..Facts::default() }
}

fn within(within: Within) -> Asked {
    Asked { within, ..Asked::default() }
}

fn ids(given: &Given) -> Vec<&str> {
    given.gpus.value.iter().map(DeviceId::as_str).collect()
}

/// What was submitted, the environment of the pilot, cores, memory in MiB, numbers of devices.
type Recorded = (&'static str, &'static str, u64, u64, &'static [u32]);

const SLURM: [Recorded; 12] = [
    (
        "sbatch --gres=gpu:a100:2 -n1 -c4 --mem=500",
        "CUDA_VISIBLE_DEVICES=0,1 GPU_DEVICE_ORDINAL=0,1 ROCR_VISIBLE_DEVICES=0,1 \
         SLURM_CPUS_ON_NODE=4 SLURM_GPUS_ON_NODE=2 SLURM_JOB_CPUS_PER_NODE=4 SLURM_JOB_GPUS=0,1 \
         SLURM_JOB_ID=2 SLURM_LOCALID=0 SLURM_MEM_PER_NODE=500 SLURM_NODEID=0",
        4,
        500,
        &[0, 1],
    ),
    (
        "sbatch --gres=gpu:1 -n3 --mem-per-cpu=70",
        "CUDA_VISIBLE_DEVICES=0 GPU_DEVICE_ORDINAL=0 ROCR_VISIBLE_DEVICES=0 SLURM_CPUS_ON_NODE=3 \
         SLURM_JOB_CPUS_PER_NODE=3 SLURM_JOB_GPUS=0 SLURM_JOB_ID=3 SLURM_LOCALID=0 \
         SLURM_MEM_PER_CPU=70 SLURM_NODEID=0",
        3,
        210,
        &[0],
    ),
    (
        "sbatch --gpus=1 --mem-per-gpu=200",
        "CUDA_VISIBLE_DEVICES=0 SLURM_CPUS_ON_NODE=1 SLURM_JOB_CPUS_PER_NODE=1 SLURM_JOB_GPUS=0 \
         SLURM_JOB_ID=6 SLURM_LOCALID=0 SLURM_MEM_PER_GPU=200 SLURM_NODEID=0",
        1,
        200,
        &[0],
    ),
    (
        "sbatch -N2 -n6 --gpus-per-node=1, on the first node",
        "CUDA_VISIBLE_DEVICES=0 SLURM_CPUS_ON_NODE=5 SLURM_JOB_CPUS_PER_NODE=5,1 SLURM_JOB_GPUS=0 \
         SLURM_JOB_ID=4 SLURM_LOCALID=0 SLURM_MEM_PER_CPU=50 SLURM_NODEID=0",
        5,
        250,
        &[0],
    ),
    (
        "sbatch -N2 --ntasks-per-node=1 --gpus-per-node=1 with srun, the node that has device 1",
        "CUDA_VISIBLE_DEVICES=1 GPU_DEVICE_ORDINAL=1 SLURM_CPUS_ON_NODE=1 SLURM_JOB_GPUS=1 \
         SLURM_JOB_ID=9 SLURM_LOCALID=0 SLURM_MEM_PER_CPU=50 SLURM_NODEID=0 SLURM_STEP_GPUS=1",
        1,
        50,
        &[1],
    ),
    (
        "the other node of the same step, where SLURM_JOB_GPUS is still of the first",
        "CUDA_VISIBLE_DEVICES=0 GPU_DEVICE_ORDINAL=0 SLURM_CPUS_ON_NODE=1 SLURM_JOB_GPUS=1 \
         SLURM_JOB_ID=9 SLURM_LOCALID=0 SLURM_MEM_PER_CPU=50 SLURM_NODEID=1 SLURM_STEP_GPUS=0",
        1,
        50,
        &[0],
    ),
    (
        "sbatch --gres=gpu:1, from within a step of another job that had device 3",
        "CUDA_VISIBLE_DEVICES=1 GPU_DEVICE_ORDINAL=1 SLURM_CPUS_ON_NODE=1 SLURM_JOB_GPUS=1 \
         SLURM_JOB_ID=11 SLURM_LOCALID=0 SLURM_MEM_PER_CPU=50 SLURM_NODEID=0 SLURM_STEP_GPUS=3",
        1,
        50,
        &[1],
    ),
    (
        "sbatch without GPUs, from within such a step that also had --mem=77",
        "SLURM_CPUS_ON_NODE=2 SLURM_JOB_ID=10 SLURM_LOCALID=0 SLURM_MEM_PER_CPU=50 \
         SLURM_MEM_PER_NODE=77 SLURM_NODEID=0 SLURM_STEP_GPUS=3",
        2,
        77,
        &[],
    ),
    (
        "srun --gres=none in a job that has two",
        "SLURM_CPUS_ON_NODE=1 SLURM_JOB_GPUS=1,2 SLURM_JOB_ID=13 SLURM_LOCALID=0 \
         SLURM_MEM_PER_CPU=50 SLURM_NODEID=0",
        1,
        50,
        &[],
    ),
    (
        "sbatch, nothing asked for",
        "SLURM_CPUS_ON_NODE=1 SLURM_JOB_CPUS_PER_NODE=1 SLURM_JOB_ID=7 SLURM_LOCALID=0 \
         SLURM_MEM_PER_CPU=50 SLURM_NODEID=0",
        1,
        50,
        &[],
    ),
    (
        "what versions before 21.08 say without GPUs",
        "CUDA_VISIBLE_DEVICES=NoDevFiles SLURM_CPUS_ON_NODE=1 SLURM_JOB_ID=7 SLURM_MEM_PER_CPU=50",
        1,
        50,
        &[],
    ),
    (
        "only the counts of all nodes, as in 3(x2),7, on the third",
        "CUDA_VISIBLE_DEVICES=2-3 SLURM_JOB_CPUS_PER_NODE=3(x2),7 SLURM_JOBID=5 SLURM_NODEID=2 \
         SLURM_MEM_PER_NODE=1G",
        7,
        1_024,
        &[2, 3],
    ),
];

#[test]
fn in_a_job_of_slurms_as_much_is_offered_as_it_gave() {
    for (what, environment, cpus, memory, devices) in SLURM {
        for found in [declared(), real(&[0, 1, 2, 3])] {
            let given = decide(&within(Within::Slurm), &facts(environment), &found);
            assert_eq!(given.unfit, [""; 0], "{what}");
            assert_eq!(given.cpus.value, Cores::whole(cpus), "{what}");
            assert_eq!(given.memory.value, Bytes(memory * MIB), "{what}");
            let at = |number: &u32| found.gpus[*number as usize].id.as_str();
            assert_eq!(ids(&given), devices.iter().map(at).collect::<Vec<_>>(), "{what}");
            let none = devices.is_empty().then_some("Slurm gave none of the 4 GPUs of this node");
            let said = !environment.contains("CUDA_");
            let expected: Vec<&str> = none.filter(|_| said).into_iter().collect();
            assert_eq!(given.notes, expected, "{what}");
        }
    }
}

#[test]
fn memory_that_slurm_does_not_share_out_is_all_that_can_be_used() {
    // sbatch --mem=0 -c2
    let environment = "SLURM_CPUS_ON_NODE=2 SLURM_JOB_ID=1 SLURM_LOCALID=0 SLURM_NODEID=0";
    let mut facts = facts(environment);
    let given = decide(&within(Within::Slurm), &facts, &node(Vec::new()));
    assert_eq!(given.memory, Learned { value: Bytes(64 * GB), from: MACHINE });
    facts.memory_limit = Some(Bytes(8 * GB));
    let given = decide(&within(Within::Slurm), &facts, &node(Vec::new()));
    assert_eq!(given.memory, Learned { value: Bytes(8 * GB), from: GROUP });
    assert_eq!(given.notes, [""; 0]);
}

/// Devices as the pilot sees them, which of them are visible, the numbers of their files as Slurm
/// says them; what is offered.
#[test]
fn devices_are_known_by_their_files_where_slurm_counts_anew() {
    let job = "SLURM_JOB_ID=1 SLURM_CPUS_ON_NODE=1 SLURM_MEM_PER_NODE=100";
    for (what, minors, visible, files, expected) in [
        ("constrained, and NVML shows the visible ones", &[2, 3][..], "0,1", "2,3", &[2, 3][..]),
        ("constrained, and NVML shows all", &[0, 1, 2, 3], "0,1", "2,3", &[2, 3]),
        ("not constrained", &[0, 1, 2, 3], "2,3", "2,3", &[2, 3]),
        ("cards that NVML counts otherwise than their files", &[1, 0], "0", "0", &[0]),
        ("constrained, and other numbers of files", &[5, 6], "1", "9", &[6]),
    ] {
        let environment = format!("{job} CUDA_VISIBLE_DEVICES={visible} SLURM_JOB_GPUS={files}");
        let given = decide(&within(Within::Slurm), &facts(&environment), &real(minors));
        let ids_of = |minor: &u32| format!("GPU-a{minor}223334-0000");
        assert_eq!(ids(&given), expected.iter().map(ids_of).collect::<Vec<_>>(), "{what}");
        assert_eq!(given.notes, [""; 0], "{what}");
    }
}

#[test]
fn amd_devices_are_counted_by_themselves() {
    let mut found = node((0..2).map(|at| device(&format!("GPU-amd-{at}"), None)).collect());
    for gpu in &mut found.gpus {
        (gpu.is_amd, gpu.declared) = (true, false);
    }
    let environment = "SLURM_JOB_ID=1 ROCR_VISIBLE_DEVICES=1 CUDA_VISIBLE_DEVICES=0";
    assert_eq!(ids(&decide(&within(Within::Slurm), &facts(environment), &found)), ["GPU-amd-1"]);
}

/// Two pilots of one node mean the same device if and only if they were given the same one.
#[test]
fn a_device_has_one_id_whichever_pilot_was_given_it() {
    let of = |number: u32| {
        let environment = format!("SLURM_JOB_ID=1 CUDA_VISIBLE_DEVICES={number}");
        let given = decide(&within(Within::Slurm), &facts(&environment), &declared());
        given.gpus.value[0].clone()
    };
    assert_eq!(of(2), of(2));
    let all: std::collections::BTreeSet<DeviceId> = (0..4).map(of).collect();
    assert_eq!(all.len(), 4);
}

fn slot(ad: &str, environment: &str) -> Facts {
    let named =
        format!("_CONDOR_SLOT=slot1_1 _CONDOR_MACHINE_AD=/scratch/.machine.ad {environment}");
    Facts { machine_ad: Some(MachineAd::parse(ad.as_bytes())), ..facts(&named) }
}

const SLOT: &str = "Cpus = 2\nMemory = 1024\nDisk = 1000000\nAssignedGPUs = \"GPU-a2223334\"\n";

#[test]
fn in_a_slot_of_htcondors_as_much_is_offered_as_its_ad_says() {
    let short = "_CONDOR_AssignedGPUs=GPU-a2223334 CUDA_VISIBLE_DEVICES=GPU-a2223334";
    let none = "_CONDOR_AssignedGPUs=10000 CUDA_VISIBLE_DEVICES=10000";
    let without = "Cpus = 2\nMemory = 1024\nDisk = 1000000\n";
    for (what, ad, environment, expected) in [
        ("a short id", SLOT, short, &["GPU-a2223334-0000"][..]),
        ("the ad alone", SLOT, "", &["GPU-a2223334-0000"]),
        (
            "by its number, as before 9.0",
            without,
            "_CONDOR_AssignedGPUs=CUDA1",
            &["GPU-a1223334-0000"],
        ),
        ("none", without, none, &[]),
        ("none, and nothing said of it", without, "", &[]),
    ] {
        let facts = slot(ad, environment);
        let given = decide(&within(Within::HtCondor), &facts, &real(&[0, 1, 2]));
        assert_eq!(ids(&given), expected, "{what}");
        let amounts = (given.cpus.value, given.memory.value, given.disk.value);
        let (memory, disk) = (Bytes(1024 * MIB), Bytes(1_000_000 << 10));
        assert_eq!(amounts, (Cores::whole(2), memory, disk), "{what}");
        assert_eq!((given.notes.len(), given.unfit.len()), (0, 0), "{what}: {given:?}");
    }
}

/// Nobody could have declared them by the names they have there.
#[test]
fn what_is_declared_has_the_name_that_htcondor_gave_it() {
    let of = |given: &str, found: Found| {
        let facts = slot("Cpus = 2\nMemory = 1024\n", &format!("_CONDOR_AssignedGPUs={given}"));
        decide(&within(Within::HtCondor), &facts, &found)
    };
    let two = of("GPU-k40aaaa1,GPU-k40aaaa0", declared());
    assert_eq!(ids(&two), ["GPU-k40aaaa1", "GPU-k40aaaa0"]);
    assert_eq!((two.notes.len(), two.unfit.len()), (0, 0), "{two:?}");
    let gpu = |found: &Device| shipway_model::GpuDevice {
        id: found.id.clone(),
        model: "Tesla K40m".into(),
        memory: Bytes(11 * GB),
        vendor: GpuVendor::Nvidia,
        source: GpuSource::Declared,
        capability: None,
        driver: None,
        slice: None,
    };
    let gpus = declared().gpus.iter().map(gpu).collect();
    let mut probe = Probe { gpus, ..Probe::default() };
    two.narrow(&mut probe);
    let left: Vec<&str> = probe.gpus.iter().map(|gpu| gpu.id.as_str()).collect();
    assert_eq!(left, ["GPU-k40aaaa1", "GPU-k40aaaa0"]);
    let more = "GPU-aaaaaaa0,GPU-aaaaaaa1,GPU-aaaaaaa2,GPU-aaaaaaa3,GPU-aaaaaaa4";
    let more = of(more, declared());
    assert_eq!((ids(&more).len(), more.notes.len()), (4, 1), "{more:?}");
    let mut beside = real(&[0]);
    beside.gpus.extend(declared().gpus);
    assert_eq!(ids(&of("GPU-ffffffff", beside)), [""; 0], "one that was looked for");
}

/// A request, what is known, what was found, and what is said of it.
type Disagreement<'a> = (Asked, Facts, Found, &'a [&'a str]);

fn check_disagreements(rows: &[Disagreement<'_>]) {
    for (asked, facts, found, expected) in rows {
        let given = decide(asked, facts, found);
        assert_eq!(given.notes, *expected);
        assert_eq!(given.unfit, [""; 0]);
    }
}

fn job(more: &str) -> Facts {
    facts(&format!("SLURM_JOB_ID=1 SLURM_CPUS_ON_NODE=2 {more}"))
}

#[test]
fn devices_that_disagree_are_said() {
    let two = Asked { expect_gpus: Some(2), ..within(Within::Slurm) };
    let (one, condor) = (within(Within::Slurm), within(Within::HtCondor));
    let alike = vec![device("GPU-a2223334-1", None), device("GPU-a2223334-2", None)];
    check_disagreements(&[
        (
            two,
            job("CUDA_VISIBLE_DEVICES=1"),
            real(&[0, 1]),
            &["asked for 2 GPUs, found 1: CUDA_VISIBLE_DEVICES"],
        ),
        (
            one,
            job("CUDA_VISIBLE_DEVICES=0,3"),
            real(&[0, 1]),
            &["the batch system gave device 3, and only 0..1 were found"],
        ),
        (
            one,
            job("CUDA_VISIBLE_DEVICES=first"),
            real(&[0]),
            &["CUDA_VISIBLE_DEVICES is `first`, which names no devices"],
        ),
        (
            condor,
            slot(SLOT, "_CONDOR_AssignedGPUs=GPU-ffffffff"),
            real(&[0]),
            &["the batch system gave device `GPU-ffffffff`, and only 0 was found, none so called"],
        ),
        (
            condor,
            slot(SLOT, "_CONDOR_AssignedGPUs=GPU-a2223334"),
            node(alike),
            &["the batch system gave device `GPU-a2223334`, and several are called so"],
        ),
    ]);
}

#[test]
fn amounts_that_disagree_are_said() {
    let one = within(Within::Slurm);
    let narrow = Facts { affinity: Some(Cores::whole(1)), ..job("") };
    let limited = |megabytes: u64| {
        let memory_limit = Some(Bytes(megabytes * 1_000_000));
        Facts { memory_limit, ..job("SLURM_MEM_PER_NODE=4000") }
    };
    let cores = "the batch system gave 2 cores (SLURM_CPUS_ON_NODE), and 1 can be used (the \
                 affinity of this process)";
    let memory = "the batch system gave 4.1GB of memory (SLURM_MEM_PER_NODE), and 1GB can be used \
                  (its control group)";
    let unsaid = "the batch system does not say how many cores it gave; 16 can be used (the \
                  affinity of this process)";
    let none = || node(Vec::new());
    let bad = "SLURM_JOB_ID=1 SLURM_CPUS_ON_NODE=many SLURM_JOB_CPUS_PER_NODE=2";
    check_disagreements(&[
        (one, narrow, none(), &[cores]),
        (one, limited(1_000), none(), &[memory]),
        (one, limited(4_100), none(), &[]),
        (one, facts("SLURM_JOB_ID=1"), none(), &[unsaid]),
        (one, facts(bad), none(), &["SLURM_CPUS_ON_NODE is `many`, which is not a number"]),
    ]);
}

#[test]
fn where_nothing_sane_is_left_the_node_is_not_fit() {
    let two = Asked { expect_gpus: Some(2), ..within(Within::Slurm) };
    let nothing = Asked { memory: Some(Bytes(0)), ..within(Within::Slurm) };
    let ad_gone = Facts {
        machine_ad: Some(Err("cannot read /scratch/.machine.ad: gone".into())),
        ..facts("_CONDOR_SLOT=slot1")
    };
    let rows: [(Asked, Facts, &str); 7] = [
        (within(Within::Slurm), facts("PATH=/bin"), "there is no SLURM_JOB_ID"),
        (within(Within::HtCondor), facts("SLURM_JOB_ID=1"), "there is no _CONDOR_SLOT"),
        (within(Within::HtCondor), ad_gone, "cannot be known: cannot read /scratch/.machine.ad"),
        (within(Within::HtCondor), facts("_CONDOR_SLOT=slot1"), "no _CONDOR_MACHINE_AD"),
        (within(Within::Slurm), facts("SLURM_JOB_ID=1 SLURM_LOCALID=1"), "--ntasks-per-node=1"),
        (two, facts("SLURM_JOB_ID=1"), "asked for 2 GPUs, found none: no CUDA_VISIBLE_DEVICES"),
        (nothing, facts("SLURM_JOB_ID=1"), "no memory is left of what was given (--memory)"),
    ];
    for (asked, facts, expected) in rows {
        let unfit = decide(&asked, &facts, &real(&[0, 1])).unfit;
        assert!(unfit.iter().any(|why| why.contains(expected)), "{expected}: {unfit:?}");
    }
}

#[test]
fn a_site_may_say_that_it_is_less() {
    let bounds = Asked {
        cpus: Some(Cores::whole(1)),
        memory: Some(Bytes(GB)),
        gpus: Some(1),
        ..Asked::default()
    };
    assert!(bounds.is_anything() && !Asked::default().is_anything());
    let given = decide(&bounds, &Facts::default(), &declared());
    assert_eq!(ids(&given), ["GPU-fake-0"]);
    assert_eq!(given.cpus, Learned { value: Cores::whole(1), from: "--cpus" });
    assert_eq!(given.memory, Learned { value: Bytes(GB), from: "--memory" });
    let more = Asked { cpus: Some(Cores::whole(99)), gpus: Some(9), ..Asked::default() };
    let given = decide(&more, &Facts::default(), &declared());
    assert_eq!((given.cpus.value, given.gpus.value.len()), (Cores::whole(16), 4));
}

/// A test cluster says it has more than its machine, and what it declares is what counts.
#[test]
fn what_is_declared_is_not_held_down_by_the_machine() {
    let found = Found { cpus_declared: true, memory_declared: true, ..declared() };
    let (affinity, memory_limit) = (Some(Cores::whole(2)), Some(Bytes(GB)));
    let job = "SLURM_JOB_ID=1 SLURM_CPUS_ON_NODE=8 SLURM_MEM_PER_NODE=8000";
    let facts = Facts { affinity, memory_limit, ..facts(job) };
    let given = decide(&within(Within::Slurm), &facts, &found);
    assert_eq!((given.cpus.value, given.memory.value), (Cores::whole(8), Bytes(8_000 * MIB)));
    assert_eq!(given.notes, ["Slurm gave none of the 4 GPUs of this node"]);
}

#[test]
fn nothing_of_what_others_have_stays_in_the_probe() {
    let gpu = |id: &str| shipway_model::GpuDevice {
        id: DeviceId::new(id).unwrap(),
        model: "A100".into(),
        memory: Bytes(1),
        vendor: GpuVendor::Nvidia,
        source: GpuSource::Nvml,
        capability: None,
        driver: None,
        slice: None,
    };
    let assigned = |minor: u32, id: &str| Assigned::Nvidia { minor, uuid: id.into() };
    let mut probe = Probe {
        gpus: vec![gpu("GPU-0"), gpu("GPU-1")],
        nodes: ["GPU-0", "GPU-1"]
            .iter()
            .zip(0..)
            .map(|(id, at)| ((*id).into(), assigned(at, id)))
            .collect(),
        gpu_faults: vec!["GPU 2 does not answer: insufficient permissions".into()],
        ..Probe::default()
    };
    probe.capacity.cpus = Cores::whole(4);
    probe.capacity.memory = Bytes(GB);
    let facts = facts("SLURM_JOB_ID=1 CUDA_VISIBLE_DEVICES=1 SLURM_CPUS_ON_NODE=2");
    let given = decide(&within(Within::Slurm), &facts, &found(&probe, false, false));
    given.narrow(&mut probe);
    assert_eq!(probe.gpus, [gpu("GPU-1")]);
    assert_eq!(probe.nodes.keys().collect::<Vec<_>>(), ["GPU-1"]);
    assert_eq!(probe.gpu_faults, [""; 0], "they are of somebody else's device");
    assert_eq!(probe.capacity.cpus, Cores::whole(2));
}

#[test]
fn no_text_from_outside_does_harm() {
    let long = "9".repeat(70_000);
    let many = "0,".repeat(20_000);
    let texts =
        ["", ",", "-", "0-4294967295", "4294967296", "-1", "GPU-", "\u{7}\n", "0,,1", &long, &many];
    for text in texts {
        let mut facts = Facts::default();
        for name in slurm::VARIABLES.iter().chain(&htcondor::VARIABLES) {
            facts.environment.insert((*name).into(), text.into());
        }
        for system in [Within::Slurm, Within::HtCondor] {
            let given = decide(&within(system), &facts, &declared());
            let notes = given.notes.iter().chain(&given.unfit);
            assert!(notes.clone().all(|note| note.len() < 500), "{given:?}");
            assert!(notes.clone().all(|note| !note.contains(char::is_control)), "{given:?}");
        }
        let _read = MachineAd::parse(text.as_bytes());
    }
}
