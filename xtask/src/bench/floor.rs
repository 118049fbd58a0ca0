//! What one job costs at least on this machine: a durable write, a process, a round trip. Each as
//! the median of many, in milliseconds.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};

use super::disk::RECORD;
use super::samples::Samples;

/// The median time of an act, in milliseconds.
pub(super) fn median(count: u32, mut act: impl FnMut() -> Result<()>) -> Result<f64> {
    Ok(times(count, &mut act)?.median().expect("every count is above zero"))
}

/// How long each of many takes, in milliseconds.
pub(super) fn times(count: u32, act: &mut dyn FnMut() -> Result<()>) -> Result<Samples> {
    let one = |_| {
        let start = Instant::now();
        act()?;
        Ok(start.elapsed().as_secs_f64() * 1000.0)
    };
    (0..count).map(one).collect()
}

/// One append of 256 bytes, on disk.
pub(super) fn append(folder: &Path, count: u32) -> Result<f64> {
    let path = folder.join("single-appends");
    let mut file = File::create(&path).context("could not make a file to append to")?;
    let taken = median(count, || {
        file.write_all(&RECORD).context("could not append")?;
        file.sync_data().context("could not sync an append")
    });
    std::fs::remove_file(&path).context("could not remove a file")?;
    taken
}

/// One process, from its start to its end.
pub(super) fn process(program: &str, count: u32) -> Result<f64> {
    median(count, || {
        let status = Command::new(program).status().context("could not start a process")?;
        ensure!(status.success(), "`{program}` ended with {status}");
        Ok(())
    })
}

/// One byte to another thread over loopback TCP and back.
pub(super) fn round_trip(count: u32) -> Result<f64> {
    let listener = TcpListener::bind("127.0.0.1:0").context("could not listen")?;
    let address = listener.local_addr().context("could not listen")?;
    let echo = std::thread::spawn(move || -> std::io::Result<()> {
        let (mut stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        let mut byte = [0];
        while stream.read(&mut byte)? > 0 {
            stream.write_all(&byte)?;
        }
        Ok(())
    });
    let mut stream = TcpStream::connect(address).context("could not connect")?;
    stream.set_nodelay(true).context("could not set up a connection")?;
    let mut byte = [0];
    let taken = median(count, || {
        stream.write_all(&byte).context("could not send a byte")?;
        stream.read_exact(&mut byte).context("could not get a byte back")
    });
    drop(stream);
    echo.join().expect("the echo does not panic").context("the echo failed")?;
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_takes_some_time() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(append(folder.path(), 3).expect("it writes") > 0.0);
        assert!(process("true", 3).expect("it runs") > 0.0);
        assert!(round_trip(3).expect("it answers") > 0.0);
        assert!(process("false", 3).is_err());
    }
}
