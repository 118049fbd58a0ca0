//! What snapshots before the fourth version had in another form: it was known only whether an
//! attempt was asked to stop, and what a pilot was asked for had no name of its own.

use super::BadSnapshot;
use crate::site::{Phase, SiteKind};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use shipway_model::PilotId;

/// What is on the first line.
pub(super) fn read<T: DeserializeOwned>(text: &[u8]) -> Result<T, BadSnapshot> {
    let mut fields: Map<String, Value> = super::parse(text, 1)?;
    say_why(&mut fields);
    name_allocations(&mut fields);
    serde_json::from_value(Value::Object(fields))
        .map_err(|source| BadSnapshot::Line { line: 1, source })
}

fn each<'a>(
    fields: &'a mut Map<String, Value>,
    name: &str,
) -> impl Iterator<Item = (&'a String, &'a mut Value)> {
    fields.get_mut(name).and_then(Value::as_object_mut).into_iter().flatten()
}

fn say_why(fields: &mut Map<String, Value>) {
    for (_, active) in each(fields, "active") {
        let asked = active.get("stopping").and_then(Value::as_bool).unwrap_or_default();
        active["stopping"] = if asked { json!("asked") } else { Value::Null };
    }
}

/// Each is named after its pilot.
fn name_allocations(fields: &mut Map<String, Value>) {
    let at = fields.get("at").cloned().unwrap_or_default();
    let mut allocations = Map::new();
    let mut add = |pilot: &str, phase: Phase| {
        let id = PilotId::new(pilot);
        let kind = id.as_ref().map_or(SiteKind::ByHand, SiteKind::of_pilot);
        let allocation = json!({"site": kind.only(), "phase": phase, "since": at});
        allocations.insert(pilot.to_owned(), allocation);
    };
    for (pilot, token) in each(fields, "pilot_tokens") {
        // The first versions kept only its hash.
        if token.is_string() {
            *token = json!({"hash": token});
        }
        token["allocation"] = json!(pilot);
        add(pilot, Phase::Asked);
    }
    for (id, pilot) in each(fields, "pilots") {
        pilot["allocation"] = json!(id);
        add(id, Phase::Running);
    }
    fields.insert("allocations".into(), Value::Object(allocations));
}
