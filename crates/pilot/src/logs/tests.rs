//! Tests of the log files: what a reader gets back, in every state a stream can be in.

mod room;

use super::*;
use shipway_model::ids::{Attempt, JobId, TaskIndex};
use std::fmt::Write;
use std::fs::File;
use std::path::Path;
use std::time::{Duration, SystemTime};

fn name() -> AttemptId {
    AttemptId { task: JobId(7).task(TaskIndex(3)), attempt: Attempt(1) }
}

fn keep(limit: u64) -> Keep<'static> {
    Keep { limit, user: "ada" }
}

/// Everything a reader gets from offset 0, with `~N~` where N bytes are missing.
fn render(reader: &mut LogReader) -> String {
    let (mut text, mut offset) = (String::new(), 0);
    loop {
        let chunk = reader.read(offset, 5).unwrap();
        if chunk.dropped > 0 {
            write!(text, "~{}~", chunk.dropped).unwrap();
        }
        offset = chunk.offset + chunk.bytes.len() as u64;
        text += std::str::from_utf8(&chunk.bytes).unwrap();
        if chunk.end {
            return text + "$";
        }
        if chunk.bytes.is_empty() && chunk.dropped == 0 {
            return text;
        }
    }
}

fn restarted(root: &Path) -> String {
    render(&mut Logs::new(root.to_owned()).reader(name(), Stream::Out).unwrap())
}

#[test]
fn a_short_stream_is_one_plain_file_and_an_empty_one_none() {
    let dir = tempfile::tempdir().unwrap();
    let logs = Logs::new(dir.path().to_owned());
    let (mut out, err) = logs.writers(name(), keep(100));
    let mut reader = logs.reader(name(), Stream::Out).unwrap();
    assert_eq!(render(&mut reader), "");
    out.append(b"hello ");
    assert_eq!(render(&mut reader), "hello ");
    out.append(b"there\n");
    assert_eq!(render(&mut reader), "hello there\n");
    drop((out, err));
    assert_eq!(render(&mut reader), "hello there\n$");
    assert_eq!(restarted(dir.path()), "hello there\n$");
    let files = std::fs::read_dir(dir.path().join("7")).unwrap();
    let files: Vec<_> = files.map(|file| file.unwrap().file_name()).collect();
    assert!(files.len() == 2 && files.contains(&OWNER.into()), "{files:?}");
    assert_eq!(std::fs::read(dir.path().join("7/3.1.out")).unwrap(), b"hello there\n");
}

#[test]
fn a_long_stream_keeps_its_head_and_its_newest_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let logs = Logs::new(dir.path().to_owned());
    let (mut out, _err) = logs.writers(name(), keep(20));
    let mut reader = logs.reader(name(), Stream::Out).unwrap();
    out.append(b"0123456789abcdefghij");
    assert_eq!(render(&mut reader), "0123456789abcdefghij");
    out.append(b"KLM");
    assert_eq!(render(&mut reader), "0123456789~3~defghijKLM");
    // Not closed, as after `kill -9`: the header has kept up.
    assert_eq!(restarted(dir.path()), "0123456789~3~defghijKLM$");
    drop(out);
    assert_eq!(restarted(dir.path()), "0123456789~3~defghijKLM$");
}

#[test]
fn the_ring_is_right_at_every_length_around_its_wraps() {
    // Bytes that name their own offset show any misplaced one.
    let limit = 1000;
    let data: Vec<u8> = (0..251).cycle().take(3 * CHUNK_BYTES).collect();
    for total in (CHUNK_BYTES - 3..data.len()).step_by(9973).chain([data.len()]) {
        let dir = tempfile::tempdir().unwrap();
        let logs = Logs::new(dir.path().to_owned());
        let (mut out, _err) = logs.writers(name(), keep(limit));
        data[..total].chunks(4099).for_each(|chunk| out.append(chunk));
        for mut reader in [
            logs.reader(name(), Stream::Out).unwrap(),
            Logs::new(dir.path().to_owned()).reader(name(), Stream::Out).unwrap(),
        ] {
            let first = reader.read(500, 1000).unwrap();
            assert_eq!((first.offset, first.dropped), (total as u64 - 500, total as u64 - 1000));
            assert!(!first.is_unkept(), "dropped at the limit");
            let mut bytes = first.bytes;
            if bytes.len() < 500 {
                bytes.extend(reader.read(first.offset + bytes.len() as u64, 1000).unwrap().bytes);
            }
            assert_eq!(bytes, data[total - 500..total]);
        }
    }
}

#[test]
fn a_full_disk_costs_output_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("7")).unwrap();
    std::os::unix::fs::symlink("/dev/full", dir.path().join("7/3.1.out")).unwrap();
    let logs = Logs::new(dir.path().to_owned());
    let (mut out, _err) = logs.writers(name(), keep(100));
    let mut reader = logs.reader(name(), Stream::Out).unwrap();
    out.append(b"hello");
    assert!(reader.read(0, 100).unwrap().is_unkept(), "not dropped at the limit");
    assert_eq!(render(&mut reader), "~5~");
    out.append(b" there");
    drop(out);
    assert_eq!(render(&mut reader), "~11~$");
    assert_eq!(restarted(dir.path()), "~11~$");
}

#[test]
fn a_damaged_tail_is_ignored() {
    let dir = tempfile::tempdir().unwrap();
    let logs = Logs::new(dir.path().to_owned());
    let (mut out, _err) = logs.writers(name(), keep(20));
    out.append(b"0123456789abc");
    drop(out);
    std::fs::write(dir.path().join("7/3.1.out.tail"), b"SWTAIL01 and then nothing").unwrap();
    assert_eq!(restarted(dir.path()), "0123456789$");
}

#[test]
fn a_follower_is_woken_by_every_piece_and_by_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let logs = Logs::new(dir.path().to_owned());
    let (mut out, _err) = logs.writers(name(), keep(1000));
    let mut reader = logs.reader(name(), Stream::Out).unwrap();
    let writer = std::thread::spawn(move || {
        (0..100).for_each(|number| out.append(format!("{number}\n").as_bytes()));
    });
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let text = runtime.block_on(async {
        let (mut text, mut offset) = (Vec::new(), 0);
        loop {
            let chunk = reader.read(offset, 64).unwrap();
            assert_eq!(chunk.dropped, 0);
            offset = chunk.offset + chunk.bytes.len() as u64;
            text.extend(chunk.bytes);
            if chunk.end {
                return String::from_utf8(text).unwrap();
            }
            if offset == chunk.offset {
                reader.changed().await;
            }
        }
    });
    writer.join().unwrap();
    let numbers: Vec<String> = (0..100).map(|number| number.to_string()).collect();
    assert_eq!(text, numbers.join("\n") + "\n");
}

#[test]
fn a_reader_beside_a_fast_writer_never_sees_a_torn_piece() {
    // Lines of eight bytes: a torn read would show a line that was never written.
    let dir = tempfile::tempdir().unwrap();
    let logs = Logs::new(dir.path().to_owned());
    let (mut out, _err) = logs.writers(name(), keep(16 * 1024));
    let mut reader = logs.reader(name(), Stream::Out).unwrap();
    let writer = std::thread::spawn(move || {
        for block in 0..200_u32 {
            let mut lines = String::new();
            (0..1000).for_each(|line| writeln!(lines, "{:07}", block * 1000 + line).unwrap());
            out.append(lines.as_bytes());
        }
    });
    let mut offset = 0;
    loop {
        let chunk = reader.read(offset, 4096).unwrap();
        for (at, line) in chunk.bytes.chunks_exact(8).enumerate() {
            let number: u64 = std::str::from_utf8(&line[..7]).unwrap().parse().unwrap();
            assert_eq!(number, chunk.offset / 8 + at as u64);
        }
        // Whole lines only: a piece may end inside one where the ring wraps.
        let taken = chunk.bytes.len() as u64;
        let whole = if chunk.end { taken } else { taken - (chunk.offset + taken) % 8 };
        offset = chunk.offset + whole;
        if chunk.end {
            break;
        }
    }
    writer.join().unwrap();
    assert_eq!(offset, 200 * 1000 * 8);
}

#[test]
fn old_output_is_removed_and_nothing_else() {
    const DAY: Duration = Duration::from_hours(24);
    let dir = tempfile::tempdir().unwrap();
    let logs = Logs::new(dir.path().to_owned());
    let name = |index| AttemptId { task: JobId(7).task(TaskIndex(index)), attempt: Attempt(1) };
    let old = SystemTime::now() - 10 * DAY;
    let file = |index, ending: &str| dir.path().join(format!("7/{index}.1.{ending}"));
    let age = |path: &Path| File::options().write(true).open(path).unwrap().set_modified(old);
    for index in 0..4 {
        let (mut out, _) = logs.writers(name(index), keep(8));
        out.append(b"0123456789");
        assert!(file(index, "out.tail").exists());
    }
    // 0 is old, 1 is new, the tail of 2 is new, 3 is being written.
    let (mut live, _) = logs.writers(name(3), keep(8));
    live.append(b"0123456789");
    for (index, ending) in [(0, "out"), (0, "out.tail"), (2, "out"), (3, "out"), (3, "out.tail")] {
        age(&file(index, ending)).unwrap();
    }
    let now = SystemTime::now();
    assert_eq!(logs.remove_older(now, 20 * DAY).unwrap(), 0, "not old enough");
    assert_eq!(logs.remove_older(now, 5 * DAY).unwrap(), 2);
    assert!(!file(0, "out").exists() && !file(0, "out.tail").exists());
    for index in 1..4 {
        assert!(file(index, "out").exists() && file(index, "out.tail").exists(), "{index}");
    }
    drop(live);
    assert_eq!(logs.remove_older(now, 5 * DAY).unwrap(), 0, "it ended just now");
    age(&file(3, "out.tail")).unwrap();
    assert_eq!(logs.remove_older(now, 5 * DAY).unwrap(), 2, "its writer is gone");
    assert_eq!(logs.remove_older(now + 20 * DAY, DAY).unwrap(), 4);
    assert!(dir.path().join("7").exists(), "an empty folder stays for a while");
    assert_eq!(logs.remove_older(now + 20 * DAY, DAY).unwrap(), 0);
    assert!(!dir.path().join("7").exists());
    assert_eq!(Logs::new(dir.path().join("none")).remove_older(now, DAY).unwrap(), 0);
}
