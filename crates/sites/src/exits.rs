//! What the script that starts a pilot says by its exit code, in words for people. Pure.

/// Its folder could not be made or written.
pub(crate) const NO_FOLDER: i64 = 73;
/// The program that was sent is not there, or is another one by now.
pub(crate) const OTHER_PROGRAM: i64 = 66;
/// What shells add to the number of a signal.
const SIGNALLED: i64 = 128;
const LAST_SIGNAL: i64 = 64;

pub(crate) fn words(code: i64) -> String {
    match code {
        NO_FOLDER => "exit code 73: its folder could not be made there".into(),
        OTHER_PROGRAM => "exit code 66: the program there is not the one that was sent".into(),
        126 => "exit code 126: the program cannot be run there".into(),
        127 => "exit code 127: the program is not there".into(),
        _ if code > SIGNALLED && code <= SIGNALLED + LAST_SIGNAL => {
            format!("exit code {code}: ended by signal {}", code - SIGNALLED)
        }
        _ => format!("exit code {code}"),
    }
}
