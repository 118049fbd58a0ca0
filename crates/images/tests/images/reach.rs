//! On behalf of others only public addresses and listed hosts are asked, whoever sends us there.

use crate::common::{Fixture, told};
use crate::engines::{Door, reply};
use shipway_images::pull::{Reach, pin};
use shipway_model::ImageRef;
use std::sync::Arc;

fn reference(host: &str) -> ImageRef {
    format!("docker://{host}/test/a:1").parse().expect("reference")
}

/// A service that nobody but this machine reaches.
fn inner() -> Door {
    Door::open(Arc::new(|_, stream| reply(stream, "200 OK", "", b"secret of an inner service")))
}

#[test]
fn what_is_not_listed_is_not_even_connected_to() {
    let mut fixture = Fixture::new();
    fixture.settings.reach = Reach::Public { listed: Vec::new() };
    let inner = inner();
    // A name that leads here is no way round, and neither is another number of this machine.
    for host in ["127.0.0.1", "localhost", "127.1.2.3"] {
        let host = format!("{host}:{}", inner.port);
        fixture.settings.insecure = vec![host.clone()];
        let error = pin(reference(&host), &fixture.settings).expect_err("refused");
        let said = told(&error);
        assert!(said.contains("is not asked"), "{said}");
        assert!(!said.contains("secret"), "{said}");
        let error = fixture.pull(&reference(&host)).expect_err("refused");
        assert!(told(&error).contains("is not asked"), "{}", told(&error));
    }
    assert_eq!(inner.asked.lock().expect("held").len(), 0, "nobody came");
}

#[test]
fn a_listed_registry_leads_to_nothing_that_is_not() {
    for challenge in [false, true] {
        let mut fixture = Fixture::new();
        let inner = inner();
        let there = format!("http://127.0.0.1:{}/v2/", inner.port);
        let door = Door::open(Arc::new(move |_, stream| {
            if challenge {
                let ask = format!("WWW-Authenticate: Bearer realm=\"{there}\"\r\n");
                return reply(stream, "401 Unauthorized", &ask, b"");
            }
            reply(stream, "307 Temporary Redirect", &format!("Location: {there}\r\n"), b"");
        }));
        let host = format!("127.0.0.1:{}", door.port);
        fixture.settings.reach = Reach::Public { listed: vec![host.clone()] };
        let error = pin(reference(&host), &fixture.settings).expect_err("refused");
        let said = told(&error);
        assert!(said.contains("is not asked") && !said.contains("secret"), "{said}");
        assert_eq!(door.asked.lock().expect("held").len(), 1, "this one was");
        assert_eq!(inner.asked.lock().expect("held").len(), 0, "nobody came");
    }
}
