//! Somebody else listens where the server was, which is open to every account of a machine while
//! the server is not there. They are sent no token, and nobody takes orders from them.

use super::common::{World, wait_for, wait_some};
use super::person;
use shipway_api::wire::link_server::{Link, LinkServer};
use shipway_api::wire::{ToPilot, ToServer};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::{Request, Response, Status, Streaming};

/// At the server's address, as soon as the kernel has given it back.
fn listen_at(url: &str) -> TcpListener {
    let address = url.trim_start_matches("http://").to_owned();
    wait_some("the address is free", || TcpListener::bind(&address).ok())
}

/// Takes everybody for a good client, and keeps what they say; its answers go on for ever. Ends
/// with the test.
fn say_yes_to_all(listener: TcpListener) -> Arc<Mutex<String>> {
    let heard = Arc::new(Mutex::new(String::new()));
    let kept = Arc::clone(&heard);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (Ok(mut stream), kept) = (stream, Arc::clone(&kept)) else { return };
            std::thread::spawn(move || {
                let mut piece = [0; 4096];
                while let Ok(read @ 1..) = stream.read(&mut piece) {
                    let text = String::from_utf8_lossy(&piece[..read]).into_owned();
                    kept.lock().expect("no holder panics").push_str(&text);
                    let body = r#"{"ok":true,"version":"1","jobs":[]}"#;
                    let answer = format!(
                        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\
                         Content-Length: 1000000000000\r\n\r\n{body}"
                    );
                    let _ = stream.write_all(answer.as_bytes());
                }
            });
        }
    });
    heard
}

#[test]
fn whoever_listens_in_place_of_the_server_is_sent_no_token() {
    let world = World::started();
    let (url, token) = (world.url(), person(&world, "ada", "user"));
    world.kill_server();
    let heard = say_yes_to_all(listen_at(&url));
    let by_home = world.cli(&["jobs"]);
    let mut by_url = world.command(&["jobs"]);
    let by_url = by_url.env("SHIPWAY_URL", &url).env("SHIPWAY_TOKEN", &token).output();
    let by_url = by_url.expect("the binary runs");
    let said = heard.lock().expect("no holder panics").clone();
    assert!(said.contains("shipway-prove"), "both asked: {said}");
    assert!(!said.to_lowercase().contains("bearer"), "a token was sent: {said}");
    assert!(!said.contains(&token) && !said.contains(&world.token()), "{said}");
    assert_eq!((by_home.code, by_url.status.code()), (3, Some(3)), "{}", by_home.stderr);
    assert!(by_home.stderr.contains("the token was not sent"), "{}", by_home.stderr);
}

/// A server that takes any pilot, and says who came.
struct AnyPilot {
    tokens: Arc<Mutex<Vec<String>>>,
}

#[tonic::async_trait]
impl Link for AnyPilot {
    type AttachStream = UnboundedReceiverStream<Result<ToPilot, Status>>;

    async fn attach(
        &self,
        request: Request<Streaming<ToServer>>,
    ) -> Result<Response<Self::AttachStream>, Status> {
        let token = format!("{:?}", request.metadata().get("authorization"));
        self.tokens.lock().expect("no holder panics").push(token);
        Err(Status::unavailable("it has what it wanted"))
    }
}

#[test]
fn a_pilot_speaks_to_no_server_but_its_own() {
    let world = World::started();
    let script = "echo > running; until [ -e go ]; do sleep 0.02; done";
    let job = world.submit(&["--", "sh", "-c", script]);
    wait_for("it runs", || world.work().join("running").exists());
    let url = world.url();
    world.kill_server();
    let listener = listen_at(&url);
    listener.set_nonblocking(true).expect("a socket");
    let (tokens, came) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicUsize::new(0)));
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(1).enable_all().build().expect("a runtime");
    let (kept, count) = (Arc::clone(&tokens), Arc::clone(&came));
    runtime.spawn(async move {
        let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
        let incoming = tokio_stream::wrappers::TcpListenerStream::new(listener);
        let counted = tokio_stream::StreamExt::map(incoming, move |stream| {
            count.fetch_add(1, Ordering::Relaxed);
            stream
        });
        let service = LinkServer::new(AnyPilot { tokens: kept });
        let server = tonic::transport::Server::builder().add_service(service);
        server.serve_with_incoming(counted).await.expect("it serves");
    });
    wait_for("the pilot has tried it", || came.load(Ordering::Relaxed) >= 3);
    let heard = tokens.lock().expect("no holder panics").clone();
    assert!(heard.is_empty(), "it greeted somebody else: {heard:?}");
    drop(runtime);
    world.up();
    std::fs::write(world.work().join("go"), "").expect("written");
    assert_eq!(world.cli(&["wait", &job]).code, 0, "it goes on with its own server");
}

/// Passes on all that is said, and keeps it. Ends with the test.
fn pass_on(listener: TcpListener, to: String) -> Arc<Mutex<String>> {
    let heard = Arc::new(Mutex::new(String::new()));
    let kept = Arc::clone(&heard);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let Ok(server) = std::net::TcpStream::connect(&to) else { return };
            let copies = [(&stream, &server), (&server, &stream)];
            for (from, to) in copies.map(|(from, to)| (from.try_clone(), to.try_clone())) {
                let (Ok(mut from), Ok(mut to)) = (from, to) else { return };
                let kept = Arc::clone(&kept);
                std::thread::spawn(move || {
                    let mut piece = [0; 4096];
                    while let Ok(read @ 1..) = from.read(&mut piece) {
                        let text = String::from_utf8_lossy(&piece[..read]).into_owned();
                        kept.lock().expect("no holder panics").push_str(&text);
                        let _ = to.write_all(&piece[..read]);
                    }
                });
            }
        }
    });
    heard
}

#[test]
fn whoever_passes_on_what_the_server_says_is_sent_no_token() {
    let world = World::started();
    let (url, token) = (world.url(), person(&world, "ada", "user"));
    let server = url.trim_start_matches("http://").to_owned();
    let between = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = format!("http://{}", between.local_addr().expect("an address"));
    let heard = pass_on(between, server.clone());
    let ask = |tunnel: Option<&str>| {
        let mut command = world.command(&["jobs"]);
        command.env("SHIPWAY_URL", &at).env("SHIPWAY_TOKEN", &token);
        command.envs(tunnel.map(|end| ("SHIPWAY_TUNNEL_TO", end)));
        let output = command.output().expect("the binary runs");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, told) = ask(None);
    assert_eq!(code, Some(3), "{told}");
    let said = heard.lock().expect("no holder panics").clone();
    assert!(said.contains("shipway-proof"), "it was passed on: {said}");
    assert!(!said.contains(&token), "{said}");
    // Whoever made it knows where it leads, and does what the message says.
    assert!(told.contains(&format!("SHIPWAY_TUNNEL_TO={server}")), "{told}");
    assert_eq!(ask(Some(&server)).0, Some(0));
}

#[test]
fn a_question_that_was_kept_until_the_server_is_back_gets_no_token() {
    let world = World::started();
    let (url, token) = (world.url(), person(&world, "ada", "user"));
    world.kill_server();
    let listener = listen_at(&url);
    let mut client = world.command(&["jobs"]);
    client.env("SHIPWAY_URL", &url).env("SHIPWAY_TOKEN", &token);
    let client = client.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let mut client = client.expect("the binary runs");
    // The pilot comes here too, by another protocol.
    let (mut held, question) = loop {
        let (mut stream, _) = listener.accept().expect("somebody comes");
        let mut piece = [0; 4096];
        let read = stream.read(&mut piece).expect("it asks");
        if piece.starts_with(b"GET") {
            break (stream, piece[..read].to_vec());
        }
    };
    drop(listener);
    world.up();
    let server = world.url().trim_start_matches("http://").to_owned();
    let mut passed_on = std::net::TcpStream::connect(&server).expect("the server is back");
    passed_on.write_all(&question).expect("it takes a question");
    let mut answer = [0; 4096];
    let read = passed_on.read(&mut answer).expect("it answers");
    let said = String::from_utf8_lossy(&answer[..read]).into_owned();
    assert!(said.contains("shipway-proof"), "a proof, for another connection: {said}");
    held.write_all(&answer[..read]).expect("the client waits for it");
    let mut rest = String::new();
    let _ = held.read_to_string(&mut rest);
    assert_eq!(rest, "", "it says no more");
    assert_eq!(client.wait().expect("a child of ours").code(), Some(3));
}
