//! Hardware slices, by the names and numbers that batch systems give them.

use super::*;

#[test]
fn slices_and_uuids_are_known_by_name() {
    let slices = ["MIG-11111111-aa", "MIG-22222222-bb", "MIG-33333333-cc"];
    let found = node(slices.iter().map(|id| device(id, None)).collect());
    let job = "SLURM_JOB_ID=1 SLURM_CPUS_ON_NODE=1";
    let environment = format!("{job} CUDA_VISIBLE_DEVICES=MIG-33333333-cc,MIG-11111111-aa");
    let given = decide(&within(Within::Slurm), &facts(&environment), &found);
    assert_eq!(ids(&given), ["MIG-33333333-cc", "MIG-11111111-aa"]);
    let environment = format!("{job} CUDA_VISIBLE_DEVICES=GPU-a1223334-0000");
    let given = decide(&within(Within::Slurm), &facts(&environment), &real(&[0, 1]));
    assert_eq!(ids(&given), ["GPU-a1223334-0000"]);
}

/// As Slurm counts the lines of its gres.conf, where it was not told to look for slices itself.
#[test]
fn beside_slices_a_number_is_no_file() {
    let real = |id: &str, minor| Device { declared: false, ..device(id, minor) };
    let found =
        [("MIG-11111111-aa", None), ("MIG-22222222-bb", None), ("GPU-33333333-cc", Some(1))];
    let found = node(found.map(|(id, minor)| real(id, minor)).into());
    for (number, expected) in
        [(0, "MIG-11111111-aa"), (1, "MIG-22222222-bb"), (2, "GPU-33333333-cc")]
    {
        let environment =
            format!("SLURM_JOB_ID=1 SLURM_JOB_GPUS={number} CUDA_VISIBLE_DEVICES={number}");
        let given = decide(&within(Within::Slurm), &facts(&environment), &found);
        assert_eq!(ids(&given), [expected], "{number}");
    }
}

#[test]
fn a_slice_of_htcondors_is_known_by_the_beginning_of_its_name() {
    let slices = ["MIG-1b2c3d4e-aa", "MIG-1b2c3d4f-bb"];
    let found = node(slices.iter().map(|id| device(id, None)).collect());
    let ad = SLOT.replace("GPU-a2223334", "MIG-1b2c3d4f");
    let given = decide(&within(Within::HtCondor), &slot(&ad, ""), &found);
    assert_eq!(ids(&given), ["MIG-1b2c3d4f-bb"]);
}
