//! The table of tasks: what happens to one, to runs of them, and how it is stored.

use super::*;
use proptest::prelude::*;

fn states(table: &TaskTable) -> String {
    let letter = |state| match state {
        TaskState::Waiting => 'w',
        TaskState::Placed | TaskState::Running => 'a',
        TaskState::Succeeded => 's',
        TaskState::Failed => 'f',
        TaskState::Cancelled => 'c',
    };
    table.states().map(|(_, state)| letter(state)).collect()
}

#[test]
fn a_task_goes_through_its_states() {
    let mut table = TaskTable::new(4);
    for task in 0..3 {
        table.place(Ordinal(task));
    }
    table.finish(Ordinal(0), TaskState::Succeeded);
    table.finish(Ordinal(1), TaskState::Failed);
    table.cancel(3, 3);
    assert_eq!(states(&table), "sfac");
    table.back_off(Ordinal(2), Timestamp(5), true);
    assert!(!table.has_placeable());
    table.ready(Ordinal(2));
    assert_eq!(table.next_attempt(Ordinal(2)), Attempt(2));
    table.requeue(&[Ordinal(3)].into_iter().collect());
    assert_eq!(table.next_attempt(Ordinal(3)), Attempt(1), "it was never placed");
    table.requeue(&[Ordinal(1)].into_iter().collect());
    assert_eq!(table.next_attempt(Ordinal(1)), Attempt(2));
    assert_eq!(states(&table), "swww");
    table.cancel_waiting();
    assert_eq!(states(&table), "sccc");
    assert!(table.counts().is_over());
}

#[test]
fn an_untouched_array_costs_nothing_per_task() {
    let table = TaskTable::new(1_000_000);
    assert_eq!(table.touched, None);
    assert_eq!(table.placeable().next(), Some(Ordinal(0)));
}

#[test]
fn ten_million_are_cancelled_and_queued_again_in_a_few_runs() {
    let len = 10_000_000;
    let mut table = TaskTable::new(len);
    table.place(Ordinal(0));
    table.finish(Ordinal(0), TaskState::Failed);
    table.cancel_waiting();
    assert_eq!(table.counts().cancelled, len - 1);
    table.requeue(&[(0, len - 1)].into_iter().collect());
    assert_eq!(table.counts().waiting, len);
    let touched = table.touched.as_ref().expect("touched");
    assert_eq!(touched.again.iter().collect::<Vec<_>>(), [(0, len - 1, ())]);
    assert_eq!(touched.tries.iter().count(), 1, "only the first was ever placed");
    assert_eq!(table.next_attempt(Ordinal(0)), Attempt(2));
    assert_eq!(table.next_attempt(Ordinal(len - 1)), Attempt(1));
}

#[test]
fn what_earlier_versions_wrote_is_read() {
    let old = r#"{"len":3,"fresh":3,"states":"0e","cancelled":"01","again":[],
        "later":{"2":3000},"tries":{"1":{"placed":3,"failed":2,"lost":0}},
        "counts":{"waiting":1,"active":0,"succeeded":0,"failed":1,"cancelled":1}}"#;
    let table: TaskTable = serde_json::from_str(old).expect("good");
    assert_eq!(table.back_off_of(Ordinal(2)), Some(Timestamp(3_000)));
    assert_eq!(table.tries(Ordinal(1)), Tries { placed: 3, failed: 2, lost: 0 });
}

proptest! {
    /// Runs and counts by thirty-two are what a look at each task finds.
    #[test]
    fn runs_are_what_a_look_at_each_task_finds(
        kinds in prop::collection::vec(0u8..5, 1..200),
        cut in (0u32..200, 0u32..200),
        chosen in 0u8..32,
    ) {
        let len = u32::try_from(kinds.len()).expect("few");
        let mut table = TaskTable::new(len);
        for (at, kind) in (0..len).zip(&kinds) {
            let task = Ordinal(at);
            match kind {
                0 => table.cancel(at, at),
                1 => table.place(task),
                2 => {
                    table.place(task);
                    table.finish(task, TaskState::Succeeded);
                }
                3 => {
                    table.place(task);
                    table.finish(task, TaskState::Failed);
                }
                _ => {}
            }
        }
        let is_wanted = |state: TaskState| chosen >> (state as u8) & 1 == 1;
        let from = cut.0;
        let found: Vec<u32> =
            table.runs(from, is_wanted).flat_map(|(first, last)| first..=last).collect();
        let plain = table.states().filter(|(at, state)| at.0 >= from && is_wanted(*state));
        prop_assert_eq!(found, plain.map(|(at, _)| at.0).collect::<Vec<_>>());
        let (first, last) = (cut.0.min(cut.1).min(len - 1), cut.0.max(cut.1).min(len - 1));
        let mut counts = JobCounts::default();
        for at in first..=last {
            *match table.state(Ordinal(at)) {
                TaskState::Waiting => &mut counts.waiting,
                TaskState::Placed | TaskState::Running => &mut counts.active,
                TaskState::Succeeded => &mut counts.succeeded,
                TaskState::Failed => &mut counts.failed,
                TaskState::Cancelled => &mut counts.cancelled,
            } += 1;
        }
        if table.touched.is_some() {
            prop_assert_eq!(table.bits().counts(first, last), counts);
        }
    }

    /// Whatever happens, counts, bits and sets tell the same story, and survive storage.
    #[test]
    fn counts_always_agree_with_the_bits(
        steps in prop::collection::vec((0u32..20, 0u8..6), 0..200),
    ) {
        let mut table = TaskTable::new(20);
        for (at, action) in steps {
            let task = Ordinal(at);
            match (action, table.state(task)) {
                (0, TaskState::Waiting) if table.may_place(task) => table.place(task),
                (1, TaskState::Placed) => table.finish(task, TaskState::Succeeded),
                (2, TaskState::Placed) => table.back_off(task, Timestamp(1), at % 2 == 0),
                (3, TaskState::Waiting) => table.cancel(at, at),
                (4, TaskState::Waiting) => table.ready(task),
                (5, state) if state.is_over() => {
                    table.requeue(&[task].into_iter().collect());
                }
                _ => {}
            }
            let counts = table.counts();
            prop_assert_eq!(counts.total(), 20);
            prop_assert_eq!(counts.waiting as usize, table.waiting().count());
            prop_assert_eq!(counts.waiting as usize,
                states(&table).chars().filter(|c| *c == 'w').count());
            prop_assert_eq!(counts.cancelled as usize,
                states(&table).chars().filter(|c| *c == 'c').count());
        }
        let text = serde_json::to_string(&table).expect("json");
        prop_assert_eq!(serde_json::from_str::<TaskTable>(&text).expect("back"), table);
    }
}
