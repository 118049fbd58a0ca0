//! A pilot's token is good for that pilot. Others are played by hand, each with a token that is
//! good, and try to be more than themselves.

use super::act;
use super::common::{World, is_alive, own_account, terminate, wait_for, wait_some};
use super::hand::{Credentials, Hand, ended, report};
use prost::Message;
use shipway_api::link::{FromPilot, FromServer, Hello, LogChunk};
use shipway_api::wire;
use shipway_model::{ConnectionNumber, Held, Outcome, PilotId};
use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;
use tonic::Code;

const OK: Outcome = Outcome::Exit { code: 0 };

/// The number of a process's connection, counted from 1.
fn numbered(process: u64, count: u64) -> ConnectionNumber {
    ConnectionNumber(ConnectionNumber::before_first(process).0 + count)
}

/// Why a greeting was refused.
fn refused(world: &World, token: &str, hello: Hello) -> Code {
    match Hand::attach(world, token, hello) {
        Ok(_) => panic!("it was let in"),
        Err(status) => status.code(),
    }
}

/// A job on the pilot of this machine that runs until the file `go` is there.
fn running(world: &World) -> (String, u32) {
    let script = "echo $$ > pid; echo first; until [ -e go ]; do sleep 0.02; done; echo second";
    let job = world.submit(&["--cpus", "0.01", "--", "sh", "-c", script]);
    let pid = world.work().join("pid");
    let pid = wait_some("it runs", || std::fs::read_to_string(&pid).ok()?.trim().parse().ok());
    wait_for("the server knows", || state(world, &job) == "running");
    (job, pid)
}

fn state(world: &World, job: &str) -> String {
    let shown = world.json(&["show", &format!("{job}/0")]);
    shown["task"]["state"].as_str().expect("a state").to_owned()
}

fn pilots(world: &World) -> Vec<String> {
    let nodes = world.json(&["nodes"])["nodes"].clone();
    let id = |node: &serde_json::Value| node["pilot"].as_str().expect("text").to_owned();
    nodes.as_array().expect("nodes").iter().map(id).collect()
}

/// The pilot of this machine, once it is there.
fn own_pilot(world: &World) -> String {
    wait_some("the pilot is there", || {
        pilots(world).into_iter().find(|id| id.starts_with("local-"))
    })
}

#[test]
fn nobody_ends_another_pilot_or_speaks_for_its_tasks() {
    let world = World::started();
    let (job, pid) = running(&world);
    let number: u64 = job.parse().expect("a number");
    let other = Credentials::new(&world, &[]);
    let mut hello = other.hello("elsewhere", numbered(1, 1));
    let own = own_pilot(&world);
    let of = Some(PilotId::new(&own).expect("good"));
    hello.held = vec![ended(number, 0, OK), Held { of, ..ended(number, 0, OK) }];
    let mut hand = Hand::attach(&world, &other.token, hello).expect("its own token is good");
    hand.say(report(ended(number, 0, OK)));
    let heard = hand.hear_all().expect("still connected");
    let said = format!("{heard:?}");
    assert!(!said.contains("Assign"), "it gets nothing of another's: {said}");
    assert_eq!((state(&world, &job).as_str(), is_alive(pid)), ("running", true));

    let pilot = PilotId::new(&own).expect("good");
    let stranger = Hello { pilot, ..other.hello("elsewhere", ConnectionNumber::before_first(9)) };
    assert_eq!(refused(&world, &other.token, stranger), Code::PermissionDenied);
    hand.say(FromPilot::Goodbye);
    wait_for("the server has hung up", || !hand.is_connected());
    assert_eq!(own_pilot(&world), own, "its goodbye was its own");
    std::fs::write(world.work().join("go"), "").expect("written");
    assert_eq!(world.cli(&["wait", &job]).code, 0);
    let shown = world.json(&["show", &format!("{job}/0")]);
    assert_eq!(shown["task"]["attempt"], 1, "it ran once: {shown:#}");
}

/// The field by which pilots once named those that they had found dead.
fn with_succeeds(hello: Hello, pilot: &str) -> Vec<u8> {
    let mut message = wire::ToServer::from(FromPilot::Hello(Box::new(hello))).encode_to_vec();
    let length = |size: usize| u8::try_from(size).expect("short");
    // A second part of the greeting, which is read as one with the first: field 8, a text.
    message.extend([0x0a, length(pilot.len() + 2), 0x42, length(pilot.len())]);
    message.extend(pilot.as_bytes());
    let size = u32::try_from(message.len()).expect("short").to_be_bytes();
    [&[0][..], &size, &message].concat()
}

#[test]
fn a_greeting_of_an_earlier_version_declares_nobody_dead() {
    let world = World::started();
    let (job, pid) = running(&world);
    let (own, other) = (own_pilot(&world), Credentials::new(&world, &[]));
    let greeting = world.work().join("greeting");
    let hello = other.hello("elsewhere", numbered(1, 1));
    std::fs::write(&greeting, with_succeeds(hello, &own)).expect("written");
    let curl = std::process::Command::new("curl")
        .args(["--silent", "--http2-prior-knowledge", "--output", "/dev/null"])
        .args(["--header", "content-type: application/grpc", "--header", "te: trailers"])
        .args(["--header", &format!("authorization: Bearer {}", other.token)])
        .args(["--data-binary", &format!("@{}", greeting.display())])
        .arg(format!("{}/shipway.pilot.v1.Link/Attach", world.url()))
        .status();
    assert!(curl.expect("curl").success());
    wait_for("it was heard", || pilots(&world).contains(&other.pilot));
    assert_eq!((own_pilot(&world), state(&world, &job).as_str()), (own, "running"));
    assert!(is_alive(pid));
    std::fs::write(world.work().join("go"), "").expect("written");
    assert_eq!(world.cli(&["wait", &job]).code, 0);
    let shown = world.json(&["show", &format!("{job}/0")]);
    assert_eq!(shown["task"]["attempt"], 1, "it ran once: {shown:#}");
}

#[test]
fn output_is_taken_only_from_the_pilot_that_was_asked() {
    let world = World::started();
    let (job, _) = running(&world);
    let mut follow = world.command(&["logs", "-f", &job]);
    let mut follow = follow.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("started");
    let mut printed = BufReader::new(follow.stdout.take().expect("piped"));
    let mut text = String::new();
    printed.read_line(&mut text).expect("a line");
    // The next piece is asked for before this one was handed out: now somebody waits for it.
    let (other, mut refused) = (Credentials::new(&world, &[]), 0);
    for id in 0..64 {
        let connection = numbered(1, 1 + id);
        let hello = other.hello("elsewhere", connection);
        let mut hand = Hand::attach(&world, &other.token, hello).expect("let in");
        let data = b"forged\n".to_vec();
        let forged = LogChunk { id, data, end: true, ..LogChunk::default() };
        // Refused where somebody waits for it, and taken for nobody where not.
        let shown = hand.show(&other.token, connection, vec![forged]).map_err(|no| no.code());
        refused += u32::from(shown == Err(Code::PermissionDenied));
        assert!(shown.is_ok() || refused > 0, "{shown:?}");
        assert!(hand.is_connected());
    }
    assert!(refused > 0, "what the follower waits for was among them");
    std::fs::write(world.work().join("go"), "").expect("written");
    printed.read_to_string(&mut text).expect("the rest");
    assert!(follow.wait().expect("ended").success());
    assert_eq!(text, "first\nsecond\n");
}

#[test]
fn a_name_does_not_make_a_pilot_the_keeper_of_anothers_output() {
    let world = World::new();
    world.up_with(&["--no-pilot"], |_| {});
    let (first, second) = (Credentials::new(&world, &[]), Credentials::new(&world, &[]));
    let hello = first.hello("node-1", numbered(1, 1));
    let mut hand = Hand::attach(&world, &first.token, hello).expect("let in");
    let job = world.submit(&["--", "true"]);
    wait_for("it is placed", || format!("{:?}", hand.hear_all()).contains("Assign"));
    let number = job.parse().expect("a number");
    hand.say(report(ended(number, 0, OK)));
    assert_eq!(world.cli(&["wait", &job]).code, 0);
    drop(hand);
    wait_for("it is away", || world.json(&["nodes"])["nodes"][0]["link"] == "away");
    let hello = second.hello("node-1", numbered(1, 1));
    let mut hand = Hand::attach(&world, &second.token, hello).expect("let in");
    let ran = world.cli(&["logs", &job]);
    assert!(ran.stderr.contains("is out of touch"), "{ran:?}");
    let asked = hand.hear_all().expect("connected");
    assert!(!asked.iter().any(|body| matches!(body, FromServer::Log(_))), "{asked:?}");
    // Whoever has the folder is asked.
    let (third, connection) = (Credentials::new(&world, &[]), numbered(1, 1));
    let mut hello = third.hello("node-2", connection);
    hello.folder_key = first.hello("node-1", numbered(1, 0)).folder_key;
    let mut heir = Hand::attach(&world, &third.token, hello).expect("let in");
    let mut command = world.command(&["logs", "--stdout", &job]);
    let mut reading = command.stdout(Stdio::null()).spawn().expect("started");
    let request = wait_some("it is asked", || match heir.hear() {
        Some(FromServer::Log(request)) => Some(request),
        _ => None,
    });
    let end = LogChunk { id: request.id, end: true, ..LogChunk::default() };
    heir.show(&third.token, connection, vec![end]).expect("it was asked");
    assert!(reading.wait().expect("ended").success());
}

#[test]
fn a_logs_call_is_good_for_one_connection_of_one_pilot() {
    let world = World::new();
    world.up_with(&["--no-pilot"], |_| {});
    let (one, other) = (Credentials::new(&world, &[]), Credentials::new(&world, &[]));
    let first =
        Hand::attach(&world, &one.token, one.hello("node-1", numbered(1, 1))).expect("let in");
    let piece = || vec![LogChunk::default()];
    let shown = |token: &str, number| {
        first.show(token, numbered(1, number), piece()).map_err(|refused| refused.code())
    };
    assert_eq!(shown(&one.token, 1), Ok(()));
    assert_eq!(shown(&one.token, 2), Err(Code::FailedPrecondition), "none that is yet to come");
    assert_eq!(shown(&other.token, 1), Err(Code::FailedPrecondition), "nor another's");
    assert_eq!(shown("no token", 1), Err(Code::Unauthenticated));
    let large = LogChunk { data: vec![7; 1 << 20], ..LogChunk::default() };
    let refused = first.show(&one.token, numbered(1, 1), vec![large]).expect_err("too large");
    assert_eq!(refused.code(), Code::OutOfRange, "{refused}");
    let second = Hand::attach(&world, &one.token, one.hello("node-1", numbered(1, 2)));
    let second = second.expect("let in");
    assert_eq!(shown(&one.token, 1), Err(Code::FailedPrecondition), "nor one that is over");
    assert_eq!(shown(&one.token, 2), Ok(()));
    drop(second);
}

#[test]
fn a_token_opens_one_connection_for_one_folder() {
    let world = World::new();
    world.up_with(&["--no-pilot"], |_| {});
    let owner = Credentials::new(&world, &[]);
    let hello = |count| owner.hello("node", numbered(5, count));
    let mut first = Hand::attach(&world, &owner.token, hello(2)).expect("let in");

    let mut copied = owner.hello("node", numbered(6, 1));
    copied.folder_key = "key of another".into();
    assert_eq!(refused(&world, &owner.token, copied.clone()), Code::FailedPrecondition);
    copied.folder_key = String::new();
    assert_eq!(refused(&world, &owner.token, copied), Code::FailedPrecondition);
    for late in [1, 2] {
        assert_eq!(refused(&world, &owner.token, hello(late)), Code::FailedPrecondition);
    }
    let endless = Hello { lease: None, ..hello(3) };
    assert_eq!(refused(&world, &owner.token, endless), Code::InvalidArgument, "no lease");
    assert!(first.is_connected(), "nobody has replaced it");

    let mut again = Hand::attach(&world, &owner.token, hello(3)).expect("its own next one");
    assert!(again.is_connected());
    assert!(!first.is_connected(), "which takes the place of the one before");
}

#[test]
fn tokens_of_pilots_are_listed_revoked_and_end() {
    let world = World::started();
    let owner = Credentials::new(&world, &[]);
    let listed = |pilot: &str| world.ok(&["token", "list"]).contains(pilot);
    assert!(listed(&owner.pilot) && listed(&own_pilot(&world)));
    let alice = super::person(&world, "alice", "operator");
    assert!(!act(&world, &alice, &["token", "list"]).stdout.contains(&owner.pilot));
    assert_eq!(act(&world, &alice, &["token", "revoke", &owner.pilot]).code, 3);
    let hello = |it: &Credentials| it.hello("node", numbered(1, 1));
    assert_eq!(refused(&world, &alice, hello(&owner)), Code::Unauthenticated, "a person's");
    assert_eq!(refused(&world, &world.token(), hello(&owner)), Code::Unauthenticated);

    let mut hand = Hand::attach(&world, &owner.token, hello(&owner)).expect("let in");
    world.ok(&["token", "revoke", &owner.pilot]);
    assert!(hand.hear().is_none(), "the open connection is closed at once");
    assert_eq!(refused(&world, &owner.token, hello(&owner)), Code::Unauthenticated);
    assert!(!listed(&owner.pilot));

    let leaver = Credentials::new(&world, &[]);
    let mut hand = Hand::attach(&world, &leaver.token, hello(&leaver)).expect("let in");
    hand.say(FromPilot::Goodbye);
    assert!(hand.hear().is_none());
    assert_eq!(refused(&world, &leaver.token, hello(&leaver)), Code::Unauthenticated);

    let short = Credentials::new(&world, &["--lasts", "2s"]);
    let attached = Hand::attach(&world, &short.token, hello(&short));
    if let Ok(mut hand) = attached {
        assert!(hand.hear().is_none(), "closed when its time is over");
    }
    wait_for("it is gone", || !listed(&short.pilot));
    world.kill_server();
    world.up();
    for ended in [&owner, &leaver, &short] {
        assert_eq!(refused(&world, &ended.token, hello(ended)), Code::Unauthenticated);
    }
}

#[test]
fn a_pilot_whose_token_is_revoked_ends_and_this_machine_gets_another() {
    let world = World::started();
    let (before, process) = (own_pilot(&world), world.pilot_pid());
    world.ok(&["token", "revoke", &before]);
    wait_for("it has ended", || !is_alive(process));
    assert_eq!(world.ok(&["run", "--", "echo", "hello"]), "hello\n");
    assert_ne!(own_pilot(&world), before);

    let file = world.work().join("pilot.json");
    std::fs::write(&file, world.ok(&["token", "pilot", "--json"])).expect("written");
    let credentials = world.json(&["token", "list"])["pilots"].clone();
    let handed = credentials.as_array().expect("pilots").iter();
    let handed = handed.filter(|token| token["this_machine"] == false).collect::<Vec<_>>();
    let id = handed[0]["pilot"].as_str().expect("an id").to_owned();
    let dir = world.work().join("node");
    let words = ["pilot", "--dir", dir.to_str().expect("text"), "--server", &world.url()];
    let mut command = world.command(&words);
    command.arg("--token-file").arg(&file).stdin(Stdio::null()).stderr(Stdio::piped());
    let mut pilot = command.spawn().expect("started");
    wait_for("it is there", || pilots(&world).contains(&id));
    world.ok(&["token", "revoke", &id]);
    let status = wait_some("it ends", || pilot.try_wait().expect("a child"));
    let mut said = String::new();
    pilot.stderr.take().expect("piped").read_to_string(&mut said).expect("text");
    assert!(!status.success() && said.contains("token has ended or was revoked"), "{said}");
}

/// What it missed is ordered while its greeting is written down, and said after the answer to it.
#[test]
fn a_pilot_is_welcomed_before_it_gets_work() {
    let world = World::new();
    world.up_with(&["--no-pilot"], |_| {});
    let owner = Credentials::new(&world, &[]);
    let greet = |count| {
        let hello = owner.hello("node", numbered(1, count));
        Hand::attach(&world, &owner.token, hello).expect("let in")
    };
    let mut first = greet(1);
    world.submit(&["--", "true"]);
    wait_for("it is placed", || format!("{:?}", first.hear_all()).contains("Assign"));
    // It holds nothing of it. That the welcome comes first is seen where it attaches.
    let heard = greet(2).hear_all();
    assert!(matches!(heard.as_deref(), Some([FromServer::Assign(_)])), "{heard:?}");
}

/// A pilot of this host, in a folder of its own.
fn another_pilot(world: &World, name: &str) -> std::process::Child {
    let (dir, file) = (world.work().join(name), world.work().join(format!("{name}.json")));
    std::fs::write(&file, world.ok(&["token", "pilot", "--json"])).expect("written");
    let words = ["pilot", "--dir", dir.to_str().expect("text"), "--server", &world.url()];
    let mut command = world.command(&words);
    command.args(["--default-image", "none"]);
    // A pilot of root's that joins a server runs nothing as root unless it is told to.
    if own_account() == "root" {
        command.args(["--accounts", "root=root"]);
    }
    command.arg("--token-file").arg(&file).stdin(Stdio::null()).stderr(Stdio::null());
    command.spawn().expect("started")
}

fn node_names(world: &World) -> Vec<String> {
    let nodes = world.json(&["nodes"])["nodes"].clone();
    let name = |node: &serde_json::Value| node["name"].as_str().expect("text").to_owned();
    let mut names: Vec<_> = nodes.as_array().expect("nodes").iter().map(name).collect();
    names.sort();
    names
}

#[test]
fn two_pilots_of_one_host_have_names_of_their_own() {
    let world = World::new();
    world.up_with(&["--no-pilot"], |_| {});
    let mut first = another_pilot(&world, "one");
    let host = wait_some("the first is there", || node_names(&world).pop());
    let mut second = another_pilot(&world, "two");
    let both = [host.clone(), format!("{host}#2")];
    wait_for("the second is there", || node_names(&world) == both);
    let table = world.ok(&["nodes"]);
    assert!(both.iter().all(|name| table.contains(name.as_str())), "{table}");
    for name in &both {
        let requirements = format!("Machine == \"{host}\" && Name == \"{name}\"");
        let job = world.submit(&["--requirements", &requirements, "--", "true"]);
        let ended = world.cli(&["wait", &job]).code;
        assert_eq!(ended, 0, "{}", world.ok(&["show", &format!("{job}/0")]));
        let shown = world.json(&["show", &format!("{job}/0")]);
        assert_eq!(shown["task"]["attempts"][0]["node"], **name, "{shown:#}");
    }
    // The names are in the journal.
    world.kill_server();
    world.up_with(&["--no-pilot"], |_| {});
    assert_eq!(node_names(&world), both);
    for pilot in [&mut first, &mut second] {
        terminate(pilot.id());
        pilot.wait().expect("a child");
    }
}

/// Its last word is heard before it ends, so that the node is not waited for.
#[test]
fn a_pilot_that_is_asked_to_end_is_gone_from_the_list_when_it_has() {
    let world = World::new();
    world.up_with(&["--no-pilot"], |_| {});
    let dir = world.work().join("node");
    let words = ["pilot", "--dir", dir.to_str().expect("text"), "--server", &world.url()];
    for _ in 0..5 {
        let file = world.work().join("pilot.json");
        std::fs::write(&file, world.ok(&["token", "pilot", "--json"])).expect("written");
        let mut command = world.command(&words);
        command.arg("--token-file").arg(&file).stdin(Stdio::null()).stderr(Stdio::null());
        let mut pilot = command.spawn().expect("started");
        wait_for("it is there", || !pilots(&world).is_empty());
        let pid = rustix::process::Pid::from_child(&pilot);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("signalled");
        assert!(pilot.wait().expect("a child").success());
        assert_eq!(pilots(&world), Vec::<String>::new(), "its goodbye was lost");
    }
}
