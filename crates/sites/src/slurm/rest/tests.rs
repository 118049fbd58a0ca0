//! The daemon's side played by a few lines: what no real one can be made to do, and what goes over
//! the wire.

use super::*;
use crate::batch::PilotStart;
use shipway_model::{AllocationId, Bytes, Cores, Millis};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::sync::{Arc, mpsc};

const LONG: Duration = Duration::from_mins(1);

/// Reads one question whole.
fn question(from: impl Read) -> String {
    let mut from = BufReader::new(from);
    let (mut head, mut length) = (String::new(), 0);
    while !head.ends_with("\r\n\r\n") {
        let start = head.len();
        assert!(from.read_line(&mut head).expect("text") > 0, "it broke off: {head}");
        let line = head[start..].to_ascii_lowercase();
        if let Some(count) = line.strip_prefix("content-length:") {
            length = count.trim().parse().expect("a number");
        }
    }
    let mut body = vec![0; length];
    from.read_exact(&mut body).expect("a body");
    head + &String::from_utf8(body).expect("text")
}

fn response(status: u16, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status} X\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}")
}

/// Answers each question by its first line, as often as there are questions; `None` is silence.
fn daemon(
    answer: impl Fn(&str) -> Option<String> + Send + 'static,
) -> (String, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("bound"));
    let (asked, questions) = mpsc::channel();
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let Ok(mut socket) = socket else { return };
            let said = question(&socket);
            let line = said.lines().next().unwrap_or_default().to_owned();
            if asked.send(said).is_err() {
                return;
            }
            if let Some(answer) = answer(&line) {
                // Whoever asked may not want to hear it all.
                let _ = socket.write_all(answer.as_bytes());
            }
        }
    });
    (url, questions)
}

fn rest(url: &str, token: Option<PathBuf>, version: Option<Version>) -> Rest {
    let address = Address { url: url.into(), token, user: "ada".into(), version };
    Rest::new(address, Naming { whose: "s1".into() }, LONG)
}

fn order() -> Order {
    Order {
        allocation: AllocationId::new("a").expect("good"),
        partition: None,
        nodes: 1,
        cpus: Cores::whole(1),
        memory: Bytes(1 << 30),
        gpus: None,
        wall: Millis(60_000),
        warning: Millis(0),
        submit_lines: Vec::new(),
        pilot: PilotStart {
            sha256: None,
            program: "/opt/shipway".into(),
            options: Vec::new(),
            scratch: None,
            credentials: vec!["secret".into()],
            files: Vec::new(),
        },
    }
}

#[test]
fn the_newest_version_is_found_and_the_token_is_read_anew() {
    let folder = tempfile::tempdir().expect("a folder");
    let token = folder.path().join("token");
    let write = |text: &str| {
        std::fs::write(&token, text).expect("written");
        let mode = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(&token, mode).expect("closed");
    };
    let (url, questions) = daemon(|line| match line {
        _ if line.contains("/v0.0.40/ping") => Some(response(200, "{}")),
        _ if line.contains("/v0.0.40/jobs") => Some(response(200, r#"{"jobs": []}"#)),
        _ => Some(response(404, "Unable find requested URL.")),
    });
    let rest = rest(&url, Some(token.clone()), None);
    write("first\n");
    assert_eq!(rest.look().expect("it answers"), []);
    write("SLURM_JWT=second\n");
    assert_eq!(rest.look().expect("it answers"), []);
    let asked: Vec<String> = questions.try_iter().collect();
    let paths: Vec<&str> = asked.iter().map(|it| it.split(' ').nth(1).expect("a path")).collect();
    let pings = ["44", "43", "42", "41", "40"].map(|one| format!("/slurm/v0.0.{one}/ping"));
    assert_eq!(paths[..5], pings);
    assert_eq!(paths[5..], ["/slurm/v0.0.40/jobs"; 2], "it is asked for once");
    let of = |question: &str| {
        let lines: Vec<String> = question.lines().map(str::to_ascii_lowercase).collect();
        let of = |name: &str| lines.iter().find_map(|it| it.strip_prefix(name)?.strip_prefix(": "));
        let (user, token) = (of("x-slurm-user-name"), of("x-slurm-user-token"));
        (user.unwrap_or_default().to_owned(), token.unwrap_or_default().to_owned())
    };
    assert_eq!(of(&asked[5]), ("ada".into(), "first".into()));
    assert_eq!(of(&asked[6]), ("ada".into(), "second".into()));
    std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o644)).expect("opened");
    let error = rest.look().expect_err("others may read it");
    assert_eq!(error.kind, EngineTrouble::NotReached);
    assert!(error.words.contains("chmod 600"), "{error}");
    assert!(questions.try_iter().next().is_none(), "nothing was asked");
    assert!(!format!("{rest:?}").contains("second"));
}

/// What was answered is lost: it is not asked again here, and may be there.
#[test]
fn a_lost_answer_is_no_refusal_and_nothing_is_asked_twice() {
    let whole = response(200, r#"{"job_id": 7, "errors": []}"#);
    let cut = whole[..whole.len() - 3].to_owned();
    for answer in [None, Some(cut), Some("HTTP/1.1 200 X\r\n".to_owned())] {
        let (url, questions) = daemon(move |_| answer.clone());
        let error = rest(&url, None, Some(Version(38))).submit(&order()).expect_err("lost");
        assert_eq!(error.kind, EngineTrouble::NotReached, "{error}");
        assert!(!error.to_string().contains("secret"), "{error}");
        assert_eq!(questions.try_iter().count(), 1);
    }
    let (url, _questions) = daemon(|_| Some(response(200, r#"{"jobs": [{"job_id": 1"#)));
    let error = rest(&url, None, Some(Version(38))).look().expect_err("it broke off");
    assert_eq!(error.kind, EngineTrouble::Unreadable, "{error}");
    let gone = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("bound");
    let error = rest(&format!("http://{gone}"), None, None).look().expect_err("nobody there");
    assert_eq!(error.kind, EngineTrouble::NotReached);
    assert!(error.words.contains("refused"), "{error}");
}

#[test]
fn a_silent_daemon_is_waited_for_in_vain_only_so_long() {
    let (hold, held) = mpsc::channel::<()>();
    let held = Arc::new(std::sync::Mutex::new(held));
    let (url, _questions) = daemon(move |_| {
        let _ = held.lock().expect("whole").recv();
        None
    });
    let address = Address { url, token: None, user: "ada".into(), version: Some(Version(38)) };
    let naming = Naming { whose: "s1".into() };
    let hasty = Rest::new(address, naming, Duration::from_millis(300));
    let error = hasty.cancel(&[EngineId("7".into())]).expect_err("too slow");
    assert_eq!(error.kind, EngineTrouble::NotReached, "{error}");
    drop(hold);
}

#[test]
fn a_socket_is_spoken_to_without_a_token() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("socket");
    let listener = UnixListener::bind(&path).expect("bound");
    let daemon = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().expect("a caller");
        let said = question(&socket);
        let body = r#"{"jobs": [{"job_id": 7, "name": "shipway-s1-a", "user_name": "ada",
            "job_state": ["RUNNING"], "nodes": "n1"}], "errors": []}"#;
        socket.write_all(response(200, body).as_bytes()).expect("told");
        said
    });
    let rest = rest(&format!("unix:{}", path.display()), None, Some(Version(42)));
    let seen = rest.look().expect("it answers");
    assert_eq!((seen[0].id.0.as_str(), seen[0].nodes[0].as_str()), ("7", "n1"));
    let said = daemon.join().expect("it ended").to_ascii_lowercase();
    assert!(said.starts_with("get /slurm/v0.0.42/jobs http/1.1\r\n"), "{said}");
    assert!(!said.contains("token"), "{said}");
    let error = rest.look().expect_err("it is gone");
    assert_eq!(error.kind, EngineTrouble::NotReached, "{error}");
}

#[test]
fn ids_that_are_none_are_never_asked_about() {
    let (url, questions) = daemon(|_| Some(response(200, "{}")));
    let rest = rest(&url, None, Some(Version(38)));
    let odd = EngineId("../node/n1".into());
    let error = rest.cancel(&[EngineId("7".into()), odd]).expect_err("odd");
    assert_eq!(error.kind, EngineTrouble::Refused);
    assert_eq!(questions.try_iter().count(), 0);
}
