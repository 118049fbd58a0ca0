//! Slurm by its own slurmrestd, a real one: with tokens by TCP, and by a socket that says who asks.

use crate::engine::{Engine, until};
use crate::pilot::{Stand, seen_as};
use crate::{ended, gpus};
use shipway_model::{Bytes, Millis};
use shipway_sites::batch::{
    AllocationEnd, BatchSystem, EngineError, EngineId, EngineTrouble, Naming, SeenPhase,
};
use shipway_sites::slurm::COMMAND_LIMIT;
use shipway_sites::slurm::rest::{Address, Rest};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

/// The account that jobs are of: the socket's, and that of the tokens.
const USER: &str = "daemon";

fn url(engine: &Engine) -> String {
    let url = std::fs::read_to_string(engine.dir().join("rest/url")).expect("written");
    url.trim().to_owned()
}

fn reached(url: &str, token: Option<PathBuf>, server: &str) -> Rest {
    let address = Address { url: url.into(), token, user: USER.into(), version: None };
    Rest::new(address, Naming { whose: server.into() }, COMMAND_LIMIT)
}

/// As `scontrol token` prints it.
fn write_token(engine: &Engine, name: &str, token: &str) -> PathBuf {
    let path = engine.folder().join(format!("token-{name}"));
    std::fs::write(&path, token).expect("written");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("closed");
    path
}

fn new_token(engine: &Engine) -> String {
    engine.type_in(&format!("scontrol token username={USER} lifespan=3600"))
}

fn with_token(engine: &Engine, server: &str) -> Rest {
    let token = write_token(engine, server, &new_token(engine));
    reached(&url(engine), Some(token), server)
}

#[test]
fn a_pilot_is_handed_in_watched_and_cancelled_by_a_token_and_by_a_socket() {
    let Some(engine) = Engine::with_rest() else { return };
    let socket = format!("unix:{}/rest/socket", engine.dir().display());
    let both = [("tcp", with_token(&engine, "tcp")), ("socket", reached(&socket, None, "socket"))];
    for (name, rest) in &both {
        one_life(&engine, name, rest);
        what_waits(&engine, &format!("{name}-waits"), rest);
        refusals(&Stand::for_all(&engine, &format!("{name}-refused")), rest);
        nodes(rest);
    }
    warned(&engine, &both[0].1);
    // What others handed in under our name is not ours: these are root's.
    let theirs = engine.type_in(
        "sbatch --parsable --hold --chdir=/ --output=/dev/null --job-name=shipway-tcp-x \
         --wrap true",
    );
    let all = both[0].1.look().expect("it answers");
    assert!(all.iter().all(|seen| seen.id.0 != theirs), "{all:?}");
    engine.type_in(&format!("scancel {theirs}"));
}

#[test]
fn tokens_that_are_not_taken_lost_answers_and_silence_are_the_sites_trouble() {
    let Some(engine) = Engine::with_rest() else { return };
    tokens(&engine);
    silence(&engine, &with_token(&engine, "silence"));
}

/// By a slice, as Slurm names those: a kind of GPU.
fn one_life(engine: &Engine, name: &str, rest: &Rest) {
    let stand = Stand::for_all(engine, name);
    let mut order = stand.order("a");
    (order.gpus, order.partition) = (Some(gpus("1g.10gb", 1)), Some("gpu".into()));
    order.pilot.credentials = vec!["secret-0 it's\n#SBATCH --bogus".into()];
    order.submit_lines = vec!["-C k40".into(), "--comment=two words".into()];
    let id = rest.submit(&order).expect("it takes it");
    let start = until("the pilot's start", || stand.file("none.start").or(stand.file("0.start")));
    let lines: Vec<&str> = start.lines().collect();
    assert!(lines[1].starts_with(stand.folder.join("scratch").to_str().expect("text")), "{start}");
    assert_eq!(lines[2].trim(), "700 . 600 ca.pem 600 credentials.json");
    assert_eq!(lines[3..], ["secret-0 it's", "#SBATCH --bogus"]);
    let env = stand.file("0.env").expect("written");
    let has = |line: &str| env.lines().any(|it| it.starts_with(line));
    assert!(has("CUDA_VISIBLE_DEVICES=") && has("SLURM_CPUS_ON_NODE=1"), "{env}");
    assert!(has("HOME=/") && has("PATH=/usr/local/bin:") && has("USER=daemon"), "{env}");
    for file in ["0.env", "0.processes"] {
        assert!(!stand.file(file).expect("written").contains("secret-0"), "{file}");
    }
    let seen = seen_as(rest, "a", |phase| phase == SeenPhase::Running);
    assert_eq!((&seen.id, seen.words.as_str()), (&id, "RUNNING"));
    assert_eq!((seen.nodes, seen.expected), (vec!["n3".to_string()], None));
    let job = engine.type_in(&format!("scontrol --oneliner show job {}", id.0));
    for word in ["Requeue=0", "gpu:1g.10gb:1", "MinMemoryNode=100M", "Comment=two words"] {
        assert!(job.contains(word), "{word} in {job}");
    }
    rest.cancel(std::slice::from_ref(&id)).expect("it is cancelled");
    let seen = seen_as(rest, "a", ended);
    assert_eq!(seen.phase, SeenPhase::Ended(AllocationEnd::Cancelled));
    until("the folder is removed", || stand.scratch_is_empty().then_some(()));
    assert_eq!(stand.file("0.end").as_deref(), Some("TERM\n"), "it was asked to end");
    rest.cancel(&[id, EngineId("4000000".into())]).expect("what is over is no error");
    let mut fails = stand.order("fails");
    fails.pilot.options.push("--then=fail".into());
    rest.submit(&fails).expect("it takes it");
    assert_eq!(seen_as(rest, "fails", ended).words, "FAILED (exit code 3)");
}

fn what_waits(engine: &Engine, name: &str, rest: &Rest) {
    let stand = Stand::for_all(engine, name);
    let mut first = stand.order("first");
    first.partition = Some("short".into());
    (first.wall, first.cpus) = (Millis(60_000), shipway_model::Cores::whole(16));
    let mut second = first.clone();
    second.allocation = stand.order("second").allocation;
    // It is told as an error that it was taken.
    let mut held = stand.order("held");
    held.submit_lines = vec!["--hold".into()];
    let ids = [&first, &second, &held].map(|order| rest.submit(order).expect("it takes it"));
    let waits = |name: &str, words: &str| {
        until(name, || {
            let all = rest.look().expect("it answers");
            let is_it = |seen: &_| is_called(seen, name) && seen.words.starts_with(words);
            all.into_iter().find(is_it)
        })
    };
    let seen = waits("second", "PENDING (Resources)");
    assert_eq!(seen.phase, SeenPhase::Queued);
    let expected = until("what it expects", || {
        rest.look().expect("it answers").into_iter().find(|it| is_called(it, "second"))?.expected
    });
    assert!(expected.0 > 1_700_000_000_000, "{expected:?}");
    assert_eq!(waits("held", "PENDING (JobHeldUser)").phase, SeenPhase::Held);
    rest.cancel(&ids).expect("they are cancelled");
    for name in ["first", "second", "held"] {
        let seen = seen_as(rest, name, ended);
        assert_eq!(seen.phase, SeenPhase::Ended(AllocationEnd::Cancelled), "{name}");
        let all = rest.look().expect("it answers");
        assert_eq!(all.iter().filter(|it| is_called(it, name)).count(), 1, "{name}");
    }
}

fn is_called(seen: &shipway_sites::batch::Seen, name: &str) -> bool {
    seen.allocation.as_str() == name
}

fn refusals(stand: &Stand, rest: &Rest) {
    let mut nowhere = stand.order("nowhere");
    nowhere.partition = Some("nope".into());
    let error = rest.submit(&nowhere).expect_err("no such partition");
    let words = "cannot submit to partition nope: Invalid partition name specified";
    assert_eq!(error.kind, EngineTrouble::Refused, "{error}");
    assert!(error.to_string().starts_with(words), "{error}");
    let mut much = stand.order("much");
    much.memory = Bytes(999 << 30);
    let mut unknown = stand.order("unknown");
    unknown.gpus = Some(gpus("3g.40gb", 1));
    let mut lines = stand.order("lines");
    lines.submit_lines = vec!["--exclusive".into()];
    for (order, words) in [
        (&much, "Requested node configuration is not available"),
        (&unknown, "Requested node configuration is not available"),
        (&lines, "`--exclusive` cannot be asked of slurmrestd here"),
    ] {
        let error = rest.submit(order).expect_err(words);
        assert_eq!(error.kind, EngineTrouble::Refused, "{error}");
        assert!(error.words.contains(words), "{error}");
    }
}

fn nodes(rest: &Rest) {
    let all = rest.nodes().expect("it answers");
    let of = |name: &str| {
        let is_it = |it: &&shipway_sites::batch::EngineNodes| crate::is_of(it, "gpu", name);
        all.iter().find(is_it).unwrap_or_else(|| panic!("{name} in {all:?}"))
    };
    assert_eq!((of("n1").count, of("n1").up), (2, 2));
    assert_eq!((of("n3").gpus[0].kind.as_deref(), of("n3").gpus[0].count), (Some("1g.10gb"), 2));
    assert_eq!(of("n1").longest, Some(Millis(648_000_000)));
    assert!(all.iter().any(|it| crate::is_of(it, "closed", "n4") && it.up == 0));
}

/// The engine is not asked to, since v0.0.38 cannot be: the script does it.
fn warned(engine: &Engine, rest: &Rest) {
    let stand = Stand::for_all(engine, "warned");
    let mut order = stand.order("warned");
    (order.wall, order.warning) = (Millis(60_000), Millis(45_000));
    rest.submit(&order).expect("it takes it");
    let seen = seen_as(rest, "warned", ended);
    assert_eq!(seen.phase, SeenPhase::Ended(AllocationEnd::Completed), "it ended in time");
    assert_eq!(stand.file("0.end").as_deref(), Some("TERM\n"));
}

/// Whatever is asked with a token that is not taken is the site's trouble; a new one in the same
/// file ends it.
fn tokens(engine: &Engine) {
    let good = new_token(engine);
    let file = write_token(engine, "renewed", "not.a.token");
    let rest = reached(&url(engine), Some(file.clone()), "tokens");
    let stand = Stand::for_all(engine, "tokens");
    let all = |rest: &Rest| -> [Option<EngineError>; 2] {
        [rest.look().err(), rest.submit(&stand.order("a")).map(drop).err()]
    };
    for error in all(&rest) {
        let error = error.expect("not taken");
        assert_eq!(error.kind, EngineTrouble::NotReached, "{error}");
        // 22.05 does not know why, and 24.11 does.
        let is_told = ["the token may be wrong", "Protocol authentication error"];
        assert!(is_told.iter().any(|words| error.words.contains(words)), "{error}");
        assert!(!error.to_string().contains("not.a.token"), "{error}");
    }
    let none = reached(&url(engine), None, "tokens").look().expect_err("none");
    assert_eq!(none.kind, EngineTrouble::NotReached);
    assert!(none.words.contains("Authentication failure"), "{none}");
    write_token(engine, "renewed", &good);
    let id = rest.submit(&stand.order("b")).expect("it takes it");
    assert!(rest.look().expect("it answers").iter().any(|seen| seen.id == id));
    rest.cancel(&[id]).expect("it is cancelled");
}

/// Takes questions there and brings answers back, but for those to submissions.
fn forgetful(to: &str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("bound"));
    let to = to.strip_prefix("http://").expect("an address").to_owned();
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let (asks, to) = (socket.expect("a caller"), to.clone());
            std::thread::spawn(move || forget(asks, &to));
        }
    });
    url
}

fn forget(mut asks: TcpStream, to: &str) {
    let mut answers = TcpStream::connect(to).expect("it is there");
    let mut chunk = [0; 4096];
    let count = asks.read(&mut chunk).expect("a question");
    let is_submission = chunk.starts_with(b"POST");
    answers.write_all(&chunk[..count]).expect("it listens");
    let (mut from, mut into) =
        (asks.try_clone().expect("ours"), answers.try_clone().expect("ours"));
    std::thread::spawn(move || std::io::copy(&mut from, &mut into));
    let mut said = String::new();
    while !said.contains("\"job_id\"") {
        match answers.read(&mut chunk) {
            Ok(count @ 1..) => said += &String::from_utf8_lossy(&chunk[..count]),
            _ => break,
        }
        if !is_submission && asks.write_all(said.as_bytes()).is_ok() {
            said.clear();
        }
    }
    let _ = asks.shutdown(std::net::Shutdown::Both);
}

/// What it may have taken is looked for by its name; nobody there is told apart from a refusal.
fn silence(engine: &Engine, rest: &Rest) {
    let token = write_token(engine, "lost", &new_token(engine));
    let stand = Stand::for_all(engine, "lost");
    let lossy = reached(&forgetful(&url(engine)), Some(token), "lost");
    let error = lossy.submit(&stand.order("a")).expect_err("its answer is lost");
    assert_eq!(error.kind, EngineTrouble::NotReached, "{error}");
    assert!(error.act.starts_with("submit") && error.words.contains("did not answer"), "{error}");
    let clear = with_token(engine, "lost");
    let found = seen_as(&clear, "a", |phase| phase == SeenPhase::Running);
    assert_eq!(clear.look().expect("it answers").len(), 1, "it is there once");
    clear.cancel(&[found.id]).expect("it is cancelled");
    seen_as(&clear, "a", ended);

    engine.stop_controller();
    for error in [
        rest.look().map(drop).expect_err("no controller"),
        rest.submit(&stand.order("b")).map(drop).expect_err("no controller"),
        rest.nodes().map(drop).expect_err("no controller"),
        rest.cancel(&[EngineId("1".into())]).expect_err("no controller"),
    ] {
        assert_eq!(error.kind, EngineTrouble::NotReached, "{error}");
    }
    engine.start_controller();
    until("the controller", || clear.look().ok());
    engine.type_in(&format!("kill $(cat {}/run/slurmrestd.jwt.pid)", engine.dir().display()));
    let error = until("nobody there", || clear.look().err());
    assert_eq!(error.kind, EngineTrouble::NotReached, "{error}");
}
