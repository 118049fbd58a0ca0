//! The `shipway` program sent to a site: into a folder there, under the name of its digest, checked
//! by that when it has come and looked at again later. Pilots' scripts check it once more, on the
//! node (`slurm/script.rs`, `htcondor/submit.rs`).

use crate::batch::{EngineError, EngineTrouble, MAX_WORDS};
use crate::way::{Output, Way, WayError};
use shipway_model::Digest;
use std::time::Duration;

/// For tens of megabytes over a slow line.
const SEND_LIMIT: Duration = Duration::from_mins(10);
const LOOK_LIMIT: Duration = Duration::from_mins(1);
/// It is not there, or not what it should be.
const NOT_THERE: i32 = 66;
/// There is no `sha256sum`, or nothing can be written there, or it did not come whole.
const NO_TOOL: i32 = 69;
const NO_FOLDER: i32 = 73;
const NOT_WHOLE: i32 = 74;

/// `$1` is the folder, `$2` the name there, `$3` the digest.
const LOOK: &str = "command -v sha256sum >/dev/null || exit 69
cd -- \"$1\" 2>/dev/null || exit 66
[ -f \"$2\" ] && [ -x \"$2\" ] || exit 66
printf '%s  %s\\n' \"$3\" \"$2\" | sha256sum -c --status || exit 66";

/// What is there under that name is whole at every moment, for pilots that start meanwhile.
const SEND: &str = "umask 077
mkdir -p -- \"$1\" && cd -- \"$1\" || exit 73
new=$(mktemp ./.shipway-XXXXXXXXXX) || exit 73
trap 'rm -f -- \"$new\"' EXIT
cat > \"$new\" || exit 73
printf '%s  %s\\n' \"$3\" \"$new\" | sha256sum -c --status || exit 74
chmod 700 -- \"$new\" && mv -f -- \"$new\" \"$2\" || exit 73";

/// Where it lies when it has been sent.
pub fn path(folder: &str, sha256: &Digest) -> String {
    format!("{}/{}", folder.trim_end_matches('/'), name(sha256))
}

fn name(sha256: &Digest) -> String {
    format!("shipway-{}", sha256.hex())
}

/// Sees to it that it is there. Sends nothing where it is.
pub fn send(
    way: &dyn Way,
    folder: &str,
    sha256: &Digest,
    program: impl FnOnce() -> std::io::Result<Vec<u8>>,
) -> Result<(), EngineError> {
    let (name, hex) = (name(sha256), sha256.hex());
    let run = |script: &str, input: &[u8], within| {
        way.run(&["sh", "-c", script, "sh", folder, &name, &hex], input, within)
    };
    let looked = run(LOOK, &[], LOOK_LIMIT).map_err(|error| not_run(folder, &error))?;
    match looked.code {
        Some(0) => return Ok(()),
        Some(NOT_THERE) => {}
        _ => return Err(failed(folder, &looked)),
    }
    let read = program().map_err(|error| {
        let words = format!("its own program cannot be read: {error}");
        trouble(folder, &words, EngineTrouble::Refused)
    })?;
    let sent = run(SEND, &read, SEND_LIMIT).map_err(|error| not_run(folder, &error))?;
    if sent.code == Some(0) { Ok(()) } else { Err(failed(folder, &sent)) }
}

fn not_run(folder: &str, error: &WayError) -> EngineError {
    trouble(folder, &error.to_string(), EngineTrouble::NotReached)
}

fn failed(folder: &str, output: &Output) -> EngineError {
    let why = match output.code {
        Some(NO_TOOL) => "there is no sha256sum there to check it with",
        Some(NO_FOLDER) => "it cannot be written there",
        Some(NOT_WHOLE) => "what came there is not what was sent",
        _ => "the commands for it failed",
    };
    let said = String::from_utf8_lossy(&output.stderr);
    let said: Vec<&str> = said.split_whitespace().collect();
    let words = if said.is_empty() { why.to_owned() } else { format!("{why}: {}", said.join(" ")) };
    trouble(folder, &words, EngineTrouble::Refused)
}

fn trouble(folder: &str, words: &str, kind: EngineTrouble) -> EngineError {
    let act = format!("send the program to {folder}");
    let words = format!("cannot {act}: {words}").chars().take(MAX_WORDS).collect();
    EngineError { act, words, kind }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::way::Local;
    use std::cell::Cell;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    const PROGRAM: &[u8] = b"#!/bin/sh\necho sent\n";

    fn sha256_of(bytes: &[u8]) -> Digest {
        let said = Local::new(Vec::new()).run(&["sha256sum"], bytes, LOOK_LIMIT).expect("it runs");
        let said = String::from_utf8(said.stdout).expect("text");
        format!("sha256:{}", &said[..64]).parse().expect("a digest")
    }

    #[test]
    fn it_is_sent_once_checked_and_sent_again_when_it_was_changed() {
        let dir = tempfile::tempdir().expect("a folder");
        let folder = dir.path().join("it's a folder");
        let (folder, way) = (folder.to_str().expect("text"), Local::new(Vec::new()));
        let (sha256, times) = (sha256_of(PROGRAM), Cell::new(0));
        let send = || {
            send(&way, folder, &sha256, || {
                times.set(times.get() + 1);
                Ok(PROGRAM.to_vec())
            })
        };
        let path = path(folder, &sha256);
        send().expect("sent");
        assert_eq!(fs::read(&path).expect("there"), PROGRAM);
        assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o700);
        send().expect("there");
        assert_eq!(times.get(), 1, "what is there is not sent again");
        fs::write(&path, "something else").expect("written");
        send().expect("sent");
        assert_eq!((times.get(), fs::read(&path).expect("there")), (2, PROGRAM.to_vec()));
        let names = fs::read_dir(folder).expect("there").count();
        assert_eq!(names, 1, "nothing else is left there");
    }

    #[test]
    fn what_does_not_come_whole_is_never_there() {
        let dir = tempfile::tempdir().expect("a folder");
        let (folder, way) = (dir.path().to_str().expect("text"), Local::new(Vec::new()));
        let sha256 = sha256_of(PROGRAM);
        let failed = send(&way, folder, &sha256, || Ok(PROGRAM[1..].to_vec())).expect_err("cut");
        assert!(failed.words.contains("not what was sent"), "{failed}");
        assert_eq!(fs::read_dir(folder).expect("there").count(), 0);
        let failed = send(&way, "/proc/none", &sha256, || Ok(PROGRAM.to_vec())).expect_err("no");
        let said = "cannot send the program to /proc/none: it cannot be written there: mkdir: ";
        assert!(failed.words.starts_with(said), "{failed}");
    }
}
