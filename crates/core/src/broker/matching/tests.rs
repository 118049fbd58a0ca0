//! Matching, by tables of numbers and by chance.

use super::{Demand, Matched, SiteRoom, Supply};
use shipway_model::Millis;

const HOUR: Millis = Millis(3_600_000);
const DAY: Millis = Millis(24 * 3_600_000);

/// A kind, and how many tasks at a time a pilot of it runs. Here each is of its own model.
#[derive(Debug, Clone, Copy)]
struct Fit {
    kind: usize,
    slots: u64,
}

fn fit(kind: usize, slots: u64) -> Fit {
    Fit { kind, slots }
}

/// For tasks without a GPU.
fn demand(tasks: u64, fits: &[Fit]) -> Demand {
    let kinds = fits.iter().map(|fit| fit.kind + 1).max().unwrap_or(0);
    let mut slots = vec![0; kinds];
    for fit in fits {
        slots[fit.kind] = fit.slots;
    }
    let (most_pilots, wants_gpus, kept_from, at_most) = (u64::MAX, false, Vec::new(), None);
    Demand { tasks, most_pilots, slots, wants_gpus, kept_from, at_most }
}

fn supply(site: usize, room: u32) -> Supply {
    let (there, coming, stuck, cost) = (0, 0, 0, 0);
    let (wall, wait, has_gpus) = (DAY, Millis(0), false);
    Supply { site, model: 0, has_gpus, wall, nodes: 1, room, there, coming, stuck, cost, wait }
}

fn rooms(allocations: &[u32]) -> Vec<SiteRoom> {
    allocations.iter().map(|allocations| SiteRoom { allocations: *allocations }).collect()
}

/// Each kind is of its own model.
fn matching(demands: &[Demand], supplies: &[Supply], sites: &[SiteRoom]) -> Matched {
    let own = supplies.iter().enumerate();
    let own: Vec<Supply> = own.map(|(model, it)| Supply { model, ..it.clone() }).collect();
    super::matching(demands, &own, sites)
}

#[test]
fn a_pilot_is_asked_for_as_many_tasks_as_it_runs() {
    for (tasks, slots, expected) in [(1, 1, 1), (1, 8, 1), (9, 8, 2), (16, 8, 2), (100, 7, 15)] {
        let found = matching(&[demand(tasks, &[fit(0, slots)])], &[supply(0, 100)], &rooms(&[100]));
        assert_eq!(found.asks, [expected], "{tasks} tasks, {slots} at a time");
        assert_eq!(found.left, [0]);
    }
}

#[test]
fn what_is_coming_is_not_asked_for_again() {
    let coming = Supply { coming: 3, ..supply(0, 100) };
    let pending = std::slice::from_ref(&coming);
    let found = matching(&[demand(10, &[fit(0, 2)])], pending, &rooms(&[100]));
    assert_eq!((found.asks, found.surplus), (vec![2], vec![0]));
    let found = matching(&[demand(2, &[fit(0, 2)])], &[coming], &rooms(&[100]));
    assert_eq!((found.asks, found.surplus), (vec![0], vec![2]), "two of the three are for nobody");
}

/// `asks` are allocations; what their last one brings too many, others may use.
#[test]
fn allocations_of_several_nodes_are_rounded_up_to_what_the_last_task_needs() {
    let kind = |nodes, room| Supply { nodes, ..supply(0, room) };
    for (nodes, tasks, slots, asks) in
        [(2, 1, 1, 1), (2, 2, 1, 1), (2, 3, 1, 2), (4, 8, 1, 2), (4, 9, 2, 2), (4, 9, 8, 1)]
    {
        let wanted = [demand(tasks, &[fit(0, slots)])];
        let found = matching(&wanted, &[kind(nodes, 100)], &rooms(&[100]));
        assert_eq!((found.asks, found.left), (vec![asks], vec![0]), "{nodes} nodes, {tasks} tasks");
    }
    let wanted = [demand(20, &[fit(0, 1)])];
    for (room, site) in [(3, 9), (9, 3)] {
        let found = matching(&wanted, &[kind(4, room)], &rooms(&[site]));
        assert_eq!((found.asks, found.left), (vec![3], vec![8]), "limits are of allocations");
    }
    let short = Demand { most_pilots: 5, ..demand(1_000, &[fit(0, 1)]) };
    assert_eq!(matching(&[short], &[kind(4, 100)], &rooms(&[100])).asks, [2]);
    let both = [demand(3, &[fit(0, 1)]), demand(5, &[fit(0, 1)])];
    assert_eq!(matching(&both, &[kind(4, 100)], &rooms(&[100])).asks, [2], "they share one");
}

#[test]
fn an_allocation_is_given_back_only_when_nobody_needs_any_of_its_pilots() {
    for (tasks, surplus) in [(0, 2), (1, 1), (4, 1), (5, 0), (8, 0)] {
        let (nodes, stuck) = (4, 8);
        let kind = Supply { nodes, stuck, ..supply(0, 9) };
        let found = matching(&[demand(tasks, &[fit(0, 1)])], &[kind], &rooms(&[9]));
        assert_eq!((found.asks, found.surplus), (vec![0], vec![surplus]), "{tasks} tasks");
    }
}

#[test]
fn two_kinds_of_tasks_share_a_pilot() {
    let both = [demand(4, &[fit(0, 8)]), demand(2, &[fit(0, 4)])];
    let found = matching(&both, &[supply(0, 9)], &rooms(&[9]));
    assert_eq!(found.asks, [1]);
}

#[test]
fn the_limits_of_kinds_and_sites_hold() {
    let found = matching(&[demand(50, &[fit(0, 1)])], &[supply(0, 3)], &rooms(&[9]));
    assert_eq!((found.asks, found.left), (vec![3], vec![47]));
    let kinds = [supply(0, 30), supply(0, 30)];
    let found = matching(&[demand(50, &[fit(0, 1), fit(1, 1)])], &kinds, &rooms(&[40]));
    assert_eq!((found.asks, found.left), (vec![30, 10], vec![10]));
}

#[test]
fn short_tasks_do_not_get_a_pilot_each() {
    let short = Demand { most_pilots: 2, ..demand(1_000, &[fit(0, 1)]) };
    assert_eq!(matching(&[short], &[supply(0, 100)], &rooms(&[100])).asks, [2]);
}

/// 200 tasks for cores and 50 for GPUs; the queue for GPUs is full with 250 pilots that do not
/// start, and a site with 100 free places has cores.
#[test]
fn a_full_queue_for_gpus_keeps_no_task_from_a_site_with_cores() {
    let gpus = Supply { stuck: 250, wait: HOUR, has_gpus: true, ..supply(0, 0) };
    let for_gpus = Demand { wants_gpus: true, ..demand(50, &[fit(0, 1)]) };
    let demands = [demand(200, &[fit(0, 8), fit(1, 1)]), for_gpus];
    let found = matching(&demands, &[gpus, supply(1, 100)], &rooms(&[0, 100]));
    assert_eq!(found.asks, [0, 100], "in the first cycle");
    assert_eq!(found.left, [100, 0]);
    assert_eq!(found.surplus, [200, 0], "fifty are needed for GPUs");
}

#[test]
fn who_has_no_choice_comes_first() {
    let demands = [demand(5, &[fit(0, 1), fit(1, 1)]), demand(5, &[fit(0, 1)])];
    let found = matching(&demands, &[supply(0, 5), supply(1, 5)], &rooms(&[5, 5]));
    assert_eq!((found.asks, found.left), (vec![5, 5], vec![0, 0]));
}

#[test]
fn a_kind_with_gpus_serves_others_only_where_nothing_else_could() {
    let gpus = Supply { has_gpus: true, ..supply(0, 9) };
    let both = [demand(8, &[fit(0, 4), fit(1, 4)])];
    let found = matching(&both, &[gpus.clone(), supply(1, 1)], &rooms(&[9, 9]));
    assert_eq!((found.asks, found.left), (vec![0, 1], vec![4]));
    let found = matching(&[demand(8, &[fit(0, 4)])], &[gpus], &rooms(&[9]));
    assert_eq!(found.asks, [2]);
}

#[test]
fn the_cheaper_site_is_asked_first() {
    let kinds = [Supply { cost: 5, ..supply(0, 9) }, Supply { cost: 1, ..supply(1, 9) }];
    let found = matching(&[demand(4, &[fit(0, 1), fit(1, 1)])], &kinds, &rooms(&[9, 9]));
    assert_eq!(found.asks, [0, 4]);
}

#[test]
fn where_pilots_come_soon_is_before_where_they_are_cheap() {
    let tasks = [demand(4, &[fit(0, 1), fit(1, 1)])];
    for (wait, expected) in [(0, [4, 0]), (59, [4, 0]), (60, [0, 4]), (90_000, [0, 4])] {
        let slow = Supply { cost: 1, wait: Millis(wait * 1_000), ..supply(0, 9) };
        let dear = Supply { cost: 5, wait: Millis(50_000), ..supply(1, 9) };
        let found = matching(&tasks, &[slow, dear], &rooms(&[9, 9]));
        assert_eq!(found.asks, expected, "{wait} s");
    }
}

#[test]
fn who_has_no_other_room_comes_first_however_many_kinds_there_are() {
    let full = |site| supply(site, 0);
    let some = [demand(5, &[fit(0, 1), fit(1, 1), fit(2, 1)]), demand(5, &[fit(0, 1), fit(3, 1)])];
    let kinds = [supply(0, 5), full(1), full(2), supply(3, 5)];
    let found = matching(&some, &kinds, &rooms(&[5, 5, 5, 5]));
    assert_eq!((found.asks, found.left), (vec![5, 0, 0, 5], vec![0, 0]));
}

#[test]
fn what_comes_elsewhere_is_used_before_more_is_asked_for() {
    let kinds = [supply(0, 9), Supply { coming: 4, cost: 9, ..supply(1, 9) }];
    let found = matching(&[demand(4, &[fit(0, 1), fit(1, 1)])], &kinds, &rooms(&[9, 9]));
    assert_eq!((found.asks, found.surplus), (vec![0, 0], vec![0, 0]));
}

#[test]
fn who_waits_is_moved_only_where_pilots_come_sooner() {
    let tasks = [demand(4, &[fit(0, 1), fit(1, 1)])];
    let waits = Supply { stuck: 4, wait: Millis(90_000), ..supply(0, 9) };
    for (wait, asks, surplus) in [(0, [0, 4], [4, 0]), (70, [0, 0], [0, 0]), (700, [0, 0], [0, 0])]
    {
        let other = Supply { wait: Millis(wait * 1_000), ..supply(1, 9) };
        let found = matching(&tasks, &[waits.clone(), other], &rooms(&[9, 9]));
        assert_eq!((found.asks, found.surplus), (asks.to_vec(), surplus.to_vec()), "{wait} s");
    }
}

#[test]
fn pilots_that_are_there_count_for_short_tasks() {
    let short = Demand { most_pilots: 10, ..demand(1_000, &[fit(0, 1)]) };
    for (there, coming, asks) in [(0, 0, 10), (8, 0, 2), (8, 2, 0), (30, 0, 1), (30, 1, 0)] {
        let kind = Supply { there, coming, ..supply(0, 100) };
        let found = matching(std::slice::from_ref(&short), &[kind], &rooms(&[100]));
        assert_eq!(found.asks, [asks], "{there} there, {coming} coming");
    }
}

#[test]
fn nobody_goes_where_they_may_not_or_have_too_little_time() {
    let short = Supply { wall: Millis(3_600_000), ..supply(1, 9) };
    let kinds = [supply(0, 9), short, supply(2, 9)];
    let all = demand(4, &[fit(0, 1), fit(1, 1), fit(2, 1)]);
    let kept = Demand { kept_from: vec![0], at_most: Some(Millis(3_600_001)), ..all };
    assert_eq!(matching(&[kept], &kinds, &rooms(&[9, 9, 9])).asks, [0, 0, 4]);
}

mod by_chance {
    use super::*;
    use proptest::prelude::*;

    fn demands() -> impl Strategy<Value = Vec<Demand>> {
        let fit = (0..4usize, 0..9u64).prop_map(|(kind, slots)| fit(kind, slots));
        let fits = prop::collection::vec(fit, 0..4);
        let one = (0..60u64, 0..40u64, fits, any::<bool>());
        let one = one.prop_map(|(tasks, most_pilots, fits, wants_gpus)| Demand {
            most_pilots,
            wants_gpus,
            ..demand(tasks, &fits)
        });
        prop::collection::vec(one, 0..6)
    }

    fn supplies() -> impl Strategy<Value = Vec<Supply>> {
        let numbers = (0..2usize, 0..20u32, 1..5u32, 0..6u32, 0..6u32);
        let one = (numbers, 0..3u64, any::<bool>(), 0..200u64);
        let one =
            one.prop_map(|((site, room, nodes, coming, stuck), cost, has_gpus, wait)| Supply {
                nodes,
                coming,
                stuck,
                cost,
                has_gpus,
                wait: Millis(wait * 1_000),
                ..supply(site, room)
            });
        prop::collection::vec(one, 4..=4)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn nothing_is_asked_for_nobody((demands, supplies) in (demands(), supplies()),
                                       sites in prop::collection::vec(0..25u32, 2..=2)) {
            let sites = rooms(&sites);
            let found = matching(&demands, &supplies, &sites);
            let tasks: u64 = demands.iter().map(|demand| demand.tasks).sum();
            let asked: u64 = found.asks.iter().map(|asks| u64::from(*asks)).sum();
            prop_assert!(asked <= tasks, "{asked} allocations for {tasks} tasks");
            for (at, supply) in supplies.iter().enumerate() {
                prop_assert!(found.asks[at] <= supply.room);
                let [asked, back] = [found.asks[at], found.surplus[at]].map(|it| it * supply.nodes);
                prop_assert!(back <= supply.coming + supply.stuck);
                // Of all but the last one every pilot has something to do.
                prop_assert!(u64::from(asked) < tasks + u64::from(supply.nodes));
                // Never both: what is coming is used before more is asked for.
                let could = demands.iter().any(|it| it.slots.get(at).is_some_and(|it| *it > 0));
                prop_assert!(asked == 0 || could && back <= supply.stuck);
            }
            for (at, room) in sites.iter().enumerate() {
                let of_site = supplies.iter().zip(&found.asks);
                let asked = of_site.filter(|(it, _)| it.site == at).map(|(_, asks)| *asks);
                let asked: u32 = asked.sum();
                prop_assert!(asked <= room.allocations);
            }
            for (demand, left) in demands.iter().zip(&found.left) {
                prop_assert!(*left <= demand.tasks);
            }
        }
    }
}
