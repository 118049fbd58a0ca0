//! What the broker asks of batch systems, in worlds that are made for it: with fixed expectations
//! over a number of seeds, in which everything takes its own time.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use shipway_model::{
    Actor, Bytes, Cores, GpuRequest, JobSpec, Resources, Role, SiteSpec, UserName,
};
use shipway_sim::batch::{BatchSystem, Health, Stands};
use shipway_sim::behaviour::Behaviour;
use shipway_sim::final_check;
use shipway_sim::world::{Settings, World};

const SEEDS: u64 = 12;
const MINUTE: u64 = 60_000;
const HOUR: u64 = 60 * MINUTE;

/// Everything takes as long as it may, and nothing breaks.
const ROUGH_TIMES: Settings = Settings {
    delay: (1, 300),
    commit: (2, 60),
    redial: (100, 3_000),
    process_start: (1, 50),
    dying: (1, 1_500),
    ..Settings::CALM
};

fn site(name: &str, limits: &str, classes: &str) -> SiteSpec {
    let json = format!(
        r#"{{"name":"{name}","kind":"slurm","program":"/opt/shipway","server":"http://h:7447",
            "shared":["/"],"idle":"2m","limits":{limits},"classes":[{classes}]}}"#
    );
    serde_json::from_str(&json).expect(&json)
}

fn cpus(pilots: u32, cpus: u32) -> String {
    format!(r#"{{"name":"cpu","pilots":{pilots},"cpus":{cpus},"memory":"16GB"}}"#)
}

fn gpus(pilots: u32, cpus: u32, more: &str) -> String {
    format!(
        r#"{{"name":"gpu","pilots":{pilots},"cpus":{cpus},"memory":"16GB","gpus":
            {{"count":1,"model":"NVIDIA A100","memory":"40GB"}}{more}}}"#
    )
}

const WIDE: &str = r#"{"pending":1000,"running":1000,"starts_per_hour":10000}"#;

/// Submits tasks; each runs for so long.
fn submit(world: &mut World, tasks: u32, gpu: bool, run: u64) -> usize {
    submit_work(world, tasks, gpu, &Behaviour { run: (run, run), ..Behaviour::default() })
}

fn submit_work(world: &mut World, tasks: u32, gpu: bool, work: &Behaviour) -> usize {
    let by = Actor::new(UserName::new("ada").unwrap(), Role::User);
    let spec = JobSpec {
        command: work.command(),
        array: (tasks > 1).then(|| format!("1-{tasks}").parse().unwrap()),
        resources: Resources {
            cpus: Cores::whole(1),
            memory: Bytes(1_000_000_000),
            gpu: gpu.then(|| GpuRequest::devices(1)),
            ..Resources::default()
        },
        ..JobSpec::default()
    };
    let key = format!("wish-{}", world.wishes.len());
    world.wish(by, spec, Some(key), false)
}

/// Lets time pass; a broken promise ends the test.
fn until(world: &mut World, at: u64) {
    world.run_until(at);
    let log = world.log.iter().cloned().collect::<Vec<_>>().join("\n");
    assert_eq!(world.violation, None, "{log}");
}

/// Everything comes to its end, and nothing is left at any site.
fn to_the_end(world: &mut World, at_most: u64) {
    let end = world.now + at_most;
    while final_check::not_over(world).is_some() {
        assert!(world.now < end, "{:?}", final_check::not_over(world));
        until(world, world.now + MINUTE);
    }
    until(world, world.now + 20 * MINUTE);
    final_check::check(world).unwrap();
    for (name, system) in &world.batch {
        let is_over = |stands| matches!(stands, Stands::Over(..));
        assert!(system.known.values().all(|one| is_over(one.stands)), "{name}: {system:?}");
    }
    let state = world.server.as_ref().unwrap().state();
    assert!(state.allocations().is_empty(), "{:?}", state.allocations());
}

fn each_seed(story: impl Fn(&mut World)) {
    for seed in 1..=SEEDS {
        let mut world = World::new(seed, ROUGH_TIMES);
        story(&mut world);
    }
}

/// Pilots never become more than what waits can use, whatever has come by then; each runs `each`
/// such tasks at a time.
fn never_too_many(world: &World, each: u64) {
    for look in world.brokered.iter().filter(|look| look.asked() > 0) {
        let given_back = look.proposal.surplus.len() as u64;
        let pilots = u64::from(look.asked() + look.pending) - given_back;
        let most = look.waiting.div_ceil(each);
        assert!(pilots <= most, "{pilots} pilots for {} tasks: {look:?}", look.waiting);
    }
}

/// 200 tasks for cores and 50 for GPUs. The queue of the site with GPUs is full and does not move;
/// another site has 100 free places for cores.
#[test]
fn a_full_queue_for_gpus_starves_nobody() {
    each_seed(|world| {
        let limits = r#"{"pending":250,"running":250,"starts_per_hour":1000}"#;
        let grid = site("grid", limits, &gpus(250, 8, ""));
        world.add_site(BatchSystem::new(grid, &[]));
        let farm = site("farm", WIDE, &cpus(100, 1));
        world.add_site(BatchSystem::new(farm, &[("cpu", 100)]));
        until(world, 5_000);
        let before = world.brokered.len();
        submit(world, 200, false, 10 * MINUTE);
        submit(world, 50, true, 10 * MINUTE);
        until(world, world.now + 1_500);
        let asking = world.brokered[before..].iter().filter(|look| look.asked() > 0);
        let looks: Vec<_> = asking.collect();
        // The two jobs come at their own times; each is asked for by the first look after it.
        assert!(looks.len() <= 2, "{looks:?}");
        let asked = |site, class| looks.iter().map(|look| look.asked_of(site, class)).sum::<u32>();
        assert_eq!((asked("farm", "cpu"), asked("grid", "gpu")), (100, 50), "{looks:?}");
        until(world, 20 * MINUTE);
        assert_eq!(world.system("farm").taken_of("cpu"), 100);
        // What waits for GPUs waits there, and is not asked for again and again.
        assert_eq!(world.system("grid").taken_of("gpu"), 50);
        assert_eq!(world.system("grid").waiting(), 50);
        until(world, HOUR);
        let last = world.brokered.last().unwrap();
        assert_eq!(last.waiting, 50, "all that needs no GPU is done");
        world.system("grid").places.insert("gpu".into(), 50);
        never_too_many(world, 1);
        to_the_end(world, 2 * HOUR);
    });
}

/// Each of five sites could take all of it, one of them only after a while.
#[test]
fn no_more_pilots_are_asked_for_than_waiting_work_can_use() {
    for (tasks, cores, run) in [(40, 1, 5 * MINUTE), (100, 8, 20_000), (300, 4, 2_000)] {
        each_seed(|world| {
            for at in 0..5 {
                let name = format!("site{at}");
                let spec = site(&name, WIDE, &cpus(500, cores));
                let places = if at == 0 { 0 } else { 500 };
                world.add_site(BatchSystem::new(spec, &[("cpu", places)]));
            }
            submit(world, tasks, false, run);
            until(world, 10_000);
            submit(world, tasks / 2, false, run);
            until(world, 3 * MINUTE);
            world.system("site0").places.insert("cpu".into(), 500);
            to_the_end(world, 3 * HOUR);
            never_too_many(world, u64::from(cores));
            // What came of them had something to do: a pilot of the first site that waited for too
            // long gave its place to another's.
            let started: u32 =
                (1..5).map(|at| world.system(&format!("site{at}")).taken_of("cpu")).sum();
            let most = tasks.div_ceil(cores) + (tasks / 2).div_ceil(cores) + 1;
            assert!(started <= most, "{started} pilots, {most} could be used");
        });
    }
}

fn together(pilots: u32, nodes: u32) -> String {
    format!(r#"{{"name":"mpi","pilots":{pilots},"nodes":{nodes},"cpus":4,"memory":"16GB"}}"#)
}

/// Nodes come several at a time: no allocation is asked for of which no node would have work. One
/// of them dies alone, and takes no other along.
#[test]
fn nodes_that_come_together_are_as_many_as_work_needs_rounded_up() {
    for nodes in [2, 4] {
        each_seed(|world| {
            let spec = site("hpc", WIDE, &together(40, nodes));
            world.add_site(BatchSystem::new(spec, &[("mpi", 40)]));
            submit(world, 50, false, 5 * MINUTE);
            until(world, 10_000);
            submit(world, 9, false, 5 * MINUTE);
            until(world, 90_000);
            let one = *world.lent.keys().next().expect("a node has come");
            world.lent_dies(one);
            until(world, 100_000);
            let node = |at: usize| world.nodes[at].pilot.is_some();
            assert!(!node(one) && node(one + 1), "the next one is of the same allocation");
            to_the_end(world, 3 * HOUR);
            for look in world.brokered.iter().filter(|look| look.asked() > 0) {
                let given_back = look.proposal.surplus.len() as u64 * u64::from(nodes);
                let pilots = u64::from(look.asked() + look.pending) - given_back;
                let most = look.waiting.div_ceil(4).next_multiple_of(nodes.into());
                assert!(pilots <= most, "{pilots} pilots for {} tasks: {look:?}", look.waiting);
            }
        });
    }
}

/// All nodes of an allocation die together, again and again, and then they do not.
#[test]
fn nodes_that_die_together_close_their_class_and_each_task_runs_to_its_end() {
    each_seed(|world| {
        let spec = site("flaps", WIDE, &together(40, 4));
        world.add_site(BatchSystem::new(spec, &[("mpi", 40)]));
        world.system("flaps").health = Health::Dies(20_000);
        submit(world, 60, false, MINUTE);
        until(world, 30 * MINUTE);
        let tried = world.system("flaps").taken_of("mpi");
        assert!(tried <= 20, "{tried} allocations died there");
        world.system("flaps").health = Health::Works;
        to_the_end(world, 6 * HOUR);
    });
}

/// A site whose pilots fail is left alone, longer each time; then one shows that it works.
#[test]
fn a_flapping_site_is_closed_and_tried_by_one_pilot() {
    for health in [Health::Unfit, Health::Fails] {
        each_seed(|world| {
            let spec = site("flaps", WIDE, &gpus(20, 8, ""));
            world.add_site(BatchSystem::new(spec, &[("gpu", 20)]));
            world.system("flaps").health = health;
            submit(world, 20, true, 5 * MINUTE);
            until(world, 40 * MINUTE);
            let looks = world.brokered.iter().filter(|look| look.asked() > 0);
            let tries: Vec<(u64, u32)> = looks.map(|look| (look.at, look.asked())).collect();
            assert_eq!(tries[0].1, 20, "{tries:?}");
            assert!(tries[1..].iter().all(|(_, count)| *count == 1), "{tries:?}");
            assert!((5..=12).contains(&tries.len()), "{tries:?}");
            let gaps: Vec<u64> = tries[1..].windows(2).map(|two| two[1].0 - two[0].0).collect();
            let grow = gaps.windows(2).all(|two| two[1] + 20_000 > two[0]);
            assert!(grow && gaps.last() > gaps.first(), "{gaps:?}");
            let state = world.server.as_ref().unwrap().state();
            let known = state.sites().values().next().unwrap();
            let trouble = known.trouble("gpu").expect("it is closed");
            assert!(trouble.times >= 5 && !trouble.words.is_empty(), "{trouble:?}");
            assert_eq!(known.ends.len(), 20, "what became of the last ones is kept");
            world.system("flaps").health = Health::Works;
            to_the_end(world, 2 * HOUR);
            let state = world.server.as_ref().unwrap().state();
            assert!(state.sites().values().all(|known| known.trouble("gpu").is_none()));
        });
    }
}

/// Pilots come, take tasks and die in the midst of them. Each task runs to its end all the same,
/// and never twice at a time (`truth.rs` watches).
#[test]
fn pilots_that_die_again_and_again_close_their_site() {
    each_seed(|world| {
        let spec = site("flaps", WIDE, &gpus(20, 8, ""));
        world.add_site(BatchSystem::new(spec, &[("gpu", 20)]));
        world.system("flaps").health = Health::Dies(20_000);
        let other = site("steady", WIDE, &gpus(4, 8, ""));
        world.add_site(BatchSystem::new(other, &[("gpu", 4)]));
        submit(world, 24, true, MINUTE);
        until(world, 30 * MINUTE);
        let tried = world.system("flaps").taken_of("gpu");
        assert!(tried <= 40, "{tried} pilots died there");
        world.system("flaps").health = Health::Works;
        to_the_end(world, 6 * HOUR);
    });
}

/// Four pilots with a GPU each have nothing to do; cores are rare. What needs no GPU fills them, as
/// far as they may, and leaves when GPUs are asked for.
#[test]
fn guests_fill_idle_nodes_and_leave_in_time() {
    const GUESTS: u64 = 30_000;
    for stubborn in [false, true] {
        each_seed(|world| {
            let guests = gpus(4, 8, r#","guests":"30s""#);
            let spec = site("hpc", WIDE, &format!("{guests},{}", cpus(1, 4)));
            world.add_site(BatchSystem::new(spec, &[("gpu", 4), ("cpu", 1)]));
            submit(world, 4, true, MINUTE);
            until(world, 90_000);
            let work = Behaviour { run: (HOUR, HOUR), stubborn, ..Behaviour::default() };
            submit_work(world, 60, false, &work);
            until(world, 120_000);
            let (_, inside) = with_gpus(world);
            assert_eq!(inside, 32, "idle nodes are filled");
            let before = world.now;
            submit(world, 3, true, 10 * MINUTE);
            // A commit, a way there and back, the time they have, and dying.
            until(world, before + GUESTS + 5_000);
            let (wanted, inside) = with_gpus(world);
            assert_eq!(wanted, 3, "all three run");
            assert!(inside >= 29, "{inside}: nobody left for nothing");
            until(world, before + 8 * MINUTE);
            assert_eq!(with_gpus(world), (3, inside), "and nobody else comes meanwhile");
            to_the_end(world, 20 * HOUR);
            let lost = world.truth.started_count() - 67;
            assert!((3..=12).contains(&lost), "{lost} made room, none of them for good");
        });
    }
}

/// Where guests are not let in, tasks without a GPU wait for the pilots that are theirs.
#[test]
fn nobody_squats_where_guests_are_not_let_in() {
    each_seed(|world| {
        let spec = site("hpc", WIDE, &format!("{},{}", gpus(4, 8, ""), cpus(1, 4)));
        world.add_site(BatchSystem::new(spec, &[("gpu", 4), ("cpu", 1)]));
        submit(world, 4, true, MINUTE);
        until(world, 90_000);
        submit(world, 20, false, 10 * MINUTE);
        for _ in 0..10 {
            until(world, world.now + 20_000);
            assert_eq!(with_gpus(world).1, 0);
        }
        to_the_end(world, 3 * HOUR);
    });
}

/// On pilots with GPUs: tasks that run with one, and without.
fn with_gpus(world: &World) -> (usize, usize) {
    let state = world.server.as_ref().unwrap().state();
    let running = state.active().values().filter(|active| active.started.is_some());
    let there = running.filter(|it| !state.pilots()[&it.pilot].ad.gpus.is_empty());
    let (with, without): (Vec<_>, Vec<_>) = there.partition(|active| !active.devices.is_empty());
    (with.len(), without.len())
}
