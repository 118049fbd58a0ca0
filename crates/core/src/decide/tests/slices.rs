//! Hardware slices at sites: a class of pilots with slices is asked for by whoever wants one of
//! these, and by nobody else; and what is said of it is so.

use super::sites::{admin, described};
use super::*;

/// Classes `small` and `large` with slices, `a100` with whole GPUs, and `cpu`.
fn told() -> Told {
    let mut told = Told { no_token_of_itself: true, ..Told::default() };
    let mut spec = described("");
    let of = |name: &str, slice: &str| {
        let mut class = spec.classes[0].clone();
        name.clone_into(&mut class.name);
        let gpus = class.gpus.as_mut().expect("some");
        (gpus.slice, gpus.kind) = (Some(slice.to_owned()), Some(slice.to_owned()));
        class
    };
    let (small, large) = (of("small", "1g.10gb"), of("large", "3G.40GB"));
    spec.classes.splice(0..0, [small, large]);
    told.apply(Command::AddSite { by: admin(), spec: Box::new(spec) });
    told
}

fn asks_for(gpu: &str) -> Vec<(String, u32)> {
    let mut told = told();
    told.submit(&format!(r#"{{"resources":{{"gpu":{gpu}}}}}"#));
    told.asks()
}

#[test]
fn each_kind_of_slice_is_asked_for_by_those_who_want_it_alone() {
    let one = |class: &str| vec![(class.to_owned(), 1)];
    for (gpu, asked) in [
        (r#""1g.10gb""#, one("small")),
        (r#"{"slice": "1G.10gb"}"#, one("small")),
        (r#""A100:3g.40gb""#, one("large")),
        (r#""A100""#, one("a100")),
        ("2", Vec::new()),
        ("1", one("a100")),
        (r#""0.25""#, one("a100")),
        (r#""2g.20gb""#, Vec::new()),
        (r#""H100:1g.10gb""#, Vec::new()),
        (r#""1g.10gb:2""#, Vec::new()),
    ] {
        assert_eq!(asks_for(gpu), asked, "{gpu}");
    }
}

#[test]
fn who_waits_for_a_slice_is_told_what_there_would_be() {
    let mut told = told();
    let job = told.submit(r#"{"resources":{"gpu":"2g.20gb"}}"#);
    let said: Vec<String> = told.why(job).iter().map(ToString::to_string).collect();
    for class in ["small", "large", "a100"] {
        let line = format!("site hpc ({class}): needs 1 GPU (2g.20gb:1); a pilot has 0");
        assert!(said.contains(&line), "{class} in {said:#?}");
    }
    let job = told.submit(r#"{"resources":{"gpu":"1g.10gb"}}"#);
    let said: Vec<String> = told.why(job).iter().map(ToString::to_string).collect();
    let of = |class: &str| {
        let start = format!("site hpc ({class}): ");
        said.iter().find_map(|line| line.strip_prefix(&start)).unwrap_or_default().to_owned()
    };
    assert_eq!(of("a100"), "needs 1 GPU (1g.10gb:1); a pilot has 0");
    assert!(!of("small").is_empty() && !of("small").contains("needs"), "{said:#?}");
}
