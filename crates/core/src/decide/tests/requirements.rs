//! Requirements and rank: where jobs go, and why they go nowhere.

use super::*;
use crate::explain::prospect;
use crate::schedule::classes::class_of;
use shipway_model::gpu::Version;
use shipway_model::node::ALLOCATION_ENDS;

impl Told {
    /// A node of its own kind: its GPUs' capability, and what else its pilot says of it.
    fn join_kind(&mut self, name: &str, capability: &[u32], attributes: &[(&str, &str)]) {
        let mut joined = pilot(name, 4, u64::from(!capability.is_empty()) * 2);
        for gpu in &mut joined.ad.gpus {
            gpu.capability = Some(Version::new(capability));
        }
        let attributes = attributes.iter().map(|(name, text)| ((*name).into(), (*text).into()));
        joined.ad.attributes = attributes.collect();
        self.apply(Command::PilotJoined(Box::new(joined)));
    }

    /// The pilot that a job with this specification goes to.
    fn goes_to(&mut self, json: &str) -> Option<String> {
        let job = self.submit(json);
        let plan = schedule(&mut self.state, Timestamp(self.now));
        let found = plan.by_pilot().find(|(_, tasks)| tasks.iter().any(|one| one.task.job == job));
        let found = found.map(|(pilot, _)| pilot.as_str().to_owned());
        self.cancel(job, Pick::All);
        found
    }
}

fn three() -> Told {
    let mut told = Told::default();
    told.join_kind("a", &[3, 5], &[("Rack", "1")]);
    told.join_kind("b", &[7, 0], &[("Rack", "2"), ("HasAVX2", "true")]);
    told.join_kind("c", &[8, 0], &[("Rack", "Cpus - 1"), ("Bad", "1 +")]);
    told
}

#[test]
fn a_job_goes_where_its_requirements_hold() {
    let mut told = three();
    for (requirements, expected) in [
        ("CUDACapability >= 8.0", Some("c")),
        ("GPUs_Capability < 4", Some("a")),
        ("TARGET.HasAVX2 =?= true", Some("b")),
        ("Rack == 3", Some("c")),
        ("Machine == \\\"b\\\"", Some("b")),
        ("Machine == \\\"b\\\" && CUDACapability > 7.5", None),
        ("countMatches(Capability >= 8.0, TARGET.AvailableGPUs) >= MY.RequestGPUs + 1", Some("c")),
        ("MY.Owner == \\\"ada\\\" && Rack is 1", Some("a")),
        ("Owner == \\\"lin\\\"", None),
        ("Memory", Some("a")),
        ("Missing > 1", None),
        ("Cpus / 0 == 1", None),
    ] {
        let json = format!(r#"{{"resources":{{"gpu":1}},"requirements":"{requirements}"}}"#);
        assert_eq!(told.goes_to(&json).as_deref(), expected, "{requirements}");
    }
}

#[test]
fn when_an_allocation_ends_is_asked_of_each_node_and_makes_no_kinds_of_them() {
    let mut told = Told::default();
    told.join_kind("early", &[8, 0], &[(ALLOCATION_ENDS, "1000")]);
    told.join_kind("late", &[8, 0], &[(ALLOCATION_ENDS, "2000")]);
    let kind = |name: &str| class_of(&told.state.pilots()[&id(name)]);
    assert_eq!(kind("early"), kind("late"));
    for (requirements, expected) in [
        ("AllocationEnds > 1500", Some("late")),
        ("AllocationEnds < 1500", Some("early")),
        ("isUndefined(TARGET.AllocationEnds)", None),
    ] {
        let json = format!(r#"{{"requirements":"{requirements}"}}"#);
        assert_eq!(told.goes_to(&json).as_deref(), expected, "{requirements}");
    }
}

#[test]
fn a_task_begins_only_where_it_is_over_before_the_node_is_taken_back() {
    let mut told = Told::default();
    told.join_kind("early", &[8, 0], &[(ALLOCATION_ENDS, "1000")]);
    let job = told.submit(r#"{"time_limit":"20m"}"#);
    assert_eq!(told.place(), []);
    let text = told.why(job)[0].to_string();
    assert!(text.starts_with("needs 20m30s of time; "), "{text}");
    let found = prospect(&told.state, job, Timestamp(told.now)).expect("it waits");
    let changes = found.changes;
    let limits: Vec<_> = changes.iter().map(|change| (change.time_limit, change.now)).collect();
    assert_eq!(
        limits,
        [(Some(Millis(14 * 60_000)), true)],
        "a minute is kept, half one is its grace"
    );
    told.join_kind("late", &[8, 0], &[(ALLOCATION_ENDS, "2000")]);
    assert_eq!(told.place().len(), 1);
    assert_eq!(told.state.active()[&task(job, 0)].pilot, id("late"));
    let endless = told.submit("{}");
    told.place();
    assert_eq!(told.state.active()[&task(endless, 0)].pilot, id("early"), "it takes what it gets");
    let short = told.submit(r#"{"time_limit":"10m"}"#);
    let long = told.submit(r#"{"time_limit":"20m"}"#);
    told.now = 1_500_000;
    told.place();
    assert!(told.why(short)[0].to_string().contains("of time"), "the time passes");
    assert!(told.why(long)[0].to_string().contains("of time"), "{:?}", told.why(long));
}

#[test]
fn an_image_goes_where_containers_start() {
    let mut told = Told::default();
    told.join_kind("a", &[], &[("HasContainer", "false")]);
    let with_image = r#"{"image":"host"}"#;
    assert_eq!(told.goes_to(with_image), None);
    assert_eq!(told.goes_to("{}").as_deref(), Some("a"));
    let job = told.submit(r#"{"image":"host","requirements":"Cpus > 1"}"#);
    let why = told.why(job)[0].to_string();
    assert!(why.starts_with("needs a container for its image; they fail on the node"), "{why}");
    // A pilot that says nothing of it is asked to try.
    told.join_kind("b", &[], &[]);
    assert_eq!(told.goes_to(with_image).as_deref(), Some("b"));
}

#[test]
fn the_node_that_is_liked_most_comes_first() {
    let mut told = three();
    for (rank, expected) in [("CUDACapability", "c"), ("-Rack", "a"), ("HasAVX2", "b"), ("x", "a")]
    {
        let json = format!(r#"{{"resources":{{"gpu":1}},"rank":"{rank}"}}"#);
        assert_eq!(told.goes_to(&json).as_deref(), Some(expected), "{rank}");
    }
}

#[test]
fn nodes_with_devices_of_two_kinds_give_the_right_one() {
    let mut told = Told::default();
    let mut joined = pilot("mixed", 4, 2);
    joined.ad.gpus[0].capability = Some(Version::new(&[3, 5]));
    joined.ad.gpus[1].capability = Some(Version::new(&[8, 0]));
    let devices: Vec<DeviceId> = joined.ad.gpus.iter().map(|gpu| gpu.id.clone()).collect();
    told.apply(Command::PilotJoined(Box::new(joined)));
    for (requirements, device) in [("CUDACapability >= 8", 1), ("CUDACapability < 4", 0)] {
        let json = format!(r#"{{"resources":{{"gpu":1}},"requirements":"{requirements}"}}"#);
        let job = told.submit(&json);
        told.place();
        let given = &told.state.active()[&task(job, 0)].devices;
        assert_eq!(given.as_slice(), [devices[device].clone()], "{requirements}");
    }
    let both = told.submit(r#"{"resources":{"gpu":2},"requirements":"CUDACapability >= 8"}"#);
    assert!(told.why(both).iter().all(Reason::is_hopeless), "{:?}", told.why(both));
}

#[test]
fn the_term_that_fails_is_named_with_what_it_found() {
    let mut told = three();
    let json = r#"{"requirements":"Memory > 0 && (CUDACapability >= 9.0 && Cpus > 1)"}"#;
    let job = told.submit(json);
    let reasons: Vec<String> = told.why(job).iter().map(ToString::to_string).collect();
    assert_eq!(reasons.len(), 3, "{reasons:?}");
    let start = "requires CUDACapability >= 9.0; the node with 4 cores, 16GB of memory";
    assert!(reasons[0].starts_with(start), "{}", reasons[0]);
    assert!(reasons[0].ends_with("has CUDACapability 3.5"), "{}", reasons[0]);
    let now = Timestamp(told.now);
    let changes = crate::explain::prospect(&told.state, job, now).expect("it waits").changes;
    assert_eq!(changes[0].without.as_deref(), Some("CUDACapability >= 9.0"));
    assert!(changes[0].now, "all else fits");

    let job = told.submit(r#"{"requirements":"Cuda_Capability >= 1 || Machin == 3"}"#);
    let said = told.why(job)[0].to_string();
    assert!(said.contains("has no Cuda_Capability (did you mean CUDACapability?)"), "{said}");
    assert!(said.contains("did you mean Machine?"), "{said}");
    let job = told.submit(r#"{"requirements":"Machine == \"elsewhere\""}"#);
    assert!(told.why(job)[0].to_string().ends_with("has Machine \"a\""), "{:?}", told.why(job));
}

/// As a request is judged: before everybody waits for it, and then by what there is.
fn judged(told: &mut Told, json: &str) -> Result<Vec<Event>, Rejection> {
    crate::requirements::validate(&spec(json)).map_err(Rejection::InvalidSpec)?;
    told.try_tell(&submission(told.state.next_job(), ada(), json, None))
}

#[test]
fn an_expression_that_cannot_be_read_is_refused() {
    let mut told = three();
    for json in [r#"{"requirements":"Memory >"}"#, r#"{"rank":")"}"#, r#"{"rank":"random()"}"#] {
        assert_eq!(judged(&mut told, json).expect_err(json).code(), "invalid_spec", "{json}");
    }
}

#[test]
fn what_can_never_hold_or_rank_is_refused_with_the_reason() {
    let mut told = three();
    for (json, why) in [
        (r#"{"requirements":"regexpp(\"a\", Machine)"}"#, "did you mean regexp?"),
        (r#"{"requirements":"regexp(\"a(?=b)\", Machine)"}"#, "a(?=b) cannot be used: look-"),
        (r#"{"requirements":"Rack > 0 && 1/0"}"#, "1 / 0 is an error for every node"),
        (r#"{"requirements":"false"}"#, "is false for every node"),
        (r#"{"rank":"\"fast\""}"#, "the text \"fast\", and no number"),
        (r#"{"rank":"Machine"}"#, "cannot look at Machine"),
        (r#"{"rank":"GPUs_Vendor"}"#, "it is \"NVIDIA\" for a node, and no number"),
        (r#"{"rank":"Memry"}"#, "no node has Memry (did you mean Memory?)"),
    ] {
        let refused = judged(&mut told, json).expect_err(json);
        assert!(refused.to_string().contains(why), "{json}: {refused}");
    }
    // Without nodes nobody knows what they will have.
    let mut alone = Told::default();
    alone.submit(r#"{"rank":"Memry"}"#);
    for rank in ["Memory * (Row ?: 0)", "Memry ?: 0", "HasAVX512", "SomethingElse"] {
        told.submit(&format!(r#"{{"rank":"{rank}"}}"#));
    }
}

#[test]
fn quotes_that_were_forgotten_are_asked_for() {
    let mut told = Told::default();
    told.join_kind("a", &[], &[("Arch", "\"X86_64\"")]);
    let job = told.submit(r#"{"requirements":"Arch == X86_64"}"#);
    let said = told.why(job)[0].to_string();
    assert!(said.ends_with("has no X86_64 (did you mean \"X86_64\" in quotes?)"), "{said}");
}

#[test]
fn a_class_that_is_large_enough_says_which_term_fails() {
    let mut told = three();
    let job = told.submit(r#"{"requirements":"CUDACapability >= 9.0"}"#);
    let now = Timestamp(told.now);
    let classes = crate::explain::prospect(&told.state, job, now).expect("it waits").classes;
    assert_eq!(classes[0].fit_text(), "not CUDACapability >= 9.0");
    let job = told.submit(r#"{"resources":{"cpus":64},"requirements":"CUDACapability >= 9.0"}"#);
    let classes = crate::explain::prospect(&told.state, job, now).expect("it waits").classes;
    assert_eq!(classes[0].fit_text(), "too small");
}

#[test]
fn a_job_that_is_brought_back_still_chooses() {
    let mut told = three();
    let job = told.submit(r#"{"requirements":"CUDACapability >= 8.0","rank":"Memory"}"#);
    let record = told.state.record(job).expect("known");
    assert_eq!(record.expressions.requirements.as_deref(), Some("CUDACapability >= 8.0"));
    let text = serde_json::to_string(&record).expect("json");
    assert_eq!(serde_json::from_str::<crate::job::JobRecord>(&text).expect("back"), record);
    let plain = told.submit("{}");
    let text = serde_json::to_string(&told.state.record(plain).expect("known")).expect("json");
    assert!(!text.contains("expressions"), "what is not asked for is not stored: {text}");
}

/// A node with one GPU of each of these capabilities.
fn mixed(told: &mut Told, name: &str, capabilities: &[u32]) -> Vec<DeviceId> {
    let mut joined = pilot(name, 4, capabilities.len() as u64);
    for (gpu, capability) in joined.ad.gpus.iter_mut().zip(capabilities) {
        gpu.capability = Some(Version::new(&[*capability, 0]));
    }
    let devices = joined.ad.gpus.iter().map(|gpu| gpu.id.clone()).collect();
    told.apply(Command::PilotJoined(Box::new(joined)));
    devices
}

#[test]
fn a_named_node_with_devices_of_two_kinds_gives_the_right_one() {
    let mut told = Told::default();
    let devices = mixed(&mut told, "mixed", &[3, 8]);
    let json = r#"{"resources":{"gpu":1},
        "requirements":"CUDACapability >= 8.0 && Machine == \"mixed\""}"#;
    let job = told.submit(json);
    assert_eq!(told.why(job), [Reason::Next]);
    told.place();
    let given = &told.state.active()[&task(job, 0)].devices;
    assert_eq!(given.as_slice(), [devices[1].clone()]);
    // The one that would do is in use; the other one does not count as free.
    let second = told.submit(json);
    assert!(matches!(told.why(second)[..], [Reason::Busy { .. }]), "{:?}", told.why(second));
    assert_eq!(told.place(), []);
}

/// Each holds alone, and together they take more than an evaluation may.
#[test]
fn terms_that_are_too_much_together_are_explained() {
    let mut told = Told::default();
    told.join_kind("a", &[8, 0], &[]);
    let doubled: Vec<String> =
        (0..10).map(|at| format!("a{at} = strcat(a{}, a{})", at + 1, at + 1)).collect();
    let text = "x".repeat(1_000);
    let term = format!("size([{}; a10 = \\\"{text}\\\"].a0) > 0", doubled.join("; "));
    let all = format!("Machine == \\\"a\\\" && {term} && {term}");
    let spec = format!(r#"{{"requirements":"{all}"}}"#);
    let shape =
        crate::shape::Shape::of(&spec_of(&spec), &ada().user, crate::shape::Gang::default());
    let now = Timestamp(told.now);
    let terms = crate::job::Terms::default();
    let reasons = crate::explain::explain_need(&told.state, &shape, (&ada().user, &terms), now);
    assert!(reasons.iter().all(Reason::is_hopeless) && reasons.len() == 1, "{reasons:?}");
    let prospect = crate::explain::prospect_of_new(&told.state, &shape, &ada().user, now);
    assert_eq!(prospect.classes.len(), 1);
    let job = told.submit(&spec);
    assert_eq!(told.why(job), reasons);
}

fn spec_of(json: &str) -> JobSpec {
    let mut spec: serde_json::Value = serde_json::from_str(json).expect("json");
    spec["command"] = serde_json::json!(["true"]);
    serde_json::from_value(spec).expect("a specification")
}
