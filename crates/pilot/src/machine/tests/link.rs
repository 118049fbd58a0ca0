//! Connections: greetings, acknowledgements, heartbeats, the goodbye.

use super::*;
use shipway_api::link::LogRequest;
use shipway_model::ConnectionNumber;

#[test]
fn the_hello_tells_who_speaks_and_everything_held() {
    let mut rig = Rig::up(Some(60_000));
    rig.run(template(2), id(1, 0));
    rig.assign(template(2), &[id(1, 1), id(1, 2)]);
    rig.ended(id(1, 0), HowEnded::Exit(0));
    rig.cut();
    let hello = rig.link_up();
    let lease = Some(Millis(60_000));
    assert_eq!((hello.pilot.as_str(), hello.connection.0, hello.lease), ("p1", 2, lease));
    assert_eq!(hello.folder_key, "key");
    let phases: Vec<_> = hello.held.into_iter().map(|held| held.phase).collect();
    assert!(matches!(phases[0], HeldPhase::Ended(_)));
    assert_eq!(phases[1..], [HeldPhase::Queued, HeldPhase::Queued]);
}

#[test]
fn what_an_earlier_pilot_left_word_of_is_told_until_the_server_has_it() {
    let mut rig = Rig::new(None);
    let outcome = Outcome::Exit { code: 0 };
    let end = Ended { outcome, started: None, ended: Timestamp(9), ran: Millis(0) };
    let earlier = Some(PilotId::new("earlier").unwrap());
    let own = attempt::Held::own(id(7, 1), HeldPhase::Ended(end));
    let end = attempt::Held { of: earlier, ..own };
    rig.machine =
        std::mem::replace(&mut rig.machine, Rig::new(None).machine).with_left(vec![end.clone()]);
    for _ in 0..2 {
        assert_eq!(rig.link_up().held, std::slice::from_ref(&end));
        rig.cut();
    }
    assert_eq!(rig.machine.ends().count(), 1);
    rig.connect();
    assert_eq!(rig.machine.ends().count(), 0, "it is on the server's disk");
    rig.cut();
    assert!(rig.link_up().held.is_empty());
}

#[test]
fn what_an_older_connection_said_is_not_heard() {
    let mut rig = Rig::up(None);
    rig.cut();
    rig.connect();
    let late = assignment(template(1), &[id(1, 0)]);
    assert_eq!(rig.input(Input::Message { connection: ConnectionNumber(1), message: late }), []);
    assert_eq!(rig.input(Input::LinkDown { connection: ConnectionNumber(1), parted: true }), []);
    assert!(rig.machine.is_welcome(), "the end of the old one is not the end of the new one");
}

#[test]
fn an_end_is_held_until_its_report_is_acknowledged() {
    let mut rig = Rig::up(None);
    rig.run(template(1), id(1, 0));
    rig.run(template(1), id(1, 1));
    rig.ended(id(1, 0), HowEnded::Exit(0));
    assert_eq!(rig.report().number, 3);
    rig.ended(id(1, 1), HowEnded::Exit(0));
    assert_eq!(rig.report().number, 4);
    rig.ack(2);
    assert_eq!(rig.held(), [id(1, 0), id(1, 1)]);
    rig.ack(3);
    assert_eq!(rig.held(), [id(1, 1)]);
    rig.ack(4);
    assert_eq!(rig.held(), []);
    assert_eq!(rig.flush(), []);
}

#[test]
fn an_acknowledgement_of_an_older_connection_releases_nothing() {
    let mut rig = Rig::up(None);
    rig.run(template(1), id(1, 0));
    rig.ended(id(1, 0), HowEnded::Exit(0));
    rig.report();
    rig.cut();
    let hello = rig.link_up();
    assert_eq!(hello.held.len(), 1);
    rig.ack(9);
    assert_eq!(rig.held(), [id(1, 0)]);
    rig.say(welcome());
    assert_eq!(rig.held(), [], "the welcome says that the hello is on disk");
}

#[test]
fn what_ends_between_hello_and_welcome_is_reported_after_it() {
    let mut rig = Rig::up(None);
    rig.run(template(1), id(1, 0));
    rig.cut();
    rig.link_up();
    rig.ended(id(1, 0), HowEnded::Exit(0));
    assert_eq!(rig.flush(), [], "not before the welcome");
    rig.say(welcome());
    assert_eq!(rig.held(), [id(1, 0)], "the hello told of it as running");
    assert_eq!(rig.outcomes(), [(id(1, 0), Outcome::Exit { code: 0 })]);
}

#[test]
fn a_connection_without_answers_is_given_up() {
    let mut rig = Rig::up(None);
    assert_eq!(rig.machine.next_deadline(), Some(Millis(6_000)));
    assert_eq!(rig.tick(6_000), [ping(1)]);
    assert_eq!(rig.say(FromServer::Pong { number: 1 }), []);
    assert_eq!(rig.tick(11_000), [ping(2)]);
    assert_eq!(rig.tick(16_000), [ping(3)]);
    assert_eq!(rig.tick(21_000), [Output::Reconnect]);
    assert_eq!(rig.tick(30_000), [], "until the next one opens");
    rig.link_up();
    assert_eq!(rig.machine.next_deadline(), Some(Millis(45_000)));
    assert_eq!(rig.tick(45_000), [Output::Reconnect], "no welcome");
}

fn request(number: u64, index: u64) -> LogRequest {
    let (attempt, reader) = (id(1, index), String::new());
    LogRequest { id: number, attempt, stderr: false, offset: 0, follow: true, reader }
}

#[test]
fn requests_for_logs_are_passed_on() {
    let mut rig = Rig::up(None);
    let request = request(7, 1);
    assert_eq!(rig.say(FromServer::Log(request.clone())), [Output::ReadLog(request)]);
    assert_eq!(rig.say(FromServer::LogClose { id: 7 }), [Output::CloseLog { id: 7 }]);
}

/// What is not started has no output yet, which is not the end of it.
#[test]
fn whoever_follows_a_task_that_waits_is_answered_when_it_starts() {
    let mut rig = Rig::up(None);
    rig.run(template(4), id(1, 0));
    rig.assign(template(4), &[id(1, 1), id(1, 2)]);
    for (number, index) in [(7, 1), (8, 1), (9, 2)] {
        assert_eq!(rig.say(FromServer::Log(request(number, index))), []);
    }
    assert_eq!(rig.say(FromServer::LogClose { id: 8 }), []);
    let out = rig.ended(id(1, 0), HowEnded::Exit(0));
    let [Output::Start(start), Output::ReadLog(read)] = &out[..] else { panic!("{out:?}") };
    assert_eq!((start.id, read), (id(1, 1), &request(7, 1)));
    let out = rig.stop(&[id(1, 2)]);
    assert_eq!(out, [Output::ReadLog(request(9, 2))], "it will have none");
}

#[test]
fn a_draining_pilot_finishes_what_runs_and_says_goodbye() {
    let mut rig = Rig::up(None);
    rig.run(template(4), id(1, 0));
    rig.assign(template(4), &[id(1, 1)]);
    let leaving = FromPilot::Leaving;
    assert_eq!(rig.input(Input::Drain), [Output::Send(leaving.clone())]);
    assert_eq!(rig.assign(template(1), &[id(2, 0)]), [], "nothing new is taken");
    assert_eq!(rig.held(), [id(1, 0)], "what was never started is let go");
    assert_eq!(rig.ended(id(1, 0), HowEnded::Exit(0)), []);
    rig.report();
    assert_eq!(rig.flush(), [], "not before the end is acknowledged");
    rig.ack(2);
    let goodbye = FromPilot::Goodbye;
    assert_eq!(rig.flush(), [Output::Send(goodbye.clone())], "and waits until it is heard");
    assert_eq!(rig.flush(), [], "once");
    // It may not have been heard.
    rig.cut();
    rig.link_up();
    assert_eq!(rig.say(welcome()), [Output::Send(leaving)]);
    assert_eq!(rig.flush(), [Output::Send(goodbye)], "so it is said again");
    let connection = rig.machine.connection_number();
    assert_eq!(rig.input(Input::LinkDown { connection, parted: true }), [Output::Finished]);
}

#[test]
fn whoever_has_not_said_goodbye_does_not_end_with_the_connection() {
    let mut rig = Rig::up(None);
    let connection = rig.machine.connection_number();
    rig.input(Input::Drain);
    assert_eq!(rig.input(Input::LinkDown { connection, parted: true }), []);
}

#[test]
fn a_proof_that_changes_the_ad_is_told_over_the_same_connection() {
    let mut rig = Rig::up(None);
    let mut ad = rig.machine.identity.ad.clone();
    let mut prove = |rig: &mut Rig, note: &str| {
        ad.notes.push(note.into());
        let told = Output::Send(FromPilot::Ad(Box::new(ad.clone())));
        (rig.input(Input::Proven { ad: Box::new(ad.clone()) }), told, ad.clone())
    };
    let (out, told, _) = prove(&mut rig, "GPU 0 failed its proof");
    assert_eq!(out, [told]);
    rig.cut();
    let (out, _, ad) = prove(&mut rig, "GPU 1 too");
    assert_eq!(out, [], "no connection: the next greeting says it anyway");
    assert_eq!(rig.link_up().ad, ad);
    let (out, told, _) = prove(&mut rig, "GPU 2 too");
    assert_eq!(out, [], "the server does not know the node yet");
    assert_eq!(rig.say(welcome()), [told]);
}
