//! The rules, each where it just holds and where it just does not.

use super::*;

const GB: u64 = 1_000_000_000;
const OK: Outcome = Outcome::Exit { code: 0 };

fn asked(json: &str) -> Resources {
    serde_json::from_str(json).expect(json)
}

/// Two hours of something that gives no cause for advice.
fn fine() -> Usage {
    Usage {
        wall_ms: Some(7_200_000),
        looks: Some(1_440),
        cpu_ms: Some(7_200_000),
        memory: Some(3 * GB),
        read: Some(0),
        written: Some(0),
        waited_ms: Some(0),
        ..Usage::default()
    }
}

fn gpu(busy: u64) -> Usage {
    Usage {
        gpus: Some(1),
        gpus_idle: Some(0),
        gpu_busy: Some(busy),
        gpu_memory: Some(3 * GB),
        gpu_memory_of: Some(141 * GB),
        ..fine()
    }
}

fn all_there_is() -> Offers {
    let slice = |name: &str, memory| (name.to_owned(), Bytes(memory * GB));
    let slices = vec![slice("1g.18gb", 18), slice("2g.35gb", 35), slice("7g.141gb", 141)];
    Offers { slices, shares: true }
}

fn advice(wanted: &str, usage: &Usage, outcome: &Outcome) -> Option<Advice> {
    let case = Case { asked: &asked(wanted), usage, outcome };
    advise(&case, |_| all_there_is())
}

fn said(wanted: &str, usage: &Usage) -> String {
    advice(wanted, usage, &OK).map(|advice| advice.to_string()).unwrap_or_default()
}

const ONE: &str = r#"{"cpus":1.5,"gpu":{"count":1}}"#;

#[test]
fn a_gpu_that_is_hardly_used_could_be_a_part_of_one() {
    assert_eq!(
        said(ONE, &gpu(600)),
        "GPU 6 % busy, 3GB of 141GB used over 2 h: ask for a slice (`--gpus 1g.18gb`) or a share \
         (`--gpus 0.1`)"
    );
    // Its memory decides as well as its time.
    let large = Usage { gpu_memory: Some(20 * GB), ..gpu(600) };
    assert!(said(ONE, &large).ends_with("(`--gpus 2g.35gb`) or a share (`--gpus 0.2`)"));
    let busier = said(ONE, &gpu(1_800));
    assert!(busier.ends_with("(`--gpus 2g.35gb`) or a share (`--gpus 0.5`)"), "{busier}");
    let full = Usage { gpu_memory: Some(130 * GB), ..gpu(600) };
    assert_eq!(said(ONE, &full), "", "nothing smaller would do");
    assert_eq!(said(ONE, &gpu(LOW_GPU)), "", "busy enough");
}

#[test]
fn only_what_is_here_is_proposed() {
    let asks = asked(ONE);
    let usage = gpu(600);
    let with = |offers: Offers| {
        let case = Case { asked: &asks, usage: &usage, outcome: &OK };
        advise(&case, |_| offers).map(|advice| advice.to_string())
    };
    let shares = Offers { slices: Vec::new(), shares: true };
    assert!(with(shares).expect("some").ends_with("ask for a share (`--gpus 0.1`)"));
    let slices = Offers { shares: false, ..all_there_is() };
    assert!(with(slices).expect("some").ends_with("ask for a slice (`--gpus 1g.18gb`)"));
    assert_eq!(with(Offers::default()), None);
    // Of a share less, where that is less.
    let small = |busy| said(r#"{"cpus":1.5,"gpu":{"share":"0.2"}}"#, &gpu(busy));
    assert!(small(600).ends_with("or a share (`--gpus 0.1`)"), "{}", small(600));
    assert_eq!(small(1_500), "", "most of what it has");
}

#[test]
fn a_gpu_that_is_never_used_is_not_needed() {
    let idle = Usage { gpus_idle: Some(1), gpu_busy: Some(0), ..gpu(0) };
    assert_eq!(said(ONE, &idle), "the GPU was never busy in 2 h: ask for none");
    let four = r#"{"cpus":4,"gpu":{"count":4}}"#;
    let half = Usage { gpus: Some(4), gpus_idle: Some(2), ..gpu(4_500) };
    assert_eq!(said(four, &half), "2 of 4 GPUs were never busy in 2 h: ask for 2 (`--gpus 2`)");
    let low = Usage { gpus: Some(4), ..gpu(1_200) };
    assert_eq!(said(four, &low), "4 GPUs 12 % busy over 2 h: ask for 1 (`--gpus 1`)");
    let some = Usage { gpus: Some(4), ..gpu(4_000) };
    assert!(said(four, &some).ends_with("ask for 3 (`--gpus 3`)"), "{}", said(four, &some));
}

#[test]
fn why_a_gpu_is_idle_is_worth_more_than_that_it_is() {
    let waits = Usage { waited_ms: Some(2_880_000), ..gpu(2_100) };
    assert!(said(ONE, &waits).starts_with("waited for input 40 % of the time, with the GPU 21 %"));
    let few = Usage { cpu_ms: Some(4 * 7_100_000), ..gpu(2_000) };
    let four = r#"{"cpus":4,"gpu":{"count":1}}"#;
    assert!(said(four, &few).starts_with("all of 4 cores busy and the GPU only 20 %"));
    let bound = Usage { gpu_memory_busy: Some(9_200), ..gpu(9_900) };
    assert!(said(ONE, &bound).starts_with("GPU 99 % busy, its memory 92 %"));
    let busy = Usage { gpu_memory_busy: Some(3_000), ..gpu(9_900) };
    assert_eq!(said(ONE, &busy), "", "that is what it is for");
}

#[test]
fn memory_and_cores_that_are_not_used_are_named() {
    let large = r#"{"cpus":1,"memory":"64GB"}"#;
    assert_eq!(said(large, &fine()), "memory asked 64GB, used 3GB: ask for less (`--memory 4GB`)");
    assert_eq!(said(r#"{"cpus":1,"memory":"10GB"}"#, &fine()), "", "not so much of it");
    let near = said(r#"{"cpus":1,"memory":"3100MB"}"#, &fine());
    assert!(near.ends_with("would have been ended, ask for more (`--memory 4GB`)"), "{near}");
    assert_eq!(
        said(r#"{"cpus":16}"#, &fine()),
        "16 cores asked, 1 used: ask for fewer (`--cpus 2`)"
    );
    assert_eq!(said(r#"{"cpus":1.5}"#, &fine()), "");
    let waits = Usage { waited_ms: Some(2_900_000), ..fine() };
    assert!(said(r#"{"cpus":1}"#, &waits).starts_with("waited for input 40 % of the time:"));
    assert_eq!(said(r#"{"cpus":1}"#, &fine()), "");
}

#[test]
fn too_small_a_sample_says_nothing() {
    for small in [
        Usage { wall_ms: Some(ENOUGH_MS - 1), ..gpu(600) },
        Usage { looks: Some(ENOUGH_LOOKS - 1), ..gpu(600) },
        Usage { wall_ms: None, ..gpu(600) },
        Usage { gpu_busy: None, ..gpu(600) },
    ] {
        assert_eq!(said(r#"{"gpu":{"count":1}}"#, &small), "", "{small:?}");
    }
    let lost = Outcome::Lost { why: shipway_model::Lost::PilotDied };
    assert_eq!(advice(ONE, &gpu(600), &lost), None);
    assert!(advice(ONE, &gpu(600), &Outcome::Cancelled).is_some());
}

#[test]
fn what_ended_it_needs_no_sample() {
    let none = Usage::default();
    let (limit, used) = (Some(Bytes(4 * GB)), Some(Bytes(4 * GB + 1)));
    let over = Outcome::OutOfMemory { limit, used, on_gpu: false };
    let words = advice(ONE, &none, &over).map(|advice| advice.to_string());
    let said = "4GB of memory was not enough: ask for more (`--memory 7GB`)";
    assert_eq!(words.as_deref(), Some(said));
    let unknown = Outcome::OutOfMemory { limit: None, used: None, on_gpu: false };
    assert_eq!(advice(ONE, &none, &unknown), None, "nobody knows how much");
    let on_gpu = Outcome::OutOfMemory { limit, used, on_gpu: true };
    let words = advice(r#"{"gpu":{"share":"0.25"}}"#, &none, &on_gpu);
    assert_eq!(
        words,
        Some(Advice::OutOfGpuMemory { share: GpuShare(2_500), ask: GpuShare(5_000) })
    );
    let errors = Usage { ecc_errors: Some(2), ..none };
    assert_eq!(advice(ONE, &errors, &OK), Some(Advice::GpuErrors { errors: 2 }));
}

#[test]
fn amounts_are_what_people_write() {
    assert_eq!(rounded(1), Bytes(100_000_000));
    assert_eq!(rounded(3_750_000_000), Bytes(4_000_000_000));
    assert_eq!((parts_of("3g.40gb"), parts_of("1c.2g.20gb+me"), parts_of("odd")), (3, 2, 0));
}
