//! A pilot on a disk without room: it connects, says so, and gets no task.

use super::common::{World, as_myself, cannot, wait_for, wait_some};
use std::process::{Child, Stdio};

struct Pilot(Child);

impl Drop for Pilot {
    fn drop(&mut self) {
        // The guard; what it started ends with it.
        super::common::terminate(self.0.id());
        let _ = self.0.wait();
    }
}

#[test]
fn a_pilot_without_room_is_unfit_and_runs_nothing() {
    let Some(small) = World::on_small_disk("2m") else {
        return cannot("only root can mount a small disk");
    };
    let world = World::new();
    world.up_with(&["--no-pilot"], |_| {});
    let credentials = world.ok(&["token", "pilot", "--json"]);
    let file = world.work().join("pilot.json");
    std::fs::write(&file, credentials).expect("written");
    let filling = small.home().join("filling");
    std::fs::write(&filling, vec![0; 1_200_000]).expect("written");
    let dir = small.home().join("pilot");
    let words = ["pilot", "--dir", dir.to_str().expect("text"), "--server", &world.url()];
    let mut command = world.command(&words);
    command.arg("--token-file").arg(&file).args(as_myself()).stderr(Stdio::null());
    let pilot = Pilot(command.spawn().expect("started"));
    let node =
        wait_some("the pilot is connected", || world.json(&["nodes"])["nodes"].get(0).cloned());
    assert_eq!(node["link"], "unfit", "{node}");
    let id = world.submit(&["--", "true"]);
    let why = world.ok(&["why", &id]);
    assert!(why.contains("is not fit: work folder:"), "{why}");
    assert!(world.ok(&["nodes"]).contains("not fit: work folder"));
    std::fs::remove_file(&filling).expect("removed");
    wait_for("the pilot has looked again", || world.cli(&["wait", &id]).code == 0);
    let link = || world.json(&["nodes"])["nodes"][0]["link"].clone();
    assert_eq!(link(), "connected");
    std::fs::write(&filling, vec![0; 1_900_000]).expect("written");
    wait_for("a disk that gets full is noticed", || link() == "unfit");
    std::fs::remove_file(filling).expect("removed");
    wait_for("and one with room again", || link() == "connected");
    drop(pilot);
}
