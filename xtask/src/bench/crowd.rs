//! A server without a pilot: what accepting and keeping work costs when none of it runs. Submits
//! over kept connections, a very large array, very many jobs, and a server with nothing to do.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};

use super::http::{Client, Door};
use crate::children;
use crate::instance::Instance;

const JOBS: &str = "/api/v1/jobs";
/// Clients at the same time, for the line about many.
pub(super) const MANY: u32 = 64;
/// How long an idle server is watched.
const WATCHED: Duration = Duration::from_secs(3);
/// How long a server that has just answered may still tidy up before it counts as idle.
const SETTLE: Duration = Duration::from_millis(500);

pub(super) struct Crowd {
    binary: PathBuf,
    place: PathBuf,
}

/// What a server with nothing to do takes.
pub(super) struct Idle {
    pub(super) megabytes: f64,
    pub(super) cpu_percent: f64,
    pub(super) start_ms: f64,
}

/// What very many jobs take.
pub(super) struct Queued {
    pub(super) bytes_each: f64,
    pub(super) restart_ms: f64,
}

/// What a very large array takes.
pub(super) struct Array {
    pub(super) submit_ms: f64,
    pub(super) megabytes: f64,
}

impl Crowd {
    pub(super) fn new(binary: PathBuf, place: &Path) -> Crowd {
        Crowd { binary, place: place.to_path_buf() }
    }

    pub(super) fn binary(&self) -> &Path {
        &self.binary
    }

    fn start(&self) -> Result<Instance> {
        Instance::start_with(&self.binary, &self.place, &["--no-pilot"])
    }

    /// Durable submits a second by so many clients at once.
    pub(super) fn submit_rate(&self, clients: u32, count: u32) -> Result<f64> {
        let instance = self.start()?;
        // Once unmeasured: the log file grows at first and is reused later.
        submit_all(&instance, clients, count)?;
        let start = Instant::now();
        submit_all(&instance, clients, count)?;
        let rate = f64::from(count) / start.elapsed().as_secs_f64();
        instance.stop()?;
        Ok(rate)
    }

    pub(super) fn idle(&self) -> Result<Idle> {
        let start = Instant::now();
        let instance = self.start()?;
        let start_ms = milliseconds(start);
        door(&instance)?.open()?.get("/api/v1/whoami")?;
        std::thread::sleep(SETTLE);
        let cpu_percent = cpu_percent(instance.pid(), WATCHED)?;
        let megabytes = resident(instance.pid())? / 1e6;
        instance.stop()?;
        Ok(Idle { megabytes, cpu_percent, start_ms })
    }

    /// Milliseconds from a submit file with so many rows to the id of the job on disk.
    pub(super) fn rows(&self, rows: u32) -> Result<f64> {
        let (list, file) = (self.place.join("rows.txt"), self.place.join("rows.sub"));
        let lines: Vec<String> =
            (0..rows).map(|at| format!("{at} {}", u64::from(at) * 7_919)).collect();
        let submit = format!(
            "executable = /bin/echo\narguments = $(x) $(y)\nqueue x, y from {}\n",
            list.display()
        );
        std::fs::write(&list, lines.join("\n")).context("could not write rows")?;
        std::fs::write(&file, submit).context("could not write a submit file")?;
        let instance = self.start()?;
        let start = Instant::now();
        let mut command = instance.command(&["submit", &file.to_string_lossy()]);
        children::run(command.stdout(Stdio::null()))?;
        let submit_ms = milliseconds(start);
        instance.stop()?;
        Ok(submit_ms)
    }

    pub(super) fn array(&self, tasks: u32) -> Result<Array> {
        let instance = self.start()?;
        let mut client = door(&instance)?.open()?;
        submit(&mut client, &json!({"command": ["true"], "array": "1-2"}))?;
        let before = resident(instance.pid())?;
        let start = Instant::now();
        submit(&mut client, &json!({"command": ["true"], "array": format!("1-{tasks}")}))?;
        let submit_ms = milliseconds(start);
        let megabytes = (resident(instance.pid())? - before).max(0.0) / 1e6;
        instance.stop()?;
        Ok(Array { submit_ms, megabytes })
    }

    /// Queues jobs, kills the server without a warning, and starts it again.
    pub(super) fn queued(&self, jobs: u32) -> Result<Queued> {
        let mut instance = self.start()?;
        submit_all(&instance, MANY, jobs / 100)?;
        let before = resident(instance.pid())?;
        submit_all(&instance, MANY, jobs)?;
        let bytes_each = (resident(instance.pid())? - before) / f64::from(jobs);
        instance.kill()?;
        let start = Instant::now();
        instance.up(&["--no-pilot"])?;
        let restart_ms = milliseconds(start);
        instance.stop()?;
        Ok(Queued { bytes_each, restart_ms })
    }
}

fn door(instance: &Instance) -> Result<Door> {
    Door::read(&instance.contact_text()?)
}

fn milliseconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1000.0
}

fn submit(client: &mut Client, spec: &Value) -> Result<()> {
    client.post(JOBS, &json!({ "spec": spec })).map(drop)
}

/// Submits `count` jobs that differ, by so many clients with a connection each.
fn submit_all(instance: &Instance, clients: u32, count: u32) -> Result<()> {
    let next = AtomicU32::new(0);
    let door = door(instance)?;
    let one = || -> Result<()> {
        let mut client = door.open()?;
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                return Ok(());
            }
            if children::interrupted() {
                bail!("interrupted");
            }
            let spec = json!({"command": ["true", number.to_string()], "workdir": "/tmp"});
            submit(&mut client, &spec)?;
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..clients).map(|_| scope.spawn(one)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("a client only fails"))
    })
}

/// Of one core, while a process is watched.
pub(super) fn cpu_percent(pid: i32, watched: Duration) -> Result<f64> {
    let before = cpu_ticks(pid)?;
    std::thread::sleep(watched);
    let ticks = cpu_ticks(pid)? - before;
    let per_second = u32::try_from(rustix::param::clock_ticks_per_second());
    let per_second = f64::from(per_second.context("a clock that ticks too fast")?);
    Ok(100.0 * ticks / per_second / watched.as_secs_f64())
}

/// Resident bytes of a process.
pub(super) fn resident(pid: i32) -> Result<f64> {
    let statm = std::fs::read_to_string(format!("/proc/{pid}/statm"));
    let statm = statm.context("could not look at the server's memory")?;
    let pages: Option<f64> = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok());
    let page_size = u32::try_from(rustix::param::page_size()).expect("a page is small");
    Ok(pages.context("could not read the server's memory")? * f64::from(page_size))
}

/// Clock ticks of processor time that a process has used.
fn cpu_ticks(pid: i32) -> Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    let stat = stat.context("could not look at the server's time")?;
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split(' ').collect();
    let field = |at: usize| fields.get(at).and_then(|text| text.parse::<f64>().ok());
    let used = field(12).zip(field(13)).map(|(user, system)| user + system);
    used.context("could not read the server's time")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_memory_and_time() {
        let own = rustix::process::getpid().as_raw_pid();
        assert!(resident(own).expect("it is there") > 0.0);
        assert!(cpu_ticks(own).expect("it is there") >= 0.0);
        assert!(resident(-1).is_err());
    }
}
