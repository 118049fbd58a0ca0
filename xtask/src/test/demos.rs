//! The demo, as people meet it first: as is, where temporary files lie below a folder that only
//! root may enter, and started so that hangups are ignored, as by `nohup`.
//!
//! The demo itself sees that nothing runs on; that nothing lies there any more is seen here.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use super::{Context, Done, built, run_shown};

/// What a shell does first in order to ignore hangups, which all that it starts inherits.
const IGNORING_HANGUPS: &str = "trap '' HUP; exec \"$@\"";

pub(super) fn check(context: &Context) -> Result<Done> {
    if context.quick {
        return Ok(Done::Skipped("shown in the full run only".to_owned()));
    }
    let binary = built("shipway")?;
    // Not this very program: the steps before have built it anew in its place.
    let shown = built("xtask")?;
    let demo = |by: &[&str]| demo(&shown, &binary, by);
    run_shown(&mut demo(&[]))?;
    let folder = tempfile::tempdir().context("could not make a folder for temporary files")?;
    // A temporary folder is its owner's alone, so this one is root's where root tests. An ordinary
    // user's tasks run as that user, who may enter.
    let place = folder.path().join("tmp");
    std::fs::create_dir(&place).context("could not make a folder for temporary files")?;
    run_shown(demo(&[]).env("TMPDIR", &place))?;
    is_empty(&place)?;
    // One thing at a time.
    let open = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(folder.path(), open).context("could not open a folder")?;
    run_shown(demo(&["sh", "-c", IGNORING_HANGUPS, "sh"]).env("TMPDIR", &place))?;
    is_empty(&place)?;
    Ok(Done::Passed)
}

/// As a process of its own: both a folder and what is done about a signal belong to a process.
fn demo(shown: &Path, binary: &Path, by: &[&str]) -> Command {
    let mut command = match by.split_first() {
        Some((first, rest)) => {
            let mut command = Command::new(first);
            command.args(rest).arg(shown);
            command
        }
        None => Command::new(shown),
    };
    command.args(["demo", "--binary"]).arg(binary);
    command
}

fn is_empty(place: &Path) -> Result<()> {
    let left = std::fs::read_dir(place).context("could not look at what the demo left")?;
    let left: Vec<_> = left.flatten().map(|entry| entry.file_name()).collect();
    ensure!(left.is_empty(), "the demo left {left:?} behind");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_an_error() {
        let folder = tempfile::tempdir().expect("a folder");
        is_empty(folder.path()).expect("nothing is there");
        std::fs::write(folder.path().join("home"), "").expect("written");
        let error = is_empty(folder.path()).expect_err("something is there").to_string();
        assert!(error.contains("home"), "{error}");
    }

    #[test]
    fn the_demo_is_started_by_what_ignores_hangups() {
        let (shown, binary) = (Path::new("/x/xtask"), Path::new("/x/shipway"));
        let command = demo(shown, binary, &["sh", "-c", "true", "sh"]);
        let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy()).collect();
        assert_eq!(command.get_program(), "sh");
        let said = (&*words[1], &*words[3], &*words[4], &*words[6]);
        assert_eq!(said, ("true", "/x/xtask", "demo", "/x/shipway"));
    }
}
