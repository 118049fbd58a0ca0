//! A node that is only lent: idle for too long, near its end, taken back.

use super::super::leaving::LAST_WORDS;
use super::*;

const GRACE: Millis = Millis(20_000);
const TAKEN: Outcome = Outcome::Lost { why: Lost::SiteTookBack };

/// Not yet connected.
fn lent(idle: Option<u64>, ends: Option<u64>) -> Rig {
    let mut rig = Rig::new(None);
    let lent = Lent { idle: idle.map(Millis), ends: ends.map(Millis) };
    rig.machine = std::mem::replace(&mut rig.machine, Rig::new(None).machine).lent(lent);
    rig
}

fn leaving() -> Output {
    Output::Send(FromPilot::Leaving)
}

fn goodbye() -> Output {
    Output::Send(FromPilot::Goodbye)
}

/// Whether it leaves when it is looked at then, with whatever else it says.
fn leaves(rig: &mut Rig, at: u64) -> bool {
    rig.tick(at).contains(&leaving())
}

#[test]
fn idle_time_counts_from_the_welcome_and_from_the_last_end() {
    // Each story connects at 1,000 and is idle for 4,000 at most; when does it leave?
    type Story = fn(&mut Rig);
    let stories: [(&str, Story, u64); 5] = [
        ("nothing comes", |_| {}, 5_000),
        ("a task ends at 3,000", |rig| one_task(rig, 3_000), 7_000),
        ("two tasks, the later ends at 3,500", two_tasks, 7_500),
        ("one is cancelled in the queue at 2,000", cancelled, 6_000),
        ("the connection is lost, and is back at 4,000", reconnected, 8_000),
    ];
    for (what, story, leaves_at) in stories {
        let mut rig = lent(Some(4_000), None);
        rig.connect();
        story(&mut rig);
        let woken = rig.machine.next_deadline().unwrap();
        assert!(woken <= Millis(leaves_at), "{what}");
        assert!(!leaves(&mut rig, leaves_at - 1), "{what}");
        assert!(leaves(&mut rig, leaves_at), "{what}");
        assert_eq!(rig.flush(), [goodbye()], "{what}");
        let connection = rig.machine.connection_number();
        let heard = rig.input(Input::LinkDown { connection, parted: true });
        assert_eq!(heard, [Output::Finished], "{what}");
    }
}

fn one_task(rig: &mut Rig, ends: u64) {
    rig.run(template(1), id(1, 0));
    rig.now = ends;
    rig.ended(id(1, 0), HowEnded::Exit(0));
    let number = rig.report().number;
    // When the server has it says nothing about when it ended.
    rig.now += 300;
    rig.ack(number);
}

fn two_tasks(rig: &mut Rig) {
    rig.run(template(1), id(2, 0));
    one_task(rig, 3_000);
    rig.now = 3_500;
    rig.ended(id(2, 0), HowEnded::Exit(1));
    let number = rig.report().number;
    rig.ack(number);
}

fn cancelled(rig: &mut Rig) {
    rig.assign(template(4), &[id(1, 0)]);
    rig.now = 2_000;
    rig.stop(&[id(1, 0)]);
    rig.input(Input::ProcessNotStarted { id: id(1, 0), message: String::new() });
    let number = rig.report().number;
    rig.ack(number);
}

fn reconnected(rig: &mut Rig) {
    rig.cut();
    assert!(!leaves(rig, 3_900), "nobody could have given it anything");
    rig.now = 4_000;
    rig.connect();
}

#[test]
fn who_holds_something_is_not_idle() {
    let mut rig = lent(Some(4_000), None);
    rig.connect();
    rig.run(template(1), id(1, 0));
    assert!(!leaves(&mut rig, 5_900), "it runs");
    rig.ended(id(1, 0), HowEnded::Exit(0));
    let number = rig.report().number;
    assert!(!leaves(&mut rig, 9_900 - 1), "its end is not on the server's disk");
    rig.ack(number);
    assert!(leaves(&mut rig, 9_900));
}

#[test]
fn without_a_limit_nobody_leaves() {
    let mut rig = lent(None, None);
    rig.connect();
    assert!(!leaves(&mut rig, 10_000_000));
}

#[test]
fn in_the_last_minute_nothing_more_is_taken_and_what_runs_goes_on() {
    let mut rig = lent(None, Some(63_000));
    rig.connect();
    rig.run(template(1), id(1, 0));
    assert_eq!(rig.machine.next_deadline(), Some(Millis(3_000)));
    assert_eq!(rig.tick(2_999), []);
    assert_eq!(rig.tick(3_000), [leaving()]);
    assert_eq!(rig.assign(template(1), &[id(2, 0)]), []);
    assert_eq!(rig.held(), [id(1, 0)]);
    assert!(rig.machine.next_deadline() > Some(Millis(3_000)), "it does not look again and again");
    let out = rig.tick(5_000);
    assert_eq!(out, [], "once");
    rig.ended(id(1, 0), HowEnded::Exit(0));
    let number = rig.report().number;
    rig.ack(number);
    assert_eq!(rig.flush(), [goodbye()]);
}

#[test]
fn an_allocation_of_less_than_a_minute_takes_nothing() {
    let mut rig = lent(None, Some(30_000));
    rig.link_up();
    assert_eq!(rig.tick(1_000), [], "nobody hears it yet");
    assert_eq!(rig.say(welcome()), [leaving()]);
}

#[test]
fn what_a_site_takes_back_is_asked_to_end_then_killed_and_told_before_the_goodbye() {
    let mut rig = Rig::up(None);
    rig.run(template(1), id(1, 0));
    rig.run(template(1), id(1, 1));
    assert_eq!(rig.assign(template(2), &[id(1, 2)]).len(), 1, "starting");
    assert_eq!(rig.assign(template(2), &[id(1, 3)]), [], "queued");
    let back = Input::TakenBack { grace: GRACE };
    let asked = [leaving(), signal(id(1, 0), SIGTERM), signal(id(1, 1), SIGTERM)];
    assert_eq!(rig.input(back.clone()), asked);
    assert!(rig.machine.is_ending(id(1, 2)), "whatever it waits for is given up");
    assert_eq!(rig.held(), [id(1, 0), id(1, 1), id(1, 2)], "what was never started is let go");
    assert_eq!(rig.input(back), [], "once");
    rig.now += 1_000;
    rig.ended(id(1, 0), HowEnded::Signal(SIGTERM));
    rig.ended(id(1, 1), HowEnded::Exit(0));
    assert_eq!(rig.input(Input::ProcessStarted { id: id(1, 2) }), [signal(id(1, 2), SIGTERM)]);
    let told = rig.report();
    let ends: Vec<_> = told.ended.iter().map(|(id, end)| (*id, end.outcome.clone())).collect();
    let done = Outcome::Exit { code: 0 };
    assert_eq!(ends, [(id(1, 0), TAKEN), (id(1, 1), done)], "what is done is done");
    assert_eq!(rig.flush(), [], "no goodbye while one lives");
    assert_eq!(rig.say(FromServer::Pong { number: 0 }), []);
    let out = rig.tick(21_000);
    assert!(out.contains(&signal(id(1, 2), SIGKILL)), "at the end of the grace: {out:?}");
    rig.link_up();
    assert_eq!(rig.say(welcome()), [leaving()], "said again after each welcome");
    rig.ended(id(1, 2), HowEnded::Signal(SIGKILL));
    let told = rig.report();
    assert_eq!(told.ended[0].1.outcome, TAKEN);
    rig.ack(told.number);
    assert_eq!(rig.flush(), [goodbye()]);
}

#[test]
fn an_end_that_cannot_be_told_does_not_hold_a_node_that_is_taken_back() {
    let mut rig = Rig::up(None);
    rig.run(template(1), id(1, 0));
    rig.cut();
    assert_eq!(rig.input(Input::TakenBack { grace: GRACE }), [signal(id(1, 0), SIGTERM)]);
    rig.ended(id(1, 0), HowEnded::Signal(SIGTERM));
    let by = 1_000 + GRACE.0 + LAST_WORDS.0;
    assert_eq!(rig.machine.next_deadline(), Some(Millis(by)));
    assert_eq!(rig.tick(by - 1), []);
    assert_eq!(rig.tick(by), [Output::Finished]);
    assert_eq!(rig.kept, [id(1, 0)], "the next pilot of the folder tells it");
    assert_eq!(rig.machine.next_deadline(), None);
}

/// How ends are read when several want them: the server's stop, the site, both.
#[test]
fn a_cancelled_task_is_cancelled_whoever_takes_its_node() {
    // The grace of a stop is 10 s, that of the site 20 s: the earlier kill counts.
    for (acts, kill_at, expected) in [
        (&["stop"][..], 11_000, Outcome::Cancelled),
        (&["back"], 21_000, TAKEN),
        (&["stop", "back"], 11_000, Outcome::Cancelled),
        (&["back", "stop"], 11_000, Outcome::Cancelled),
    ] {
        let mut rig = Rig::up(None);
        rig.run(template(1), id(1, 0));
        for act in acts {
            match *act {
                "stop" => drop(rig.stop(&[id(1, 0)])),
                _ => drop(rig.input(Input::TakenBack { grace: GRACE })),
            }
        }
        let kill = signal(id(1, 0), SIGKILL);
        assert!(!rig.tick(kill_at - 1).contains(&kill), "{kill_at}");
        assert!(rig.tick(kill_at).contains(&kill), "{kill_at}");
        rig.ended(id(1, 0), HowEnded::Signal(SIGKILL));
        let end = rig.machine.end_of(id(1, 0)).unwrap();
        assert_eq!(end.end().unwrap().outcome, expected);
    }
}

#[test]
fn files_that_are_being_taken_have_until_the_grace_is_over() {
    for (problem, expected) in [(None, Outcome::Exit { code: 0 }), (Some("cut short"), TAKEN)] {
        let mut rig = Rig::up(None);
        rig.run(Template { files: Some(Files::default()), ..template(1) }, id(1, 0));
        assert_eq!(rig.ended(id(1, 0), HowEnded::Exit(0)).len(), 1, "collected now");
        assert_eq!(rig.input(Input::TakenBack { grace: GRACE }), [leaving()]);
        assert!(rig.tick(21_000).contains(&signal(id(1, 0), SIGKILL)));
        let problem = problem.map(str::to_owned);
        rig.input(Input::Collected { id: id(1, 0), problem });
        let end = rig.machine.end_of(id(1, 0)).unwrap();
        assert_eq!(end.end().unwrap().outcome, expected);
    }
}
