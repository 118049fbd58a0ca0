//! Followers stay with their task when the server is killed and comes back at its address.

use super::common::{World, plain_tasks, wait_for};
use super::{has_file, signal};
use std::io::Read;
use std::net::TcpListener;
use std::process::{Child, Stdio};

/// A server at an address of our choice; the world's own takes a new one each time.
struct Server(Child);

impl Server {
    fn at(world: &World, address: &str) -> Server {
        let mut command = world.command(&["up", "--listen", address]);
        command.args(plain_tasks(&[]));
        let child = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn();
        let server = Server(child.expect("the binary starts"));
        wait_for("the server is ready", || world.is_ready());
        server
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn free_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").to_string()
}

fn follow(world: &World, options: &[&str]) -> Child {
    let mut logs = world.command(&[&["logs", "-f", "1"], options].concat());
    logs.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started")
}

fn rest_of(mut child: Child) -> (String, String, Option<i32>) {
    let (mut out, mut err) = (String::new(), String::new());
    child.stdout.take().expect("piped").read_to_string(&mut out).expect("text");
    child.stderr.take().expect("piped").read_to_string(&mut err).expect("text");
    (out, err, child.wait().expect("a child").code())
}

fn read_until(child: &mut Child, expected: &str) {
    let mut found = vec![0; expected.len()];
    child.stdout.as_mut().expect("piped").read_exact(&mut found).expect("output");
    assert_eq!(String::from_utf8_lossy(&found), expected);
}

#[test]
fn run_and_logs_go_on_where_they_were() {
    let world = World::new();
    let address = free_address();
    let server = Server::at(&world, &address);
    let text = "seq 1 1000; touch begun; until [ -e go ]; do sleep 0.02; done; echo end; exit 9";
    let mut run = world.command(&["run", "--", "sh", "-c", text]);
    let mut run = run.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("started");
    wait_for("the task runs", || has_file(&world, "begun"));
    let mut logs = world.command(&["logs", "-f", "1"]);
    let mut logs = logs.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("started");
    let numbers: Vec<String> = (1..=1000).map(|number| number.to_string()).collect();
    let first = numbers.join("\n") + "\n";
    read_until(&mut run, &first);
    read_until(&mut logs, &first);

    drop(server);
    let _server = Server::at(&world, &address);
    signal(&world, "go");
    for (mut child, code) in [(run, 9), (logs, 0)] {
        let mut rest = String::new();
        child.stdout.take().expect("piped").read_to_string(&mut rest).expect("text");
        assert_eq!(rest, "end\n", "nothing is missing, nothing comes twice");
        assert_eq!(child.wait().expect("a child").code(), Some(code));
    }
}

/// Each server numbers its requests anew; the pilot still has those of the one that was killed.
#[test]
fn what_an_earlier_server_asked_for_is_no_answer_to_a_later_one() {
    let world = World::new();
    let address = free_address();
    let server = Server::at(&world, &address);
    let text = "echo begun | tee begun; until [ -e go ]; do sleep 0.02; done; echo end";
    world.submit(&["--", "sh", "-c", text]);
    wait_for("the task runs", || has_file(&world, "begun"));
    let mut before = follow(&world, &["--stdout"]);
    read_until(&mut before, "begun\n");
    before.kill().and_then(|()| before.wait()).expect("killed");
    drop(server);

    let _server = Server::at(&world, &address);
    let stderr = follow(&world, &["--stderr"]);
    let mut stdout = follow(&world, &["--stdout"]);
    read_until(&mut stdout, "begun\n");
    signal(&world, "go");
    assert_eq!(rest_of(stderr), (String::new(), String::new(), Some(0)));
    assert_eq!(rest_of(stdout), ("end\n".into(), String::new(), Some(0)));
}
