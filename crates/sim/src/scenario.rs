//! Scenario files: one command a line, run in a calm world, with what they show as the result.
//!
//! ```text
//! pilot a cpus=4 gpus=2 model=A100 lease=60s     a node and its pilot
//! submit j1 array=1-10 retries=2 run=5s exits=1,0 after=j0:failed
//! at 5s cut a for 30s [silent]      also: kill, start, drain, clock +2h, advance 30s
//! crash server [for 30s] · fail disk [3]          the next commit, and three looks at it
//! cancel j1 · retry j1 · duplicate all
//! show jobs · show pilots · why j1
//! expect j1 succeeded · expect attempts j1 3
//! ```

mod words;

use crate::behaviour::Behaviour;
use crate::disk::Fault;
use crate::node::Node;
use crate::world::{Happening, Settings, WishState, World};
use shipway_core::Command;
use shipway_core::command::{Pick, Select};
use shipway_core::explain::explain;
use shipway_core::job::Job;
use shipway_model::{
    Actor, After, JobId, JobSpec, JobState, Millis, RetryPolicy, Role, TimeLimit, UserName,
};
use std::collections::BTreeMap;
use words::Words;

/// How long a command that needs an answer waits for it.
const ANSWER: u64 = 50;

#[derive(Debug)]
pub struct Shown {
    pub text: String,
    pub failed: bool,
}

struct Scenario {
    world: World,
    nodes: BTreeMap<String, usize>,
    wishes: BTreeMap<String, usize>,
}

/// Runs a scenario; stops at the first line that cannot be done or is not as expected.
pub fn run(text: &str) -> Shown {
    let world = World::new(1, Settings::CALM);
    let mut scenario = Scenario { world, nodes: BTreeMap::new(), wishes: BTreeMap::new() };
    let mut out = String::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if line.starts_with('#') {
            show(&mut out, line);
            continue;
        }
        show(&mut out, &format!("> {line}"));
        match scenario.line(line) {
            Ok(shown) => out += &shown,
            Err(what) => {
                show(&mut out, &format!("FAILED: {what}"));
                return Shown { text: out, failed: true };
            }
        }
    }
    Shown { text: out, failed: false }
}

fn show(out: &mut String, line: &str) {
    out.push_str(line);
    out.push('\n');
}

impl Scenario {
    fn line(&mut self, line: &str) -> Result<String, String> {
        let mut words = Words::new(line);
        let mut shown = String::new();
        match words.next("a command")? {
            "pilot" => self.pilot(words)?,
            "submit" => self.submit(words)?,
            "at" => {
                let at = words.span("a time")?;
                self.world.run_until(at);
                let rest = words.rest();
                shown = self.line(&rest)?;
            }
            "advance" => self.advance(words.span("a time")?),
            "cut" => {
                let node = self.node(&mut words)?;
                words.expect("for")?;
                let span = words.span("a time")?;
                self.world.cut(node, span, !words.flag("silent"));
            }
            "kill" => self.world.kill_pilot(self.node(&mut words)?),
            "start" => self.world.start_pilot(self.node(&mut words)?),
            "drain" => self.world.drain_pilot(self.node(&mut words)?),
            "crash" => self.crash(words)?,
            "fail" => {
                words.expect("disk")?;
                let stays_bad = words.number("a number").unwrap_or(0);
                self.world.disk.fail(Fault { stays_bad });
            }
            "clock" => self.clock(&mut words)?,
            "duplicate" => self.world.settings.duplicate = 1_000,
            "cancel" => self.interfere(&mut words, Command::Cancel)?,
            "retry" => {
                self.interfere(&mut words, |select| Command::Retry {
                    select,
                    revived: Vec::new(),
                })?;
            }
            "show" => shown = self.show(&mut words)?,
            "why" => shown = self.why(&mut words)?,
            "expect" => self.expect(&mut words)?,
            other => return Err(format!("`{other}` is not a command")),
        }
        match self.world.violation.take() {
            Some(what) => Err(what),
            None => Ok(shown),
        }
    }

    fn advance(&mut self, span: u64) {
        self.world.run_until(self.world.now + span);
    }

    fn pilot(&mut self, mut words: Words) -> Result<(), String> {
        let name = words.next("a name")?.to_string();
        let kind = words.kind()?;
        let lease = words.span_of("lease")?.map(Millis);
        words.end()?;
        self.world.nodes.push(Node::new(&name, &kind, lease));
        let node = self.world.nodes.len() - 1;
        self.nodes.insert(name, node);
        self.world.start_pilot(node);
        self.advance(1_000);
        Ok(())
    }

    fn submit(&mut self, mut words: Words) -> Result<(), String> {
        let name = words.next("a name")?.to_string();
        let user = words.value("user").unwrap_or_else(|| "ada".into());
        let by = Actor::new(UserName::new(&user).map_err(|e| e.to_string())?, Role::User);
        let key = words.value("key").unwrap_or_else(|| name.clone());
        let mut after = Vec::new();
        for one in words.value("after").iter().flat_map(|list| list.split(',')) {
            let (job, condition) = one.split_once(':').unwrap_or((one, "ok"));
            let text = format!("{}:{condition}", self.job(job)?);
            after.push(text.parse::<After>().map_err(|error| error.to_string())?);
        }
        let behaviour = Behaviour {
            run: words.span_of("run")?.map_or((1_000, 1_000), |run| (run, run)),
            exits: words.codes("exits")?.unwrap_or_else(|| vec![0]),
            stubborn: words.flag("stubborn"),
            ..Behaviour::default()
        };
        let spec = JobSpec {
            name: name.clone(),
            command: behaviour.command(),
            array: words.parsed("array")?,
            after,
            retries: RetryPolicy {
                limit: words.parsed("retries")?.unwrap_or(0),
                ..RetryPolicy::default()
            },
            time_limit: words.span_of("limit")?.map(|limit| TimeLimit::new(Millis(limit))),
            max_running: words.parsed("max")?,
            priority: words.parsed("priority")?.unwrap_or(0),
            resources: words.resources()?,
            ..JobSpec::default()
        };
        words.end()?;
        let wish = self.world.wish(by, spec, Some(key), false);
        self.wishes.insert(name, wish);
        self.advance(ANSWER);
        Ok(())
    }

    fn crash(&mut self, mut words: Words) -> Result<(), String> {
        words.expect("server")?;
        let down = if words.flag("for") { words.span("a time")? } else { 1_000 };
        self.world.settings.server_down = (down, down);
        self.world.crash_server();
        Ok(())
    }

    fn clock(&mut self, words: &mut Words) -> Result<(), String> {
        let text = words.next("+2h or -2h")?;
        let (sign, span) = text.split_at(1);
        let span: Millis = span.parse().map_err(|_| format!("`{text}` is not +2h or -2h"))?;
        let by = i64::try_from(span.0).map_err(|error| error.to_string())?;
        self.world.set_wall(if sign == "-" { -by } else { by });
        Ok(())
    }

    fn interfere(
        &mut self,
        words: &mut Words,
        command: impl Fn(Select) -> Command,
    ) -> Result<(), String> {
        let job = self.job(words.next("a job")?)?;
        let by = Actor::new(UserName::new("ops").expect("a plain name"), Role::Operator);
        let command = command(Select { by, jobs: vec![(job, Pick::All)] });
        self.world.after(1, Happening::Asked { command });
        self.advance(ANSWER);
        Ok(())
    }

    fn node(&self, words: &mut Words) -> Result<usize, String> {
        let name = words.next("a pilot's name")?;
        self.nodes.get(name).copied().ok_or_else(|| format!("there is no pilot `{name}`"))
    }

    fn job(&self, name: &str) -> Result<JobId, String> {
        let wish = self.wishes.get(name).ok_or_else(|| format!("there is no job `{name}`"))?;
        match &self.world.wishes[*wish].state {
            WishState::Accepted(job) => Ok(*job),
            other => Err(format!("`{name}` was not accepted: {other:?}")),
        }
    }

    /// As the server has it, in memory or in history.
    fn look<T>(&self, id: JobId, look: impl FnOnce(&Job) -> T) -> Result<T, String> {
        let server = self.world.server.as_ref().ok_or("the server is down")?;
        let record = self.world.disk.record(id);
        let job = server.state().job(id).or(record.as_ref().map(|record| &record.job));
        job.map(look).ok_or_else(|| format!("there is no job {id}"))
    }

    fn show(&self, words: &mut Words) -> Result<String, String> {
        match words.next("jobs or pilots")? {
            "jobs" => self.show_jobs(),
            "pilots" => self.show_pilots(),
            other => Err(format!("cannot show `{other}`")),
        }
    }

    fn show_jobs(&self) -> Result<String, String> {
        let mut out = String::new();
        for (name, wish) in &self.wishes {
            let line = match &self.world.wishes[*wish].state {
                WishState::Accepted(job) => {
                    self.look(*job, |job| (job.state(), job.tasks.counts()))
                }
                other => {
                    show(&mut out, &format!("  {name}: {other:?}"));
                    continue;
                }
            };
            let (state, counts) = line?;
            let numbers = [
                (counts.waiting, "waiting"),
                (counts.active, "active"),
                (counts.succeeded, "succeeded"),
                (counts.failed, "failed"),
                (counts.cancelled, "cancelled"),
            ];
            let numbers: Vec<String> = numbers
                .iter()
                .filter(|(count, _)| *count > 0)
                .map(|(count, what)| format!("{count} {what}"))
                .collect();
            show(&mut out, &format!("  {name} is {state}: {}", numbers.join(", ")));
        }
        Ok(out)
    }

    fn show_pilots(&self) -> Result<String, String> {
        let server = self.world.server.as_ref().ok_or("the server is down")?;
        let line = |(id, pilot): (&shipway_model::PilotId, &shipway_core::pilot::Pilot)| {
            let link = match pilot.link {
                shipway_core::pilot::Link::Connected => "connected",
                shipway_core::pilot::Link::Away { lost: false, .. } => "away",
                shipway_core::pilot::Link::Away { lost: true, .. } => "lost",
            };
            format!("  {id} is {link}, {} placed\n", pilot.placed.len())
        };
        Ok(server.state().pilots().iter().map(line).collect())
    }

    fn why(&self, words: &mut Words) -> Result<String, String> {
        let id = self.job(words.next("a job")?)?;
        let server = self.world.server.as_ref().ok_or("the server is down")?;
        let mut out = String::new();
        for reason in explain(server.state(), id, server.state().at()) {
            show(&mut out, &format!("  {reason}"));
        }
        Ok(out)
    }

    fn expect(&self, words: &mut Words) -> Result<(), String> {
        let first = words.next("a job or `attempts`")?;
        if first == "attempts" {
            let id = self.job(words.next("a job")?)?;
            let wanted: usize = words.number("a number")?;
            let found = self.look(id, |job| {
                let indices = job.tasks.states().filter_map(|(task, _)| job.indices.index(task));
                indices.map(|index| self.world.truth.attempts_of(id.task(index)).count()).sum()
            })?;
            let found: usize = found;
            let differs = || format!("{found} attempts really ran, not {wanted}");
            return if found == wanted { Ok(()) } else { Err(differs()) };
        }
        let id = self.job(first)?;
        let wanted: JobState =
            words.next("a state")?.parse().map_err(|error| format!("{error}"))?;
        let found = self.look(id, Job::state)?;
        if found == wanted { Ok(()) } else { Err(format!("{first} is {found}, not {wanted}")) }
    }
}
