//! The fourteen classic reasons for which work waits, each as a small situation: all that is said
//! of it, as the data that every client gets. The command line's tests read the same files, and
//! keep what people see of them. Whether advice comes true is tried in `tests/advice.rs`.

use super::sites::{admin, hpc, site};
use super::*;
use crate::explain::prospect;
use crate::site::Phase;

type Case = (&'static str, fn() -> (Told, JobId));

const CASES: [Case; 14] = [
    ("memory", || at_a_site(r#"{"resources":{"memory":"64GB"}}"#)),
    ("model", || at_a_site(r#"{"resources":{"gpu":{"count":1,"model":"h100"}}}"#)),
    ("capability", capability),
    ("count_across_nodes", count_across_nodes),
    ("drained", drained),
    ("share_used_up", share_used_up),
    ("tag_missing", || at_a_site(r#"{"tags":["infiniband"]}"#)),
    ("image_refused", image_refused),
    ("path_not_shared", path_not_shared),
    ("wall_time_too_short", || at_a_site(r#"{"time_limit":"3d","resources":{"gpu":1}}"#)),
    ("queue_of_the_engine", queue_of_the_engine),
    ("site_closed", site_closed),
    ("no_site", no_site),
    ("busy", busy),
];

const ONE_GPU: &str = r#"{"resources":{"gpu":1}}"#;

#[test]
fn what_is_said_of_the_classic_misfits() {
    for (name, make) in CASES {
        let (mut told, job) = make();
        told.place();
        let now = Timestamp(told.now);
        let prospect = prospect(&told.state, job, now);
        let said = serde_json::json!({ "now": now, "why": {
            "job": job, "state": told.job_state(job), "reasons": told.why(job),
            "prospect": prospect,
        }});
        assert_eq!(told.job_state(job), JobState::Waiting, "{name}");
        let text = serde_json::to_string_pretty(&said).expect("plain data");
        insta::with_settings!({ prepend_module_to_snapshot => false, omit_expression => true }, {
            insta::assert_snapshot!(format!("misfit_{name}"), text);
        });
    }
}

/// A batch system with A100s and cores, and a node with four cores.
fn federation() -> Told {
    let mut told = Told::with_site();
    told.no_token_of_itself = false;
    told.join("desk", 4, 0);
    told
}

fn at_a_site(json: &str) -> (Told, JobId) {
    let mut told = federation();
    let job = told.submit(json);
    (told, job)
}

fn capability() -> (Told, JobId) {
    let mut told = Told::default();
    let mut old = pilot("gpu-01", 16, 2);
    for gpu in &mut old.ad.gpus {
        gpu.capability = Some(shipway_model::gpu::Version::new(&[7, 0]));
    }
    old.ad.attributes.insert("CUDACapability".into(), "7.0".into());
    told.apply(Command::PilotJoined(Box::new(old)));
    let asked = r#"{"resources":{"gpu":1},"requirements":"CUDACapability >= 8.0"}"#;
    let job = told.submit(asked);
    (told, job)
}

fn count_across_nodes() -> (Told, JobId) {
    let mut told = Told::default();
    told.join("gpu-01", 16, 4);
    told.join("gpu-02", 16, 4);
    let job = told.submit(r#"{"resources":{"gpu":8}}"#);
    (told, job)
}

fn drained() -> (Told, JobId) {
    let (mut told, job) = at_a_site(ONE_GPU);
    told.apply(Command::DrainSite { by: admin(), site: hpc(), draining: true });
    (told, job)
}

/// Bob waits behind what lin has just submitted, who has used nothing.
fn share_used_up() -> (Told, JobId) {
    let mut told = Told::default();
    told.join("gpu-01", 4, 1);
    let used = told.submit(r#"{"resources":{"gpu":1},"time_limit":"1h"}"#);
    told.place();
    told.started("gpu-01", task(used, 0), 1);
    told.wait(3_000_000);
    let job = told.submit(r#"{"resources":{"gpu":1},"time_limit":"1h"}"#);
    let other = told.state.next_job();
    let lin = actor("lin", Role::User);
    told.apply(submission(other, lin, r#"{"resources":{"gpu":1},"time_limit":"20m"}"#, None));
    (told, job)
}

fn image_refused() -> (Told, JobId) {
    let mut told = Told::default();
    let mut node = pilot("gpu-01", 16, 1);
    node.ad.attributes.insert("HasContainer".into(), "false".into());
    told.apply(Command::PilotJoined(Box::new(node)));
    let job = told.submit(r#"{"image":"docker://python:3.12","resources":{"gpu":1}}"#);
    (told, job)
}

fn path_not_shared() -> (Told, JobId) {
    at_a_site(r#"{"workdir":"/scratch/ada/run7","resources":{"gpu":1}}"#)
}

fn queue_of_the_engine() -> (Told, JobId) {
    let (mut told, job) = at_a_site(ONE_GPU);
    let names = told.broker();
    let words = "PENDING (Resources)";
    let seen: Vec<_> = names.iter().map(|name| (&**name, Phase::Queued, words)).collect();
    told.sees(&seen);
    (told, job)
}

/// Its pilots came and found no GPU.
fn site_closed() -> (Told, JobId) {
    let (mut told, job) = at_a_site(r#"{"array":"1-9","resources":{"gpu":1}}"#);
    let mut unfit = PilotJoined { lease: Some(Millis(600_000)), ..pilot("p", 8, 0) };
    for name in &told.broker() {
        (unfit.pilot, unfit.ad.node) = (id(name), NodeName::new(name).expect("good"));
        unfit.ad.unfit = vec!["asked for 1 GPU, found none".into()];
        told.apply(Command::PilotJoined(Box::new(unfit.clone())));
        told.apply(Command::PilotEnded { pilot: id(name) });
    }
    told.sees(&[]);
    (told, job)
}

fn no_site() -> (Told, JobId) {
    let mut told = Told::default();
    let job = told.submit(ONE_GPU);
    (told, job)
}

fn busy() -> (Told, JobId) {
    let mut told = Told::default();
    told.join("gpu-01", 16, 1);
    let first = told.submit(r#"{"resources":{"gpu":1},"time_limit":"30m"}"#);
    told.place();
    told.started("gpu-01", task(first, 0), 1);
    let job = told.submit(ONE_GPU);
    (told, job)
}

#[test]
fn a_job_goes_to_sites_with_its_tags_and_to_those_that_are_for_them_only() {
    let mut told = federation();
    let plain = told.submit(ONE_GPU);
    told.apply(site(r#","tags":["infiniband"],"required_tags":["test"]"#));
    assert!(told.broker().is_empty(), "it is for jobs that ask for `test`");
    let both = told.submit(r#"{"tags":["test","infiniband"],"resources":{"gpu":1}}"#);
    told.submit(r#"{"tags":["test","fast"],"resources":{"gpu":1}}"#);
    let names = told.broker();
    assert_eq!(names.len(), 1, "for the one of which it has all tags");
    told.comes(&names[0], 8, 1);
    let placed = told.place();
    assert!(placed.iter().all(|it| it.task.job == both) && placed.len() == 1, "{placed:?}");
    told.apply(site(r#","tags":["infiniband","fast"]"#));
    told.ended(&names[0], task(both, 0), 1, OK);
    assert!(told.place().iter().all(|it| it.task.job == plain), "judged anew");
}
