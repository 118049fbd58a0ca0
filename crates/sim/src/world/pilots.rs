//! The nodes' side: the real pilot machine, and processes that live, are signalled and die.

use super::{Happening, World};
use crate::behaviour::Behaviour;
use crate::node::Process;
use shipway_model::{AllocationEnd, AttemptId, Resources};
use shipway_pilot::machine::{HowEnded, Input, Now, Output, SIGKILL, Start};

impl World {
    pub fn start_pilot(&mut self, node: usize) {
        // What was lent begins once.
        let is_gone = self.nodes[node].lent.is_some() && self.nodes[node].life() > 0;
        if self.nodes[node].pilot.is_some() || is_gone {
            return;
        }
        if self.nodes[node].clean_at > self.now {
            return self.at(self.nodes[node].clean_at, Happening::StartPilot { node });
        }
        let id = self.nodes[node].start_pilot();
        self.totals.pilots += 1;
        self.note(|| format!("pilot {id} starts"));
        let life = self.nodes[node].life();
        self.redial(node, life);
    }

    pub(super) fn tell_pilot(&mut self, node: usize, input: Input) {
        let now = Now { steady: shipway_model::Millis(self.now), wall: self.wall() };
        let Some(pilot) = &mut self.nodes[node].pilot else { return };
        let mut outputs = pilot.machine.handle(now, input);
        outputs.extend(pilot.machine.flush(now));
        for output in outputs {
            self.do_for_pilot(node, output);
        }
        self.set_pilot_timer(node);
    }

    fn set_pilot_timer(&mut self, node: usize) {
        let life = self.nodes[node].life();
        let Some(pilot) = &mut self.nodes[node].pilot else { return };
        let Some(at) = pilot.machine.next_deadline().map(|at| at.0) else { return };
        if pilot.tick_at.is_none_or(|set| at < set || set < self.now) {
            pilot.tick_at = Some(at);
            self.at(at, Happening::PilotTick { node, life });
        }
    }

    pub(super) fn pilot_tick(&mut self, node: usize, life: usize) {
        let now = self.now;
        let current = self.nodes[node].life() == life;
        let Some(pilot) = self.nodes[node].pilot.as_mut().filter(|_| current) else { return };
        if pilot.tick_at.is_some_and(|set| set <= now) {
            pilot.tick_at = None;
            self.tell_pilot(node, Input::Tick);
        }
    }

    fn do_for_pilot(&mut self, node: usize, output: Output) {
        let Some(pilot) = &mut self.nodes[node].pilot else { return };
        match output {
            Output::Send(message) => {
                if let Some(link) = pilot.connection {
                    self.send_to_server(link, message);
                }
            }
            Output::Start(start) => self.start_process(node, &start),
            Output::Signal { id, signal } => self.signal(node, id, signal),
            Output::Reconnect => {
                if let Some(link) = pilot.connection.take() {
                    let heals = self.nodes[node].cut_until.max(self.now);
                    let delay = self.dice.between(self.settings.delay);
                    self.at(heals + delay, Happening::ServerSawLinkDown { link });
                    let life = self.nodes[node].life();
                    self.redial(node, life);
                }
            }
            Output::Finished => {
                let id = pilot.id.clone();
                self.nodes[node].pilot = None;
                self.note(|| format!("pilot {id} has said goodbye"));
                self.after(5_000, Happening::StartPilot { node });
                self.lent_is_over(node, AllocationEnd::Completed);
            }
            // Tasks here have no files, so there is nothing to take.
            Output::Collect { id, .. } => {
                self.tell_pilot(node, Input::Collected { id, problem: None });
            }
            Output::ReadLog(_)
            | Output::CloseLog { .. }
            | Output::CloseLogs
            | Output::Keep { .. } => {}
        }
    }

    fn start_process(&mut self, node: usize, start: &Start) {
        let behaviour = Behaviour::read(&start.template.command);
        let fate = behaviour.fate(&mut self.dice, start.id.attempt);
        let stubborn = behaviour.stubborn;
        let process = Process { fate, stubborn, confirmed: false, version: 0 };
        let Some(pilot) = &mut self.nodes[node].pilot else { return };
        pilot.processes.insert(start.id, process);
        if fate.starts {
            let spec = self.disk.spec(start.id.task.job);
            let need = spec.map_or_else(Resources::default, |spec| spec.resources.clone());
            let ad = &self.nodes[node].ad;
            if let Err(what) = self.truth.started(node, ad, start.id, &need, &start.devices) {
                self.fail(what);
            }
        }
        let (id, name) = (start.id, self.nodes[node].ad.node.clone());
        self.note(|| format!("{name} starts {id}"));
        let life = self.nodes[node].life();
        let wait = self.dice.between(self.settings.process_start);
        self.after(wait, Happening::ProcessConfirmed { node, life, id });
    }

    pub(super) fn confirm(&mut self, node: usize, life: usize, id: AttemptId) {
        let current = self.nodes[node].life() == life;
        let Some(pilot) = self.nodes[node].pilot.as_mut().filter(|_| current) else { return };
        let Some(process) = pilot.processes.get_mut(&id) else { return };
        if !process.fate.starts {
            pilot.processes.remove(&id);
            let message = "no such program".to_string();
            return self.tell_pilot(node, Input::ProcessNotStarted { id, message });
        }
        process.confirmed = true;
        let (version, after) = (process.version, process.fate.after);
        self.after(after, Happening::ProcessExits { node, life, id, version });
        self.tell_pilot(node, Input::ProcessStarted { id });
    }

    /// A polite signal may be ignored; a kill may not, but takes its time.
    fn signal(&mut self, node: usize, id: AttemptId, signal: i32) {
        let life = self.nodes[node].life();
        let wait = self.dice.between(self.settings.dying);
        let Some(pilot) = &mut self.nodes[node].pilot else { return };
        let Some(process) = pilot.processes.get_mut(&id) else { return };
        if !process.confirmed || process.stubborn && signal != SIGKILL {
            return;
        }
        process.version += 1;
        process.fate.how = HowEnded::Signal(signal);
        process.fate.out_of_memory = None;
        let version = process.version;
        self.after(wait, Happening::ProcessExits { node, life, id, version });
    }

    pub(super) fn process_exits(&mut self, node: usize, life: usize, id: AttemptId, version: u64) {
        let current = self.nodes[node].life() == life;
        let Some(pilot) = self.nodes[node].pilot.as_mut().filter(|_| current) else { return };
        if pilot.processes.get(&id).is_none_or(|process| process.version != version) {
            return;
        }
        let Some(process) = pilot.processes.remove(&id) else { return };
        let (how, out_of_memory) = (process.fate.how, process.fate.out_of_memory);
        self.truth.ended(id, Some(how));
        self.note(|| format!("{id} ends: {how:?}"));
        self.tell_pilot(node, Input::ProcessEnded { id, how, out_of_memory, usage: None });
    }

    /// `kill -9`: the pilot is gone at once, its processes very soon after.
    pub fn kill_pilot(&mut self, node: usize) {
        let linger = self.dice.between(self.settings.dying);
        let Some(pilot) = self.nodes[node].pilot.take() else { return };
        self.totals.kills += 1;
        // Every end was written down before it was reported, and is said until one is told that it
        // is on disk; the earlier ones are still there too.
        self.nodes[node].left.extend(pilot.machine.ends());
        self.note(|| format!("pilot {} is killed", pilot.id));
        self.nodes[node].clean_at = self.now + linger + 1;
        let ids = pilot.processes.into_keys().collect();
        self.after(linger, Happening::ProcessesGone { ids });
        if let Some(link) = pilot.connection {
            let heals = self.nodes[node].cut_until.max(self.now);
            let delay = self.dice.between(self.settings.delay);
            self.at(heals + delay, Happening::ServerSawLinkDown { link });
        }
    }

    /// The node is found to be a little other than it was.
    pub fn prove(&mut self, node: usize) {
        let mut ad = Box::new(self.nodes[node].ad.clone());
        ad.notes.push(format!("seen at {}", self.now));
        self.tell_pilot(node, Input::Proven { ad });
    }

    pub fn drain_pilot(&mut self, node: usize) {
        self.tell_pilot(node, Input::Drain);
    }
}
