//! What is shown of sites, and whose each allocation and node is.

use super::*;
use shipway_core::command::{AskBatch, PilotJoined};
use shipway_core::engine::step;
use shipway_core::event::Awaited;
use shipway_model::{Bytes, Capacity, ConnectionNumber, Cores, NodeAd, PilotId, Role, UserName};

fn admin() -> Actor {
    Actor::new(UserName::new("root").expect("good"), Role::Admin)
}

fn apply(state: &mut shipway_core::State, command: &Command) {
    let at = Timestamp(state.at().0 + 1);
    step(state, at, command).unwrap_or_else(|rejection| panic!("{command:?}: {rejection}"));
}

/// A site with two classes, and one allocation for each name.
fn add(state: &mut shipway_core::State, site: &str, allocations: &[(&str, &str)]) {
    let json = format!(
        r#"{{"name":"{site}","kind":"slurm","program":"/opt/shipway","server":"http://h:7447",
            "classes":[{{"name":"thin","pilots":9,"cpus":4,"memory":"16GB"}},
                {{"name":"fat","pilots":9,"cpus":8,"memory":"16GB"}}]}}"#
    );
    let spec = serde_json::from_str(&json).expect("a site");
    apply(state, &Command::AddSite { by: admin(), spec: Box::new(spec) });
    for (class, name) in allocations {
        let pilot = PilotId::new(name).expect("good");
        let awaited = Awaited { pilot, hash: (*name).into() };
        let ask = AskBatch {
            site: SiteName::new(site).expect("good"),
            class: (*class).into(),
            allocations: vec![(AllocationId::new(name).expect("good"), vec![awaited])],
        };
        apply(state, &Command::AskBatch(Box::new(ask)));
    }
}

fn join(state: &mut shipway_core::State, name: &str) {
    let ad = NodeAd {
        node: NodeName::new(&format!("node-of-{name}")).expect("good"),
        capacity: Capacity {
            cpus: Cores::whole(4),
            memory: Bytes(16_000_000_000),
            ..Capacity::default()
        },
        gpus: Vec::new(),
        attributes: BTreeMap::new(),
        notes: Vec::new(),
        unfit: Vec::new(),
        withheld: Vec::new(),
        people: None,
    };
    let joined = PilotJoined {
        pilot: PilotId::new(name).expect("good"),
        connection: ConnectionNumber(1),
        ad,
        lease: None,
        held: Vec::new(),
        folder: None,
    };
    apply(state, &Command::PilotJoined(Box::new(joined)));
}

/// `(class, pending, running)` of each class, and `(allocation, its nodes)`.
type Shown = (Vec<(String, u32, u32)>, Vec<(String, Vec<String>)>);

fn shown(view: &SiteView) -> Shown {
    let classes = view.classes.iter();
    let classes = classes.map(|class| (class.name.clone(), class.pending, class.running));
    let allocations = view.allocations.iter();
    let allocations = allocations.map(|one| {
        (one.allocation.to_string(), one.nodes.iter().map(ToString::to_string).collect())
    });
    (classes.collect(), allocations.collect())
}

fn nodes_of<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    names.into_iter().map(|name| format!("node-of-{name}")).collect()
}

#[test]
fn an_allocation_of_several_nodes_is_shown_with_all_of_them() {
    let mut state = shipway_core::State::default();
    let site = r#"{"name":"hpc","kind":"slurm","program":"/opt/shipway","server":"http://h:7447",
        "classes":[{"name":"mpi","pilots":9,"nodes":3,"cpus":4,"memory":"16GB"}]}"#;
    let spec = serde_json::from_str(site).expect("a site");
    apply(&mut state, &Command::AddSite { by: admin(), spec: Box::new(spec) });
    let name = SiteName::new("hpc").expect("good");
    let one = |allocation: &str| {
        let awaited = |at: u32| {
            let pilot = format!("{allocation}-{at}");
            Awaited { pilot: PilotId::new(&pilot).expect("good"), hash: pilot }
        };
        (AllocationId::new(allocation).expect("good"), (0..3).map(awaited).collect())
    };
    let allocations = vec![one("batch-1"), one("batch-2")];
    let ask = AskBatch { site: name.clone(), class: "mpi".into(), allocations };
    apply(&mut state, &Command::AskBatch(Box::new(ask)));
    join(&mut state, "batch-2-0");
    join(&mut state, "batch-2-2");
    let view =
        view((&name, &state.sites()[&name]), &There::of(&state, |_| true), &admin(), state.at());
    let come = nodes_of(["batch-2-0", "batch-2-2"]);
    let expected = vec![("batch-1".to_owned(), Vec::new()), ("batch-2".to_owned(), come)];
    assert_eq!(shown(&view), (vec![("mpi".to_owned(), 3, 3)], expected));
    assert!(view.allocations.iter().all(|one| one.pilots == 3));
    assert_eq!(view.classes[0].nodes, 3);
}

#[test]
fn each_site_is_shown_with_what_is_its_own() {
    let mut state = shipway_core::State::default();
    add(&mut state, "hpc", &[("thin", "batch-1"), ("thin", "batch-2"), ("fat", "batch-3")]);
    add(&mut state, "pool", &[("fat", "batch-4"), ("fat", "batch-5")]);
    add(&mut state, "zero", &[]);
    for name in ["batch-2", "batch-3", "batch-5"] {
        join(&mut state, name);
    }
    let class = |name: &str, pending, running| (name.to_owned(), pending, running);
    let node = |name: &str, has_come: bool| (name.to_owned(), nodes_of(has_come.then_some(name)));
    let expected = [
        (
            "hpc",
            vec![class("thin", 1, 1), class("fat", 0, 1)],
            vec![node("batch-1", false), node("batch-2", true), node("batch-3", true)],
        ),
        (
            "pool",
            vec![class("thin", 0, 0), class("fat", 1, 1)],
            vec![node("batch-4", false), node("batch-5", true)],
        ),
        ("zero", vec![class("thin", 0, 0), class("fat", 0, 0)], vec![]),
    ];
    let all = There::of(&state, |_| true);
    for (name, classes, allocations) in expected {
        let name = SiteName::new(name).expect("good");
        let known = &state.sites()[&name];
        let own = There::of(&state, |site| *site == name);
        for there in [&all, &own] {
            let view = view((&name, known), there, &admin(), state.at());
            assert_eq!(shown(&view), (classes.clone(), allocations.clone()), "{name}");
        }
    }
}
