//! Shipway, measured from outside: the release binary through its command line.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::{Result, ensure};
use serde_json::json;

use super::floor;
use super::http::Door;
use super::samples::Samples;
use crate::children;
use crate::instance::{self, Instance};

/// A large output: a little less than is kept of one.
const LARGE_OUTPUT: &str = "60000000";

/// A server for the length of the benchmark.
pub(super) struct Shipway(Instance);

impl Shipway {
    pub(super) fn prepare(binary: &Path, place: &Path) -> Result<Shipway> {
        let instance = Instance::start_with(binary, place, &instance::PLAIN_TASKS)?;
        let shipway = Shipway(instance);
        // Once unmeasured, so that the pilot's start is not part of the first round.
        children::run(&mut shipway.quiet(&["run", "--", "true"]))?;
        Ok(shipway)
    }

    /// Tasks a second of one array, from the start of the command to its end.
    pub(super) fn dispatch_rate(&self, program: &str, tasks: u32) -> Result<f64> {
        let array = format!("1-{tasks}");
        let mut run = self.quiet(&["run", "--array", &array, "--", program]);
        Ok(f64::from(tasks) / milliseconds(&mut run)? * 1000.0)
    }

    /// Milliseconds of one job after another over one connection: submitted, run, its end known.
    pub(super) fn api_latency(&self, count: u32) -> Result<Samples> {
        let mut client = Door::read(&self.0.contact_text()?)?.open()?;
        let body = json!({"spec": {"command": ["true"], "workdir": "/tmp"}});
        floor::times(count, &mut || {
            let id = client.post("/api/v1/jobs", &body)?["id"].clone();
            let job = client.get(&format!("/api/v1/jobs/{id}/wait"))?;
            ensure!(job["state"] == "succeeded", "a job ended as {job}");
            Ok(())
        })
    }

    /// The same, while somebody reads a large output of that node over and over.
    pub(super) fn latency_beside_reader(&self, count: u32) -> Result<Samples> {
        let mut print =
            self.0.command(&["run", "-d", "--", "head", "-c", LARGE_OUTPUT, "/dev/zero"]);
        let id = children::stdout_of(print.stderr(Stdio::null()))?;
        children::run(&mut self.quiet(&["wait", id.trim()]))?;
        let enough = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                while !enough.load(Ordering::Relaxed) {
                    children::run(&mut self.quiet(&["logs", "--stdout", id.trim()]))?;
                }
                Ok(())
            });
            let measured = self.api_latency(count);
            enough.store(true, Ordering::Relaxed);
            reader.join().expect("a reader does not panic").and(measured)
        })
    }

    /// Durable submits a second by one user at a shell: one process and one reply each.
    pub(super) fn submit_rate(&self, count: u32) -> Result<f64> {
        let start = Instant::now();
        let mut ids = Vec::new();
        for _ in 0..count {
            let mut run = self.0.command(&["run", "-d", "--", "true"]);
            ids.push(children::stdout_of(run.stderr(Stdio::null()))?);
        }
        let rate = f64::from(count) / start.elapsed().as_secs_f64();
        // What was submitted must not run into the next measurement.
        for id in ids {
            children::run(&mut self.quiet(&["wait", id.trim()]))?;
        }
        Ok(rate)
    }

    /// Median milliseconds of `shipway run -- true`: submit, commit, run, report, exit.
    pub(super) fn run_latency(&self, count: u32) -> Result<f64> {
        self.median(count, &["run", "--", "true"])
    }

    /// Median milliseconds to start the program at all.
    pub(super) fn start_latency(&self, count: u32) -> Result<f64> {
        self.median(count, &["--version"])
    }

    fn median(&self, count: u32, args: &[&str]) -> Result<f64> {
        let samples: Result<Samples> =
            (0..count).map(|_| milliseconds(&mut self.quiet(args))).collect();
        Ok(samples?.median().expect("every count is above zero"))
    }

    fn quiet(&self, args: &[&str]) -> Command {
        let mut command = self.0.command(args);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command
    }
}

fn milliseconds(command: &mut Command) -> Result<f64> {
    let start = Instant::now();
    children::run(command)?;
    Ok(start.elapsed().as_secs_f64() * 1000.0)
}
