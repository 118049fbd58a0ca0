//! The machine told stories: what it is told, step by step, and exactly what it answers.
//!
//! `Rig` plays the loop around the machine with one clock for both kinds of time.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod endings;
mod leaving;
mod link;
mod reports;
mod starting;
mod used;
mod weight;

use super::speech::REPORT_WAIT;
use super::*;
use shipway_api::link::{Assign, Hello, Task};
use shipway_model::{
    Attempt, Capacity, Cores, Ended, HeldPhase, JobId, NodeName, Outcome, TaskIndex,
};

struct Rig {
    machine: Machine,
    now: u64,
    /// The ends that were to be written down.
    kept: Vec<AttemptId>,
}

fn id(job: u64, index: u64) -> AttemptId {
    JobId(job).task(TaskIndex(index)).attempt(Attempt(1))
}

fn template(cpus: u64) -> Template {
    let need = Capacity { cpus: Cores::whole(cpus), ..Capacity::default() };
    Template { need, ..Template::default() }
}

fn task(id: AttemptId) -> Task {
    Task { id, devices: Vec::new(), fields: BTreeMap::new() }
}

fn welcome() -> FromServer {
    FromServer::Welcome { server_version: String::new() }
}

/// What a report tells.
struct Reported {
    number: u64,
    started: Vec<AttemptId>,
    ended: Vec<(AttemptId, Ended)>,
}

impl Rig {
    fn new(lease: Option<u64>) -> Rig {
        let capacity = Capacity { cpus: Cores::whole(4), ..Capacity::default() };
        let machine = Machine::new(Identity {
            pilot: PilotId::new("p1").unwrap(),
            version: "test".into(),
            ad: NodeAd {
                node: NodeName::new("n1").unwrap(),
                capacity,
                gpus: Vec::new(),
                notes: Vec::new(),
                unfit: Vec::new(),
                withheld: Vec::new(),
                people: None,
                attributes: std::collections::BTreeMap::default(),
            },
            lease: lease.map(Millis),
            folder_key: "key".into(),
        });
        Rig { machine, now: 1_000, kept: Vec::new() }
    }

    /// Connected and welcomed.
    fn up(lease: Option<u64>) -> Rig {
        let mut rig = Rig::new(lease);
        rig.connect();
        rig
    }

    fn now(&self) -> Now {
        Now { steady: Millis(self.now), wall: Timestamp(self.now) }
    }

    /// All that is to be done but for what is to be written down, which `kept` has.
    fn input(&mut self, input: Input) -> Vec<Output> {
        let mut out = self.machine.handle(self.now(), input);
        out.retain(|output| match output {
            Output::Keep { ids } => {
                assert!(ids.iter().all(|id| self.machine.end_of(*id).is_some()));
                self.kept.extend(ids);
                false
            }
            _ => true,
        });
        out
    }

    fn tick(&mut self, to: u64) -> Vec<Output> {
        self.now = to;
        self.input(Input::Tick)
    }

    fn link_up(&mut self) -> Hello {
        let mut out = self.input(Input::LinkUp);
        let hello = out.pop();
        assert_eq!(out, [Output::CloseLogs], "whoever asked on an earlier connection is gone");
        match hello {
            Some(Output::Send(FromPilot::Hello(hello))) => *hello,
            other => panic!("{other:?}"),
        }
    }

    fn connect(&mut self) -> Hello {
        let hello = self.link_up();
        assert_eq!(self.say(welcome()), []);
        hello
    }

    fn cut(&mut self) {
        let connection = self.machine.connection_number();
        assert_eq!(self.input(Input::LinkDown { connection, parted: false }), []);
    }

    fn say(&mut self, message: FromServer) -> Vec<Output> {
        let connection = self.machine.connection_number();
        self.input(Input::Message { connection, message })
    }

    fn assign(&mut self, template: Template, ids: &[AttemptId]) -> Vec<Output> {
        self.say(assignment(template, ids))
    }

    fn stop(&mut self, ids: &[AttemptId]) -> Vec<Output> {
        self.say(FromServer::Stop { ids: ids.to_vec(), grace: Millis(10_000) })
    }

    fn ack(&mut self, report: u64) {
        assert_eq!(self.say(FromServer::Ack { report }), []);
    }

    /// Assigned, started and running, with nothing left to report.
    fn run(&mut self, template: Template, id: AttemptId) {
        assert_eq!(starts(&self.assign(template, &[id])), [id]);
        assert_eq!(self.input(Input::ProcessStarted { id }), []);
        // Reported when it is due; the story goes on from now.
        let now = self.now;
        self.now += REPORT_WAIT.0;
        assert_eq!(self.report().started.len(), 1);
        self.now = now;
    }

    fn ended(&mut self, id: AttemptId, how: HowEnded) -> Vec<Output> {
        self.input(Input::ProcessEnded { id, how, out_of_memory: None, usage: None })
    }

    fn flush(&mut self) -> Vec<Output> {
        self.machine.flush(self.now())
    }

    fn report(&mut self) -> Reported {
        let mut out = self.flush();
        let (Some(Output::Send(FromPilot::Report(report))), []) = (out.pop(), &out[..]) else {
            panic!("{out:?}")
        };
        let mut told = Reported { number: report.number, started: Vec::new(), ended: Vec::new() };
        for attempt::Held { id, phase, of, .. } in report.held {
            assert_eq!(of, None);
            match phase {
                HeldPhase::Queued => panic!("{id} has done nothing"),
                HeldPhase::Running { .. } => told.started.push(id),
                HeldPhase::Ended(ended) => told.ended.push((id, ended)),
            }
        }
        let is_kept = told.ended.iter().all(|(id, _)| self.kept.contains(id));
        assert!(is_kept, "what is reported was written down before");
        told
    }

    /// The ends that the next report tells of.
    fn outcomes(&mut self) -> Vec<(AttemptId, Outcome)> {
        self.report().ended.into_iter().map(|(id, ended)| (id, ended.outcome)).collect()
    }

    fn held(&self) -> Vec<AttemptId> {
        self.machine.held().copied().collect()
    }
}

fn assignment(template: Template, ids: &[AttemptId]) -> FromServer {
    assign(template, ids.iter().map(|id| task(*id)).collect())
}

/// Tasks of one job.
fn assign(template: Template, tasks: Vec<Task>) -> FromServer {
    let templates = BTreeMap::from([(tasks[0].id.task.job, template)]);
    FromServer::Assign(Assign { templates, tasks, ..Assign::default() })
}

fn starts(out: &[Output]) -> Vec<AttemptId> {
    let start = |output: &Output| match output {
        Output::Start(start) => start.id,
        other => panic!("{other:?}"),
    };
    out.iter().map(start).collect()
}

fn signal(id: AttemptId, signal: i32) -> Output {
    Output::Signal { id, signal }
}

fn ping(number: u64) -> Output {
    Output::Send(FromPilot::Ping { number })
}
