//! What tasks are started from: how long it is kept, and how much of it for one person.

use super::*;
use shipway_model::FileMap;
use std::sync::Weak;

const MIB: usize = 1 << 20;

fn of(user: &str, script_bytes: usize) -> Template {
    let script = Some("x".repeat(script_bytes));
    Template { user: user.into(), script, ..template(1) }
}

/// What a machine asks to be started is started and let go of.
fn started(rig: &mut Rig, out: &[Output]) {
    for id in starts(out) {
        assert_eq!(rig.input(Input::ProcessStarted { id }), []);
    }
}

#[test]
fn what_only_a_start_needs_is_gone_when_it_has_started() {
    let mut rig = Rig::up(None);
    let outputs = Some(Outputs::new_ones());
    let files = Some(Files { outputs, ..Files::default() });
    let mut task = task(id(1, 0));
    task.fields.insert("seed".into(), "7".into());
    let template = Template { files, ..of("ada", 10) };
    let out = rig.say(assign(template, vec![task]));
    let [Output::Start(start)] = &out[..] else { panic!("{out:?}") };
    let (template, fields) = (Arc::downgrade(&start.template), Arc::downgrade(&start.fields));
    let taken = start.taken.as_ref().map(Arc::downgrade).unwrap();
    assert!(start.template.files.as_ref().unwrap().outputs.is_none(), "they are in `taken`");
    assert!(taken.upgrade().unwrap().outputs == Outputs::new_ones());
    started(&mut rig, &out);
    drop(out);
    assert_eq!(Weak::strong_count(&template), 0, "the machine still has its template");
    assert_eq!(Weak::strong_count(&fields), 0, "the machine still has its row");
    // Its end is read as before.
    let ended = rig.ended(id(1, 0), HowEnded::Exit(0));
    assert_eq!(ended, [Output::Collect { id: id(1, 0), outcome: Outcome::Exit { code: 0 } }]);
}

#[test]
fn what_waits_for_one_person_is_limited_and_others_do_not_notice() {
    let mut rig = Rig::up(None);
    // Four cores: the first four are started, and wait for an image, say.
    let mut waiting = Vec::new();
    for job in 1..=4 {
        waiting.extend(rig.assign(of("ada", 60 * MIB), &[id(job, 0)]));
    }
    assert_eq!(starts(&waiting).len(), 4);
    assert_eq!(rig.assign(of("ada", 60 * MIB), &[id(5, 0), id(5, 1)]), []);
    let outcomes = rig.outcomes();
    assert_eq!(outcomes.len(), 2, "{outcomes:?}");
    for (_, outcome) in outcomes {
        let Outcome::NotStarted { message } = outcome else { panic!("{outcome:?}") };
        assert!(message.contains("ada") && message.contains("files that tasks read"), "{message}");
    }
    // Another's waits for nothing but a core, and so does a smaller one of the same person.
    assert_eq!(rig.assign(of("bob", 60 * MIB), &[id(6, 0)]), []);
    assert_eq!(rig.assign(of("ada", 1), &[id(7, 0)]), []);
    assert_eq!(rig.held().len(), 8, "none of them has ended");
    // What has started takes nothing any more.
    started(&mut rig, &waiting);
    drop(waiting);
    assert_eq!(rig.assign(of("ada", 200 * MIB), &[id(8, 0)]), []);
    rig.now += REPORT_WAIT.0;
    assert_eq!(rig.outcomes(), [], "there is room for it");
}

#[test]
fn tasks_of_one_message_share_what_they_have_in_common() {
    let mut rig = Rig::up(None);
    let ids: Vec<_> = (0..1_000).map(|index| id(1, index)).collect();
    let out = rig.assign(of("ada", MIB), &ids);
    assert_eq!(starts(&out).len(), 4);
    rig.now += REPORT_WAIT.0;
    assert_eq!(rig.flush(), [], "none has ended");
}

#[test]
fn paths_count_as_what_their_fields_make_of_them() {
    let mut rig = Rig::up(None);
    let map = FileMap::plain("{x}");
    let files = Some(Files { inputs: vec![map; 10_000], ..Files::default() });
    let template = Template { files, ..of("ada", 1) };
    let tasks = (0..10).map(|index| {
        let mut task = task(id(1, index));
        task.fields.insert("x".into(), "x".repeat(4_000));
        task
    });
    drop(rig.say(assign(template, tasks.collect())));
    rig.now += REPORT_WAIT.0;
    assert_eq!(rig.outcomes().len(), 4, "six with forty megabytes each are kept");
}
