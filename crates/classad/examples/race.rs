//! How fast expressions are read and evaluated, beside HTCondor's Python bindings: ratios, measured
//! by turns in one run.
//!
//! `cargo run --release -p shipway-classad --example race -- /path/to/python-with-htcondor`

#![expect(clippy::print_stdout, reason = "standard output is what it is for")]

use shipway_classad::{Context, Sides, evaluate, parse_ad, parse_expression};
use std::hint::black_box;
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

const ROUNDS: usize = 5;
const COUNT: u32 = 20_000;

const MY: &str = r#"[ RequestMemory = 2048; RequestCpus = 2; RequestGPUs = 1; Owner = "ada" ]"#;
const TARGET: &str = r#"[ Memory = 64000; Cpus = 16; GPUs = 4; CUDACapability = 8.0;
    Arch = "X86_64"; OpSys = "LINUX"; OpSysAndVer = "Debian12"; HasAVX2 = true;
    CUDADeviceName = "NVIDIA A100";
    CUDAGlobalMemoryMb = 40536; Disk = 1000000; Machine = "gpu-7.example.org"; Rack = 3 ]"#;
/// Twenty terms, as they come in requirements.
const TERMS: [&str; 20] = [
    "TARGET.Memory >= RequestMemory",
    "TARGET.Cpus >= MY.RequestCpus",
    "GPUs >= RequestGPUs",
    "CUDACapability >= 7.5",
    "Arch == \"X86_64\"",
    "OpSys == \"linux\"",
    "OpSysAndVer =!= \"CentOS7\"",
    "HasAVX2",
    "HasSingularity isnt false",
    "CUDAGlobalMemoryMb > 16 * 1024",
    "Disk > 1000",
    "Machine != \"gpu-3.example.org\"",
    "(Rack == 1 || Rack == 3)",
    "stringListMember(MY.Owner, \"bob,ada\")",
    "size(CUDADeviceName) > 3",
    "(RequestGPUs > 0 ? GPUs > 0 : true)",
    "!(Rack =?= undefined)",
    "Memory / Cpus > 1000",
    "toLower(Arch) =?= \"x86_64\"",
    "ifThenElse(HasAVX2, true, error)",
];

/// Prints seconds: with reading, and without.
const THEIRS: &str = "
import classad2, sys, time
classad2.ExprTree('[a = 1]').eval()
my, target = classad2.ClassAd(sys.argv[1]), classad2.ClassAd(sys.argv[2])
text, count = sys.argv[3], int(sys.argv[4])
start = time.perf_counter()
for _ in range(count):
    classad2.ExprTree(text).eval(my, target)
both = time.perf_counter() - start
expr = classad2.ExprTree(text)
assert expr.eval(my, target) is True
start = time.perf_counter()
for _ in range(count):
    expr.eval(my, target)
print(both, time.perf_counter() - start)
";

fn main() {
    let python = std::env::args().nth(1).unwrap_or_else(|| "python3".into());
    let text = TERMS.join(" && ");
    let mut ratios = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        let (ours, theirs) = (ours(&text), theirs(&python, &text));
        for (at, ratio) in ratios.iter_mut().enumerate() {
            ratio.push(theirs[at] / ours[at]);
        }
    }
    for (what, mut ratio) in ["read and evaluate", "evaluate"].iter().zip(ratios) {
        ratio.sort_by(f64::total_cmp);
        println!(
            "{what}: {:.1} times as fast as the bindings (median of {ROUNDS})",
            ratio[ROUNDS / 2]
        );
    }
}

fn ours(text: &str) -> [f64; 2] {
    let ad = |text: &str| Arc::new(parse_ad(text).expect("good"));
    let sides = Sides::new(ad(MY), ad(TARGET));
    let context = Context::default();
    let start = Instant::now();
    for _ in 0..COUNT {
        let expr = parse_expression(black_box(text)).expect("good");
        black_box(evaluate(&expr, &sides, &context));
    }
    let both = start.elapsed().as_secs_f64();
    let expr = parse_expression(text).expect("good");
    assert_eq!(evaluate(&expr, &sides, &context).value.as_condition(), Some(true));
    let start = Instant::now();
    for _ in 0..COUNT {
        black_box(evaluate(black_box(&expr), &sides, &context));
    }
    [both, start.elapsed().as_secs_f64()]
}

fn theirs(python: &str, text: &str) -> [f64; 2] {
    let mut command = Command::new(python);
    command.args(["-c", THEIRS, MY, TARGET, text, &COUNT.to_string()]);
    let output = command.output().expect("Python starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8_lossy(&output.stdout);
    let mut seconds = said.split_whitespace().map(|word| word.parse().expect("a number"));
    [seconds.next().expect("two numbers"), seconds.next().expect("two numbers")]
}
