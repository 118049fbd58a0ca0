//! Ten thousand pilots of one server: what each takes there, what their heartbeats cost, how soon
//! all are back after a restart, and what is dispatched to them beside what is to one.
//!
//! They are `shipway-sim pilots`: the real machine of a pilot and the real protocol over loopback,
//! in one process, with tasks that end as soon as they begin.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;

use super::crowd::{cpu_percent, resident};
use super::http::Door;
use super::{Measure as M, Results};
use crate::instance::Instance;
use crate::{children, repo};

/// Files that server and driver may have open, for as many connections.
const FILES: u64 = 2;
const OWN_FILES: u64 = 1_024;
/// All have to be there, or back, within this; beyond it the line is missing.
const PATIENCE: Duration = Duration::from_mins(5);
/// Beats come every five seconds.
const WATCHED: Duration = Duration::from_secs(20);
/// After many have come, until the server has tidied up.
const SETTLE: Duration = Duration::from_secs(8);
const JOBS: &str = "/api/v1/jobs";

pub(super) fn measure(
    binary: &Path,
    place: &Path,
    (pilots, tasks): (u32, u32),
    results: &mut Results,
) -> Result<()> {
    allow_files(u64::from(pilots) * FILES + OWN_FILES)?;
    children::run(repo::cargo().args(["build", "--release", "--quiet", "-p", "shipway-sim"]))?;
    let driver = repo::target_dir()?.join("release/shipway-sim");
    let alone = Crowd::start(binary, &driver, place, 1)?;
    alone.dispatch(tasks / 10)?;
    results.add(M::OnePilot, alone.dispatch(tasks)?);
    alone.end()?;

    let mut crowd = Crowd::start(binary, &driver, place, pilots)?;
    let taken = (resident(crowd.instance.pid())? - crowd.empty).max(0.0);
    results.add(M::PilotMemory, taken / f64::from(pilots));
    results.add(M::PilotBeats, cpu_percent(crowd.instance.pid(), WATCHED)?);
    crowd.dispatch(tasks / 10)?;
    results.add(M::ManyPilots, crowd.dispatch(tasks)?);
    crowd.instance.kill()?;
    crowd.wait_for(0)?;
    let start = Instant::now();
    crowd.instance.up(&["--no-pilot"])?;
    crowd.wait_for(pilots)?;
    results.add(M::PilotsBack, start.elapsed().as_secs_f64());
    crowd.end()
}

/// A server, and so many pilots that are connected to it.
struct Crowd {
    instance: Instance,
    driver: Driver,
    welcome: Arc<AtomicU32>,
    /// Bytes of the server without them.
    empty: f64,
}

/// Ended when it goes.
struct Driver(Child);

impl Drop for Driver {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Crowd {
    fn start(binary: &Path, driver: &Path, place: &Path, pilots: u32) -> Result<Crowd> {
        let instance = Instance::start_with(binary, place, &["--no-pilot"])?;
        let mut client = Door::read(&instance.contact_text()?)?.open()?;
        let mut credentials = Vec::new();
        for _ in 0..pilots {
            let issued = client.post("/api/v1/pilots", &json!({}))?;
            let known = json!({"pilot": issued["pilot"], "token": issued["token"]});
            writeln!(credentials, "{known}")?;
        }
        drop(client);
        std::thread::sleep(SETTLE);
        let empty = resident(instance.pid())?;
        let mut command = Command::new(driver);
        command.arg("pilots").arg(instance.home());
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut driver = Driver(child.context("could not start the pilots")?);
        let out = driver.0.stdout.take().context("no output")?;
        let welcome = Arc::new(AtomicU32::new(0));
        let seen = Arc::clone(&welcome);
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                seen.store(line.parse().unwrap_or(0), Ordering::Relaxed);
            }
        });
        let mut input = driver.0.stdin.take().context("no input")?;
        input.write_all(&credentials).context("could not tell the pilots who they are")?;
        drop(input);
        let crowd = Crowd { instance, driver, welcome, empty };
        crowd.wait_for(pilots)?;
        std::thread::sleep(SETTLE);
        Ok(crowd)
    }

    fn wait_for(&self, pilots: u32) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while self.welcome.load(Ordering::Relaxed) != pilots {
            if children::interrupted() {
                bail!("interrupted");
            }
            if Instant::now() > deadline {
                let there = self.welcome.load(Ordering::Relaxed);
                bail!("{there} of {pilots} pilots are connected after {PATIENCE:?}");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Tasks a second of one array.
    fn dispatch(&self, tasks: u32) -> Result<f64> {
        let mut client = Door::read(&self.instance.contact_text()?)?.open()?;
        let spec = json!({"command": ["true"], "workdir": "/tmp", "array": format!("1-{tasks}")});
        let start = Instant::now();
        let id = client.post(JOBS, &json!({ "spec": spec }))?["id"].as_u64().context("no id")?;
        loop {
            let job = client.get(&format!("{JOBS}/{id}/wait"))?;
            match job["state"].as_str() {
                Some("succeeded") => return Ok(f64::from(tasks) / start.elapsed().as_secs_f64()),
                Some("waiting" | "running") => {}
                _ => bail!("an array ended as {job}"),
            }
        }
    }

    fn end(self) -> Result<()> {
        drop(self.driver);
        self.instance.stop()
    }
}

/// What is started from here may have so many files open, too.
fn allow_files(wanted: u64) -> Result<()> {
    let now = getrlimit(Resource::Nofile);
    if now.current.is_none_or(|most| most >= wanted) {
        return Ok(());
    }
    let maximum = now.maximum.map(|most| most.max(wanted));
    let limit = Rlimit { current: Some(wanted), maximum };
    setrlimit(Resource::Nofile, limit).context("could not allow as many open files as it takes")
}
