//! How fast this machine makes small appends durable, one at a time.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, Result};

/// About what one event of a job takes in a journal.
pub(super) const RECORD: [u8; 256] = [b'x'; 256];

/// Appends a second, each on disk before the next.
pub(super) fn append_rate(folder: &Path, count: u32) -> Result<f64> {
    let path = folder.join("appends");
    let mut file = File::create(&path).context("could not make a file to append to")?;
    let start = Instant::now();
    for _ in 0..count {
        file.write_all(&RECORD).context("could not append")?;
        file.sync_data().context("could not sync an append")?;
    }
    let seconds = start.elapsed().as_secs_f64();
    std::fs::remove_file(&path).context("could not remove a file")?;
    Ok(f64::from(count) / seconds)
}
