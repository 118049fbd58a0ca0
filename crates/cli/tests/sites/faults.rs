//! What goes wrong at both kinds of batch systems alike: the disk that pilots have their folders on
//! is full, an operator ends a pilot. How it is brought about, each test says itself.

use crate::common::{World, wait_for, wait_some};
use crate::engines::{Engine, wait_until_empty};
use crate::ground::{SiteFile, allocations, book, ends_well, says, site, why};
use serde_json::Value;

/// Its first attempt is still there when somebody takes the pilot away, and says that it began.
pub(crate) const STAYS_ONCE: &str = "echo $SHIPWAY_ATTEMPT >> began; \
    [ $SHIPWAY_ATTEMPT = 2 ] || exec sleep 1000; echo $SHIPWAY_TASK >> book";

/// The task of a job of one.
pub(crate) fn task(world: &World, job: &str) -> Value {
    world.json(&["show", &format!("{job}/0")])["task"].clone()
}

/// The one allocation that has a node now, by the engine's id.
pub(crate) fn running(world: &World, name: &str) -> String {
    wait_some("a pilot that has come", || {
        let all = allocations(world, name);
        let come = all.iter().find(|one| !one["nodes"].is_null() && !one["engine_id"].is_null())?;
        come["engine_id"].as_str().map(str::to_owned)
    })
}

/// A job whose pilot is taken away by `take`, which is told its id at the engine. It runs again on
/// another, by no fault of its own. `why` it was lost: a pilot that hears of its end in time says
/// so before the batch system does.
pub(crate) fn outlives_its_pilot(
    world: &World,
    name: &'static str,
    engine: &impl Engine,
    (take, why): (impl FnOnce(&str), &[&str]),
) -> String {
    let job = world.submit(&["--", "sh", "-c", STAYS_ONCE]);
    wait_for("it has begun", || world.work().join("began").exists());
    take(&running(world, name));
    ends_well(world, &job);
    let task = task(world, &job);
    assert_eq!(task["attempt"], 2, "{task:#}");
    let first = &task["attempts"][0]["outcome"];
    assert_eq!(first["kind"], "lost", "{task:#}");
    assert!(why.contains(&first["why"].as_str().expect("text")), "{task:#}");
    assert_eq!(book(world).values().sum::<u32>(), 1, "once: {:?}", book(world));
    wait_until_empty(world, name, engine);
    job
}

/// The words of the first allocation there that has ended so.
pub(crate) fn words_of_end(world: &World, name: &str, end: &str) -> String {
    let shown = site(world, name)["ended"].clone();
    let ended = shown.as_array().expect("a list").iter().find(|one| one["end"] == end);
    let ended = ended.unwrap_or_else(|| panic!("none is {end}: {shown:#}"));
    ended["words"].as_str().expect("text").to_owned()
}

/// `change` makes and frees the disk at the path of the site's `scratch`.
pub(crate) fn says_that_its_disk_is_full(
    world: &World,
    file: &SiteFile,
    engine: &impl Engine,
    free: impl FnOnce(),
) {
    file.add(world);
    let job = world.submit(&["--", "sh", "-c", "echo $SHIPWAY_TASK >> book"]);
    says(world, &job, "its last pilot was of no use");
    let said = why(world, &job);
    assert!(said.contains("its folder could not be made there"), "{said}");
    let words = words_of_end(world, file.name, "failed");
    assert!(words.contains("exit code 73: its folder could not be made there"), "{words}");
    free();
    ends_well(world, &job);
    assert_eq!(book(world).values().sum::<u32>(), 1, "once: {:?}", book(world));
    wait_until_empty(world, file.name, engine);
}
