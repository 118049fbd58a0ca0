//! What stands in for `unsquashfs` and takes too much: the real one cannot be made to show it.

use super::*;

/// Unpacks by a line of shell, which has the folder of the tree as `$tree`.
fn by(line: &str, tool: ToolLimits) -> (tempfile::TempDir, Result<(), SourceError>) {
    let dir = tempfile::tempdir().expect("a folder");
    let program = dir.path().join("unsquashfs");
    // After `-dest`, the last but one.
    let script = format!("#!/bin/sh\nwhile test $# -gt 2; do shift; done; tree=$1\n{line}\n");
    // By another process: what we have open for writing is busy for whatever another test starts.
    let mut write = Command::new("sh");
    write.args(["-c", "printf %s \"$1\" > \"$2\" && chmod 755 \"$2\"", "sh", &script]);
    assert!(write.arg(&program).status().expect("sh").success());
    let image = dir.path().join("image");
    fs::write(&image, "packed").expect("written");
    let path = format!("{}:/usr/bin:/bin", dir.path().display());
    let (from, limits) =
        (Squashed { image: &image, offset: 0 }, Limits { tool, ..Limits::default() });
    let tree = dir.path().join("tree");
    let done = unsquash_by(OsStr::new(&path), from, &tree, limits, &DiskRoom::unknown());
    (dir, done)
}

#[test]
fn what_takes_little_is_taken() {
    let (dir, done) = by("mkdir $tree; echo x > $tree/file", ToolLimits::default());
    done.expect("it is unpacked");
    assert_eq!(fs::read_to_string(dir.path().join("tree/file")).expect("there"), "x\n");
}

#[test]
fn one_that_takes_too_long_is_ended_with_all_that_it_started() {
    let tool = ToolLimits { within: Duration::from_secs(1), ..ToolLimits::default() };
    let line = "mkdir $tree; sleep 20 & echo $! > $tree/pid; wait";
    let (dir, done) = by(line, tool);
    let error = done.expect_err("it takes too long");
    let is_over = matches!(error, SourceError::Sif(SifError::Over(OverLimit::Time(1))));
    assert!(is_over, "{error:?}");
    let pid = fs::read_to_string(dir.path().join("tree/pid")).expect("it began");
    let stat = format!("/proc/{}/stat", pid.trim());
    let deadline = Instant::now() + Duration::from_secs(10);
    // Dead, or not collected yet by whoever has it now.
    while let Ok(state) = fs::read_to_string(&stat)
        && !state.contains(") Z ")
    {
        assert!(Instant::now() < deadline, "it runs on: {state}");
        // tidy: allow(sleep-in-test) because it is the pause between two looks
        thread::sleep(LOOK_EVERY);
    }
}

#[test]
fn one_that_takes_too_much_memory_fails() {
    let tool = ToolLimits { memory: 64 << 20, ..ToolLimits::default() };
    // What it starts has the limit only if it was set before; `tail` keeps a line in memory.
    let line = "n=0; while test $(ulimit -v) = unlimited -a $n -lt 500; do n=$((n+1)); sleep 0.01
        done; mkdir $tree; head -c 300000000 /dev/zero | tail -n 1 > $tree/file || exit 1";
    let (_dir, done) = by(line, tool);
    let said = done.expect_err("it takes too much").to_string();
    assert!(said.contains("memory exhausted"), "{said}");
}
