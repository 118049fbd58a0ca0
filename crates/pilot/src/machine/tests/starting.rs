//! Which tasks start, when, and in which order.

use super::*;
use crate::machine::assign::{LOOK_AHEAD, MAX_OVERTAKEN};
use crate::machine::begun::MOST as MOST_BEGUN;
use shipway_api::link::BadMessage;

#[test]
fn tasks_start_in_order_as_far_as_there_is_room() {
    let mut rig = Rig::up(None);
    let ids: Vec<_> = (0..4).map(|index| id(1, index)).collect();
    assert_eq!(starts(&rig.assign(template(2), &ids)), ids[..2]);
    for id in &ids[..2] {
        rig.input(Input::ProcessStarted { id: *id });
    }
    assert_eq!(starts(&rig.ended(ids[0], HowEnded::Exit(0))), [ids[2]]);
    assert_eq!(starts(&rig.ended(ids[1], HowEnded::Exit(0))), [ids[3]]);
}

#[test]
fn a_start_carries_what_the_process_needs() {
    let mut rig = Rig::up(None);
    let gpu = DeviceId::new("gpu-1").unwrap();
    let wanted = Task {
        devices: vec![gpu.clone()],
        fields: [("seed".to_string(), "7".to_string())].into(),
        ..task(id(1, 0))
    };
    let out = rig.say(assign(template(1), vec![wanted]));
    let [Output::Start(start)] = out.as_slice() else { panic!("{out:?}") };
    assert_eq!((&*start.template, &start.devices[..]), (&template(1).into(), &[gpu][..]));
    assert_eq!(start.fields["seed"], "7");
}

#[test]
fn what_is_held_is_not_taken_again() {
    let mut rig = Rig::up(None);
    rig.run(template(1), id(1, 0));
    assert_eq!(rig.assign(template(1), &[id(1, 0)]), [], "running");
    rig.ended(id(1, 0), HowEnded::Exit(0));
    assert_eq!(rig.assign(template(1), &[id(1, 0)]), [], "ended, not acknowledged");
    let again = AttemptId { attempt: Attempt(2), ..id(1, 0) };
    assert_eq!(starts(&rig.assign(template(1), &[again])), [again], "another attempt");
}

#[test]
fn a_task_that_fits_passes_one_that_does_not_but_not_for_ever() {
    let mut rig = Rig::up(None);
    rig.run(template(1), id(1, 0));
    assert_eq!(rig.assign(template(4), &[id(2, 0)]), []);
    let mut running = Vec::new();
    for index in 0..u64::from(MAX_OVERTAKEN) {
        let small = id(3, index);
        assert_eq!(starts(&rig.assign(template(1), &[small])), [small]);
        rig.input(Input::ProcessStarted { id: small });
        rig.ended(small, HowEnded::Exit(0));
        running.push(small);
    }
    assert_eq!(rig.assign(template(1), &[id(3, 1_000)]), [], "now everybody waits");
    assert_eq!(starts(&rig.ended(id(1, 0), HowEnded::Exit(0))), [id(2, 0)]);
}

#[test]
fn the_search_behind_a_large_task_is_bounded() {
    let mut rig = Rig::up(None);
    rig.run(template(1), id(1, 0));
    let large: Vec<_> = (0..LOOK_AHEAD as u64).map(|index| id(2, index)).collect();
    assert_eq!(rig.assign(template(4), &large), []);
    assert_eq!(rig.assign(template(1), &[id(3, 0)]), []);
}

fn of(user: &str, template: Template) -> Template {
    Template { user: user.into(), ..template }
}

#[test]
fn large_tasks_of_one_person_do_not_hide_what_fits_of_another() {
    let mut rig = Rig::up(None);
    rig.run(template(1), id(1, 0));
    let large: Vec<_> = (0..2 * LOOK_AHEAD as u64).map(|index| id(2, index)).collect();
    assert_eq!(rig.assign(of("eve", template(4)), &large), []);
    assert_eq!(starts(&rig.assign(of("bob", template(1)), &[id(3, 0)])), [id(3, 0)]);
}

#[test]
fn people_take_turns_however_many_of_one_wait() {
    let mut rig = Rig::up(None);
    let many: Vec<_> = (0..200).map(|index| id(1, index)).collect();
    assert_eq!(starts(&rig.assign(of("eve", template(4)), &many)), [id(1, 0)]);
    assert_eq!(rig.assign(of("bob", template(4)), &[id(2, 0), id(2, 1)]), []);
    assert_eq!(rig.assign(of("ada", template(4)), &[id(3, 0)]), []);
    let (mut order, mut running) = (Vec::new(), id(1, 0));
    for _ in 0..7 {
        rig.input(Input::ProcessStarted { id: running });
        running = starts(&rig.ended(running, HowEnded::Exit(0)))[0];
        order.push((running.task.job.0, running.task.index.0));
    }
    assert_eq!(order, [(1, 1), (2, 0), (3, 0), (1, 2), (2, 1), (1, 3), (1, 4)]);
}

#[test]
fn only_so_many_of_one_person_are_on_the_way_and_nobody_else_waits_for_them() {
    let mut rig = Rig::up(None);
    let small = |user| {
        let mut small = of(user, template(0));
        small.need.cpus = Cores { milli: 1 };
        small
    };
    let many: Vec<_> = (0..3 * MOST_BEGUN as u64).map(|index| id(1, index)).collect();
    assert_eq!(starts(&rig.assign(small("eve"), &many)), many[..MOST_BEGUN]);
    let others: Vec<_> = (0..2 * u64::from(MAX_OVERTAKEN)).map(|index| id(2, index)).collect();
    for other in others {
        assert_eq!(starts(&rig.assign(small("bob"), &[other])), [other]);
        rig.input(Input::ProcessStarted { id: other });
    }
    let began = starts(&rig.input(Input::ProcessStarted { id: many[0] }));
    assert_eq!(began, [many[MOST_BEGUN]], "one runs, one may begin");
    let message = "no such file".to_string();
    let failed = Input::ProcessNotStarted { id: many[1], message };
    assert_eq!(starts(&rig.input(failed)), [many[MOST_BEGUN + 1]], "the same when it cannot run");
}

#[test]
fn a_task_too_large_for_the_node_ends_at_once_and_says_why() {
    let mut rig = Rig::up(None);
    assert_eq!(rig.assign(template(5), &[id(1, 0)]), []);
    let message = "it needs more than this node has".to_string();
    assert_eq!(rig.outcomes(), [(id(1, 0), Outcome::NotStarted { message })]);
}

#[test]
fn named_things_are_counted_too() {
    let mut rig = Rig::up(None);
    let mut wants = template(1);
    wants.need.named.insert("licence".into(), 1);
    assert_eq!(rig.assign(wants, &[id(1, 0)]), []);
    assert!(matches!(rig.outcomes()[0].1, Outcome::NotStarted { .. }));
}

#[test]
fn a_task_without_a_template_is_asked_for_again() {
    let mut rig = Rig::up(None);
    rig.run(template(1), id(1, 0));
    let bare = Assign { tasks: vec![task(id(1, 1))], ..Assign::default() };
    assert_eq!(rig.say(FromServer::Assign(bare)), [Output::Reconnect]);
    let held: Vec<_> = rig.link_up().held.iter().map(|held| held.id).collect();
    assert_eq!(held, [id(1, 0)], "it is missing, so the server will send it again");
}

#[test]
fn a_task_that_is_not_understood_ends_and_says_so_and_others_start() {
    let mut rig = Rig::up(None);
    let unreadable = BTreeMap::from([(JobId(2), BadMessage::Unknown("network"))]);
    let templates = BTreeMap::from([(JobId(1), template(1))]);
    let tasks = vec![task(id(2, 0)), task(id(1, 0))];
    let out = rig.say(FromServer::Assign(Assign { templates, unreadable, tasks }));
    assert_eq!(starts(&out), [id(1, 0)]);
    let [(ended, Outcome::NotStarted { message })] = &rig.outcomes()[..] else { panic!() };
    assert!(*ended == id(2, 0) && message.contains("network"), "{ended} {message}");
}

#[test]
fn a_program_that_cannot_start_ends_and_frees_its_room() {
    let mut rig = Rig::up(None);
    assert_eq!(rig.assign(template(4), &[id(1, 0), id(1, 1)]).len(), 1);
    let message = "no such file".to_string();
    let out = rig.input(Input::ProcessNotStarted { id: id(1, 0), message: message.clone() });
    assert_eq!(starts(&out), [id(1, 1)]);
    let (_, ended) = rig.report().ended.remove(0);
    assert_eq!(ended.started, None, "it never started");
    assert_eq!(ended.outcome, Outcome::NotStarted { message });
}

#[test]
fn a_task_that_its_node_has_no_room_for_did_nothing_wrong() {
    let mut rig = Rig::up(None);
    rig.run(template(1), id(1, 0));
    rig.input(Input::NoRoom { id: id(1, 0) });
    let lost = Outcome::Lost { why: shipway_model::Lost::NoRoom };
    assert_eq!(rig.outcomes(), [(id(1, 0), lost)]);
}
