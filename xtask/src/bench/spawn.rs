//! How fast this machine starts and collects processes, with nothing in between.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};

use super::slots;
use crate::children;

/// The least a program can do: end. No library, no loader.
const EXIT0: &str = r#"
void _start(void) {
#if defined(__x86_64__)
    __asm__ volatile("mov $60, %eax\n xor %edi, %edi\n syscall");
#elif defined(__aarch64__)
    __asm__ volatile("mov x8, #93\n mov x0, #0\n svc #0");
#else
#error "no exit call written for this processor"
#endif
    __builtin_unreachable();
}
"#;

/// Builds the least program into the folder.
pub(super) fn build_static(folder: &Path) -> Result<PathBuf> {
    let (source, program) = (folder.join("exit0.c"), folder.join("exit0"));
    std::fs::write(&source, EXIT0).context("could not write a C file")?;
    let mut cc = Command::new("cc");
    cc.args(["-static", "-nostdlib", "-O2", "-o"]).arg(&program).arg(&source);
    children::run(&mut cc)?;
    Ok(program)
}

/// Processes a second, started and waited for by one thread per slot. The standard library
/// starts them by posix_spawn.
pub(super) fn rate(program: &str, count: u32) -> Result<f64> {
    let lanes = slots();
    let each = usize::try_from(count).expect("a count fits") / lanes;
    let start = Instant::now();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..lanes).map(|_| scope.spawn(|| repeat(program, each))).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, Result<()>>| {
            thread.join().expect("a lane only reports errors")
        };
        threads.into_iter().try_for_each(join)
    })?;
    let done = u32::try_from(each * lanes).expect("no more than count");
    Ok(f64::from(done) / start.elapsed().as_secs_f64())
}

fn repeat(program: &str, times: usize) -> Result<()> {
    for _ in 0..times {
        let status = Command::new(program).status();
        let status = status.with_context(|| format!("could not start `{program}`"))?;
        if !status.success() || children::interrupted() {
            bail!("`{program}` ended with {status}");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_fails_is_not_timed() {
        assert!(rate("true", 4).expect("it runs") > 0.0);
        assert!(rate("false", 4).is_err());
    }
}
