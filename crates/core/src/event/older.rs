//! Events as a journal has them, of this version or an older one. What an older version wrote in
//! another form is brought into today's here, and nowhere else.

use super::{EVENT_VERSION, Recorded};
use crate::site::SiteKind;
use serde_json::{Map, Value, json};
use shipway_model::PilotId;

#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    #[error("it has version {found}; this binary knows versions up to {EVENT_VERSION}")]
    Newer { found: u64 },
    #[error("it cannot be understood")]
    Text(#[from] serde_json::Error),
}

impl Recorded {
    /// Reads one event of a journal.
    ///
    /// What changed its form from one version to the next cannot be read as the new one, because
    /// something is missing from it. So whatever can be read is what it says, and only the rest
    /// is worth a second look.
    pub fn read(body: &[u8]) -> Result<Recorded, Unreadable> {
        match serde_json::from_slice::<Recorded>(body) {
            Ok(read) if read.v > EVENT_VERSION => Err(Unreadable::Newer { found: read.v.into() }),
            Ok(read) => Ok(Recorded { v: EVENT_VERSION, ..read }),
            Err(error) => read_older(body, error),
        }
    }
}

fn read_older(body: &[u8], error: serde_json::Error) -> Result<Recorded, Unreadable> {
    let mut fields: Map<String, Value> = serde_json::from_slice(body)?;
    match fields.get("v").and_then(Value::as_u64) {
        Some(1) => from_1_to_2(&mut fields),
        Some(found) if found > u64::from(EVENT_VERSION) => return Err(Unreadable::Newer { found }),
        _ => return Err(Unreadable::Text(error)),
    }
    fields.insert("v".into(), json!(EVENT_VERSION));
    Ok(serde_json::from_value(Value::Object(fields))?)
}

/// Placements were of one pilot each, only people asked for tasks to stop, and what a pilot was
/// asked for had no name of its own.
fn from_1_to_2(fields: &mut Map<String, Value>) {
    match fields.get("type").and_then(Value::as_str) {
        Some("tasks_placed") => {
            let part = ["pilot", "tasks"].map(|name| (name.to_owned(), take(fields, name)));
            let part: Map<String, Value> = part.into_iter().collect();
            fields.insert("parts".into(), json!([part]));
        }
        Some("stop_requested") => {
            fields.insert("why".into(), json!("asked"));
        }
        Some("pilot_token_issued") => {
            let (pilot, hash) = (take(fields, "pilot"), take(fields, "hash"));
            let id = pilot.as_str().and_then(|id| PilotId::new(id).ok());
            let kind = id.as_ref().map_or(SiteKind::ByHand, SiteKind::of_pilot);
            fields.insert("type".into(), json!("allocation_asked"));
            fields.insert("allocation".into(), pilot.clone());
            fields.insert("site".into(), json!(kind.only()));
            fields.insert("pilots".into(), json!([{"pilot": pilot, "hash": hash}]));
        }
        _ => {}
    }
}

fn take(fields: &mut Map<String, Value>, name: &str) -> Value {
    fields.remove(name).unwrap_or_default()
}
