//! The machine told stories: what it is told, step by step, and exactly what it answers.
//!
//! `Rig` plays the loop around the machine with one clock for both kinds of time.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod endings;
mod link;
mod reports;
mod starting;
mod weight;

use super::speech::REPORT_WAIT;
use super::*;
use shipway_api::link::decode_outcome;
use shipway_api::wire::{to_pilot, to_server};
use shipway_model::{Attempt, Cores, JobId, NodeName, Outcome, TaskIndex};

struct Rig {
    machine: Machine,
    now: u64,
    /// The ends that were to be written down.
    kept: Vec<AttemptKey>,
}

fn id(job: u64, index: u64) -> AttemptKey {
    AttemptKey { task: JobId(job).task(TaskIndex(index)), attempt: Attempt(1) }
}

fn template(job: u64, cpus: u64) -> wire::Template {
    wire::Template { job, cpus_milli: cpus * 1_000, grace_ms: 30_000, ..wire::Template::default() }
}

fn task(id: AttemptKey) -> wire::Task {
    wire::Task { id: Some(id.wire()), ..wire::Task::default() }
}

impl Rig {
    fn new(lease: Option<u64>) -> Rig {
        let capacity = shipway_model::Capacity { cpus: Cores::whole(4), ..Default::default() };
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
    fn tell(&mut self, input: Input) -> Vec<Output> {
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
        self.tell(Input::Tick)
    }

    fn link_up(&mut self) -> wire::Hello {
        let mut out = self.tell(Input::LinkUp);
        let hello = out.pop();
        assert_eq!(out, [Output::CloseLogs], "whoever asked on an earlier connection is gone");
        match hello {
            Some(Output::Send(wire::ToServer { body: Some(to_server::Body::Hello(h)) })) => h,
            other => panic!("{other:?}"),
        }
    }

    fn connect(&mut self) -> wire::Hello {
        let hello = self.link_up();
        assert_eq!(self.say(to_pilot::Body::Welcome(wire::Welcome::default())), []);
        hello
    }

    fn cut(&mut self) {
        let session = self.machine.session();
        assert_eq!(self.tell(Input::LinkDown { session, parted: false }), []);
    }

    fn say(&mut self, body: to_pilot::Body) -> Vec<Output> {
        let session = self.machine.session();
        let message = wire::ToPilot { body: Some(body) };
        self.tell(Input::Message { session, message })
    }

    fn assign(&mut self, template: wire::Template, ids: &[AttemptKey]) -> Vec<Output> {
        self.say(assignment(template, ids))
    }

    fn stop(&mut self, ids: &[AttemptKey]) -> Vec<Output> {
        let ids = ids.iter().map(|id| id.wire()).collect();
        self.say(to_pilot::Body::Stop(wire::Stop { ids, grace_ms: 10_000 }))
    }

    fn ack(&mut self, report: u64) {
        assert_eq!(self.say(to_pilot::Body::Ack(wire::Ack { report })), []);
    }

    /// Assigned, started and running, with nothing left to report.
    fn run(&mut self, template: wire::Template, id: AttemptKey) {
        assert_eq!(starts(&self.assign(template, &[id])), [id]);
        assert_eq!(self.tell(Input::ProcessStarted { id }), []);
        // Reported when it is due; the story goes on from now.
        let now = self.now;
        self.now += REPORT_WAIT.0;
        assert_eq!(self.report().started.len(), 1);
        self.now = now;
    }

    fn ended(&mut self, id: AttemptKey, how: HowEnded) -> Vec<Output> {
        self.tell(Input::ProcessEnded { id, how, out_of_memory: None })
    }

    fn flush(&mut self) -> Vec<Output> {
        self.machine.flush(self.now())
    }

    fn report(&mut self) -> wire::Report {
        let mut out = self.flush();
        match (out.pop(), out.len()) {
            (Some(Output::Send(wire::ToServer { body: Some(to_server::Body::Report(r)) })), 0) => {
                let told = r.ended.iter().filter_map(|ended| ended.id.as_ref());
                let kept = told.map(AttemptKey::of).all(|id| self.kept.contains(&id));
                assert!(kept, "what is reported was written down before: {r:?}");
                r
            }
            other => panic!("{other:?}"),
        }
    }

    /// The ends that the next report tells of.
    fn outcomes(&mut self) -> Vec<(AttemptKey, Outcome)> {
        self.report().ended.iter().map(outcome).collect()
    }

    fn held(&self) -> Vec<AttemptKey> {
        self.machine.held().copied().collect()
    }
}

fn assignment(template: wire::Template, ids: &[AttemptKey]) -> to_pilot::Body {
    let tasks = ids.iter().map(|id| task(*id)).collect();
    to_pilot::Body::Assign(wire::Assign { templates: vec![template], tasks })
}

fn outcome(ended: &wire::Ended) -> (AttemptKey, Outcome) {
    let id = AttemptKey::of(ended.id.as_ref().unwrap());
    (id, decode_outcome(&ended.outcome_json).unwrap())
}

fn starts(out: &[Output]) -> Vec<AttemptKey> {
    let start = |output: &Output| match output {
        Output::Start(start) => start.id,
        other => panic!("{other:?}"),
    };
    out.iter().map(start).collect()
}

fn signal(id: AttemptKey, signal: i32) -> Output {
    Output::Signal { id, signal }
}

fn ping(number: u64) -> Output {
    Output::Send(wire::ToServer { body: Some(to_server::Body::Ping(wire::Ping { number })) })
}
