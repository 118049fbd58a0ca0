//! A kernel on each GPU, its result compared number by number with the processor's.
//!
//! Two sides in one file, because they must compute the same. A process of its own runs the kernel
//! (`main`, this program again with a word that people never type): a broken driver hangs or
//! crashes, and then it is that process that does. The other side starts it, waits, and reads what
//! it said.

use super::cuda::{Cuda, Refused};
use super::facts::KernelFact;
use super::trial;
use serde::{Deserialize, Serialize};
use std::ffi::CString;
use std::io::Write;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

/// The word by which this program knows that it is to try the GPU.
pub const COMMAND: &str = "gpu-proof";

/// The first use of a GPU that nobody keeps awake takes many seconds on nodes with several.
pub const WITHIN: Duration = Duration::from_mins(1);

const PTX: &str = include_str!("kernel.ptx");
const ENTRY: &str = "prove";
/// Enough to keep every part of a large GPU busy for a moment: 4 MB each way.
const LENGTH: u32 = 1 << 20;
const ROUNDS: u32 = 16;
/// A third, as the kernel has it.
const THIRD: u32 = 0x3EAA_AAAB;

/// What the process that tries says, on one line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Said {
    Right { numbers: u32, cuda: i32 },
    Wrong { at: u32, wanted: u32, found: u32 },
    Refused { call: String, error: String },
    NoLibrary { message: String },
}

/// Tries one GPU, by its id, with `program`, which must lead to [`main`] when called with
/// [`COMMAND`].
pub fn prove(program: &Path, device: &str, within: Duration) -> KernelFact {
    let mut command = Command::new(program);
    command.arg(COMMAND).env("CUDA_VISIBLE_DEVICES", device).stdin(Stdio::null());
    // Not through a server that others share: the GPU itself is to be proven.
    command.env_remove("CUDA_MPS_PIPE_DIRECTORY");
    let tried = match trial::run(&mut command, within) {
        Ok(tried) => tried,
        Err(error) => return KernelFact::NotTried { message: error.to_string() },
    };
    let Some(status) = tried.status else { return KernelFact::Late { within } };
    if let Some(signal) = tried.signal() {
        return KernelFact::Crashed { signal };
    }
    let text = String::from_utf8_lossy(&tried.output);
    // The library may talk too; the last line is ours.
    let said = text.lines().last().and_then(|line| serde_json::from_str(line).ok());
    match said {
        Some(Said::Right { numbers, cuda }) => KernelFact::Right { numbers, cuda },
        Some(Said::Wrong { at, wanted, found }) => KernelFact::Wrong { at, wanted, found },
        Some(Said::Refused { call, error }) => KernelFact::Refused { call, error },
        Some(Said::NoLibrary { message }) => KernelFact::NoLibrary { message },
        None => KernelFact::Silent { code: status.code().unwrap_or_default() },
    }
}

/// The whole of the hidden command.
pub fn main() -> ExitCode {
    let said = serde_json::to_string(&try_it()).expect("plain data");
    match writeln!(std::io::stdout(), "\n{said}") {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn try_it() -> Said {
    let cuda = match Cuda::load() {
        Ok(cuda) => cuda,
        Err(message) => return Said::NoLibrary { message },
    };
    let text = |text: &str| CString::new(text).expect("no NUL in it");
    let input: Vec<u32> = (0..LENGTH).collect();
    match cuda.run(&text(PTX), &text(ENTRY), &input) {
        Ok(ran) => compare(&input, &ran.output, ran.cuda),
        Err(Refused { call, error }) => Said::Refused { call: call.into(), error },
    }
}

fn compare(input: &[u32], output: &[u32], cuda: i32) -> Said {
    for (at, (number, found)) in (0..).zip(input.iter().zip(output)) {
        let (wanted, found) = (expected(*number), *found);
        if wanted != found {
            return Said::Wrong { at, wanted, found };
        }
    }
    Said::Right { numbers: LENGTH, cuda }
}

/// What the kernel makes of one number.
#[allow(clippy::cast_precision_loss, reason = "24 bits fit exactly, which is why they are shifted")]
fn expected(number: u32) -> u32 {
    let step = |x: u32| x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
    let x = (0..ROUNDS).fold(number, |x, _| step(x));
    let float = (x >> 8) as f32;
    float.mul_add(f32::from_bits(THIRD), float).to_bits() ^ x
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_wrong_bit_is_found() {
        let input: Vec<u32> = (0..1000).collect();
        let mut output: Vec<u32> = input.iter().map(|x| expected(*x)).collect();
        assert!(matches!(compare(&input, &output, 12_080), Said::Right { .. }));
        output[999] ^= 1;
        let said = compare(&input, &output, 12_080);
        assert!(matches!(said, Said::Wrong { at: 999, .. }), "{said:?}");
    }

    #[test]
    fn the_text_of_the_kernel_says_what_the_processor_does() {
        for part in ["%rounds, 16", "1664525", "1013904223", "0f3EAAAAAB", ".entry prove("] {
            assert!(PTX.contains(part), "{part}");
        }
        assert!(PTX.is_ascii());
    }
}
