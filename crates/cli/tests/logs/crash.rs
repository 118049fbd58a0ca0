//! Followers stay with their task when the server is killed and comes back at its address.

use super::common::{World, wait_for};
use super::{has_file, signal};
use std::io::Read;
use std::net::TcpListener;
use std::process::{Child, Stdio};

/// A server at an address of our choice; the world's own takes a new one each time.
struct Server(Child);

impl Server {
    fn at(world: &World, address: &str) -> Server {
        let mut command = world.command(&["up", "--listen", address]);
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
