//! One batch system: has its commands run, and tells the core what they said. What is handed in or
//! given up follows from the state; nothing is remembered here but what cannot be there yet.
//!
//! An allocation is handed in once. Where it is not known whether it was taken (a crash, a command
//! that did not end) it is looked for: its name carries our key. What is not there may still come,
//! from a command that outlived the server, so it is given up and another is asked for; should it
//! come after all, it is nobody's, and cancelled.

use super::order::order;
use super::program::Program;
use super::starts::Starts;
use super::whys::{Waiting, Whys};
use super::{Bell, SeenNodes, Sites};
use crate::clock::Clock;
use crate::locks::Locked;
use crate::secrets::PilotKey;
use crate::writer::{Wish, Writer};
use shipway_core::command::{Said, SeenAllocation, SiteSaid};
use shipway_core::site::Phase;
use shipway_core::{Command, State};
use shipway_model::{AllocationId, EngineTrouble, PilotId, SiteName, SiteSpec, Timestamp};
use shipway_sites::batch::{BatchSystem, EngineError, EngineId, Seen, SeenPhase};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The pause between two looks: short after something was handed in, then longer and longer. Batch
/// systems are shared, and their controllers do not like to be asked all the time.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);
/// How often a batch system is asked about its nodes.
const NODES_EVERY: Duration = Duration::from_mins(2);
/// How often a program that was sent is looked at again, while pilots are asked for.
const PROGRAM_EVERY: Duration = Duration::from_mins(10);
/// A command that hands in may end so long after whoever started it was killed, or gave it up: it
/// is looked for what it brought. Longer than any may take, on a login node too.
const AFTERMATH: Duration = Duration::from_mins(3);
/// Handed in after each other before the next look.
const MOST_AT_ONCE: usize = 20;

pub(super) struct Runner {
    pub(super) site: SiteName,
    pub(super) spec: Arc<SiteSpec>,
    pub(super) writer: Writer,
    pub(super) clock: Clock,
    pub(super) key: Arc<PilotKey>,
    pub(super) bell: Arc<Bell>,
    pub(super) sites: Arc<Sites>,
    pub(super) whys: Mutex<Whys>,
    /// When the program that was sent was found there.
    pub(super) program_seen: Mutex<Option<Instant>>,
}

type Engine = Arc<dyn BatchSystem>;

/// What one turn came to.
#[derive(Debug, Default)]
struct Turn {
    /// Handed in or taken back.
    did_something: bool,
    /// It is not known of something whether it was taken.
    is_unclear: bool,
}

/// What the state has of this site.
#[derive(Debug, Default)]
struct View {
    allocations: BTreeMap<AllocationId, Known>,
    /// It is left alone until then.
    rests_until: Option<Timestamp>,
}

#[derive(Debug)]
struct Known {
    phase: Phase,
    since: Timestamp,
    class: String,
    engine_id: Option<EngineId>,
    /// Who will come of it or has, one on each node.
    pilots: Vec<PilotId>,
}

impl Runner {
    pub(super) async fn run(self, engine: Engine) {
        let (mut pause, mut nodes_at) = (FIRST_PAUSE, None::<Instant>);
        // A server before this one may have been killed.
        let mut unclear_at = Instant::now();
        loop {
            let Some(view) = self.view().await else { return };
            let rests = view.rests_until.filter(|until| *until > self.clock.now());
            if let Some(until) = rests {
                let _ = tokio::time::timeout(self.clock.until(until), self.bell.heard()).await;
                // Whoever rang may not have changed that.
                if self.clock.now() < until {
                    tokio::time::sleep(FIRST_PAUSE).await;
                }
                continue;
            }
            let is_aftermath = unclear_at.elapsed() < AFTERMATH;
            let Turn { did_something, is_unclear } = self.turn(&engine, &view, is_aftermath).await;
            if is_unclear {
                unclear_at = Instant::now();
            }
            self.ask_whys(&engine, &view).await;
            if nodes_at.is_none_or(|at| at.elapsed() >= NODES_EVERY) {
                nodes_at = Some(Instant::now());
                self.ask_nodes(&engine).await;
            }
            pause = if did_something { FIRST_PAUSE } else { (pause * 3 / 2).min(LONGEST_PAUSE) };
            let nothing_open = view.allocations.is_empty() && !did_something && !is_aftermath;
            let wait = if nothing_open { NODES_EVERY } else { pause };
            let rung = tokio::time::timeout(wait, self.bell.heard()).await.is_ok();
            if rung {
                pause = FIRST_PAUSE;
            }
        }
    }

    /// `None`: the server ends.
    async fn view(&self) -> Option<View> {
        let site = self.site.clone();
        loop {
            let site = site.clone();
            match self.writer.ask(move |state| view(state, &site)).await {
                Ok(view) => return Some(view),
                Err(shipway_shell::WriteError::Stopping) => return None,
                Err(_) => tokio::time::sleep(FIRST_PAUSE).await,
            }
        }
    }

    async fn turn(&self, engine: &Engine, view: &View, is_aftermath: bool) -> Turn {
        let of = |phase: Phase| view.allocations.iter().filter(move |(_, it)| it.phase == phase);
        let (fresh, tried): (Vec<_>, Vec<_>) =
            of(Phase::Asked).partition(|(id, _)| self.bell.is_fresh(id));
        // What was handed in a moment ago is not asked about; a task waits for what is asked for.
        let is_open = view.allocations.len() > fresh.len() || is_aftermath;
        let looks = !tried.is_empty() || fresh.is_empty() && is_open;
        let seen = if looks { self.look(engine).await } else { Some(Vec::new()) };
        let Some(seen) = seen else { return Turn::default() };
        let is_there = |id: &AllocationId| seen.iter().any(|one| one.allocation == *id);
        let lost = tried.into_iter().map(|(id, _)| id).filter(|id| !is_there(id));
        let mut turn = Turn { is_unclear: self.give_up(lost).await, ..Turn::default() };
        for (id, known) in fresh.into_iter().take(MOST_AT_ONCE) {
            turn.did_something = true;
            if !self.submit(engine, id, known).await {
                turn.is_unclear = true;
                return turn;
            }
        }
        let mut over: Vec<EngineId> = of(Phase::GivenUp)
            .filter_map(|(id, known)| {
                let seen = seen.iter().find(|one| one.allocation == *id).map(|one| one.id.clone());
                seen.or_else(|| known.engine_id.clone())
            })
            .collect();
        over.extend(orphans(&seen, view));
        if !over.is_empty() {
            turn.did_something = true;
            let cancelled = on_engine(engine, move |engine| engine.cancel(&over)).await;
            if let Some(Err(error)) = cancelled {
                self.trouble(None, error.words, error.kind).await;
            }
        }
        turn
    }

    /// Nobody knows whether they will be there. Whether there are such.
    async fn give_up(&self, lost: impl Iterator<Item = &AllocationId>) -> bool {
        let allocations: Vec<AllocationId> = lost.cloned().collect();
        if allocations.is_empty() {
            return false;
        }
        tracing::info!(site = %self.site, ?allocations, "others are asked for in their place");
        // What is not written down is given up after the next look.
        let _ = self.writer.wish(Wish::Core(Command::GiveUp { allocations })).await;
        true
    }

    /// What the batch system has of ours; `None` when it did not say.
    async fn look(&self, engine: &Engine) -> Option<Vec<Seen>> {
        let began = self.clock.now();
        match on_engine(engine, |engine| engine.look()).await? {
            Ok(seen) => {
                self.sites.heard_from(&self.site, began);
                self.sites.saw_starts(&self.site, Starts::of(&seen, began));
                let told = {
                    let whys = self.whys.locked();
                    seen.iter().map(|seen| seen_allocation(seen, &whys)).collect()
                };
                self.say(Said::Looked { began, seen: told }).await;
                Some(seen)
            }
            Err(error) => {
                self.trouble(None, error.words, error.kind).await;
                None
            }
        }
    }

    /// Whether the batch system goes on taking.
    async fn submit(&self, engine: &Engine, id: &AllocationId, known: &Known) -> bool {
        if !self.bell.begins(id) {
            return true;
        }
        let program = match self.program(engine).await {
            Some(Ok(program)) => program,
            Some(Err(EngineError { words, kind, .. })) => {
                self.trouble(Some(id), words, kind).await;
                return false;
            }
            None => return false,
        };
        let class = self.spec.class(&known.class);
        let made = class
            .and_then(|class| order(&self.spec, class, (id, &known.pilots), &self.key, program));
        let Some(order) = made else {
            let words = format!("the site's file has no class {} any more", known.class);
            self.trouble(Some(id), words, EngineTrouble::Refused).await;
            return true;
        };
        match on_engine(engine, move |engine| engine.submit(&order)).await {
            Some(Ok(engine_id)) => {
                tracing::info!(site = %self.site, allocation = %id, engine_id = engine_id.0,
                    "an allocation is handed in");
                let (allocation, engine_id) = (id.clone(), engine_id.0);
                self.say(Said::Taken { allocation, engine_id }).await;
                true
            }
            Some(Err(EngineError { words, kind, .. })) => {
                self.trouble(Some(id), words, kind).await;
                false
            }
            None => false,
        }
    }

    /// Sent there first where the site's file says so, and looked at again now and then: somebody
    /// may clear the folder.
    async fn program(&self, engine: &Engine) -> Option<Result<Program, EngineError>> {
        let seen = *self.program_seen.locked();
        let is_known = seen.is_some_and(|at| at.elapsed() < PROGRAM_EVERY);
        let spec = Arc::clone(&self.spec);
        let located = move |engine: &dyn BatchSystem| Program::at_site(&spec, engine, is_known);
        let program = on_engine(engine, located).await?;
        if !is_known {
            *self.program_seen.locked() = program.as_ref().ok().map(|_| Instant::now());
        }
        Some(program)
    }

    /// What it says is told with the next look.
    async fn ask_whys(&self, engine: &Engine, view: &View) {
        let queued = view.allocations.iter().filter(|(_, known)| known.phase == Phase::Queued);
        let waiting: Vec<Waiting<'_>> = queued
            .filter_map(|(id, known)| {
                let (engine_id, class) = (known.engine_id.as_ref()?, &*known.class);
                Some(Waiting { id, class, engine_id, since: known.since })
            })
            .collect();
        let due = self.whys.locked().due(&waiting, self.clock.now());
        for (id, engine_id) in due {
            match on_engine(engine, move |engine| engine.why_queued(&engine_id)).await {
                Some(Ok(why)) => self.whys.locked().learn(id, why),
                Some(Err(error)) => {
                    tracing::info!(site = %self.site, %error, "why it waits is not known");
                }
                None => {}
            }
        }
    }

    async fn ask_nodes(&self, engine: &Engine) {
        let at = self.clock.now();
        match on_engine(engine, |engine| engine.nodes()).await {
            Some(Ok(nodes)) => {
                self.sites.heard_from(&self.site, at);
                self.sites.saw_nodes(&self.site, SeenNodes { at, nodes: Arc::new(nodes) });
            }
            Some(Err(error)) => {
                tracing::info!(site = %self.site, %error, "its nodes are not known");
            }
            None => {}
        }
    }

    async fn trouble(&self, allocation: Option<&AllocationId>, words: String, kind: EngineTrouble) {
        tracing::warn!(site = %self.site, words, %kind, "trouble with a site");
        let allocation = allocation.cloned();
        self.say(Said::Trouble { allocation, words, kind }).await;
    }

    async fn say(&self, said: Said) {
        let said = Command::SiteSaid(SiteSaid { site: self.site.clone(), said });
        // What is not written down is said again after the next look.
        let _ = self.writer.wish(Wish::Core(said)).await;
    }
}

fn view(state: &State, site: &SiteName) -> View {
    let trouble = state.sites().get(site).and_then(|site| site.trouble(""));
    let rests_until = trouble.map(|trouble| trouble.until);
    let all = state.allocations_of(site).map(|(id, known, batch)| {
        let known = Known {
            phase: known.phase,
            since: known.since,
            class: batch.class.clone(),
            engine_id: batch.engine_id.clone().map(EngineId),
            pilots: Vec::new(),
        };
        (id.clone(), known)
    });
    let mut allocations: BTreeMap<AllocationId, Known> = all.collect();
    // Each token is looked at once: there may be ten thousand of them, and nobody else is answered
    // meanwhile.
    for (pilot, token) in state.pilot_tokens() {
        if let Some(known) = allocations.get_mut(&token.allocation) {
            known.pilots.push(pilot.clone());
        }
    }
    View { allocations, rests_until }
}

/// What carries our name and is nobody's here: a restored backup has forgotten it, or its site was
/// removed and came again.
fn orphans(seen: &[Seen], view: &View) -> Vec<EngineId> {
    let is_over = |one: &&Seen| matches!(one.phase, SeenPhase::Ended(_));
    let unknown = seen.iter().filter(|one| !view.allocations.contains_key(&one.allocation));
    unknown.filter(|one| !is_over(one)).map(|one| one.id.clone()).collect()
}

fn seen_allocation(seen: &Seen, whys: &Whys) -> SeenAllocation {
    let phase = match seen.phase {
        SeenPhase::Queued => Phase::Queued,
        SeenPhase::Held => Phase::Held,
        SeenPhase::Running => Phase::Running,
        SeenPhase::Ended(end) => Phase::Ended(end),
    };
    SeenAllocation {
        allocation: seen.allocation.clone(),
        engine_id: seen.id.0.clone(),
        phase,
        words: whys.words(seen),
    }
}

/// On a thread that may wait. `None`: it failed by a mistake of ours, or the server ends.
async fn on_engine<A: Send + 'static>(
    engine: &Engine,
    call: impl FnOnce(&dyn BatchSystem) -> A + Send + 'static,
) -> Option<A> {
    let engine = Arc::clone(engine);
    tokio::task::spawn_blocking(move || call(&*engine)).await.ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use shipway_core::command::AskBatch;
    use shipway_core::engine::step;
    use shipway_core::event::Awaited;
    use shipway_model::{Actor, Role, UserName};

    fn site(name: &str) -> SiteName {
        SiteName::new(name).expect("good")
    }

    /// Each is handed in for the pilots that its tokens are of: one of `pool` has two nodes.
    #[test]
    fn each_allocation_is_seen_with_its_own_pilots() {
        let mut state = State::default();
        let mut apply = |command: &Command| {
            let at = Timestamp(state.at().0 + 1);
            step(&mut state, at, command).unwrap_or_else(|why| panic!("{command:?}: {why}"));
        };
        for (name, nodes, numbers) in [("hpc", 1, 1..4), ("pool", 2, 4..6)] {
            let json = format!(
                r#"{{"name":"{name}","kind":"slurm","program":"/opt/shipway",
                    "server":"http://h:7447","classes":[{{"name":"thin","pilots":8,
                        "nodes":{nodes},"cpus":4,"memory":"16GB"}}]}}"#
            );
            let by = Actor::new(UserName::new("root").expect("good"), Role::Admin);
            let spec = Box::new(serde_json::from_str(&json).expect("a site"));
            apply(&Command::AddSite { by, spec });
            let one = |number: i32| {
                let awaited = |at: u32| {
                    let pilot = PilotId::new(&format!("batch-{number}-{at}")).expect("good");
                    Awaited { pilot, hash: format!("{number}-{at}") }
                };
                let allocation = AllocationId::new(&format!("for-{number}")).expect("good");
                (allocation, (0..nodes).map(awaited).collect())
            };
            let (site, class) = (site(name), "thin".to_owned());
            let allocations = numbers.map(one).collect();
            apply(&Command::AskBatch(Box::new(AskBatch { site, class, allocations })));
        }
        let seen = |name: &str| -> Vec<(String, Vec<String>)> {
            let view = view(&state, &site(name));
            let one = |(id, known): (&AllocationId, &Known)| {
                (id.to_string(), known.pilots.iter().map(ToString::to_string).collect())
            };
            view.allocations.iter().map(one).collect()
        };
        let of = |number: u32, nodes: u32| {
            let pilots = (0..nodes).map(|at| format!("batch-{number}-{at}")).collect();
            (format!("for-{number}"), pilots)
        };
        assert_eq!(seen("hpc"), [of(1, 1), of(2, 1), of(3, 1)]);
        assert_eq!(seen("pool"), [of(4, 2), of(5, 2)]);
    }
}
