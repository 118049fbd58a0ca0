//! What the server has noted of allocations and attempts, from the events in its database: `site
//! show` forgets all but the newest ends, and no answer says on which allocation a task ran.

use super::common::World;
use serde_json::Value;
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub(crate) struct Journal {
    pub(crate) allocations: BTreeMap<String, Allocation>,
    /// The allocation of each pilot.
    pilots: BTreeMap<String, String>,
    pub(crate) attempts: Vec<Attempt>,
    /// Pilots that have ended.
    ended: usize,
}

#[derive(Debug, Default)]
pub(crate) struct Allocation {
    pub(crate) site: String,
    /// None: this machine's.
    pub(crate) class: Option<String>,
    pub(crate) phase: Value,
}

/// One that has ended.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) task: String,
    pub(crate) allocation: String,
    pub(crate) verdict: Value,
}

impl Journal {
    pub(crate) fn of(world: &World) -> Journal {
        let mut journal = Journal::default();
        let file = world.home().join("shipway.db");
        let database = rusqlite::Connection::open(file).expect("a database");
        let query = "SELECT body FROM commits ORDER BY seq_first";
        let mut query = database.prepare(query).expect("commits");
        let bodies = query.query_map([], |row| row.get::<_, String>(0)).expect("commits");
        for body in bodies {
            for line in body.expect("text").lines().filter(|line| !line.is_empty()) {
                journal.take(&serde_json::from_str(line).expect("an event"));
            }
        }
        journal
    }

    fn take(&mut self, event: &Value) {
        match event["type"].as_str() {
            Some("allocation_asked") => {
                let id = text(&event["allocation"]);
                for pilot in event["pilots"].as_array().expect("a list") {
                    self.pilots.insert(text(&pilot["pilot"]), id.clone());
                }
                let class = event["class"].as_str().map(str::to_owned);
                let (site, phase) = (text(&event["site"]), Value::from("asked"));
                self.allocations.insert(id, Allocation { site, class, phase });
            }
            Some("allocation_changed") => {
                let known = self.allocations.get_mut(&text(&event["allocation"]));
                known.expect("it was asked for").phase = event["phase"].clone();
            }
            Some("pilot_ended") => self.ended += 1,
            Some("attempt_ended") => {
                let allocation = self.pilots.get(&text(&event["pilot"])).expect("it was let in");
                self.attempts.push(Attempt {
                    task: text(&event["task"]),
                    allocation: allocation.clone(),
                    verdict: event["verdict"].clone(),
                });
            }
            _ => {}
        }
    }

    pub(crate) fn ended(&self) -> usize {
        self.ended
    }

    /// The allocation that an engine's job is of, by the job's name, if it is this world's.
    pub(crate) fn id_of(&self, name: &str) -> Option<String> {
        let is_of = |id: &&String| {
            let before = name.strip_suffix(id.as_str());
            before.is_some_and(|it| it.starts_with("shipway-") && it.ends_with('-'))
        };
        self.allocations.keys().find(is_of).cloned()
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text")).to_owned()
}
