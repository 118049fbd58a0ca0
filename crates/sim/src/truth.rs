//! What really happened, kept apart from what the core believes: every process of every node.
//!
//! Nothing here asks the core. Each `Err` is a broken promise, in words.

use shipway_core::event::AttemptEnded;
use shipway_model::{
    Attempt, AttemptId, Counted, DeviceId, GpuShare, Kind, NodeAd, Outcome, Resources, TaskId,
};
use shipway_pilot::machine::HowEnded;
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub struct Truth {
    attempts: BTreeMap<TaskId, BTreeMap<Attempt, Real>>,
    /// The ends that the journal tells of.
    recorded: BTreeMap<TaskId, BTreeMap<Attempt, Outcome>>,
    used: BTreeMap<usize, Used>,
}

#[derive(Debug)]
pub struct Real {
    node: usize,
    need: Resources,
    devices: Vec<DeviceId>,
    alive: bool,
    /// `None`: it died with its pilot.
    end: Option<HowEnded>,
}

#[derive(Debug, Default)]
struct Used {
    /// By name, what every node counts and what a site counts itself.
    counted: BTreeMap<String, u64>,
    devices: BTreeMap<DeviceId, u32>,
}

impl Truth {
    /// A process comes to life.
    pub fn started(
        &mut self,
        node: usize,
        ad: &NodeAd,
        id: AttemptId,
        need: &Resources,
        devices: &[DeviceId],
    ) -> Result<(), String> {
        let attempts = self.attempts.entry(id.task).or_default();
        if let Some((other, _)) = attempts.iter().find(|(_, real)| real.alive) {
            return Err(format!("{id} starts while attempt {other} is alive"));
        }
        let (need, devices) = (need.clone(), devices.to_vec());
        let real = Real { node, need, devices, alive: true, end: None };
        if attempts.contains_key(&id.attempt) {
            return Err(format!("{id} was started twice"));
        }
        let used = self.used.entry(node).or_default();
        used.add(&real);
        attempts.insert(id.attempt, real);
        used.check(ad).map_err(|what| format!("{id} overfills node {}: {what}", ad.node))
    }

    /// A process is gone; `None` when it was killed together with its pilot.
    pub fn ended(&mut self, id: AttemptId, how: Option<HowEnded>) {
        let real = self.attempts.get_mut(&id.task).and_then(|all| all.get_mut(&id.attempt));
        if let Some(real) = real.filter(|real| real.alive) {
            real.alive = false;
            real.end = how;
            self.used.entry(real.node).or_default().remove(real);
        }
    }

    /// The journal says that an attempt ended: is that what happened?
    pub fn told(&mut self, event: &AttemptEnded) -> Result<(), String> {
        let id = event.task.attempt(event.attempt);
        let told = self.recorded.entry(event.task).or_default();
        if told.insert(event.attempt, event.outcome.clone()).is_some() {
            return Err(format!("the end of {id} is recorded twice"));
        }
        let real = self.attempts.get(&event.task).and_then(|all| all.get(&event.attempt));
        if real.is_some_and(|real| real.alive) {
            return Err(format!("{id} is recorded as ended ({}) but lives", event.outcome));
        }
        let end = real.and_then(|real| real.end);
        let agrees = match &event.outcome {
            Outcome::Exit { code } => end == Some(HowEnded::Exit(*code)),
            Outcome::Signal { signal } => end == Some(HowEnded::Signal(*signal)),
            Outcome::OutOfMemory { .. } => end == Some(HowEnded::Signal(9)),
            Outcome::TimedOut { .. } => end.is_some_and(|how| how != HowEnded::Exit(0)),
            Outcome::NotStarted { .. } => real.is_none(),
            Outcome::OutputsFailed { .. } => end == Some(HowEnded::Exit(0)),
            Outcome::Cancelled => end != Some(HowEnded::Exit(0)),
            // What it did is not known to the server, so it may have been anything.
            Outcome::Lost { .. } => true,
        };
        let what = &event.outcome;
        if agrees { Ok(()) } else { Err(format!("{id} is recorded as {what} but was {end:?}")) }
    }

    pub fn attempts_of(&self, task: TaskId) -> impl Iterator<Item = (&Attempt, &Real)> {
        self.attempts.get(&task).into_iter().flatten()
    }

    pub fn recorded_of(&self, task: TaskId) -> impl Iterator<Item = (&Attempt, &Outcome)> {
        self.recorded.get(&task).into_iter().flatten()
    }

    pub fn started_count(&self) -> u64 {
        self.attempts.values().map(|all| all.len() as u64).sum()
    }

    pub fn alive(&self) -> impl Iterator<Item = AttemptId> {
        self.attempts.iter().flat_map(|(task, all)| {
            let alive = all.iter().filter(|(_, real)| real.alive);
            alive.map(|(attempt, _)| task.attempt(*attempt))
        })
    }
}

impl Used {
    fn add(&mut self, real: &Real) {
        for (name, amount) in amounts(&real.need) {
            *self.counted.entry(name.to_owned()).or_default() += amount;
        }
        for device in &real.devices {
            *self.devices.entry(device.clone()).or_default() += share(real);
        }
    }

    fn remove(&mut self, real: &Real) {
        for (name, amount) in amounts(&real.need) {
            *self.counted.entry(name.to_owned()).or_default() -= amount;
        }
        for device in &real.devices {
            *self.devices.entry(device.clone()).or_default() -= share(real);
        }
    }

    fn check(&self, ad: &NodeAd) -> Result<(), String> {
        let has: BTreeMap<&str, u64> = amounts(&ad.capacity).collect();
        let has = |name: &str| has.get(name).copied().unwrap_or(0);
        let counted = self.counted.iter().map(|(name, used)| (name.as_str(), *used, has(name)));
        let devices = self.devices.iter().map(|(device, used)| {
            let exists = ad.gpus.iter().any(|gpu| gpu.id == *device);
            (device.as_str(), u64::from(*used), u64::from(GpuShare::WHOLE.0) * u64::from(exists))
        });
        let over = counted.chain(devices).find(|(_, used, has)| used > has);
        over.map_or(Ok(()), |(name, used, has)| Err(format!("{used} of {has} {name}")))
    }
}

/// All that is counted, by name.
fn amounts(of: &impl Counted) -> impl Iterator<Item = (&str, u64)> {
    let amounts = of.amounts();
    let kinds = Kind::ALL.into_iter().map(move |kind| (kind.row().name, amounts.get(kind)));
    kinds.chain(of.named().iter().map(|(name, amount)| (name.as_str(), *amount)))
}

fn share(real: &Real) -> u32 {
    real.need.gpu.as_ref().map_or(GpuShare::WHOLE.0, |gpu| gpu.share.0)
}
