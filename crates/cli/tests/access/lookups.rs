//! Whoever may submit a job has the server ask the registry of its image: not one that only the
//! server can reach, and not without end.

use super::common::World;
use super::person;
use super::roles::status;
use std::io::ErrorKind;
use std::net::TcpListener;

#[test]
fn the_server_asks_nobody_that_only_it_can_reach() {
    let world = World::new();
    world.up_with(&[], |up| _ = up.env_remove("SHIPWAY_PRIVATE_REGISTRIES"));
    let (alice, eye) = (person(&world, "alice", "user"), person(&world, "eye", "monitor"));
    let inner = TcpListener::bind("127.0.0.1:0").expect("a port");
    inner.set_nonblocking(true).expect("it does not wait");
    let port = inner.local_addr().expect("an address").port();
    for host in ["127.0.0.1", "localhost", "127.0.0.2"] {
        let image = format!("docker://{host}:{port}/x:1");
        let body = format!(r#"{{"spec":{{"command":["true"],"image":"{image}"}}}}"#);
        let ask = |token: &str| status(&world, Some(token), ("POST", "/api/v1/jobs", &body));
        assert_eq!(ask(&alice), 422, "{image}");
        assert_eq!(ask(&eye), 403, "{image}");
    }
    let came = inner.accept().expect_err("nobody comes");
    assert_eq!(came.kind(), ErrorKind::WouldBlock);
}
