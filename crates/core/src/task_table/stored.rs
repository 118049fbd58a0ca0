//! The table as it is stored: in events, in history and in snapshots. What earlier versions wrote
//! (positions one by one) is read too.

use super::{TaskStates, TaskTable, Touched, Tries, hex};
use crate::ordinals::Ordinals;
use crate::runs::Runs;
use serde::{Deserialize, Deserializer, Serialize, de::Error};
use shipway_model::{JobCounts, Timestamp};
use std::collections::BTreeMap;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct StoredTable {
    len: u32,
    fresh: u32,
    #[serde(with = "hex")]
    states: Vec<u8>,
    #[serde(with = "hex")]
    cancelled: Vec<u8>,
    again: Ordinals,
    #[serde(deserialize_with = "runs")]
    later: Runs<Timestamp>,
    #[serde(deserialize_with = "runs")]
    tries: Runs<Tries>,
    counts: JobCounts,
}

impl From<TaskTable> for StoredTable {
    fn from(table: TaskTable) -> StoredTable {
        let counts = table.counts();
        let touched = table.touched.map(|touched| *touched).unwrap_or_default();
        let (states, cancelled) = touched.states.into_bytes();
        StoredTable {
            len: table.len,
            fresh: touched.fresh,
            states,
            cancelled,
            again: touched.again.iter().map(|(first, last, ())| (first, last)).collect(),
            later: touched.later,
            tries: touched.tries,
            counts,
        }
    }
}

impl From<StoredTable> for TaskTable {
    fn from(stored: StoredTable) -> TaskTable {
        let mut table = TaskTable::new(stored.len);
        if stored.fresh > 0 {
            let mut again = Runs::default();
            for (first, last) in stored.again.runs() {
                again.set(first, last, ());
            }
            table.touched = Some(Box::new(Touched {
                fresh: stored.fresh,
                states: TaskStates::from_bytes(stored.states, stored.cancelled),
                again,
                later: stored.later,
                tries: stored.tries,
                counts: stored.counts,
            }));
        }
        table
    }
}

/// Runs, or a map by position. Inside an event the keys of JSON are handed over as texts.
fn runs<'de, V, D>(from: D) -> Result<Runs<V>, D::Error>
where
    V: Copy + PartialEq + Deserialize<'de>,
    D: Deserializer<'de>,
{
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Form<V> {
        Runs(Vec<(u32, u32, V)>),
        Map(BTreeMap<String, V>),
    }
    let mut runs = Runs::default();
    match Form::deserialize(from)? {
        Form::Runs(list) => {
            for (first, last, value) in list {
                runs.set(first, last, value);
            }
        }
        Form::Map(map) => {
            for (at, value) in map {
                let at = at.parse().map_err(D::Error::custom)?;
                runs.set(at, at, value);
            }
        }
    }
    Ok(runs)
}
