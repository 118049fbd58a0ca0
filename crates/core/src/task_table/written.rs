//! The table as it is stored: in events, in history and in snapshots. What earlier versions wrote
//! (positions one by one) is read too.

use super::{TaskStates, TaskTable, Touched, Tries, hex};
use crate::ordinals::Ordinals;
use crate::runs::Runs;
use serde::{Deserialize, Deserializer, Serialize, de::Error};
use shipway_model::{JobCounts, Timestamp};
use std::collections::BTreeMap;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Written {
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

impl From<TaskTable> for Written {
    fn from(table: TaskTable) -> Written {
        let counts = table.counts();
        let touched = table.touched.map(|touched| *touched).unwrap_or_default();
        let (states, cancelled) = touched.states.into_bytes();
        Written {
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

impl From<Written> for TaskTable {
    fn from(written: Written) -> TaskTable {
        let mut table = TaskTable::new(written.len);
        if written.fresh > 0 {
            let mut again = Runs::default();
            for (first, last) in written.again.runs() {
                again.set(first, last, ());
            }
            table.touched = Some(Box::new(Touched {
                fresh: written.fresh,
                states: TaskStates::from_bytes(written.states, written.cancelled),
                again,
                later: written.later,
                tries: written.tries,
                counts: written.counts,
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
