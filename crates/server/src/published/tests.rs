//! Whatever happens in whatever order: a board that was told of every change shows what one made of
//! the whole state would. And what a change costs, who sees what, and what counts as a change.

use super::*;
use shipway_core::command::{
    AskBatch, AskSite, Command, NewJob, Pick, PilotJoined, PilotReported, Select, Submit,
};
use shipway_core::engine::step;
use shipway_core::event::{Awaited, Recorded};
use shipway_core::schedule::schedule;
use shipway_core::site::SiteKind;
use shipway_model::{
    AllocationId, Bytes, Capacity, ConnectionNumber, Cores, DeviceId, Ended, GpuDevice, GpuSource,
    GpuVendor, Held, HeldPhase, Millis, NodeAd, NodeName, Ordinal, Outcome, Role, SiteName,
    TaskIndex, Timestamp,
};

/// A core, what it recorded since the last commit, and the board.
#[derive(Default)]
struct Told {
    state: State,
    board: Board,
    batch: Vec<Recorded>,
    now: u64,
}

impl Told {
    /// A refusal is an answer too.
    fn apply(&mut self, command: &Command) -> bool {
        self.now += 1;
        let done = step(&mut self.state, Timestamp(self.now), command);
        let is_done = done.is_ok();
        self.batch.extend(done.into_iter().flat_map(|done| done.events));
        is_done
    }

    fn place(&mut self) {
        loop {
            let plan = schedule(&mut self.state, Timestamp(self.now));
            if plan.is_empty() {
                return;
            }
            assert!(self.apply(&Command::ApplyPlan(plan)), "a plan fits");
        }
    }

    fn submit(&mut self, by: &Actor, json: &str) -> JobId {
        let job = self.state.next_job();
        assert!(self.apply(&submission(job, by, json)), "{json}");
        job
    }

    /// The newest of a pilot; a number that none has, if it is not known.
    fn connection_of(&self, pilot: &PilotId) -> ConnectionNumber {
        let known = self.state.pilots().get(pilot);
        known.map_or(ConnectionNumber(0), |known| known.connection)
    }

    fn join(&mut self, name: &str) {
        let pilot = PilotId::new(name).expect("good");
        if !self.state.pilot_tokens().contains_key(&pilot) {
            let ask = AskSite::named_after(&pilot, SiteKind::ByHand);
            self.apply(&Command::AskSite(Box::new(ask)));
        }
        let (connection, lease) = (ConnectionNumber(self.now), Some(Millis(20_000)));
        let joined =
            PilotJoined { pilot, connection, ad: ad(name), lease, held: Vec::new(), folder: None };
        self.apply(&Command::PilotJoined(Box::new(joined)));
    }

    /// The task's start, and its end if there is an outcome.
    fn report(&mut self, task: TaskId, outcome: Option<Outcome>) {
        let Some(active) = self.state.active().get(&task).cloned() else { return };
        let at = Timestamp(self.now);
        let end = |outcome| Ended { outcome, started: Some(at), ended: at, ran: Millis(10) };
        let id = task.attempt(active.attempt);
        let mut held = vec![Held::own(id, HeldPhase::Running { started: at })];
        held.extend(outcome.map(|outcome| Held::own(id, HeldPhase::Ended(end(outcome)))));
        let reported = PilotReported { pilot: active.pilot, held };
        self.apply(&Command::PilotReported(reported));
    }

    fn commit(&mut self) {
        let changes = Changes::of(&self.state, &self.batch);
        self.batch.clear();
        self.board.put(changes);
    }
}

fn submission(job: JobId, by: &Actor, json: &str) -> Command {
    let spec = serde_json::from_str(json).expect(json);
    Command::Submit(Box::new(Submit::one(by.clone(), NewJob::new(job, spec))))
}

fn ad(node: &str) -> NodeAd {
    let device = GpuDevice {
        id: DeviceId::new(&format!("{node}-gpu")).expect("good"),
        model: "NVIDIA A100".into(),
        memory: Bytes(40 << 30),
        vendor: GpuVendor::Nvidia,
        source: GpuSource::Declared,
        capability: None,
        driver: None,
        slice: None,
    };
    NodeAd {
        node: NodeName::new(node).expect("good"),
        capacity: Capacity { cpus: Cores::whole(4), memory: Bytes(1 << 34), ..Capacity::default() },
        gpus: vec![device],
        notes: Vec::new(),
        unfit: Vec::new(),
        withheld: Vec::new(),
        people: None,
        attributes: BTreeMap::default(),
    }
}

fn actor(name: &str, role: Role) -> Actor {
    Actor::new(UserName::new(name).expect("good"), role)
}

fn same(board: &Board, state: &State) {
    let whole = Board::of(state);
    assert_eq!(board.fresh, whole.fresh);
    assert_eq!(board.jobs, whole.jobs);
    assert_eq!(board.arrays, whole.arrays);
    assert_eq!(board.active, whole.active);
    assert_eq!(board.nodes, whole.nodes);
    for (id, job) in state.jobs().iter() {
        assert_eq!(board.job(id, job.tasks.len()), Some(JobNow::of(job)), "{id}");
        let all = board.tasks(id, |indices, states| {
            assert_eq!(*indices, job.indices);
            (0..indices.len()).map(|at| states.state(Ordinal(at))).collect::<Vec<_>>()
        });
        let expected = job.tasks.states().map(|(_, state)| state).collect();
        assert_eq!(all, Some(expected), "{id}");
    }
}

/// Numbers that are the same in each run.
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % end
    }
}

fn anything(told: &mut Told, chance: &mut Chance) {
    let by = actor(["ada", "bob"][usize::try_from(chance.below(2)).expect("small")], Role::User);
    let admin = actor("owner", Role::Admin);
    let job = JobId(chance.below(told.state.next_job().0) + 1);
    let pilot = format!("p{}", chance.below(3));
    let nth = usize::try_from(chance.below(8)).expect("small");
    let active = told.state.active().keys().nth(nth).copied();
    let pick = match chance.below(3) {
        0 => Pick::All,
        1 => Pick::State(TaskState::Waiting),
        _ => Pick::Tasks(vec![TaskIndex(chance.below(4)), TaskIndex(4 + chance.below(70))]),
    };
    let select = Select { by: admin.clone(), jobs: vec![(job, pick)] };
    match chance.below(15) {
        0 => drop(told.submit(&by, r#"{"command":["true"]}"#)),
        1 => {
            let last = 1 + chance.below(150);
            let json = format!(r#"{{"command":["true"],"array":"1-{last}","retries":1}}"#);
            told.submit(&by, &json);
        }
        2 => drop(told.submit(&by, r#"{"command":["true"],"resources":{"gpu":1}}"#)),
        3 => {
            let after = format!(r#"{{"command":["true"],"after":[{}]}}"#, job.0);
            told.apply(&submission(told.state.next_job(), &by, &after));
        }
        4 => told.join(&pilot),
        5 => drop(told.apply(&Command::Cancel(select))),
        6 => drop(told.apply(&Command::Retry { select, revived: Vec::new() })),
        7 => {
            let pilot = PilotId::new(&pilot).expect("good");
            let connection = told.connection_of(&pilot);
            told.apply(&match chance.below(3) {
                0 => Command::PilotAway { pilot, connection },
                1 => Command::PilotLeaving { pilot, connection },
                _ => Command::PilotEnded { pilot },
            });
        }
        8 => {
            told.now += chance.below(30_000);
            told.apply(&Command::Tick);
        }
        9 => {
            let jobs = told.state.archivable(2, 200);
            let revived: Vec<_> =
                jobs.iter().take(1).filter_map(|id| told.state.record(*id)).collect();
            told.apply(&Command::Archive { jobs });
            let jobs = revived.iter().map(|record| (record.id, Pick::All)).collect();
            let select = Select { by: admin, jobs };
            if chance.below(2) == 0 {
                told.apply(&Command::Retry { select, revived });
            }
        }
        10 if chance.below(4) == 0 => {
            let (user, to) = (by.user.clone(), actor("bob", Role::User).user);
            for user in [user.clone(), to.clone()] {
                told.apply(&Command::AddUser { by: admin.clone(), user, role: Role::User });
            }
            told.apply(&Command::RemoveUser { by: admin, user, give_jobs_to: Some(to) });
        }
        11 if chance.below(4) == 0 => drop(told.apply(&Command::ServerStarted)),
        12 => told.place(),
        _ => {
            let code = i32::try_from(chance.below(2)).expect("small");
            let outcome = Some(Outcome::Exit { code }).filter(|_| chance.below(3) > 0);
            let Some(task) = active else { return };
            told.report(task, outcome);
            told.place();
        }
    }
}

#[test]
fn a_board_that_is_told_of_changes_shows_what_the_state_does() {
    let mut archived = 0;
    for seed in 0..60 {
        let (mut told, mut chance) = (Told::default(), Chance(seed));
        for _ in 0..120 {
            for _ in 0..=chance.below(4) {
                anything(&mut told, &mut chance);
            }
            told.commit();
            same(&told.board, &told.state);
        }
        archived += told.state.next_job().0 - 1 - told.state.jobs().len() as u64;
    }
    assert!(archived > 0, "some left memory");
}

#[test]
fn a_change_costs_what_it_changes_however_large_the_array() {
    let mut told = Told::default();
    told.join("p0");
    let ada = actor("ada", Role::User);
    let job = told.submit(&ada, r#"{"command":["true"],"array":"1-10000000"}"#);
    told.commit();
    told.place();
    let placed = told.state.active().len() as u64;
    let changes = Changes::of(&told.state, &told.batch);
    assert!(placed > 0 && changes.arrays.is_empty(), "the array is not copied");
    assert_eq!(changes.active.len() as u64, placed);
    let [(id, piece)] = changes.pieces.as_slice() else { panic!("one piece: {changes:?}") };
    assert!(*id == job && piece.len() as u64 <= placed + 8, "{piece:?}");
    told.commit();
    same(&told.board, &told.state);
}

/// A million jobs wait in two bytes each, and one that starts is another matter.
#[test]
fn a_job_that_nothing_happened_to_takes_next_to_nothing() {
    let mut told = Told::default();
    let ada = actor("ada", Role::User);
    for _ in 0..200 {
        told.submit(&ada, r#"{"command":["true"]}"#);
    }
    told.commit();
    assert!(told.board.jobs.is_empty() && told.board.arrays.is_empty());
    assert_eq!((told.board.fresh.len(), size_of::<[Fresh; PAGE]>()), (4, 64));
    same(&told.board, &told.state);
}

#[test]
fn who_holds_a_device_is_shown_to_those_who_may_see_the_job() {
    let mut told = Told::default();
    let (ada, bob) = (actor("ada", Role::User), actor("bob", Role::User));
    let half = r#"{"command":["true"],"resources":{"gpu":{"share":0.5}}}"#;
    told.join("p0");
    let jobs = [told.submit(&ada, half), told.submit(&bob, half)];
    told.place();
    told.commit();
    let [first, second] = jobs.map(|job| job.task(TaskIndex(0)));
    let node = told.board.node(&PilotId::new("p0").expect("good")).expect("there");
    let seen =
        |by: &Actor| told.board.holders(node, by).into_values().flatten().collect::<Vec<_>>();
    assert_eq!(seen(&ada), [first]);
    assert_eq!(seen(&bob), [second]);
    assert_eq!(seen(&actor("eve", Role::User)), []);
    assert_eq!(seen(&actor("eve", Role::Operator)), [first, second]);
    let later = Actor { since: JobId(1_000), ..ada };
    assert_eq!(seen(&later), [], "another person of that name");
}

#[test]
fn stamps_change_with_all_but_the_course_of_tasks() {
    let mut told = Told::default();
    let (ada, bob) = (actor("ada", Role::User), actor("bob", Role::User));
    let stamps = |told: &mut Told| {
        told.commit();
        [&ada, &bob].map(|by| told.board.stamp(&by.user))
    };
    told.join("p0");
    let job = told.submit(&ada, r#"{"command":["true"],"array":"1-100"}"#);
    let [adas, bobs] = stamps(&mut told);
    told.place();
    told.report(job.task(TaskIndex(1)), Some(Outcome::Exit { code: 0 }));
    assert_eq!(stamps(&mut told), [adas, bobs], "tasks come and go");
    told.apply(&Command::Cancel(Select { by: ada.clone(), jobs: vec![(job, Pick::All)] }));
    let [cancelled, same] = stamps(&mut told);
    assert!(cancelled != adas && same == bobs);
    told.apply(&Command::PilotEnded { pilot: PilotId::new("p0").expect("good") });
    let [adas, bobs] = stamps(&mut told);
    assert!(adas != cancelled && bobs != same, "a node is gone for everybody");
    told.board.replace(&told.state);
    assert!(told.board.stamp(&ada.user) != adas, "all may be different");
}

#[test]
fn a_node_says_which_site_it_is_of_and_of_which_class() {
    let mut told = Told::default();
    told.join("p0");
    let spec = r#"{"name":"hpc","kind":"slurm","program":"/s","server":"http://h:1",
        "classes":[{"name":"cpu","pilots":1,"cpus":4,"memory":"16GB"}]}"#;
    let spec = Box::new(serde_json::from_str(spec).expect("a good site"));
    let site = SiteName::new("hpc").expect("good");
    let pilot = PilotId::new("batch-1").expect("good");
    let awaited = Awaited { pilot: pilot.clone(), hash: "secret".into() };
    let allocations = vec![(AllocationId::new("a1").expect("good"), vec![awaited])];
    let ask = AskBatch { site: site.clone(), class: "cpu".into(), allocations };
    for command in [
        Command::AddSite { by: actor("root", Role::Admin), spec },
        Command::AskBatch(Box::new(ask)),
    ] {
        assert!(told.apply(&command), "{command:?}");
    }
    told.join("batch-1");
    told.commit();
    same(&told.board, &told.state);
    let about = |id: &PilotId| told.board.node(id).expect("there").about.clone();
    let of = |id| (about(id).site, about(id).class);
    assert_eq!(of(&pilot), (Some(site), Some("cpu".into())));
    let by_hand = PilotId::new("p0").expect("good");
    assert_eq!(of(&by_hand), (SiteKind::ByHand.only(), None));
}
