//! A node that reaches neither the server nor a registry: tasks, their output and their images, and
//! a relay that is killed in the middle.

use crate::common::{wait_for, wait_some};
use crate::node::Node;
use crate::registry::Registry;
use crate::{Pilot, Relay, connected, on_shelf, server, shelf, task};
use std::process::Stdio;

#[test]
fn a_node_without_a_way_out_runs_tasks_and_has_images_by_its_relay() {
    let Some(node) = Node::make(1) else { return };
    let Some(mut registry) = Registry::start(false) else { return };
    let world = server();
    let relay = Relay::start(&world, &format!("{}:0", node.here), &[]);
    let (at, server) = (relay.at.clone(), world.url().replace("https://", ""));
    assert!(!node.reaches(&server) && !node.reaches(&registry.host), "there is no way out");
    assert!(node.reaches(&at), "but to the relay");

    let mut pilot = Pilot::start(&world, "first", &at, &node.by());
    wait_for("the pilot is there", || connected(&world) == 1);
    let ran = world.cli(&["run", "--array", "1-20", "--", "sh", "-c", "echo out $SHIPWAY_INDEX"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(world.ok(&["logs", "1/7"]), "out 7\n");
    // Output while the task still runs.
    let script = "echo first; until [ -e go ]; do sleep 0.02; done; echo second";
    let job = world.submit(&["--", "sh", "-c", script]);
    let streamed = || world.cli(&["logs", &job]).stdout;
    wait_for("its first line", || streamed() == "first\n");
    std::fs::write(world.work().join("go"), "").expect("written");
    assert_eq!(world.cli(&["wait", &job]).code, 0);
    assert_eq!(streamed(), "first\nsecond\n");

    let image = registry.image("tool:1");
    let words = ["run", "--workdir", "private", "--image", &image, "--", "sh", "-c", "echo $WHO"];
    let ran = world.cli(&words);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "image\n"), "{}", ran.stderr);
    assert_eq!(on_shelf(&shelf(&world)).len(), 3, "a manifest, a configuration and a layer");

    // Another node has it from the shelf: the registry is gone.
    let named = world.json(&["show", &format!("{}", 3)])["job"]["spec"]["image"].clone();
    let named = named.as_str().expect("an image").to_owned();
    assert!(named.contains("@sha256:"), "{named}");
    registry.stop();
    pilot.stop();
    let _second = Pilot::start(&world, "second", &at, &node.by());
    wait_for("the second is there", || connected(&world) == 1);
    let words = ["run", "--workdir", "private", "--image", &named, "--", "sh", "-c", "echo $WHO"];
    let ran = world.cli(&words);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "image\n"), "{}", ran.stderr);
}

#[test]
fn a_relay_that_is_killed_and_started_anew_costs_nothing() {
    let Some(node) = Node::make(2) else { return };
    let Some(registry) = Registry::start(false) else { return };
    let world = server();
    let relay = Relay::start(&world, &format!("{}:0", node.here), &[]);
    let _pilot = Pilot::start(&world, "pilot", &relay.at, &node.by());
    wait_for("the pilot is there", || connected(&world) == 1);
    let script = "n=0; until [ -e go ]; do n=$((n+1)); echo $n; sleep 0.01; done; echo last $n";
    let long = world.submit(&["--cpus", "0.1", "--", "sh", "-c", script]);
    let marks = "echo $SHIPWAY_INDEX >> marks; sleep 0.2";
    let many = world.submit(&["--array", "1-100", "--cpus", "0.1", "--", "sh", "-c", marks]);
    // Somebody follows meanwhile; the server has no connection to the node for a while.
    let mut follows = world.command(&["logs", "-f", &long]);
    let follows = follows.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("started");
    let mut at = relay.at.clone();
    let mut relay = Some(relay);
    let count = || std::fs::read_to_string(world.work().join("marks")).unwrap_or_default();
    for round in 1..=3 {
        wait_for("tasks run", || count().lines().count() >= 20 * round);
        at = relay.take().map_or(at, Relay::kill);
        wait_for("the server notices", || connected(&world) == 0);
        // What runs goes on, and an image is wanted while nothing can bring it.
        relay = Some(Relay::start(&world, &at, &[]));
        wait_for("the pilot is back", || connected(&world) == 1);
    }
    assert_eq!(world.cli(&["wait", &many]).code, 0);
    let mut marks: Vec<u32> = count().lines().map(|line| line.parse().expect("a number")).collect();
    marks.sort_unstable();
    assert_eq!(marks, (1..=100).collect::<Vec<_>>(), "each task once");
    std::fs::write(world.work().join("go"), "").expect("written");
    assert_eq!(world.cli(&["wait", &long]).code, 0);
    assert_eq!(task(&world, &format!("{long}/0"))["attempt"], 1, "it was never lost");
    let told = world.ok(&["logs", &long]);
    check_lines(&told);
    let followed = follows.wait_with_output().expect("it ends").stdout;
    assert_eq!(String::from_utf8_lossy(&followed), told, "all of it, once");

    // An image that is asked for while there is no relay comes when there is one again.
    let image = registry.image("tool:1");
    let at = relay.take().map_or(at, Relay::kill);
    let words = ["--workdir", "private", "--image", &image, "--", "sh", "-c", "echo $WHO"];
    let job = world.submit(&words);
    let relay = Relay::start(&world, &at, &[]);
    // Killed again as soon as part of it is there.
    let coming = shelf(&world).join("coming");
    let is_begun = || {
        let some = std::fs::read_dir(&coming).is_ok_and(|mut all| all.next().is_some());
        let done = on_shelf(&shelf(&world)).len();
        (some || done > 0).then_some(())
    };
    wait_some("it is being fetched", is_begun);
    let at = relay.kill();
    let _relay = Relay::start(&world, &at, &[]);
    assert_eq!(world.cli(&["wait", &job]).code, 0, "{}", world.cli(&["logs", &job]).stderr);
    assert_eq!(world.cli(&["logs", &job]).stdout, "image\n");
}

/// `1`, `2` and so on, and the last once more.
fn check_lines(told: &str) {
    let mut lines: Vec<&str> = told.lines().collect();
    let last = lines.pop().expect("lines");
    assert_eq!(last, format!("last {}", lines.len()));
    for (at, line) in lines.iter().enumerate() {
        assert_eq!(*line, (at + 1).to_string());
    }
}
