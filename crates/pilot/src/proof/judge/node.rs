//! Folders, the clock, room for processes, and where images come from.

use super::super::facts::{ClockFact, FolderFact, ImageFact, KeptFact, ServerFact};
use super::super::{About, Check};
use crate::hanging::Hanging;
use shipway_model::{Bytes, Millis, Timestamp};
use shipway_trees::disk::LEAST_ROOM;

/// Below this the output of a busy day may fill the disk.
const LITTLE_ROOM: u64 = 1_000_000_000;
/// Below this one large image may not fit: those for GPUs have ten gigabytes and more.
const LITTLE_ROOM_FOR_IMAGES: u64 = 20_000_000_000;

/// A person has half of it: below this a program that starts some threads for each core, on a node
/// with many, is ended.
const LITTLE_ROOM_FOR_PROCESSES: u64 = 8_192;

/// No clock that is right shows less: 2026-11-01, when this was written.
const WRITTEN: Timestamp = Timestamp(1_793_491_200_000);
/// Certificates and tokens begin and end by the clock. The server's is told to the second.
const SMALL_SKEW: Millis = Millis(5_000);
const LARGE_SKEW: Millis = Millis(5 * 60_000);
/// How far the clock may be moved while we look without being called jumpy.
const SMALL_JUMP: Millis = Millis(500);

pub(super) fn work_folder(folder: &FolderFact) -> Check {
    room("work folder", folder, folder.least, LITTLE_ROOM).about(About::Node)
}

pub(super) fn image_store(folder: &FolderFact) -> Check {
    room("image store", folder, 0, LITTLE_ROOM_FOR_IMAGES)
}

fn room(name: &str, folder: &FolderFact, least: u64, little: u64) -> Check {
    let (least, little) = (least.max(LEAST_ROOM), little.max(least));
    let path = folder.path.display();
    let wanted = format!("can be written to, {} free", Bytes(little));
    let check = |found: String| Check::ok(name, &wanted, found);
    match (&folder.problem, folder.free) {
        (Some(problem), _) => check(format!("{path} {problem}"))
            .failed(format!("give this user the folder {path}, or name another one")),
        (None, None) => check(format!("{path}: what is free there is unknown"))
            .warning("see that the file system answers (`df`)"),
        (None, Some(free)) => {
            let low = free < least;
            // The same words while it lasts: what a node says of itself is written down.
            let (less, shown) = if low { ("less than ", least) } else { ("", free) };
            let check = check(format!("{path}, {less}{} free", Bytes(shown)));
            let fix = format!("make room below {path}, or move it to a larger disk");
            match free {
                _ if low => check.failed(fix),
                free if free < little => check.warning(fix),
                _ => check,
            }
        }
    }
}

pub(super) fn kept(kept: &KeptFact) -> Check {
    let (path, count) = (kept.path.display(), kept.count);
    let found = format!("{path} holds {count} folders with what tasks had no right to remove");
    Check::ok("files of tasks", "nothing is left of tasks that have ended", found)
        .warning(format!("look whose it is, give it back to them, and remove the rest: {path}"))
}

/// Nothing where there are none.
pub(super) fn hanging(hanging: &[Hanging]) -> Option<Check> {
    let first = hanging.first()?;
    let (pid, whose) = (first.pid, &first.whose);
    let found = match hanging.len() {
        1 => format!("process {pid} {whose} was killed and hangs in the kernel"),
        count => format!(
            "{count} processes were killed and hang in the kernel, among them {pid} {whose}"
        ),
    };
    let fix = format!(
        "see what it waits for (`cat /proc/{pid}/stack`), most often a file system that does not \
         answer, and end that; until then it keeps its memory and its devices"
    );
    Some(Check::ok("killed processes", "all have died", found).failed(fix))
}

pub(super) fn clock(clock: &ClockFact) -> Check {
    let wanted = "shows the time, runs evenly, agrees with the server's";
    let fix = "set the clock, and keep it with chrony or another NTP client";
    let check = |found: String| Check::ok("clock", wanted, found).about(About::Node);
    if clock.wall < WRITTEN {
        let days = Millis(WRITTEN.since(clock.wall).0 / 86_400_000 * 86_400_000);
        return check(format!("{days} before this program was written")).failed(fix);
    }
    if clock.jumped > SMALL_JUMP {
        return check(format!("moved by {} while it was looked at", clock.jumped)).warning(fix);
    }
    match &clock.server {
        None => check("runs evenly; no server to compare with".into()),
        Some(ServerFact { url, clock: Err(why) }) => {
            check(format!("runs evenly; {url} does not answer: {why}"))
                .warning("start the server, or name another in SHIPWAY_URL")
        }
        Some(ServerFact { url, clock: Ok((theirs, ours)) }) => {
            let skew = Millis(theirs.since(*ours).0.max(ours.since(*theirs).0));
            match skew {
                skew if skew > LARGE_SKEW => {
                    check(format!("{skew} apart from the server at {url}")).failed(fix)
                }
                skew if skew > SMALL_SKEW => {
                    check(format!("{skew} apart from the server at {url}")).warning(fix)
                }
                _ => check(format!("runs evenly; agrees with the server at {url}")),
            }
        }
    }
}

pub(super) fn processes(room: u64) -> Check {
    let wanted = format!("room for {LITTLE_ROOM_FOR_PROCESSES} processes and threads");
    let check = Check::ok("processes", wanted, format!("room for {room}"));
    if room >= LITTLE_ROOM_FOR_PROCESSES {
        return check;
    }
    check.warning(
        "raise what this user may have (`ulimit -u`), its service (TasksMax=) or the node \
         (sysctl kernel.pid_max, kernel.threads-max)",
    )
}

pub(super) fn image_source(image: Option<&ImageFact>) -> Check {
    let check = |found: String| Check::ok("image source", "answers with the image", found);
    match image {
        None => check("no image was named (--image)".into()).not_applicable(),
        Some(ImageFact { reference, answer: Ok(found) }) => check(format!("{reference}: {found}")),
        Some(ImageFact { reference, answer: Err(why) }) => check(format!("{reference}: {why}"))
            .failed(format!("try `shipway image pull {reference}`; see proxy, name and login")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::State;
    use super::*;

    fn folder(problem: Option<&str>, free: Option<u64>) -> FolderFact {
        let problem = problem.map(ToOwned::to_owned);
        FolderFact { path: "/work".into(), problem, free, least: 0 }
    }

    #[test]
    fn folders() {
        for (problem, free, expected) in [
            (None, Some(1 << 40), State::Ok),
            (None, Some(2_000_000), State::Warning),
            (None, Some(1000), State::Failed),
            (None, None, State::Warning),
            (Some("cannot be written to: no"), Some(1 << 40), State::Failed),
        ] {
            let check = work_folder(&folder(problem, free));
            assert_eq!(check.state, expected, "{check:?}");
            assert_eq!(check.fix.is_none(), expected == State::Ok, "{check:?}");
            assert_eq!(check.about, About::Node);
        }
        let low = FolderFact { least: 5_000_000, ..folder(None, Some(4_000_000)) };
        let check = work_folder(&low);
        assert_eq!((check.state, &*check.found), (State::Failed, "/work, less than 5MB free"));
        assert_eq!(image_store(&low).state, State::Warning);
        assert_eq!(image_store(&folder(None, Some(5_000_000_000))).state, State::Warning);
    }

    #[test]
    fn clocks() {
        let now = Timestamp(WRITTEN.0 + 86_400_000);
        let server = |behind: u64| {
            let clock = Ok((Timestamp(now.0 - behind), now));
            Some(ServerFact { url: "http://head".into(), clock })
        };
        let silent = Some(ServerFact { url: "http://head".into(), clock: Err("no".into()) });
        for (wall, jumped, server, expected) in [
            (now, 0, None, State::Ok),
            (now, 0, server(900), State::Ok),
            (now, 0, server(30_000), State::Warning),
            (now, 0, server(3_600_000), State::Failed),
            (now, 0, silent, State::Warning),
            (now, 2_000, None, State::Warning),
            (Timestamp(0), 0, None, State::Failed),
        ] {
            let check = clock(&ClockFact { wall, jumped: Millis(jumped), server });
            assert_eq!(check.state, expected, "{check:?}");
        }
    }

    #[test]
    fn what_is_kept_is_a_warning_that_says_where() {
        let kept = kept(&KeptFact { path: "/home/pilot/kept".into(), count: 2 });
        assert_eq!((kept.state, kept.about.clone()), (State::Warning, About::Part));
        assert!(kept.found.starts_with("/home/pilot/kept holds 2 "), "{}", kept.found);
    }

    #[test]
    fn room_for_processes() {
        assert_eq!(processes(32_768).state, State::Ok);
        let few = processes(1_024);
        assert_eq!((few.state, few.about), (State::Warning, About::Part));
        assert!(few.fix.is_some_and(|fix| fix.contains("ulimit -u")));
    }

    #[test]
    fn sources() {
        assert_eq!(image_source(None).state, State::NotApplicable);
        let image = |answer| ImageFact { reference: "docker://a".into(), answer };
        assert_eq!(image_source(Some(&image(Ok("3 layers".into())))).state, State::Ok);
        let failed = image_source(Some(&image(Err("nobody there".into()))));
        assert!(failed.is_failed() && failed.found.contains("nobody there"), "{failed:?}");
    }
}
